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
return #held_keys + #read_keys
