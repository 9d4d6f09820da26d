-- Acquires one key in the order of the waiters. After the other arguments: the place of the request, the time that it has
-- waited in microseconds, and the time of its reservation in milliseconds. Replies as the acquisition does.
local reserved, waited, id = table.remove(ARGV), tonumber(table.remove(ARGV)), table.remove(ARGV)
local place, present = id .. ' ' .. reserved, redis.pcall('GET', KEYS[1])
if present == id then
    redis.call('DEL', KEYS[1])
elseif not present then
    local first, first_score = first_place(KEYS[1])
    if first and first ~= place and first_score > score(waited) then reserve(KEYS[1], first) end
end
local function acquire()
