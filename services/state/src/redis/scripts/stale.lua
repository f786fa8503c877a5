-- Answers holds that were silent for more than ARGV[1] ms, at most ARGV[2]: (request, silent, nanos, tokens, draft or '')…
local found = {}
for _, request in ipairs(redis.call('ZRANGEBYSCORE', OPEN, '-inf', '(' .. string.format('%.0f', now - tonumber(ARGV[1])), 'LIMIT', 0, ARGV[2])) do
  local hold = cmsgpack.unpack(redis.call('HGET', HOLDS, request))
  local silent = now - tonumber(redis.call('ZSCORE', OPEN, request))
  found[#found + 1] = { request, silent, hold[1], hold[2], redis.call('HGET', DRAFTS, request) or '' }
end
return found
