-- The requests that wait for a key: a sorted set in the key with the suffix '#waiting'. A member has the place of a request
-- and the time of its reservation in milliseconds; the request that has waited longest has the greatest score. The order is
-- only fair: without the rights to the set, there is none.
--
-- A second member '+' .. member has the time of the last attempt. Its score is below those of all places, so it changes no
-- rank, and the place of the oldest attempt is the last one. It ends 12 s after that attempt: its request has died.
local marks, lasts = 8e15, 12e6
local function micros()
    local time = redis.pcall('TIME')
    return time[1] and time[1] * 1000000 + time[2] or 0
end
local function score(waited) return waited - micros() end
-- Returns 2 if the place was there.
local function leave_place(key, place) return redis.pcall('ZREM', key .. '#waiting', place, '+' .. place) end
local function leave_dead(key, now)
    for _ = 1, 100 do
        local oldest = redis.pcall('ZREVRANGE', key .. '#waiting', '-1', '-1', 'WITHSCORES')
        if not oldest[1] or now - lasts < oldest[2] + marks then return end
        leave_place(key, string.sub(oldest[1], 2))
    end
end
local function enter_place(key, place, waited)
    local now = micros()
    local first, mark = string.format('%.0f', waited - now), string.format('%.0f', now - marks)
    redis.pcall('ZADD', key .. '#waiting', first, place, mark, '+' .. place)
    redis.pcall('PEXPIRE', key .. '#waiting', '12000')
    leave_dead(key, now)
end
-- Returns the place that has waited longest, and its score.
local function first_place(key)
    local first = redis.pcall('ZREVRANGE', key .. '#waiting', '0', '0', 'WITHSCORES')
    return first[1], tonumber(first[2])
end
-- Sets the key, which is absent, to a place.
local function reserve(key, place)
    local id, reserved = string.match(place or '', '^(%l+##?%x+) (%d+)$')
    if id and leave_place(key, place) == 2 then redis.call('SET', key, id, 'PX', reserved) end
end
