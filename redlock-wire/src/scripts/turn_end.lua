end
local reply = acquire()
local is_denied = type(reply) == 'table' and reply[1] == 0
if is_denied then enter_place(id, waited, reserved) elseif type(reply) ~= 'table' then remove_place(id) end
write_places(KEYS[1])
return reply
