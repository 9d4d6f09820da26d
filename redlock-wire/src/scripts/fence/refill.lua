-- If no counter is greater than the fencing token, sets the absent keys to the token, and every counter to the fencing
-- token. Returns 1: granted. The greater counter as text: superseded.
local rejection = too_far_ahead(math.max(counter, ARGV[4]))
if rejection then return rejection end
if counter > tonumber(ARGV[4]) then return string.format('%.0f', counter) end
set_absent_keys()
set_counters(ARGV[4])
return 1
