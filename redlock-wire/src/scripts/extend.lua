local too_short, read_keys = {}, {}
for position, key in ipairs(KEYS) do
    local held = redis.pcall('GET', key)
    if not held then
        return 0
    elseif type(held) == 'table' then
        local denial = not_a_string(position, held)
        if denial[1] ~= 0 or not is_reader(key) then return denial end
        read_keys[#read_keys + 1] = key
    else
        local remaining = redis.call('PTTL', key)
        if held ~= ARGV[1] then return {0, held, remaining} end
        if remaining >= 0 and remaining < tonumber(ARGV[2]) then too_short[#too_short + 1] = key end
    end
end
for _, key in ipairs(too_short) do
    redis.call('PEXPIRE', key, ARGV[2])
end
for _, key in ipairs(read_keys) do add_reader(key) end
return 1
