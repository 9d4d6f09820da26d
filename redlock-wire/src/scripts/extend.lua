-- Makes the TTL of every key at least the given one, if all hold the token. KEYS: the resources. ARGV: the token, the
-- TTL in milliseconds. A key without expiry stays without.
-- Answers 1: granted; 0: a key is gone; {0, token, PTTL}: held by another; {-1, position}: another type.
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
