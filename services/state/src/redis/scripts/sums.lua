-- Answers: nano-USD in open holds, open holds.
return { tonumber(redis.call('HGET', HELD, '') or 0), redis.call('ZCARD', OPEN) }
