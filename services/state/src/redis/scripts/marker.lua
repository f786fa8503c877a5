-- KEYS: marker. ARGV: a new one. Answers the one that stands: another than before means that the store lost its memory.
local marker = redis.call('GET', KEYS[1])
if marker then return marker end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
