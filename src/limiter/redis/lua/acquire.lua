-- Decides requests for units: the same mathematics as src/policy, in doubles that stay exact integers.
-- KEYS[1]: the policies in force, a hash by limit. KEYS[2i], KEYS[2i+1]: the state and the permits of bucket i.
-- ARGV[1]: [[line, priority, leaseUs, permit, aheadUs, withinUs, i, weight, ...], ...], with i and the weight of each use.
-- ARGV[2]: [limit, ...] of the buckets, in their order.
-- ARGV[3]: the latest instant at which the caller still waits, or ''. ARGV[4]: the instant, for tests, or ''.
-- ARGV[5]: the name of the caller, if it wants to know how many are refused. They stand among the permits, below zero.
-- ARGV[6]: the windows of calendars around now, as {"day Europe/Paris": [start, ...], ...}, or ''.
-- ARGV[7]: '', or an instant: the only request then gives back the units of one bucket that a start took at it.
-- ARGV[8]: '', or how long the last key remembers that they were given back, in ms: it is done once.
-- Answers: now, then for each request us: granted as of so long from now; {1, us, i, ...}: the same, and these buckets gave
-- a permit; {0, i, us, callers}: denied by bucket i for so long, -1: until a permit returns, with the callers that it
-- refused lately; {2, i}: its limit is not defined; {3}: src/limiter/redis decides.
local sub, match = string.sub, string.match
local limits = cjson.decode(ARGV[2])
local requests = cjson.decode(ARGV[1])
local policies, buckets = {}, {}
local calendars = ARGV[6] and ARGV[6] ~= '' and cjson.decode(ARGV[6]) or {}

local function policy(field)
  local known = policies[field]
  if known == nil then
    local stored = redis.call('HGET', KEYS[1], field)
    known = stored and cjson.decode(stored) or false
    if known then known.prefix = text(known.revision) .. ' ' end
    policies[field] = known
  end
  return known
end

-- The clock of a test does not move the server's, by which keys expire.
local function lasting(ms) return ARGV[4] == '' and ms or max(ms, 60000) end

