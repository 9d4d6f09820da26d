-- The usual case: one resource, which holds the token, and a counter that is not greater and may be written. Every other
-- case is left to the general part below, before anything is changed. `GT` exists from Redis 7.0 on.
if #KEYS == 2 and redis.REDIS_VERSION_NUM then
    local call, resource, counter, ttl, keep, fence = redis.pcall, KEYS[1], KEYS[2], ARGV[2], ARGV[3], ARGV[4]
    if call('GET', resource) == ARGV[1] then
        local kept, time = call('GET', counter), call('TIME')
        local number = 0
        if kept then number = type(kept) == 'string' and not string.find(kept, '%D') and tonumber(kept) end
        if number and time[1] and redis.acl_check_cmd('SET', counter, '') then
            local limit, most = time[1] * 1000000 + time[2] + (keep - ttl) * 1000, tonumber(fence)
            if number <= most and most < limit - limit % 4194304 then
                redis.call('PEXPIRE', resource, ttl, 'GT')
                -- Without memory the server denies `SET`, but not a new expiry.
                if kept == fence then
                    redis.call('PEXPIRE', counter, keep)
                else
                    redis.call('SET', counter, fence, 'PX', keep)
                end
                return 1
            end
        end
    end
end
