-- Returns permits, or extends their leases.
-- KEYS: the permits of a bucket, one key for each permit. ARGV[1]: the instant, for tests, or ''. ARGV[2]: the new lease in
-- us, '' to return them. ARGV[2 + i]: the permit of KEYS[i]. Answers: 1 for each that was held, or 0.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local lease, answer = tonumber(ARGV[2]), {}
for i, key in ipairs(KEYS) do
  local permit = ARGV[2 + i]
  local ends = tonumber(redis.call('ZSCORE', key, permit) or '0')
  answer[i] = ends > now and 1 or 0
  if not lease then
    redis.call('ZREM', key, permit)
  elseif ends > now then
    redis.call('ZADD', key, string.format('%.0f', now + lease), permit)
    local ttl = math.ceil(lease / 1000) + 1000
    if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ttl) end
  end
end
return answer
