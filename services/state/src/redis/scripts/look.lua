-- How full buckets are; takes nothing.
-- ARGV: (bucket, rate)…
-- Answers: what each bucket misses.
local names, missing = {}, {}
for i = 1, #ARGV, 2 do names[#names + 1] = ARGV[i] end
local stored = redis.call('HMGET', BUCKETS, unpack(names))
for i = 1, #names do missing[i] = refilled(stored[i], tonumber(ARGV[i * 2])) end
return missing
