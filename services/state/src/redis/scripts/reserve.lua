-- Holds on all purses or on none.
-- ARGV: request, then (purse, unit n|t, kind b|l, limit's billions, limit's rest, want, min)…
-- Answers: 0 nanos tokens | 1 index available held | 2 index… (unknown) | 3 (gone). Indexes from 0.
local request = ARGV[1]
purge()
if redis.call('ZSCORE', GONE, request) then return { 3 } end
local raw = redis.call('HGET', HOLDS, request)
if raw then
  local hold = cmsgpack.unpack(raw)
  return { 0, hold[1], hold[2] }
end

local function available(at)
  local value = redis.call('HGET', VALUES, ARGV[at])
  if not value then return nil end
  local high, low = string.match(value, '^(-?%d+):(%d+):')
  high, low = tonumber(high), tonumber(low)
  if ARGV[at + 2] == 'l' then high, low = tonumber(ARGV[at + 3]) - high, tonumber(ARGV[at + 4]) - low end
  -- Beyond these a hold's bound decides anyway.
  high = math.min(math.max(high, -9000000), 9000001)
  local held = tonumber(redis.call('HGET', HELD, ARGV[at]) or 0)
  return math.min(high * BILLION + low, MAX_HELD) - held, held
end

local unknown = { 2 }
local least, purses = {}, {}
local index = 0
for at = 2, #ARGV, 7 do
  local unit, want, min = ARGV[at + 1], tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6])
  local left, held = available(at)
  if not left then
    unknown[#unknown + 1] = index
  else
    local tightest = least[unit]
    if not tightest then
      least[unit] = { index = index, left = left, held = held, want = want, min = min }
    else
      if left < tightest.left then tightest.index, tightest.left, tightest.held = index, left, held end
      tightest.want = math.min(tightest.want, want)
      tightest.min = math.max(tightest.min, min)
    end
  end
  purses[#purses + 1] = { ARGV[at], unit }
  index = index + 1
end
if #unknown > 1 then return unknown end
local amounts = { n = 0, t = 0 }
for _, unit in ipairs({ 'n', 't' }) do
  local tightest = least[unit]
  if tightest then
    if tightest.left < tightest.min then return { 1, tightest.index, tightest.left, tightest.held } end
    amounts[unit] = math.max(0, math.min(tightest.want, tightest.left))
  end
end
hold(request, amounts.n, amounts.t, purses)
return { 0, amounts.n, amounts.t }
