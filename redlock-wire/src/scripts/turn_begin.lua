-- Acquires keys in the order of the waiters. After the other arguments: the place of the request, the time that it has
-- waited in microseconds, and the time of its reservation in milliseconds. Replies as the acquisition does. A denial of one
-- key is {0, token, PTTL, rank, waiters}: the rank of the place, and the number of places. Without the rights to them, it
-- has neither.
local reserved, waited, id = table.remove(ARGV), tonumber(table.remove(ARGV)), table.remove(ARGV)
-- The keys that were reserved for the request. A fenced lock has one argument more, and a counter for each resource.
local place, turns, count = id .. ' ' .. reserved, {}, ARGV[3] and #KEYS / 2 or #KEYS
for position = 1, count do
    local key = KEYS[position]
    local present = redis.pcall('GET', key)
    if present == id then
        turns[key] = true
        -- The script of readers needs to know its reservations.
        if not string.find(id, '^read##') then redis.call('DEL', key) end
    elseif not present then
        local first, first_score = first_place(key)
        if first and first ~= place and first_score > score(waited) then reserve(key, first) end
    end
end
local function acquire()
