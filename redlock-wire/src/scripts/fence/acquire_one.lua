-- The usual case: one resource, which is absent. The checks follow the writes here, because few commands are faster than
-- many. If a check fails, the writes are undone, and the general part below finds the reason. Local variables are faster
-- than global ones, and `NX` with `GET` exists from Redis 7.0 on. Returns the counter as a number.
if #KEYS == 2 and redis.REDIS_VERSION_NUM then
    local call, resource, counter, ttl, keep = redis.pcall, KEYS[1], KEYS[2], ARGV[2], ARGV[3]
    local time = call('TIME')
    local held = not time[1] or call('SET', resource, ARGV[1], 'NX', 'PX', ttl, 'GET')
    if not held then
        local number, now = tonumber(call('INCRBY', counter, 1)), time[1] * 1000000 + time[2]
        local limit = now + (keep - ttl) * 1000
        now = now - now % 4194304
        if number and number > 0 and number < now then
            redis.call('SET', counter, string.format('%.0f', now), 'PX', keep)
            return now
        elseif number and number > 0 and number < limit - limit % 4194304 and number < 9007199254740992 then
            redis.call('PEXPIRE', counter, keep)
            return number
        end
        call('DEL', resource)
        if number then call('INCRBY', counter, -1) end
    elseif type(held) == 'string' and held ~= ARGV[1] then
        return {0, held, redis.call('PTTL', resource)}
    end
end
