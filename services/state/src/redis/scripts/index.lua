-- KEYS: a set of names. ARGV: names to add; with an empty one at the end, answers all.
for _, name in ipairs(ARGV) do
  if name ~= '' and redis.call('SISMEMBER', KEYS[1], name) == 0 then redis.call('SADD', KEYS[1], name) end
end
if ARGV[#ARGV] == '' then return redis.call('SMEMBERS', KEYS[1]) end
return {}
