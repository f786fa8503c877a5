-- Extends leases or puts them back, even over the limit. ARGV: ttl, then (request, attempt, slots, slot…)…
-- Answers: restored, gone.
local ttl = tonumber(ARGV[1])
local restored, gone = 0, 0
purge()
local i = 2
while i <= #ARGV do
  local request, attempt, slot_count = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local member = request .. ':' .. attempt
  if is_gone(request, attempt) then
    gone = gone + 1
  elseif redis.call('ZSCORE', LEASES, member) then
    redis.call('ZADD', LEASES, 'GT', now + ttl, member)
  else
    local slots = {}
    for s = 1, slot_count do slots[s] = ARGV[i + 2 + s] end
    hold(request, attempt, slots, {}, read_leases(request), ttl)
    restored = restored + 1
  end
  i = i + 3 + slot_count
end
redis.call('PEXPIRE', HOLDERS, KEEP_MS)
redis.call('PEXPIRE', COUNTS, KEEP_MS)
redis.call('PEXPIRE', LEASES, KEEP_MS)
return { restored, gone }
