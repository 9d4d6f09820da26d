-- Returns the holder of a key. KEYS: the resource.
-- Returns 0: free. {0, token, PTTL}: held. {-1, position}: a key of another type.
local held = redis.pcall('GET', KEYS[1])
if not held then
    return 0
elseif type(held) == 'table' then
    return not_a_string(1, held)
end
return {0, held, redis.call('PTTL', KEYS[1])}
