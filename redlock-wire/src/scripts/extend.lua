local short, read = {}, {}
for position, key in ipairs(KEYS) do
    local held = redis.pcall('GET', key)
    if not held then
        return 0
    elseif type(held) == 'table' then
        local denial = no_string(position, held)
        if denial[1] ~= 0 or not reads(key) then return denial end
        read[#read + 1] = key
    else
        local left = redis.call('PTTL', key)
        if held ~= ARGV[1] then return {0, held, left} end
        if left >= 0 and left < tonumber(ARGV[2]) then short[#short + 1] = key end
    end
end
for _, key in ipairs(short) do
    redis.call('PEXPIRE', key, ARGV[2])
end
for _, key in ipairs(read) do share(key) end
return 1
