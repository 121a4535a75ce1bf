-- The globals of scripts. The chunk gets a table with functions and libraries of the server, takes the globals of the
-- state away, and returns the function that runs a script.
--
-- Each run has a new table of globals, so nothing that a script writes reaches another run. A script sees each library
-- through an empty table that no function writes. Errors of the server's functions are userdata until they are caught:
-- every function that catches errors gives them to `server.caught`, which raises the end of a run again.
local server = ...
local error, getmetatable, pairs, pcall, rawget, rawset, setfenv, setmetatable, tostring, type, xpcall =
  error, getmetatable, pairs, pcall, rawget, rawset, setfenv, setmetatable, tostring, type, xpcall
local loadstring, string_byte, sub, concat, resume = loadstring, string.byte, string.sub, table.concat, coroutine.resume
local select = select

local unpack, tonumber, insert = unpack, tonumber, table.insert

-- Largest number of results of `unpack`. Lua itself checks a number that can overflow.
local UNPACKED_MAX = 8000
-- Longest pattern in bytes: a match calls itself once for each item of its pattern.
local PATTERN_BYTES_MAX = 1024

-- Globals of the run.
local globals
-- Tables through which scripts see libraries.
local shown_libraries = {}

local function caught(is_done, ...)
  if is_done then return true, ... end
  return false, server.caught((...))
end

-- Replaces an error of a command by its text, as redis does.
local function with_text(is_done, ...)
  if not is_done then
    local why = ...
    if type(why) == 'table' and type(rawget(why, 'err')) == 'string' then return false, rawget(why, 'err') end
  end
  return is_done, ...
end

local function check_pattern(pattern)
  if type(pattern) == 'string' and #pattern > PATTERN_BYTES_MAX then
    error('pattern too long: a pattern has ' .. PATTERN_BYTES_MAX .. ' bytes at most', 3)
  end
end

-- Each resumed coroutine counts its own instructions, so a resumption looks at the limits itself.
local create, look = coroutine.create, server.look
local function resumed(...)
  look()
  return caught(resume(...))
end
local function results_of_wrap(is_done, ...)
  if is_done then return ... end
  local why = ...
  -- Both calls before are tail calls, which count as levels.
  error(why, type(why) == 'string' and 3 or 0)
end
local function wrapped(run)
  local coroutine = create(run)
  return function(...) return results_of_wrap(resumed(coroutine, ...)) end
end

local find, match, gmatch, gsub = string.find, string.match, string.gmatch, string.gsub
function string.find(text, pattern, from, is_plain)
  if not is_plain then check_pattern(pattern) end
  return find(text, pattern, from, is_plain)
end
function string.match(text, pattern, from)
  check_pattern(pattern)
  return match(text, pattern, from)
end
function string.gmatch(text, pattern)
  check_pattern(pattern)
  return gmatch(text, pattern)
end
function string.gsub(text, pattern, ...)
  check_pattern(pattern)
  return gsub(text, pattern, ...)
end
string.rep, string.gfind, string.dump = server.rep, string.gmatch, nil
math.random, math.randomseed = server.random, server.randomseed

-- Lua moves every element from a position on, also from a position far below the first.
function table.insert(list, ...)
  if shown_libraries[list] then error('Attempt to modify a readonly table', 0) end
  local position = ...
  if type(position) == 'number' and position < 1 and select('#', ...) == 2 then
    error("bad argument #2 to 'insert' (position out of bounds)", 2)
  end
  return insert(list, ...)
end

local libraries = server.libraries
libraries.string, libraries.table, libraries.math, libraries.os = string, table, math, { clock = os.clock }
libraries.coroutine = {
  create = coroutine.create, status = coroutine.status, running = coroutine.running, yield = coroutine.yield,
  wrap = wrapped, resume = resumed,
}

-- Functions without a library.
local base = {
  _VERSION = _VERSION, assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next,
  pairs = pairs, rawequal = rawequal, rawget = rawget, select = select, setmetatable = setmetatable,
  tonumber = tonumber, tostring = tostring, type = type,
}
function base.unpack(list, from, to)
  if type(list) ~= 'table' then
    error("bad argument #1 to 'unpack' (table expected, got " .. (list == nil and 'nil' or type(list)) .. ')', 2)
  end
  from, to = tonumber(from == nil and 1 or from), tonumber(to == nil and #list or to)
  if not from or not to then error("bad argument to 'unpack' (number expected)", 2) end
  if from > to then return end
  if not (from > -2 ^ 31 and to < 2 ^ 31 - 1 and to - from < UNPACKED_MAX) then
    error('too many results to unpack', 2)
  end
  return unpack(list, from, to)
end
function base.rawset(table, name, value)
  if table == globals or shown_libraries[table] then error('Attempt to modify a readonly table', 0) end
  return rawset(table, name, value)
end
function base.pcall(...) return with_text(caught(pcall(...))) end
function base.xpcall(run, handler)
  return caught(xpcall(run, function(why) return handler(server.caught(why)) end))
end
function base.loadstring(text, name)
  if type(text) ~= 'string' then error("bad argument #1 to 'loadstring' (string expected)", 2) end
  if string_byte(text, 1) == 27 then return nil, 'compiled chunks are not loaded' end
  -- Lua keeps a name up to its first zero byte only, and frees a name that is not the argument itself.
  name = type(name) == 'string' and name or text
  local zero = find(name, '\0', 1, true)
  if zero then name = sub(name, 1, zero - 1) end
  local loaded, why = loadstring(text, name)
  if loaded then setfenv(loaded, globals) end
  return loaded, why
end
function base.load(next_part, name)
  if type(next_part) ~= 'function' then error("bad argument #1 to 'load' (function expected)", 2) end
  local parts = {}
  while true do
    local part = next_part()
    if part == nil or part == '' then break end
    if type(part) ~= 'string' then error('reader function must return a string', 2) end
    parts[#parts + 1] = part
  end
  return base.loadstring(concat(parts), name or '=(load)')
end

local redis = libraries.redis
local function second(_, value) return value end
function redis.pcall(...) return second(caught(pcall(redis.call, ...))) end

local function refuse_write() error('Attempt to modify a readonly table', 2) end
for name, library in pairs(libraries) do
  local shown = setmetatable({}, { __index = library, __newindex = refuse_write, __metatable = false })
  shown_libraries[shown], base[name] = true, shown
end
setmetatable(base, {
  __index = function(_, name)
    if name == '_G' then return globals end
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})
local globals_metatable = { __index = base, __newindex = refuse_write, __metatable = false }
getmetatable('').__metatable = false

local all = _G
for name in pairs(all) do all[name] = nil end

local note_line = server.note_line
local function ended(...)
  redis.call, globals = nil, nil
  return ...
end
-- The function that calls commands belongs to the run, and a script calls it without a function of the sandbox between:
-- Lua would have lost the line of a tail call.
return function(script, call_of_run, keys, arguments)
  redis.call = call_of_run
  globals = setmetatable({ KEYS = keys, ARGV = arguments }, globals_metatable)
  setfenv(script, globals)
  return ended(xpcall(script, note_line))
end
