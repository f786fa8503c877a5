-- ARGV: target, hold (ms), longest hold of a backoff or '', reason. Answers: cooled for how long yet (ms), strikes.
local record = read(ARGV[1])
local hold = tonumber(ARGV[2])
if record.cooled <= now then record.strikes = record.strikes + 1 end
if ARGV[3] ~= '' then
  local most = math.max(tonumber(ARGV[3]), hold)
  hold = math.min(hold * 2 ^ math.min(math.max(record.strikes - 1, 0), 30), most)
end
if now + hold > record.cooled then
  record.cooled = now + hold
  record.reason = ARGV[4]
end
write(ARGV[1], record)
return { record.cooled - now, record.strikes }
