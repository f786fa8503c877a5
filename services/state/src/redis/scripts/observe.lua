-- ARGV: (target, ok, failed, sum of times to first content in us, how many)…
for i = 1, #ARGV, 5 do
  local record = read(ARGV[i])
  if second ~= record.second then
    close(record)
    record.second = second
  end
  local ok, failed = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  record.ok, record.failed = record.ok + ok, record.failed + failed
  record.first_us, record.firsts = record.first_us + tonumber(ARGV[i + 3]), record.firsts + tonumber(ARGV[i + 4])
  record.samples, record.last = record.samples + ok + failed, now
  if ok > 0 then record.strikes = 0 end
  write(ARGV[i], record)
end
return 0
