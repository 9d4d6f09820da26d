local held_keys, read_keys = {}, {}
for position, key in ipairs(KEYS) do
    local held = redis.pcall('GET', key)
    if held == ARGV[1] then
        held_keys[#held_keys + 1] = key
    elseif type(held) == 'table' then
        local reply = not_a_string(position, held)
        if reply.err then return reply end
        if reply[1] == 0 and is_reader(key) then read_keys[#read_keys + 1] = key end
    end
end
for _, key in ipairs(held_keys) do
    redis.call('DEL', key)
end
for _, key in ipairs(read_keys) do
    redis.call('ZREM', key, ARGV[1])
    update_expiry(key)
end
local deleted, id, waited = #held_keys + #read_keys, ARGV[2], tonumber(ARGV[3])
-- Of every sixteenth token, the key stays free, so that other clients get their chance.
local reserves = deleted > 0 and string.byte(ARGV[1], -1) % 16 ~= 0
for _, key in ipairs(KEYS) do
    -- If the key is reserved for the place, it has its turn, and must not wait for another one.
    if id and waited >= 0 and redis.pcall('GET', key) ~= id then
        enter_place(key, id .. ' ' .. ARGV[4], waited)
    elseif id and waited < 0 then
        leave_place(key, id .. ' ' .. ARGV[4])
    end
    if reserves and not redis.pcall('GET', key) then reserve(key, (first_place(key))) end
end
return deleted
