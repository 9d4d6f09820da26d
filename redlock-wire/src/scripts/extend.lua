-- If all keys hold the token, makes the TTL of each at least the given one. KEYS: the resources. ARGV: the token, the
-- TTL in milliseconds. A key without an expiry does not get one.
-- Returns 1: granted. 0: a key is gone. {0, token, PTTL}: a key holds this other token. {-1, position}: a key of another
-- type.
-- Most extensions have one key, which holds the token. From Redis 7.0 on, one command compares the TTLs and sets the
-- greater one. Local variables are faster than global ones.
local redis, only = redis, KEYS[1]
if #KEYS == 1 and redis.REDIS_VERSION_NUM and redis.pcall('GET', only) == ARGV[1] then
    redis.call('PEXPIRE', only, ARGV[2], 'GT')
    return 1
end
local short = {}
for position, key in ipairs(KEYS) do
    local held = redis.pcall('GET', key)
    if not held then
        return 0
    elseif type(held) == 'table' then
        if string.find(held.err, 'WRONGTYPE', 1, true) then return {-1, position} end
        return held
    end
    local left = redis.call('PTTL', key)
    if held ~= ARGV[1] then return {0, held, left} end
    if left >= 0 and left < tonumber(ARGV[2]) then short[#short + 1] = key end
end
for _, key in ipairs(short) do
    redis.call('PEXPIRE', key, ARGV[2])
end
return 1
