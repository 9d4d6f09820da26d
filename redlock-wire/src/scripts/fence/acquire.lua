-- Sets the absent keys to the token. Raises all counters if a key or a counter was absent. Returns the counter as text.
local raises = #absent > 0 or uncounted
local number = counter
if raises then number = math.max(counter + 1, coarse(now)) end
local refused = too_far_ahead(math.min(number, 2^53 - 1))
if refused then return refused end
if number >= 2^53 then return redis.error_reply('ERR the fencing counter is exhausted (2^53 - 1)') end
number = string.format('%.0f', number)
if raises then
    fill()
    count_to(number)
end
return number
