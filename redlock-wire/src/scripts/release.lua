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
if deleted == 0 and not id then return 0 end
-- Of every sixteenth token, the key stays free, so that other clients get their chance.
local is_open = string.byte(ARGV[1], -1) % 16 == 0
for _, key in ipairs(KEYS) do
    read_places(key)
    if id and waited >= 0 then enter_place(id, waited, ARGV[4]) elseif id then remove_place(id) end
    if deleted > 0 and not is_open and not redis.pcall('GET', key) then reserve(key) end
    write_places(key)
end
return deleted
