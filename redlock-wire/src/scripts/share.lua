-- Adds the token to the readers of every key, or of none. KEYS: the resources, then the gate. ARGV: the token, the TTL in
-- milliseconds.
-- Returns 1: granted. {0, token, PTTL}: a key or the gate holds this token. {-1, position}: a key of another type.
-- A key or a gate that is reserved for a reader is free for all of them. If a key is, the gate does not matter: the reader
-- has waited longer than the writer that has locked it.
local function is_for_readers(held) return string.find(held, '^read##%x+$') end
local gate, is_in_all, reserved = KEYS[#KEYS], true, {}
for position = 1, #KEYS - 1 do
    local held = redis.pcall('GET', KEYS[position])
    if not held then
        is_in_all = false
    elseif type(held) == 'table' then
        local denial = not_a_string(position, held)
        if denial[1] ~= 0 then return denial end
        is_in_all = is_in_all and is_reader(KEYS[position])
    elseif is_for_readers(held) then
        is_in_all = false
        reserved[#reserved + 1] = KEYS[position]
    else
        return {0, held, redis.call('PTTL', KEYS[position])}
    end
end
if is_in_all then return 1 end
local writer = not reserved[1] and redis.pcall('GET', gate)
if type(writer) == 'string' and not is_for_readers(writer) then return {0, writer, redis.call('PTTL', gate)} end
for _, key in ipairs(reserved) do redis.call('DEL', key) end
for position = 1, #KEYS - 1 do add_reader(KEYS[position]) end
return 1
