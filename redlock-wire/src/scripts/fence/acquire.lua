-- Sets every key to the token, or none of them, and counts where it has set any. Answers the counter, as text.
if #absent > 0 or uncounted then
    local time = redis.pcall('TIME')
    if time.err then return redis.error_reply('NOPERM fenced locks need the permission to run TIME') end
    local micros = time[1] * 1000000 + time[2]
    counter = math.max(counter + 1, micros - micros % 4194304)
    if counter >= 2^53 then return redis.error_reply('ERR the fencing tokens have come to their end') end
    fill()
    count_to(string.format('%.0f', counter))
end
return string.format('%.0f', counter)
