-- ARGV: an account, or nothing for all. Lifts cooldowns and answers how many. A target is `account NUL model`.
local lifted = 0
for _, target in ipairs(redis.call('HKEYS', TARGETS)) do
  if not ARGV[1] or string.match(target, '^[^%z]*') == ARGV[1] then
    local record = read(target)
    if record.cooled > now then lifted = lifted + 1 end
    record.cooled, record.strikes, record.reason = 0, 0, ''
    write(target, record)
  end
end
return lifted
