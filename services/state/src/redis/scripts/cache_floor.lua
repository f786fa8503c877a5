-- KEYS: floors. ARGV: seq, scope… Floors never fall.
local seq = tonumber(ARGV[1])
for i = 2, #ARGV do
  if tonumber(redis.call('HGET', KEYS[1], ARGV[i]) or 0) < seq then redis.call('HSET', KEYS[1], ARGV[i], ARGV[1]) end
end
return 0
