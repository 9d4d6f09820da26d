-- If all keys hold the token, makes the TTL of each at least the given one. KEYS: the resources. ARGV: the token, the
-- TTL in milliseconds. A key without an expiry does not get one. A key with readers holds the token if it is one of them.
-- Returns 1: granted. 0: a key is gone. {0, token, PTTL}: a key holds this other token. {-1, position}: a key of another
-- type.
-- Most extensions have one key, which holds the token. From Redis 7.0 on, one command compares the TTLs and sets the
-- greater one. Local variables are faster than global ones.
local redis, key = redis, KEYS[1]
if #KEYS == 1 and redis.REDIS_VERSION_NUM and redis.pcall('GET', key) == ARGV[1] then
    redis.call('PEXPIRE', key, ARGV[2], 'GT')
    return 1
end
