-- Sets every key to the token, or none. KEYS: the resources. ARGV: the token, the TTL in milliseconds.
-- Returns 1: granted. {0, token, PTTL}: a key holds this other token. {-1, position}: a key of another type.
local absent = {}
for position, key in ipairs(KEYS) do
    local held = redis.pcall('GET', key)
    if not held then
        absent[#absent + 1] = key
    elseif type(held) == 'table' then
        return not_a_string(position, held)
    elseif held ~= ARGV[1] then
        return {0, held, redis.call('PTTL', key)}
    end
end
for _, key in ipairs(absent) do
    redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
end
return 1
