-- Readers of a key: a sorted set of their tokens by expiry in milliseconds. It begins with a mark that never expires.
local READERS = 'readers#0000000000000000000000000000000000000000'
-- Returns the reply about a key that is no string. {0, READERS, PTTL}: it has readers. {-1, position}: another type.
local function not_a_string(position, held)
    if not string.find(held.err, 'WRONGTYPE', 1, true) then return held end
    if redis.pcall('ZREVRANGE', KEYS[position], 0, 0)[1] ~= READERS then return {-1, position} end
    return {0, READERS, redis.call('PTTL', KEYS[position])}
end
local now
local function clock()
    if not now then
        local time = redis.call('TIME')
        now = time[1] * 1000 + math.floor(time[2] / 1000)
    end
    return now
end
-- Returns whether the token reads a key that has readers. The mark is no token of a reader.
local function is_reader(key)
    if ARGV[1] == READERS then return false end
    local expires = redis.call('ZSCORE', key, ARGV[1])
    return expires and tonumber(expires) >= clock()
end
-- Removes the expired readers, and sets the expiry of the key to that of the last one. Without any it deletes the key.
local function update_expiry(key)
    redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('(%.0f', clock()))
    local latest = redis.call('ZREVRANGE', key, 1, 1, 'WITHSCORES')
    if latest[2] then redis.call('PEXPIREAT', key, latest[2]) else redis.call('DEL', key) end
end
-- Adds the token to the readers of a key, or makes its time at least the given one. The first write fails without memory.
local function add_reader(key)
    local previous, expires = redis.call('ZSCORE', key, ARGV[1]), clock() + ARGV[2]
    if previous and tonumber(previous) > expires then expires = tonumber(previous) end
    redis.call('ZADD', key, 'inf', READERS, string.format('%.0f', expires), ARGV[1])
    update_expiry(key)
end
