-- The first part of every script for fenced locks: all checks, before the first write.
-- KEYS: the resources, then the counter of each. ARGV: the token, the TTL of the resources and that of the counters in
-- milliseconds, and for confirm and refill the fencing token. The counters are kept for a retention after the TTL.
-- Returns, unless the second part is to run: {0, token, PTTL}: a key holds this other token. {-1, position}: a key of
-- another type. {-2, position}: a counter is not a number below 2^53. {-3, position, number, seconds}: the counter at the
-- position is too far ahead of the clock; position 0: the number to be written is.
local count = #KEYS / 2
local absent, too_short, stored_counters, counter, greatest_position, is_counter_absent = {}, {}, {}, 0, 0, false
for position = 1, count do
    local held = redis.pcall('GET', KEYS[position])
    if not held then
        absent[#absent + 1] = KEYS[position]
    elseif type(held) == 'table' then
        return not_a_string(position, held)
    else
        local remaining = redis.call('PTTL', KEYS[position])
        if held ~= ARGV[1] then return {0, held, remaining} end
        if remaining >= 0 and remaining < tonumber(ARGV[2]) then too_short[#too_short + 1] = KEYS[position] end
    end
end
local time = redis.pcall('TIME')
if time.err then return redis.error_reply('NOPERM fenced locks need the permission to run TIME') end
local now = time[1] * 1000000 + time[2]
local function round_down(micros) return micros - micros % 4194304 end
for position = 1, count do
    local stored = redis.pcall('GET', KEYS[count + position])
    if not stored then
        is_counter_absent = true
    elseif type(stored) == 'table' then
        if string.find(stored.err, 'WRONGTYPE', 1, true) then return {-2, position} end
        return stored
    else
        local number = string.find(stored, '^%d+$') and tonumber(stored)
        if not number or number >= 2^53 then return {-2, position} end
        stored_counters[position] = stored
        if number > counter then counter, greatest_position = number, position end
    end
end
-- After a counter has expired, the next one starts from the clock, which must be greater by then. Thus numbers from this
-- limit on are errors, whether they are stored or about to be written. The limit only grows.
local limit = round_down(now + (ARGV[3] - ARGV[2]) * 1000)
local function too_far_ahead(number)
    if number < limit then return nil end
    if counter >= limit then number = counter else greatest_position = 0 end
    return {-3, greatest_position, string.format('%.0f', number), math.floor((number - now) / 1000000)}
end
-- A user may have the right to read a key, but not to write it (from Redis 7.0 on). No key is written then.
for _, key in ipairs(redis.acl_check_cmd and KEYS or {}) do
    if not redis.acl_check_cmd('SET', key, '') then
        return redis.error_reply('NOPERM fenced locks need the permission to write their keys')
    end
end
local function set_absent_keys()
    for _, key in ipairs(absent) do redis.call('SET', key, ARGV[1], 'PX', ARGV[2]) end
end
-- A counter that already has the number only gets a new expiry: this needs no memory, and the server may have none left.
local function set_counters(number)
    for position = 1, count do
        if stored_counters[position] == number then redis.call('PEXPIRE', KEYS[count + position], ARGV[3]) end
    end
    for position = 1, count do
        if stored_counters[position] ~= number then redis.call('SET', KEYS[count + position], number, 'PX', ARGV[3]) end
    end
end
