-- Reads the stamp of a server, and renews the stamp if it does not belong to the present run of the server.
-- KEYS: the stamp. ARGV: the longest TTL in milliseconds; 1 to vouch for the data, else 0; the time of this server at which
-- a jump of its clock was noticed, else 0.
-- Returns {cause, age, longest TTL, stamp}; times in milliseconds. Cause: 0 if the stamp belongs to the server, 1 if it
-- was missing, 2 if the server was restarted, 3 if it was promoted, 4 if its clock was set back, 5 if it has jumped since.
-- {-1}: the server is a replica. {-2}: the stamp of a later version.
local function field(info, name)
    return string.match(info, '\n' .. name .. ':([^\r\n]*)')
end
local replication, server = redis.call('INFO', 'replication'), redis.call('INFO', 'server')
if field(replication, 'role') ~= 'master' then return {-1} end
local run_id, replid2 = field(server, 'run_id'), field(replication, 'master_replid2')
local now = math.floor(tonumber(field(server, 'server_time_usec')) / 1000)
local stamp = redis.pcall('GET', KEYS[1])
if type(stamp) == 'table' then return stamp end
stamp = stamp or ''
local version = string.match(stamp, '^(%d+) ')
if version and version ~= '1' then return {-2} end
local stamped_run_id, stamped_replid2, since, longest = string.match(stamp, '^1 (%w+) (%w+) (%d+) (%d+)$')
since, longest = tonumber(since or 0), math.max(tonumber(ARGV[1]), tonumber(longest or 0))
local cause = 0
if not stamped_run_id then
    cause = 1
elseif stamped_run_id ~= run_id then
    cause = 2
elseif stamped_replid2 ~= replid2 and string.find(replid2, '[^0]') then
    -- Zeros mean that the server was never promoted, or has forgotten its promotion.
    cause = 3
elseif since > now then
    cause = 4
elseif since < tonumber(ARGV[3]) then
    cause = 5
end
if cause ~= 0 then since, stamped_replid2 = now, replid2 end
if ARGV[2] == '1' then since, cause = 0, 0 end
local renewed = string.format('1 %s %s %.0f %.0f', run_id, stamped_replid2, since, longest)
if renewed ~= stamp then redis.call('SET', KEYS[1], renewed) end
return {cause, now - since, longest, renewed}
