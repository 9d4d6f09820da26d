-- Sets the TTL of every key, if all hold the token. KEYS: the resources. ARGV: the token, the TTL in milliseconds.
-- It is the only script that shortens the TTL of a lock. (The release of a reader may shorten that of a key with readers.)
-- Returns 1: granted. 0: a key is gone. {0, token, PTTL}: a key holds this other token. {-1, position}: a key of another
-- type.
for position, key in ipairs(KEYS) do
    local held = redis.pcall('GET', key)
    if not held then
        return 0
    elseif type(held) == 'table' then
        return not_a_string(position, held)
    end
    if held ~= ARGV[1] then return {0, held, redis.call('PTTL', key)} end
end
for _, key in ipairs(KEYS) do
    redis.call('PEXPIRE', key, ARGV[2])
end
return 1
