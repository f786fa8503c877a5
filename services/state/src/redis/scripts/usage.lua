-- Answers: leases on the slot ARGV[1], leases at all.
purge()
return { tonumber(redis.call('HGET', COUNTS, ARGV[1]) or 0), redis.call('ZCARD', LEASES) }
