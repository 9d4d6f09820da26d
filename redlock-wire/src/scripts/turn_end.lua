end
local reply = acquire()
for position = 1, count do
    local key = KEYS[position]
    if type(reply) ~= 'table' then
        leave_place(key, place)
    elseif turns[key] then
        -- Another key is held. The turn passes on, and the request goes to the end here.
        reserve(key, (first_place(key)))
        enter_place(key, place, 0)
    elseif reply[1] == 0 then
        enter_place(key, place, waited)
    end
end
return reply
