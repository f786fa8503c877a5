-- Ends leases. ARGV: tombstone (ms, 0 leaves none), then (request, attempt or *, correction k|r|u, used milli-tokens)…
-- A bucket's name ends with its unit's letter; only tokens (t) are corrected to what was used.
local tombstone = tonumber(ARGV[1])
purge()
for i = 2, #ARGV, 4 do
  local request, attempt, correction, used = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  if tombstone > 0 then
    redis.call('ZADD', GONE, 'NX', now + tombstone, request .. ':' .. attempt)
    redis.call('PEXPIRE', GONE, KEEP_MS)
  end
  local dropped = drop(request, function(other) return attempt == '*' or other == attempt end)
  for _, lease in ipairs(dropped) do
    for _, charge in ipairs(lease[3]) do
      local name, taken, rate = charge[1], charge[2], charge[3]
      local change = 0
      if correction == 'r' then
        change = -taken
      elseif correction == 'u' and string.sub(name, -1) == 't' then
        change = used - taken
      end
      if change ~= 0 then
        local missing, at = refilled(redis.call('HGET', BUCKETS, name), rate)
        write_bucket(name, missing + change, at, rate)
      end
    end
  end
end
return 0
