-- What all scripts about fenced locks begin with: they look at everything before they write anything.
-- KEYS: the resources, then the counter of each. ARGV: the token, the TTL in milliseconds, how long counters are kept, and
-- to all but the acquire the fencing token.
-- Answer, instead of what the script says: {0, token, PTTL}: held by another; {-1, position}: another type;
-- {-2, position}: a counter that is no counter.
local count = #KEYS / 2
local absent, short, counts, counter, uncounted = {}, {}, {}, 0, false
for position = 1, count do
    local held = redis.pcall('GET', KEYS[position])
    if not held then
        absent[#absent + 1] = KEYS[position]
    elseif type(held) == 'table' then
        if string.find(held.err, 'WRONGTYPE', 1, true) then return {-1, position} end
        return held
    else
        local left = redis.call('PTTL', KEYS[position])
        if held ~= ARGV[1] then return {0, held, left} end
        if left >= 0 and left < tonumber(ARGV[2]) then short[#short + 1] = KEYS[position] end
    end
end
for position = 1, count do
    local kept = redis.pcall('GET', KEYS[count + position])
    if not kept then
        uncounted = true
    elseif type(kept) == 'table' then
        if string.find(kept.err, 'WRONGTYPE', 1, true) then return {-2, position} end
        return kept
    else
        local number = string.find(kept, '^%d+$') and tonumber(kept)
        if not number or number >= 2^53 then return {-2, position} end
        counts[position] = kept
        if number > counter then counter = number end
    end
end
local function fill()
    for _, key in ipairs(absent) do redis.call('SET', key, ARGV[1], 'PX', ARGV[2]) end
end
-- A counter that is at the number already only lives on: that takes no memory, which the server may have run out of.
local function count_to(number)
    for position = 1, count do
        if counts[position] == number then redis.call('PEXPIRE', KEYS[count + position], ARGV[3]) end
    end
    for position = 1, count do
        if counts[position] ~= number then redis.call('SET', KEYS[count + position], number, 'PX', ARGV[3]) end
    end
end
