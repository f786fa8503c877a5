-- The leases, slot counts and buckets of one place (a tenant or a pool). Every place script starts with this.
-- KEYS: leases (sorted set, `request:attempt` by expiry), holders (hash, request -> its leases), counts (hash, slot -> leases),
-- buckets (hash, name -> `missing:as of`), gone (sorted set of tombstones), waiters (text, lives while marked).
-- Sums of buckets stay below 2^53 (see bucket.rs, which does the same); numbers become text only through `text`.
local LEASES, HOLDERS, COUNTS, BUCKETS, GONE, WAITERS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
-- Longer than any lease or tombstone, so that what belongs together ends together.
local KEEP_MS = 900000
local REFILL_DIVISOR = 60000
local MAX_MISSING = 150000000000

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)

local function text(number) return string.format('%.0f', number) end

local function quotient(a, b) return (a - math.fmod(a, b)) / b end

local function read_leases(request)
  local raw = redis.call('HGET', HOLDERS, request)
  if raw then return cmsgpack.unpack(raw) end
  return {}
end

local function write_leases(request, leases)
  if #leases == 0 then
    redis.call('HDEL', HOLDERS, request)
  else
    redis.call('HSET', HOLDERS, request, cmsgpack.pack(leases))
  end
end

local function free(slots)
  for _, slot in ipairs(slots) do
    if redis.call('HINCRBY', COUNTS, slot, -1) <= 0 then redis.call('HDEL', COUNTS, slot) end
  end
end

-- Drops the leases of `request` that `ends` picks and answers with them.
local function drop(request, ends)
  local kept, dropped = {}, {}
  for _, lease in ipairs(read_leases(request)) do
    if ends(lease[1]) then
      redis.call('ZREM', LEASES, request .. ':' .. lease[1])
      free(lease[2])
      dropped[#dropped + 1] = lease
    else
      kept[#kept + 1] = lease
    end
  end
  if #dropped > 0 then write_leases(request, kept) end
  return dropped
end

local function purge()
  redis.call('ZREMRANGEBYSCORE', GONE, '-inf', now)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', LEASES, '-inf', now)) do
    local attempt = string.sub(member, 38)
    drop(string.sub(member, 1, 36), function(other) return other == attempt end)
    redis.call('ZREM', LEASES, member)
  end
end

local function is_gone(request, attempt)
  return redis.call('ZSCORE', GONE, request .. ':' .. attempt) or redis.call('ZSCORE', GONE, request .. ':*')
end

local function hold(request, attempt, slots, charges, leases, ttl)
  for _, slot in ipairs(slots) do redis.call('HINCRBY', COUNTS, slot, 1) end
  leases[#leases + 1] = { attempt, slots, charges }
  write_leases(request, leases)
  redis.call('ZADD', LEASES, now + ttl, request .. ':' .. attempt)
  redis.call('PEXPIRE', HOLDERS, KEEP_MS)
  redis.call('PEXPIRE', COUNTS, KEEP_MS)
  redis.call('PEXPIRE', LEASES, KEEP_MS)
end

local function micros_for(milli, rate) return quotient(milli * REFILL_DIVISOR + rate - 1, rate) end

-- What is missing from a bucket now, and as of when that is.
local function refilled(stored, rate)
  if not stored then return 0, now_us end
  local colon = string.find(stored, ':', 1, true)
  local missing, at = tonumber(string.sub(stored, 1, colon - 1)), tonumber(string.sub(stored, colon + 1))
  local elapsed = math.max(0, now_us - at)
  if missing <= 0 or elapsed >= micros_for(missing, rate) then return 0, now_us end
  local refill = quotient(elapsed * rate, REFILL_DIVISOR)
  if refill > 0 then
    missing = missing - refill
    at = at + micros_for(refill, rate)
  end
  return missing, at
end

local function write_bucket(name, missing, at, rate)
  missing = math.min(math.max(missing, 0), MAX_MISSING)
  if missing == 0 then
    redis.call('HDEL', BUCKETS, name)
    return
  end
  redis.call('HSET', BUCKETS, name, text(missing) .. ':' .. text(at))
  local full_in = quotient(micros_for(missing, rate), 1000) + 1000
  if redis.call('PTTL', BUCKETS) < full_in then redis.call('PEXPIRE', BUCKETS, full_in) end
end
