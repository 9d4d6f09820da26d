-- Sets the absent keys to the token. Raises all counters if a key or a counter was absent. Returns the counter as text.
local must_raise = #absent > 0 or is_counter_absent
local number = counter
if must_raise then number = math.max(counter + 1, round_down(now)) end
local rejection = too_far_ahead(math.min(number, 2^53 - 1))
if rejection then return rejection end
if number >= 2^53 then return redis.error_reply('ERR the fencing counter is exhausted (2^53 - 1)') end
number = string.format('%.0f', number)
if must_raise then
    set_absent_keys()
    set_counters(number)
end
return number
