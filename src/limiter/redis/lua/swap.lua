-- Writes what src/limiter/redis decided, if nothing that it read has changed, and not too long ago.
-- KEYS: as in read.lua. ARGV[1]: the instant of the reading. ARGV[2]: how long ago it may be, or ''. ARGV[3]: the
-- generation of the policies. ARGV[4]: the number of buckets. Then for each bucket: the state that was read, the new one
-- ('=' as before, '' none), its time to live in ms, the permits held ('' any), the permit to take ('' none) and the end
-- of its lease. Then for each value: the old, the new ('' none), its time to live in ms.
-- Answers: 1, or 0 where nothing was written.
local time = redis.call('TIME')
local at, buckets = tonumber(ARGV[1]), tonumber(ARGV[4])
if ARGV[2] ~= '' and time[1] * 1000000 + time[2] - at > tonumber(ARGV[2]) then return 0 end
if (redis.call('HGET', KEYS[1], '') or '') ~= ARGV[3] then return 0 end
local values = 5 + 6 * buckets
for i = 1, buckets do
  local a = 6 * i - 1
  if (redis.call('GET', KEYS[2 * i]) or '') ~= ARGV[a] then return 0 end
  local active = ARGV[a + 3]
  if active ~= '' then
    if redis.call('ZCOUNT', KEYS[2 * i + 1], string.format('(%.0f', at), '+inf') ~= tonumber(active) then return 0 end
  end
end
for i = 2 * buckets + 2, #KEYS do
  if (redis.call('GET', KEYS[i]) or '') ~= ARGV[values + 3 * (i - 2 * buckets - 2)] then return 0 end
end
local function put(key, value, ttl)
  if value == '' then redis.call('DEL', key) elseif value ~= '=' then redis.call('SET', key, value, 'PX', ttl) end
end
for i = 1, buckets do
  local a = 6 * i - 1
  put(KEYS[2 * i], ARGV[a + 1], ARGV[a + 2])
  if ARGV[a + 4] ~= '' then
    redis.call('ZADD', KEYS[2 * i + 1], ARGV[a + 5], ARGV[a + 4])
    local ttl = math.ceil((tonumber(ARGV[a + 5]) - at) / 1000) + 1000
    if redis.call('PTTL', KEYS[2 * i + 1]) < ttl then redis.call('PEXPIRE', KEYS[2 * i + 1], ttl) end
  end
end
for i = 2 * buckets + 2, #KEYS do
  local a = values + 3 * (i - 2 * buckets - 2)
  put(KEYS[i], ARGV[a + 1], ARGV[a + 2])
end
return 1
