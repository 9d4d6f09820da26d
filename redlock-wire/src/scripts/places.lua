-- The requests that wait for a key: a sorted set in the key with the suffix '#waiting'. A member has the place of a request
-- and the time of its reservation in milliseconds; the request that has waited longest has the greatest score. The order is
-- only fair: without the rights to the set, there is none.
local function score(waited)
    local time = redis.pcall('TIME')
    return waited - (time[1] and time[1] * 1000000 + time[2] or 0)
end
local function enter_place(key, place, waited)
    redis.pcall('ZADD', key .. '#waiting', string.format('%.0f', score(waited)), place)
    redis.pcall('PEXPIRE', key .. '#waiting', '12000')
end
-- Returns 1 if the place was there.
local function leave_place(key, place) return redis.pcall('ZREM', key .. '#waiting', place) end
-- Returns the place that has waited longest, and its score.
local function first_place(key)
    local first = redis.pcall('ZREVRANGE', key .. '#waiting', '0', '0', 'WITHSCORES')
    return first[1], tonumber(first[2])
end
-- Sets the key, which is absent, to a place.
local function reserve(key, place)
    local id, reserved = string.match(place or '', '^(%l+##?%x+) (%d+)$')
    if id and leave_place(key, place) == 1 then redis.call('SET', key, id, 'PX', reserved) end
end
