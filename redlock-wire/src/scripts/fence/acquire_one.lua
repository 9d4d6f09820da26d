-- The usual case: one resource, which is absent, and a counter that may be raised. All checks come before the first write,
-- which is itself the last of them: `SET` with `NX` and `GET` changes nothing if the resource exists. Every other case is
-- left to the general part below. Local variables are faster than global ones, and `NX` with `GET` exists from Redis 7.0
-- on, like rights to read alone. Returns the counter as a number.
if #KEYS == 2 and redis.REDIS_VERSION_NUM then
    local call, resource, counter, ttl, retention = redis.pcall, KEYS[1], KEYS[2], ARGV[2], ARGV[3]
    local stored, time = call('GET', counter), call('TIME')
    local number = 0
    if stored then number = type(stored) == 'string' and not string.find(stored, '%D') and tonumber(stored) end
    if number and time[1] and redis.acl_check_cmd('SET', counter, '') then
        local now = time[1] * 1000000 + time[2]
        local limit, minimum = now + (retention - ttl) * 1000, now - now % 4194304
        number = number < minimum and minimum or number + 1
        if number < limit - limit % 4194304 and number < 9007199254740992 then
            local held = call('SET', resource, ARGV[1], 'NX', 'PX', ttl, 'GET')
            if not held then
                redis.call('SET', counter, string.format('%.0f', number), 'PX', retention)
                return number
            elseif type(held) == 'string' and held ~= ARGV[1] then
                return {0, held, redis.call('PTTL', resource)}
            end
        end
    end
end
