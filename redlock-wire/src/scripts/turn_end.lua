end
local reply = acquire()
for position = 1, count do
    local key = KEYS[position]
    if turns[key] and redis.pcall('GET', key) == id then redis.call('DEL', key) end
    if type(reply) ~= 'table' then
        leave_place(key, place)
        -- The gate of a reader is not set. The turn passes on.
        if turns[key] and not redis.pcall('GET', key) then reserve(key, (first_place(key))) end
    elseif turns[key] then
        -- Another key is held. The turn passes on, and the request goes to the end here.
        reserve(key, (first_place(key)))
        enter_place(key, place, 0)
    elseif reply[1] == 0 then
        enter_place(key, place, waited)
    end
end
if count == 1 and type(reply) == 'table' and reply[1] == 0 then
    local waiting = KEYS[1] .. '#waiting'
    local ahead, waiters = redis.pcall('ZREVRANK', waiting, place), redis.pcall('ZCARD', waiting)
    if type(ahead) == 'number' and type(waiters) == 'number' then reply[4], reply[5] = ahead + 1, waiters / 2 end
end
return reply
