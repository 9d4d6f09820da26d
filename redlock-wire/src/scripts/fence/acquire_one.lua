-- The usual case: one resource, which is absent. From Redis 7.0 on, one command sets it or returns its holder. It comes
-- after all checks. Every other case is left to the general part below, before anything is changed. Local variables are
-- faster than global ones.
if #KEYS == 2 and redis.REDIS_VERSION_NUM then
    local call, resource, counter, ttl, keep = redis.pcall, KEYS[1], KEYS[2], ARGV[2], ARGV[3]
    local kept, time = call('GET', counter), call('TIME')
    local number = 0
    if kept then number = type(kept) == 'string' and not string.find(kept, '%D') and tonumber(kept) end
    if number and time[1] then
        local now = time[1] * 1000000 + time[2]
        local limit = now + (keep - ttl) * 1000
        number, now = number + 1, now - now % 4194304
        if number < now then number = now end
        if number < limit - limit % 4194304 and number < 9007199254740992 then
            local held = call('SET', resource, ARGV[1], 'NX', 'PX', ttl, 'GET')
            if not held then
                number = string.format('%.0f', number)
                redis.call('SET', counter, number, 'PX', keep)
                return number
            elseif type(held) == 'string' and held ~= ARGV[1] then
                return {0, held, redis.call('PTTL', resource)}
            end
        end
    end
end
