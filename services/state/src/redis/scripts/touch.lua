-- Keeps holds from falling silent and makes lost ones again; what names neither purses nor a draft makes none. ARGV: (request, nanos, tokens, draft or '', purses, (purse, unit)…)…
purge()
local i = 1
while i <= #ARGV do
  local request, count = ARGV[i], tonumber(ARGV[i + 4])
  if not redis.call('ZSCORE', GONE, request) then
    if redis.call('HEXISTS', HOLDS, request) == 1 then
      redis.call('ZADD', OPEN, now, request)
    elseif count > 0 or ARGV[i + 3] ~= '' then
      local purses = {}
      for p = 1, count do purses[p] = { ARGV[i + 3 + p * 2], ARGV[i + 4 + p * 2] } end
      hold(request, tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), purses)
    end
    if ARGV[i + 3] ~= '' then redis.call('HSET', DRAFTS, request, ARGV[i + 3]) end
  end
  i = i + 5 + count * 2
end
return 0
