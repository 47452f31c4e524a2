-- Writes a change of limits, if no other caller has changed one since.
-- KEYS[1]: the policies in force, by limit and by limit and key. KEYS[2]: all changes, by limit.
-- ARGV[1]: the generation that was read. ARGV[2]: the new one. ARGV[3], ARGV[4]: a limit and its changes, and so on until
-- ''. Then a field of the policies and its value ('' none), and so on. Answers: 1, or 0 where nothing was written.
if (redis.call('HGET', KEYS[1], '') or '') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], '', ARGV[2])
redis.call('HSET', KEYS[2], '', ARGV[2])
local i = 3
while ARGV[i] ~= '' do
  redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
  i = i + 2
end
for j = i + 1, #ARGV, 2 do
  if ARGV[j + 1] == '' then redis.call('HDEL', KEYS[1], ARGV[j]) else redis.call('HSET', KEYS[1], ARGV[j], ARGV[j + 1]) end
end
return 1
