-- Reads who holds a key. KEYS: the resource.
-- Answers 0: nobody; {0, token, PTTL}: this one; {-1, position}: another type.
local held = redis.pcall('GET', KEYS[1])
if not held then
    return 0
elseif type(held) == 'table' then
    if string.find(held.err, 'WRONGTYPE', 1, true) then return {-1, 1} end
    return held
end
return {0, held, redis.call('PTTL', KEYS[1])}
