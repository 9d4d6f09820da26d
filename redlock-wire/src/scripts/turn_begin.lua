-- Acquires one key in the order of the waiters. After the other arguments: the place of the request, the time that it has
-- waited in microseconds, and the time of its reservation in milliseconds. Replies as the acquisition does.
local reserved, waited, id = table.remove(ARGV), tonumber(table.remove(ARGV)), table.remove(ARGV)
read_places(KEYS[1])
local present = redis.pcall('GET', KEYS[1])
if present == id then
    redis.call('DEL', KEYS[1])
elseif not present then
    local first = first_place()
    if first and first.id ~= id and first.since < server_micros() - waited then reserve(KEYS[1]) end
end
local function acquire()
