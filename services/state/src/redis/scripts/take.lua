-- Takes one of each slot and from all buckets, or nothing.
-- ARGV: request, attempt, ttl, newcomer (0|1), slots, buckets, then (slot, limit)…, then (bucket, rate, capacity, cost, tokens 0|1)…
-- Answers: outcome, index (from 0), leases on the first slot, then what each bucket misses.
-- Outcomes: 0 granted, 1 no slot, 2 no rate, 3 waiters first, 4 gone.
local request, attempt, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
local slot_count, bucket_count = tonumber(ARGV[5]), tonumber(ARGV[6])
local first_bucket = 7 + slot_count * 2

purge()
if is_gone(request, attempt) then return { 4, 0, 0 } end
local leases = read_leases(request)
local held = false
for _, lease in ipairs(leases) do held = held or lease[1] == attempt end
if ARGV[4] == '1' and not held and redis.call('EXISTS', WAITERS) == 1 then return { 3, 0, 0 } end

local names, buckets = {}, {}
for i = 0, bucket_count - 1 do names[i + 1] = ARGV[first_bucket + i * 5] end
if bucket_count > 0 then
  local stored = redis.call('HMGET', BUCKETS, unpack(names))
  for i = 0, bucket_count - 1 do
    local at = first_bucket + i * 5
    local bucket = {
      rate = tonumber(ARGV[at + 1]), capacity = tonumber(ARGV[at + 2]), cost = tonumber(ARGV[at + 3]),
      tokens = ARGV[at + 4] == '1',
    }
    bucket.missing, bucket.at = refilled(stored[i + 1], bucket.rate)
    buckets[i + 1] = bucket
  end
end

local slots, used = {}, {}
for i = 0, slot_count - 1 do slots[i + 1] = ARGV[7 + i * 2] end
if slot_count > 0 then used = redis.call('HMGET', COUNTS, unpack(slots)) end

local function answer(outcome, index, first_used)
  local all = { outcome, index, first_used }
  for i, bucket in ipairs(buckets) do all[3 + i] = bucket.missing end
  return all
end

local first_used = tonumber(used[1] or 0)
if held then return answer(0, 0, first_used) end
for i = 1, slot_count do
  local limit = tonumber(ARGV[6 + i * 2])
  if limit >= 0 and tonumber(used[i] or 0) >= limit then return answer(1, i - 1, first_used) end
end
for i, bucket in ipairs(buckets) do
  local level = bucket.capacity - bucket.missing
  if level < (bucket.tokens and 1000 or bucket.cost) then return answer(2, i - 1, first_used) end
  bucket.taken = bucket.tokens and math.min(bucket.cost, level) or bucket.cost
end

local charges = {}
for i, bucket in ipairs(buckets) do
  bucket.missing = bucket.missing + bucket.taken
  write_bucket(names[i], bucket.missing, bucket.at, bucket.rate)
  charges[i] = { names[i], bucket.taken, bucket.rate }
end
hold(request, attempt, slots, charges, leases, ttl)
return answer(0, 0, first_used + 1)
