-- Returns the holder of a key, and the number of requests that wait for it. KEYS: the resource.
-- Returns {0, waiters}: free. {0, token, PTTL, waiters}: held. {-1, position}: a key of another type.
-- Without the rights to the places, the number of waiters is -1.
local held, waiters = redis.pcall('GET', KEYS[1]), redis.pcall('ZCARD', KEYS[1] .. '#waiting')
-- A place has two members.
waiters = type(waiters) == 'number' and waiters / 2 or -1
if not held then return {0, waiters} end
if type(held) == 'string' then return {0, held, redis.call('PTTL', KEYS[1]), waiters} end
local reply = not_a_string(1, held)
if reply[1] == 0 then reply[4] = waiters end
return reply
