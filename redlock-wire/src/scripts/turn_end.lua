end
local reply = acquire()
if type(reply) ~= 'table' then
    leave_place(KEYS[1], place)
elseif reply[1] == 0 then
    enter_place(KEYS[1], place, waited)
end
return reply
