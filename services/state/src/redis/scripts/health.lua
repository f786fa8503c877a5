-- The averages and cooldowns of all targets; see average.rs, which does the same sums. Every health script starts with this.
-- KEYS: targets (hash, target -> fields joined by |).
local TARGETS = KEYS[1]
local ALPHA = 0.2
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local second = tonumber(time[1])

local NAMES = { 'error', 'ttft', 'samples', 'second', 'ok', 'failed', 'first_us', 'firsts', 'cooled', 'strikes', 'last' }

local function read(target)
  local record = { reason = '' }
  for _, name in ipairs(NAMES) do record[name] = 0 end
  record.error, record.ttft = nil, nil
  local raw = redis.call('HGET', TARGETS, target)
  if not raw then return record end
  local at = 1
  for _, name in ipairs(NAMES) do
    local bar = string.find(raw, '|', at, true)
    record[name] = tonumber(string.sub(raw, at, bar - 1))
    at = bar + 1
  end
  record.reason = string.sub(raw, at)
  return record
end

local function write(target, record)
  local parts = {}
  for i, name in ipairs(NAMES) do
    local value = record[name]
    parts[i] = value and string.format('%.17g', value) or ''
  end
  parts[#parts + 1] = record.reason
  redis.call('HSET', TARGETS, target, table.concat(parts, '|'))
end

local function close(record)
  local all = record.ok + record.failed
  if all > 0 then
    local average = record.error or 0
    record.error = average + ALPHA * (record.failed / all - average)
  end
  if record.firsts > 0 then
    local mean = record.first_us / record.firsts
    record.ttft = record.ttft and record.ttft + ALPHA * (mean - record.ttft) or mean
  end
  record.ok, record.failed, record.first_us, record.firsts = 0, 0, 0, 0
end
