-- Deletes the keys that hold the token, and no others. KEYS: the resources. ARGV: the token; for a request that waits also
-- its place, the time that it has waited in microseconds, or -1 if it no longer waits, and the time of its reservation in
-- milliseconds. A key that was deleted is reserved for the request that has waited longest.
-- Returns the number of deleted keys. Ignores keys of another type. Of a key with readers, it removes the token.
-- Most releases have one key, which holds the token, and no request waits. Without the rest they take less server time.
local redis, key = redis, KEYS[1]
if #KEYS == 1 and #ARGV == 1 and redis.pcall('GET', key) == ARGV[1] and not redis.pcall('GET', key .. '#waiting') then
    return redis.call('DEL', key)
end
