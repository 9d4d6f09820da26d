-- Looks at the stamp of a server, and renews it if it does not belong to the server as it is now.
-- KEYS: the stamp. ARGV: the longest TTL in milliseconds; 1 to vouch for the data, else 0.
-- Returns {why, age, longest TTL, stamp}; times in milliseconds. Why: 0 if the stamp belongs to the server, 1 if it was
-- missing, 2 if the server was restarted, 3 if it was promoted, 4 if its clock was set back.
-- {-1}: the server is a replica. {-2}: the stamp of a later version.
local function field(section, name)
    return string.match(redis.call('INFO', section), '\n' .. name .. ':([^\r\n]*)')
end
if field('replication', 'role') ~= 'master' then return {-1} end
local run, past = field('server', 'run_id'), field('replication', 'master_replid2')
local now = math.floor(tonumber(field('server', 'server_time_usec')) / 1000)
local stamp = redis.pcall('GET', KEYS[1])
if type(stamp) == 'table' then return stamp end
stamp = stamp or ''
local version = string.match(stamp, '^(%d+) ')
if version and version ~= '1' then return {-2} end
local run2, past2, since, longest = string.match(stamp, '^1 (%w+) (%w+) (%d+) (%d+)$')
since, longest = tonumber(since or 0), math.max(tonumber(ARGV[1]), tonumber(longest or 0))
local why = 0
if not run2 then
    why = 1
elseif run2 ~= run then
    why = 2
elseif past2 ~= past and string.find(past, '[^0]') then
    -- Zeros mean: never promoted, or so long ago that the server has forgotten it.
    why = 3
elseif since > now then
    why = 4
end
if why ~= 0 then since, past2 = now, past end
if ARGV[2] == '1' then since, why = 0, 0 end
local text = string.format('1 %s %s %.0f %.0f', run, past2, since, longest)
if text ~= stamp then redis.call('SET', KEYS[1], text) end
return {why, now - since, longest, text}
