-- KEYS: entry, floors. ARGV: seq, ttl, value, scope… Answers 1 when it was kept, 0 when it is older than a floor.
local seq, scopes = tonumber(ARGV[1]), {}
for i = 4, #ARGV do scopes[#scopes + 1] = ARGV[i] end
if #scopes > 0 then
  for _, floor in ipairs(redis.call('HMGET', KEYS[2], unpack(scopes))) do
    if floor and seq < tonumber(floor) then return 0 end
  end
end
redis.call('SET', KEYS[1], cmsgpack.pack({ seq, ARGV[3], scopes }), 'PX', ARGV[2])
return 1