-- Reads a state; nil: another revision wrote it, the clock went back, or only src/limiter/redis can read it.
local function decode(stored, bucket)
  local prefix = bucket.policy.prefix
  if sub(stored, 1, #prefix) ~= prefix then return nil end
  local v = cjson.decode(sub(stored, #prefix + 1))
  local at, i = v[1], 3
  if not at or at > now then return nil end
  local state = {closed = v[2]}
  if v[3] == 5 then
    state.allowance = {units = v[4], untilUs = at + v[5], since = at + v[6]}
    i = 7
  end
  if v[i] == 6 then
    state.spacing = {next = at + v[i + 1]}
    i = i + 2
  end
  if v[i] and not KINDS[v[i]] then return nil end
  local rule = bucket.policy.rule
  if (rule and rule.kind) ~= KINDS[v[i]] then return nil end
  if rule then state.rule = RULES[rule.kind].read(v, i, at) end
  if bucket.policy.every and not state.spacing then state.spacing = spacing.new() end
  return state
end

local function load(i)
  local known = buckets[i]
  if known then return known end
  local limit, key = limits[i], KEYS[2 * i]
  local found = policy(limit)
  -- The name of the limit within a key of Redis holds no colon.
  if found and found.keys then found = policy(limit .. '\0' .. match(key, '{[^}]*}:b:[^:]*:(.*)')) or found end
  local bucket = {i = i, kind = 'known', policy = found, active = 0, stored = false, state = false, changed = false}
  buckets[i] = bucket
  if not found then
    bucket.kind = 'unknown'
    return bucket
  end
  local rule = found.rule
  local calendar = rule and rule.calendar
  -- Earlier versions wrote a limit with a calendar without its rule.
  local slow = calendar and not carries(rule, calendars[calendar]) or (found.slow and not calendar)
  if slow or (found.ends and found.ends <= now) then
    bucket.kind = 'slow'
    return bucket
  end
  if found.concurrency then bucket.active = redis.call('ZCOUNT', KEYS[2 * i + 1], '(' .. text(now), '+inf') end
  local stored = redis.call('GET', key)
  bucket.stored = stored
  if stored then
    bucket.state = decode(stored, bucket)
    if not bucket.state then bucket.kind = 'slow' end
  else
    bucket.state = {closed = 0, rule = rule and RULES[rule.kind].new(rule)}
    if found.every then bucket.state.spacing = spacing.new() end
    bucket.changed = rule and rule.startEmpty
  end
  return bucket
end

local function afterPenalty(rule, state)
  if state.closed == 0 or rule.kind ~= 'rate' then return state.rule end
  return rate.cap(rule, state.rule, state.closed)
end

-- The first instant from `at` at which a bucket admits a start.
local function admitted(bucket, at, weight, kept)
  local found, state = bucket.policy, bucket.state
  if found.concurrency and max(0, found.concurrency - bucket.active) <= kept then return INF end
  local open = max(at, state.closed, found.every and state.spacing.next or 0)
  local allowance = state.allowance
  if allowance and allowance.untilUs > at and max(1, weight + kept) > allowance.units then
    open = max(open, allowance.untilUs)
  end
  local rule = found.rule
  if not rule then return open end
  return RULES[rule.kind].grant(rule, afterPenalty(rule, state), open, weight + kept)
end

-- Ends what has ended by now.
local function touch(bucket)
  local found, state = bucket.policy, bucket.state
  if state.allowance and state.allowance.untilUs <= now then state.allowance = nil end
  if state.closed ~= 0 and state.closed <= now then
    if found.rule then state.rule = afterPenalty(found.rule, state) end
    state.closed = 0
  end
  return found, state
end

local function charge(bucket, weight, at)
  local found, state = touch(bucket)
  if found.rule then RULES[found.rule.kind].take(found.rule, state.rule, weight, at) end
  local allowance = state.allowance
  if allowance and at >= allowance.since then allowance.units = max(0, allowance.units - weight) end
  if found.every then spacing.take({every = found.every}, state.spacing, 1, at) end
  bucket.changed = true
end

-- Notes the caller, and counts those that bucket i refused lately: until they may ask again, and a second more.
local function refused(i, us)
  local caller, key = ARGV[5] or '', KEYS[2 * i + 1]
  if caller == '' then return 0 end
  local left = min(max(us, 0), 60000000) + 1000000
  -- First what a server without memory refuses: a script that has written anything may go on.
  redis.call('ZADD', key, '-' .. text(now + left), caller)
  redis.call('ZREMRANGEBYSCORE', key, '-' .. text(now), '(0')
  local ttl = lasting(ceil(left / 1000))
  if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, text(ttl)) end
  return redis.call('ZCOUNT', key, '-inf', '(0')
end

local function ask(request)
  -- The uses of a request begin with its seventh field: a bucket and a weight each.
  local last = #request
  for u = 7, last, 2 do
    local kind = load(request[u]).kind
    if kind == 'unknown' then return {2, request[u]} end
    if kind == 'slow' then return {3} end
  end
  missing = false
  local from = now + request[5]
  local at, by = from, nil
  for _ = 1, 64 do
    local next = at
    for u = 7, last, 2 do
      local i = request[u]
      local bucket = buckets[i]
      local head = bucket.policy.headroom
      local us = admitted(bucket, at, request[u + 1], head and request[2] < head.priority and head.units or 0)
      if missing then return {3} end
      if us == INF then return {0, i, -1, refused(i, -1)} end
      if us > next then
        next = us
        by = i
      end
    end
    if next == at then break end
    at = next
  end
  -- From the end of an override on other rules decide.
  for u = 7, last, 2 do
    local ends = buckets[request[u]].policy.ends
    if ends and at >= ends then return {3} end
  end
  if by and at - from > request[6] then return {0, by, at - from, refused(by, at - from)} end
  local answer = at - now
  for u = 7, last, 2 do
    local i = request[u]
    local bucket = buckets[i]
    charge(bucket, request[u + 1], at)
    if bucket.policy.concurrency then
      local key, lease = KEYS[2 * i + 1], request[3]
      if redis.call('ZADD', key, text(now + lease), request[4]) == 1 then bucket.active = bucket.active + 1 end
      local ttl = lasting(ceil(lease / 1000) + 1000)
      if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, text(ttl)) end
      bucket.expired = true
      if answer == at - now then answer = {1, at - now} end
      answer[#answer + 1] = i
    end
  end
  return answer
end

-- Gives back units that a start took at its instant.
local function giveBack(request, at)
  local i, units, name = request[7], request[8], (ARGV[8] or '') ~= '' and KEYS[#KEYS]
  if name and redis.call('EXISTS', name) == 1 then return 0 end
  local bucket = load(i)
  if bucket.kind ~= 'known' then return bucket.kind == 'unknown' and {2, i} or {3} end
  -- That is refused there.
  if not bucket.policy.rule then return {3} end
  local found, state = touch(bucket)
  missing = false
  if not RULES[found.rule.kind].back(found.rule, state.rule, units, at) then return {3} end
  local allowance = state.allowance
  if allowance and at >= allowance.since then allowance.units = allowance.units + units end
  bucket.changed = true
  if name then redis.call('SET', name, '1', 'PX', ARGV[8]) end
  return 0
end

-- How long a bucket differs from a new one, in us.
local function warm(bucket)
  local found, state = bucket.policy, bucket.state
  local until_ = max(state.closed, state.spacing and state.spacing.next or 0)
  if state.allowance then until_ = max(until_, state.allowance.untilUs) end
  local rule = found.rule
  if rule then
    until_ = max(until_, RULES[rule.kind].cold(rule, afterPenalty(rule, state)))
    if rule.startEmpty then until_ = max(until_, now + 86400000000) end
  end
  return until_ - now
end

local function store(bucket)
  local key = KEYS[2 * bucket.i]
  if bucket.expired then redis.call('ZREMRANGEBYSCORE', KEYS[2 * bucket.i + 1], '0', text(now)) end
  local left = warm(bucket)
  if left <= 0 then
    if bucket.stored then redis.call('DEL', key) end
    return
  end
  local found, state = bucket.policy, bucket.state
  local allowance, rule = state.allowance, found.rule
  local out = format('%s[%d,%d', found.prefix, now, state.closed)
  if allowance then
    out = out .. format(',5,%d,%d,%d', allowance.units, allowance.untilUs - now, allowance.since - now)
  end
  if state.spacing then out = out .. format(',6,%d', state.spacing.next - now) end
  if rule then out = out .. ',' .. RULES[rule.kind].write(state.rule, now) end
  redis.call('SET', key, out .. ']', 'PX', lasting(ceil(left / 1000) + 1))
end

local answers, stopped, backAt = {now}, {}, tonumber(ARGV[7])
for _, request in ipairs(requests) do
  local answer = backAt and giveBack(request, backAt) or stopped[request[1]] or ask(request)
  if type(answer) == 'table' and answer[1] ~= 1 then stopped[request[1]] = answer end
  answers[#answers + 1] = answer
end
for _, bucket in pairs(buckets) do if bucket.changed then store(bucket) end end
return answers
