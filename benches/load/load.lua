-- What wrk sends. Everything comes from the environment:
--   METHOD   GET or PUT             PREFIX  of the path, /small/ or /large/
--   KEYS     distinct paths         BODY    bytes of a PUT
--   TOKEN    Fencing-Token of a PUT
--   RAISE=1  keys in turn, and each turn a token higher than the last one: every request is a raise
--   FILL     keys in turn; after so many requests it stops
--   FIRST, STRIDE  "in turn" begins there and goes on by so many; a stride without a factor in common
--            with KEYS visits every key once a turn, in an order that no cache is prepared for
--   SEED     without FILL and RAISE keys are random, and those of two runs differ by it
--   OUT      file for the result: one JSON line
local function number(name, default) return tonumber(os.getenv(name) or "") or default end
local method, prefix = os.getenv("METHOD") or "PUT", os.getenv("PREFIX") or "/small/"
local keys, body, token = number("KEYS", 1), number("BODY", 1024), number("TOKEN", 1)
local raise, fill, stride = number("RAISE", 0) == 1, number("FILL", 0), number("STRIDE", 1)
math.randomseed(number("SEED", 1))
local beyond = 512 -- requests sent after the last key of a fill, so that none of them is left unanswered
local ffi = require "ffi"
ffi.cdef "int kill(int, int); int getpid(void);"

local is_put = method == "PUT"
local payload = is_put and string.rep("x", body) or ""
local fields = " HTTP/1.1\r\nHost: load.test\r\n"
if is_put then fields = fields .. "Content-Length: " .. body .. "\r\nFencing-Token: " end

local function make(key, with)
  local head = method .. " " .. prefix .. string.format("%07d", key) .. fields
  if is_put then head = head .. string.format("%d", with) .. "\r\n" end
  return head .. "\r\n" .. payload
end

local only = keys == 1 and not raise and fill == 0 and make(0, token)
local sent, key, turn = 0, number("FIRST", 0), 0

function request()
  if only then return only end
  if not raise and fill == 0 then return make(math.random(0, keys - 1), token) end
  sent = sent + 1
  if sent == fill + beyond and fill > 0 then ffi.C.kill(ffi.C.getpid(), 2) end -- wrk ends early on SIGINT only
  local made = make(key, token + turn)
  key = (key + stride) % keys
  if raise and sent % keys == 0 then turn = turn + 1 end
  return made
end

function done(summary, latency)
  local e = summary.errors
  local file = io.open(os.getenv("OUT"), "w")
  file:write(string.format(
    '{"requests":%d,"wall_s":%.6f,"p50_us":%.0f,"p99_us":%.0f,"not_2xx_3xx":%d,"socket_errors":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50), latency:percentile(99),
    e.status, e.connect + e.read + e.write + e.timeout))
  file:close()
end
