-- One request of one key, counted by the generic cell rate algorithm (keepwarm's policy::gcra).
--
-- KEYS[1]  the key: one integer, the theoretical arrival time (TAT) in microseconds since the epoch; gone when nothing is owed
-- ARGV[1]  interval: microseconds that one request costs
-- ARGV[2]  tolerance: microseconds that the TAT may be ahead of now
--
-- Answers {1, ahead} when the request is admitted, and {0, ahead} when it is refused; `ahead` is how many microseconds the TAT is ahead of now.
-- The clock is the server's, so that hosts need not agree on the time. Every number is whole and below 2^53, to which Lua's are exact.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, tolerance = tonumber(ARGV[1]), tonumber(ARGV[2])
local ahead = (tonumber(redis.call('GET', KEYS[1]) or 0) or 0) - now
-- Nothing is owed; or more than could be, and then the clock was set back or the limit was changed.
ahead = math.min(math.max(ahead, 0), tolerance + interval)
if ahead > tolerance then
    return {0, ahead}
end
ahead = ahead + interval
redis.call('SET', KEYS[1], string.format('%.0f', now + ahead), 'PX', math.ceil(ahead / 1000))
return {1, ahead}
