-- Ends holds and stores values, in one step. ARGV: tombstone, requests, request…, then values (see `load`).
local tombstone, count = tonumber(ARGV[1]), tonumber(ARGV[2])
purge()
for i = 1, count do finish(ARGV[2 + i], tombstone) end
if #ARGV > 2 + count then load(3 + count) end
return 0
