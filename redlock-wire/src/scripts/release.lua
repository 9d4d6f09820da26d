-- Deletes what holds the token, and only that. KEYS: the resources. ARGV: the token.
-- Answers how many were deleted. A key of another type is nothing of ours.
local ours = {}
for _, key in ipairs(KEYS) do
    local held = redis.pcall('GET', key)
    if held == ARGV[1] then
        ours[#ours + 1] = key
    elseif type(held) == 'table' and not string.find(held.err, 'WRONGTYPE', 1, true) then
        return held
    end
end
for _, key in ipairs(ours) do
    redis.call('DEL', key)
end
return #ours
