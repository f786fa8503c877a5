-- The purses and open holds of one tenant. Every purse script starts with this.
-- KEYS: values (hash, purse -> `billions:rest:version`), held (hash, purse -> sum of its holds; '' -> nano-USD of all),
-- open (sorted set, request by last touch), holds (hash, request -> amounts and purses), drafts (hash), gone (sorted set of
-- tombstones), windows (sorted set, purse by when it is forgotten).
-- Values are split into billions and a rest, since they may pass 2^53; what is held on one purse stays below MAX_HELD.
local VALUES, HELD, OPEN, HOLDS, DRAFTS, GONE, WINDOWS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local MAX_HELD = 9000000000000000
local BILLION = 1000000000
local GRACE_MS = 600000
-- Values of a tenant that nobody asks for are forgotten; they are loaded again.
local VALUES_KEEP_MS = 7 * 86400000

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function add_held(purse, amount)
  if amount ~= 0 and redis.call('HINCRBY', HELD, purse, amount) == 0 then redis.call('HDEL', HELD, purse) end
end

local function purge()
  redis.call('ZREMRANGEBYSCORE', GONE, '-inf', now)
  local over = redis.call('ZRANGEBYSCORE', WINDOWS, '-inf', now, 'LIMIT', 0, 100)
  if #over > 0 then
    redis.call('HDEL', VALUES, unpack(over))
    redis.call('ZREM', WINDOWS, unpack(over))
  end
end

-- purses: list of { id, unit n|t }
local function hold(request, nanos, tokens, purses)
  for _, purse in ipairs(purses) do add_held(purse[1], purse[2] == 'n' and nanos or tokens) end
  add_held('', nanos)
  redis.call('HSET', HOLDS, request, cmsgpack.pack({ nanos, tokens, purses }))
  redis.call('ZADD', OPEN, now, request)
end

local function finish(request, tombstone)
  redis.call('ZADD', GONE, 'NX', now + tombstone, request)
  redis.call('PEXPIRE', GONE, tombstone + 60000)
  local raw = redis.call('HGET', HOLDS, request)
  if not raw then return end
  local nanos, tokens, purses = unpack(cmsgpack.unpack(raw))
  for _, purse in ipairs(purses) do add_held(purse[1], -(purse[2] == 'n' and nanos or tokens)) end
  add_held('', -nanos)
  redis.call('HDEL', HOLDS, request)
  redis.call('HDEL', DRAFTS, request)
  redis.call('ZREM', OPEN, request)
end

-- ARGV from `at`: (purse, billions, rest, version, end of its window or '')…
local function load(at)
  for i = at, #ARGV, 5 do
    local purse, version, ends = ARGV[i], tonumber(ARGV[i + 3]), ARGV[i + 4]
    local stored = redis.call('HGET', VALUES, purse)
    if not stored or tonumber(string.match(stored, ':(%d+)$')) < version then
      redis.call('HSET', VALUES, purse, ARGV[i + 1] .. ':' .. ARGV[i + 2] .. ':' .. ARGV[i + 3])
      if ends ~= '' then redis.call('ZADD', WINDOWS, tonumber(ends) + GRACE_MS, purse) end
    end
  end
  redis.call('PEXPIRE', VALUES, VALUES_KEEP_MS)
  redis.call('PEXPIRE', WINDOWS, VALUES_KEEP_MS)
end
