-- Adds the token to the readers of every key, or of none. KEYS: the resources, then the gate. ARGV: the token, the TTL in
-- milliseconds.
-- Returns 1: granted. {0, token, PTTL}: a key or the gate holds this token. {-1, position}: a key of another type.
local gate, is_in_all = KEYS[#KEYS], true
for position = 1, #KEYS - 1 do
    local held = redis.pcall('GET', KEYS[position])
    if not held then
        is_in_all = false
    elseif type(held) == 'table' then
        local denial = not_a_string(position, held)
        if denial[1] ~= 0 then return denial end
        is_in_all = is_in_all and is_reader(KEYS[position])
    else
        return {0, held, redis.call('PTTL', KEYS[position])}
    end
end
if is_in_all then return 1 end
local writer = redis.pcall('GET', gate)
if type(writer) == 'string' then return {0, writer, redis.call('PTTL', gate)} end
for position = 1, #KEYS - 1 do add_reader(KEYS[position]) end
return 1
