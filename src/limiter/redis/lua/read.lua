-- Reads buckets as of one instant.
-- KEYS[1]: the policies in force. KEYS[2i], KEYS[2i+1]: the state and the permits of bucket i. The rest: plain values.
-- ARGV[1]: the instant, for tests, or ''. ARGV[2]: the number of buckets.
-- Answers: now, the generation of the policies, then for each bucket its state and the permits held, then the values.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local answer = {now, redis.call('HGET', KEYS[1], '')}
local buckets = tonumber(ARGV[2])
for i = 1, buckets do
  answer[#answer + 1] = redis.call('GET', KEYS[2 * i])
  answer[#answer + 1] = redis.call('ZCOUNT', KEYS[2 * i + 1], string.format('(%.0f', now), '+inf')
end
for i = 2 * buckets + 2, #KEYS do answer[#answer + 1] = redis.call('GET', KEYS[i]) end
return answer
