-- The requests that wait for a key, in the value of the key with the suffix '#waiting': a line for each, with its place, its
-- start, its last attempt, and the time of its reservation in milliseconds. The first two times are microseconds by the
-- clock of the server. The order is only fair: after an error, no request is known to wait. A value of another format is
-- left as it is.
local SILENCE = 12000
local places, are_kept, micros
local function server_micros()
    if not micros then
        -- Without the right to TIME, the waiting times alone count.
        local time = redis.pcall('TIME')
        micros = time[1] and time[1] * 1000000 + time[2] or 0
    end
    return micros
end
local function read_places(key)
    local stored = redis.pcall('GET', key .. '#waiting')
    places, are_kept = {}, not stored or type(stored) == 'string' and string.find(stored, '^next#%x+ ')
    if not are_kept or not stored then return end
    for id, since, seen, reserved in string.gmatch(stored, '(next#%x+) (%-?%d+) (%d+) (%d+)\n') do
        if server_micros() - tonumber(seen) < SILENCE * 1000 then
            places[#places + 1] = {id = id, since = tonumber(since), seen = tonumber(seen), reserved = reserved}
        end
    end
end
local function write_places(key)
    if not are_kept then return end
    if #places == 0 then return redis.pcall('DEL', key .. '#waiting') end
    local lines = {}
    for index, place in ipairs(places) do
        lines[index] = string.format('%s %.0f %.0f %s\n', place.id, place.since, place.seen, place.reserved)
    end
    redis.pcall('SET', key .. '#waiting', table.concat(lines), 'PX', SILENCE)
end
local function remove_place(id)
    for index, place in ipairs(places) do
        if place.id == id then return table.remove(places, index) end
    end
end
-- The number of places is limited, because each call reads all of them.
local function enter_place(id, waited, reserved)
    remove_place(id)
    if #places < 256 then
        places[#places + 1] = {id = id, since = server_micros() - waited, seen = server_micros(), reserved = reserved}
    end
end
local function first_place()
    local first
    for _, place in ipairs(places) do
        if not first or place.since < first.since or place.since == first.since and place.id < first.id then
            first = place
        end
    end
    return first
end
-- Sets the key, which is absent, to the place that has waited longest.
local function reserve(key)
    local first = first_place()
    if not first then return end
    remove_place(first.id)
    redis.call('SET', key, first.id, 'PX', first.reserved)
end
