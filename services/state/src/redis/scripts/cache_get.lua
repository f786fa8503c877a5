-- KEYS: entry, floors. Answers seq, value, scope… or nothing when it is older than a floor.
local raw = redis.call('GET', KEYS[1])
if not raw then return {} end
local entry = cmsgpack.unpack(raw)
local answer = { entry[1], entry[2] }
if #entry[3] > 0 then
  for _, floor in ipairs(redis.call('HMGET', KEYS[2], unpack(entry[3]))) do
    if floor and entry[1] < tonumber(floor) then
      redis.call('DEL', KEYS[1])
      return {}
    end
  end
  for _, scope in ipairs(entry[3]) do answer[#answer + 1] = scope end
end
return answer
