-- Writes under a fencing token, if no greater one has been here: check and write in one step.
-- KEYS: a hash. ARGV: the token, and a value; without a value the token alone is written.
-- Returns 1 if the value was written, and 0 if the writer is stale.
local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < seen then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
if ARGV[2] then redis.call('HSET', KEYS[1], 'value', ARGV[2]) end
return 1
