-- Requires that all keys hold the token and no counter is greater than the fencing token. Then makes every TTL at least
-- the given one, and sets every counter to the fencing token.
-- Returns 1: confirmed. 0: a key is gone. The greater counter as text: superseded.
if #absent > 0 then return 0 end
local rejection = too_far_ahead(math.max(counter, ARGV[4]))
if rejection then return rejection end
if counter > tonumber(ARGV[4]) then return string.format('%.0f', counter) end
for _, key in ipairs(too_short) do redis.call('PEXPIRE', key, ARGV[2]) end
set_counters(ARGV[4])
return 1
