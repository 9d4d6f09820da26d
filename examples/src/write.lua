-- Writes a value under a fencing token, if no greater one has been here: check and write in one step.
-- KEYS: a hash. ARGV: the token, the value. Answers 1: written; 0: refused, the writer came too late.
local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < seen then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
return 1
