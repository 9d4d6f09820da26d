-- Reads what shows that a server may have lost locks since a look at it, and its clock.
-- KEYS: the stamp. Returns {stamp, role, master_replid2, time}; the time is an error if it must not be read.
local info = redis.call('INFO', 'replication')
local function field(name)
    return string.match(info, '\n' .. name .. ':([^\r\n]*)') or ''
end
return {redis.call('GET', KEYS[1]), field('role'), field('master_replid2'), redis.pcall('TIME')}
