-- The rules over time: the same mathematics as src/policy/rules, in doubles that stay exact integers. It is put before
-- acquire.lua, and knows the instant `now`.
local LATEST, INF, EXACT = 9000000000000000, 1 / 0, 9007199254740991
local floor, ceil, max, min, fmod, abs = math.floor, math.ceil, math.max, math.min, math.fmod, math.abs

local now = tonumber(ARGV[4])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if ARGV[3] ~= '' and now > tonumber(ARGV[3]) then return {now, -1} end

local format, concat = string.format, table.concat
local function text(number) return format('%d', number) end

-- The remainder, exact where value and divisor together fit in 53 bits: % may be off by one divisor.
local function modulo(value, divisor)
  local rest = value % divisor
  if rest < 0 then return rest + divisor end
  return rest < divisor and rest or rest - divisor
end

-- The whole part and the remainder of (a * b + c) / divisor, exact for any product. Beyond 53 bits a, b >= 0.
local function divide(a, b, c, divisor)
  local product = a * b
  if abs(product) + abs(c) + divisor <= EXACT then
    local sum = product + c
    local rest = modulo(sum, divisor)
    return (sum - rest) / divisor, rest
  end
  local small = fmod(a, divisor)
  local whole = (a - small) / divisor * b
  local rest, total = 0, 0
  for _, part in ipairs({floor(b / 1099511627776), fmod(floor(b / 1048576), 1048576), fmod(b, 1048576)}) do
    local sum = rest * 1048576 + small * part
    rest = fmod(sum, divisor)
    total = total * 1048576 + (sum - rest) / divisor
  end
  local sum = rest + c
  rest = modulo(sum, divisor)
  return whole + total + (sum - rest) / divisor, rest
end

-- ---------------------------------------------------------------------------------------------- token bucket

local rate = {}

function rate.new(rule)
  local state = {tat = now, rem = 0, last = now, full = now, slack = INF}
  if rule.startEmpty then rate.add(rule, state, rule.burst - 1) end
  return state
end

function rate.behind(state, at) return state.tat < at - 1 or (state.tat == at - 1 and state.rem == 0) end

function rate.add(rule, state, units)
  local added, rem = divide(units, rule.period, state.rem, rule.rate)
  state.rem = rem
  state.tat = state.tat + added
  if state.tat > LATEST then
    state.tat = LATEST
    state.rem = 0
  end
end

function rate.grant(rule, state, at, weight)
  local back = divide(rule.burst - min(weight, rule.burst), rule.period, -state.rem, rule.rate)
  return max(at, state.tat - back)
end

function rate.take(rule, state, weight, at)
  if rate.behind(state, at) then
    state.tat, state.rem, state.full, state.slack = at, 0, at, INF
  elseif at ~= state.last then
    state.slack = min(state.slack, max(0, state.tat - at))
  end
  if at > state.last then state.last = at end
  rate.add(rule, state, weight)
end

function rate.back(rule, state, weight, at)
  if at < state.full or at > state.last then return true end
  if weight * rule.period > EXACT then return false end
  if rule.burst == 1 and weight == 1 and state.tat - divide(1, rule.period, -state.rem, rule.rate) <= at + 1 then
    rate.add(rule, state, -1)
    state.last = min(state.last, state.tat)
    return true
  end
  local full = divide(weight, rule.period, 0, rule.rate)
  if at < state.last and state.slack <= full then
    state.tat = state.tat - state.slack
    state.slack = 0
    return true
  end
  if at < state.last then state.slack = state.slack - full - 1 end
  rate.add(rule, state, -weight)
  return true
end

function rate.cap(rule, state, at)
  local capped = {tat = at, rem = 0, last = at, full = at, slack = INF}
  rate.add(rule, capped, rule.burst - 1)
  if capped.tat > state.tat or (capped.tat == state.tat and capped.rem > state.rem) then return capped end
  return state
end

function rate.read(v, i, at)
  local slack = v[i + 5]
  if slack == -1 then slack = INF end
  return {tat = at + v[i + 1], rem = v[i + 2], last = at - v[i + 3], full = at - v[i + 4], slack = slack}
end

function rate.write(state, at)
  local slack = state.slack == INF and -1 or state.slack
  return format('1,%d,%d,%d,%d,%d', state.tat - at, state.rem, at - state.last, at - state.full, slack)
end

function rate.cold(rule, state) return state.rem > 0 and state.tat + 2 or state.tat end

-- -------------------------------------------------------------------------------------------- sliding window

local sliding = {}

function sliding.new() return {log = {}, used = 0, debt = 0, coarse = false} end

