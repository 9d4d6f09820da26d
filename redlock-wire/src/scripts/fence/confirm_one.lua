-- The usual case: one resource, which holds the token, and a counter that is not greater and may be written. Every other
-- case is left to the general part below, before anything is changed. `GT` exists from Redis 7.0 on.
if #KEYS == 2 and redis.REDIS_VERSION_NUM then
    local call, resource, counter, ttl, retention, fence = redis.pcall, KEYS[1], KEYS[2], ARGV[2], ARGV[3], ARGV[4]
    if call('GET', resource) == ARGV[1] then
        local stored, time = call('GET', counter), call('TIME')
        local number = 0
        if stored then number = type(stored) == 'string' and not string.find(stored, '%D') and tonumber(stored) end
        if number and time[1] and redis.acl_check_cmd('SET', counter, '') then
            local limit, token_number = time[1] * 1000000 + time[2] + (retention - ttl) * 1000, tonumber(fence)
            if number <= token_number and token_number < limit - limit % 4194304 then
                redis.call('PEXPIRE', resource, ttl, 'GT')
                -- Without memory the server denies `SET`, but not a new expiry.
                if stored == fence then
                    redis.call('PEXPIRE', counter, retention)
                else
                    redis.call('SET', counter, fence, 'PX', retention)
                end
                return 1
            end
        end
    end
end
