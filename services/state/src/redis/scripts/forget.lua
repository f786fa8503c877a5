-- KEYS: what to forget.
return redis.call('DEL', KEYS[1])