local function instant(log, n)
  local count = 0
  for i = 1, #log, 2 do
    count = count + log[i + 1]
    if count >= n then return log[i] end
  end
  return log[#log - 1] or 0
end

function sliding.grant(rule, state, at, weight)
  local used = state.used
  local needed = state.debt + min(weight, rule.max) + used - rule.max
  if needed <= 0 then return max(at, 0) end
  if needed <= used then return max(at, instant(state.log, needed) + rule.period) end
  local excess = max(0, used - rule.max)
  local rest = needed - used
  local cycles = floor((rest - 1) / rule.max)
  local us = instant(state.log, excess + rest - cycles * rule.max) + (cycles + 2) * rule.period
  return max(at, min(us, LATEST))
end

local function drop(log, count)
  if count == 0 then return log end
  local rest = {}
  for i = count + 1, #log do rest[#rest + 1] = log[i] end
  return rest
end

local function pay(rule, state)
  local log = state.log
  if state.used == rule.max and #log > 0 then
    local turns = min(floor((now - log[#log - 1]) / rule.period), floor(state.debt / rule.max))
    if turns > 0 then
      for i = 1, #log, 2 do log[i] = log[i] + turns * rule.period end
      state.debt = state.debt - turns * rule.max
    end
  end
  local gone = 0
  while state.debt > 0 and gone < #log and log[gone + 1] + rule.period <= now do
    local free = log[gone + 1] + rule.period
    state.used = state.used - log[gone + 2]
    gone = gone + 2
    local paid = min(state.debt, max(0, rule.max - state.used))
    if paid > 0 then
      state.debt = state.debt - paid
      state.used = state.used + paid
      if log[#log - 1] == free then log[#log] = log[#log] + paid
      else
        log[#log + 1] = free
        log[#log + 1] = paid
      end
    end
  end
  state.log = drop(log, gone)
end

local function expire(rule, state)
  if state.debt > 0 then pay(rule, state) end
  local log, gone = state.log, 0
  while gone < #log and log[gone + 1] + rule.period <= now do
    state.used = state.used - log[gone + 2]
    gone = gone + 2
  end
  state.log = drop(log, gone)
  if #state.log == 0 then state.coarse = false end
end

local function slot(rule, at) return floor(at / ceil(rule.period / 64)) end

local function append(rule, state, units, at)
  local log = state.log
  state.used = state.used + units
  local last = log[#log - 1]
  if last and (last >= at or (state.coarse and slot(rule, last) == slot(rule, at))) then
    log[#log - 1] = max(last, at)
    log[#log] = log[#log] + units
    return
  end
  log[#log + 1] = at
  log[#log + 1] = units
  if #log <= 2048 then return end
  local ring = {}
  for i = 1, #log, 2 do
    local before = ring[#ring - 1]
    if before and slot(rule, before) == slot(rule, log[i]) then
      ring[#ring - 1] = log[i]
      ring[#ring] = ring[#ring] + log[i + 1]
    else
      ring[#ring + 1] = log[i]
      ring[#ring + 1] = log[i + 1]
    end
  end
  state.log = ring
  state.coarse = true
end

function sliding.take(rule, state, weight, at)
  expire(rule, state)
  local log, used, i = state.log, state.used, 1
  while log[i] and log[i] + rule.period <= at do
    used = used - log[i + 1]
    i = i + 2
  end
  local fitting = state.debt > 0 and 0 or min(weight, max(0, rule.max - used))
  state.debt = state.debt + weight - fitting
  if fitting > 0 then append(rule, state, fitting, at) end
end

function sliding.back(rule, state, weight, at)
  expire(rule, state)
  if at + rule.period <= now then return true end
  local paid = min(state.debt, weight)
  state.debt = state.debt - paid
  local log, rest = state.log, weight - paid
  for i = #log - 1, 1, -2 do
    if rest <= 0 or log[i] < at then break end
    if log[i] == at or (state.coarse and slot(rule, log[i]) == slot(rule, at)) then
      local units = min(rest, log[i + 1])
      log[i + 1] = log[i + 1] - units
      state.used = state.used - units
      rest = rest - units
      if log[i + 1] == 0 then
        table.remove(log, i + 1)
        table.remove(log, i)
      end
    end
  end
  return true
end

function sliding.read(v, i, at)
  local state = {log = {}, used = 0, debt = v[i + 1], coarse = v[i + 2] == 1}
  local us, log = at, state.log
  for j = i + 3, #v, 2 do
    us = us + v[j]
    log[#log + 1] = us
    log[#log + 1] = v[j + 1]
    state.used = state.used + v[j + 1]
  end
  return state
end

function sliding.write(state, at)
  local out, before = {format('2,%d,%d', state.debt, state.coarse and 1 or 0)}, at
  local log = state.log
  for i = 1, #log, 2 do
    out[#out + 1] = format('%d,%d', log[i] - before, log[i + 1])
    before = log[i]
  end
  return concat(out, ',')
end

function sliding.cold(rule, state)
  local last = state.log[#state.log - 1]
  if not last then return 0 end
  return last + rule.period * (1 + (state.debt > 0 and ceil(state.debt / rule.max) + 1 or 0))
end

-- ---------------------------------------------------------------------------------------------- fixed window

local fixed = {}
-- Whether a rule asked for a window that the call does not carry.
local missing = false

-- The number of the window of an instant: by the epoch, or among the windows of a calendar that the call carries.
local function number(rule, at)
  local starts = rule.starts
  if not starts then return floor(at / rule.period) end
  local n = #starts
  while n > 1 and starts[n] > at do n = n - 1 end
  if n == #starts or starts[n] > at then missing = true end
  return n
end

-- Takes the windows of a calendar that the call carries; false: it carries none, or now is in none of them.
local function carries(rule, starts)
  rule.starts, missing = starts, false
  if starts then number(rule, now) end
  return starts and not missing
end

local function start(rule, n)
  if not rule.starts then return n * rule.period end
  if not rule.starts[n] then missing = true end
  return rule.starts[n] or LATEST
end

function fixed.new(rule) return {start = start(rule, number(rule, now)), used = 0, beyond = 0, next = 0} end

local function paid(rule, used, windows)
  if windows == 0 then return used end
  return used <= rule.max and 0 or max(0, used - rule.max * windows)
end

local function inUse(rule, state, at)
  local n = number(rule, at)
  if start(rule, n) <= state.start then return state.used end
  -- Without a debt it does not matter how long ago a window was.
  if state.next == 0 and state.used <= rule.max then return 0 end
  local windows = n - number(rule, state.start)
  if state.next == 0 then return paid(rule, state.used, windows) end
  return paid(rule, max(0, state.used - rule.max) + state.next, windows - 1)
end

function fixed.grant(rule, state, at, weight)
  if state.used > 0 and start(rule, number(rule, at)) < state.start then at = state.start end
  local over = inUse(rule, state, at) + min(weight, rule.max) - rule.max
  local n = number(rule, at)
  local later = at
  if over > 0 then
    local windows = ceil(over / rule.max)
    later = windows == 1 and start(rule, n + 1) or min(start(rule, n + windows), LATEST)
  elseif at > start(rule, n + 1) - rule.guard then later = start(rule, n + 1)
  end
  if missing then return at end
  if later > at and state.next > 0 then return fixed.grant(rule, state, later, weight) end
  return later
end

function fixed.take(rule, state, weight, at)
  local from = start(rule, number(rule, now))
  if from > state.start then
    state.used = inUse(rule, state, now)
    state.start, state.beyond, state.next = from, 0, 0
  end
  if start(rule, number(rule, at)) <= state.start then state.used = state.used + weight
  else state.next = state.next + weight end
end

function fixed.back(rule, state, weight, at)
  local n = number(rule, at)
  local from = start(rule, n)
  local apart = state.next > 0 and from > state.start and n - number(rule, state.start)
  if missing then return false end
  if apart then
    if apart == 1 then state.next = max(0, state.next - weight) end
  elseif from == state.start then
    local beyond = min(weight, state.beyond)
    state.beyond = state.beyond - beyond
    state.used = max(0, state.used - weight + beyond)
  end
  return true
end

function fixed.read(v, i) return {start = v[i + 1], used = v[i + 2], beyond = v[i + 3] or 0, next = v[i + 4] or 0} end

function fixed.write(state)
  local out = format('3,%d,%d', state.start, state.used)
  if state.next > 0 then return out .. format(',%d,%d', state.beyond, state.next) end
  return state.beyond == 0 and out or out .. format(',%d', state.beyond)
end

function fixed.cold(rule, state)
  if state.used == 0 and state.next == 0 then return 0 end
  return state.start + rule.period * (2 + ceil(max(0, state.used + state.next - rule.max) / rule.max))
end

-- --------------------------------------------------------------------------------------------------- spacing

local spacing = {}

function spacing.new() return {next = now - 6311520000000000} end

function spacing.grant(_, state, at) return max(at, state.next) end

function spacing.take(rule, state, _, at) state.next = min(max(state.next, at) + rule.every, LATEST) end

function spacing.back(rule, state, _, at)
  if at == state.next - rule.every then state.next = at end
  return true
end

function spacing.read(v, i, at) return {next = at + v[i + 1]} end

function spacing.write(state, at) return format('4,%d', state.next - at) end

function spacing.cold(_, state) return state.next end

local RULES = {rate = rate, sliding = sliding, fixed = fixed, spacing = spacing}
local KINDS = {'rate', 'sliding', 'fixed', 'spacing'}
