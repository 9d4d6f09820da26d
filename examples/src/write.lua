-- Writes under a fencing token, if no greater one has been here: check and write in one step.
-- KEYS: a hash. ARGV: the token, and a value; without a value the token alone is written.
-- Answers 1: written; 0: refused, the writer came too late.
local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < seen then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
if ARGV[2] then redis.call('HSET', KEYS[1], 'value', ARGV[2]) end
return 1
