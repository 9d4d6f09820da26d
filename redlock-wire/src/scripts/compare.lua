-- Reads the stamp, the replication and the clock of a server. The first two show whether it may have lost locks since the
-- last look.
-- KEYS: the stamp. ARGV: 1 to read the clock, else 0.
-- Returns {stamp, role, master_replid2, time}. The time is an error if it must not be read.
local info = redis.call('INFO', 'replication')
local function field(name)
    return string.match(info, '\n' .. name .. ':([^\r\n]*)') or ''
end
return {redis.call('GET', KEYS[1]), field('role'), field('master_replid2'), ARGV[1] == '1' and redis.pcall('TIME')}
