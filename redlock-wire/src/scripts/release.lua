local ours, read = {}, {}
for position, key in ipairs(KEYS) do
    local held = redis.pcall('GET', key)
    if held == ARGV[1] then
        ours[#ours + 1] = key
    elseif type(held) == 'table' then
        local reply = no_string(position, held)
        if reply.err then return reply end
        if reply[1] == 0 and reads(key) then read[#read + 1] = key end
    end
end
for _, key in ipairs(ours) do
    redis.call('DEL', key)
end
for _, key in ipairs(read) do
    redis.call('ZREM', key, ARGV[1])
    settle(key)
end
return #ours + #read
