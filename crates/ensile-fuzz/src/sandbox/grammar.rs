//! Scripts out of bytes: a grammar of Lua with the functions of the sandbox, of Lua and of redis, and pieces of any
//! text.
//!
//! Neighbours: the target `sandbox` runs the scripts, and asks for the same names behind them.

use crate::input::Input;

/// Functions of the sandbox, and functions of Lua and redis that no script may have.
pub(super) const FUNCTIONS: &[&str] = &[
    "error",
    "assert",
    "getmetatable",
    "ipairs",
    "next",
    "pairs",
    "pcall",
    "rawequal",
    "rawget",
    "rawset",
    "select",
    "setmetatable",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    "xpcall",
    "loadstring",
    "load",
    "string.byte",
    "string.char",
    "string.find",
    "string.format",
    "string.gmatch",
    "string.gsub",
    "string.len",
    "string.lower",
    "string.match",
    "string.rep",
    "string.reverse",
    "string.sub",
    "string.upper",
    "string.gfind",
    "table.concat",
    "table.insert",
    "table.maxn",
    "table.remove",
    "table.sort",
    "table.foreach",
    "table.getn",
    "math.abs",
    "math.floor",
    "math.fmod",
    "math.frexp",
    "math.huge",
    "math.ldexp",
    "math.max",
    "math.min",
    "math.pow",
    "math.random",
    "math.randomseed",
    "math.sqrt",
    "coroutine.create",
    "coroutine.resume",
    "coroutine.wrap",
    "coroutine.yield",
    "coroutine.status",
    "coroutine.running",
    "cjson.encode",
    "cjson.decode",
    "cmsgpack.pack",
    "cmsgpack.unpack",
    "cmsgpack.unpack_limit",
    "cmsgpack.unpack_one",
    "bit.tobit",
    "bit.bnot",
    "bit.band",
    "bit.lshift",
    "bit.tohex",
    "bit.bswap",
    "redis.error_reply",
    "redis.status_reply",
    "redis.sha1hex",
    "redis.setresp",
    "redis.replicate_commands",
    "redis.set_repl",
    "os.clock",
    "struct.pack",
    "io.open",
    "io",
    "os.execute",
    "os.exit",
    "os.getenv",
    "debug",
    "debug.getinfo",
    "debug.sethook",
    "dofile",
    "loadfile",
    "require",
    "package",
    "package.loadlib",
    "module",
    "collectgarbage",
    "newproxy",
    "getfenv",
    "setfenv",
    "string.dump",
    "print",
    "gcinfo",
    "jit",
    "ffi",
    "redis.acl_check_cmd",
    "redis.breakpoint",
];
/// Functions whose addresses are of a run, so that they are called and not compared.
const CALLS: &[&str] = &["redis.call", "redis.pcall"];
/// Names of globals that scripts try to make, and other values.
pub(super) const GLOBALS: &[&str] = &[
    "a",
    "b",
    "c",
    "leak",
    "_G.leak",
    "string.leak",
    "redis.leak",
    "_VERSION",
    "math.pi",
    "cjson.null",
    "_G",
    "arg",
];
const COMMANDS: &[&str] = &[
    "'GET','s'",
    "'SET','s','x'",
    "'RPUSH','l','1','2'",
    "'LRANGE','l','0','-1'",
    "'INCR','n'",
    "'HSET','h','f','v'",
    "'HGETALL','h'",
    "'ZADD','z','1.5','m'",
    "'ZRANGE','z','0','-1','WITHSCORES'",
    "'EVAL','return 1','0'",
    "'TIME'",
    "'KEYS','*'",
    "'DEL','s','l'",
    "'FLUSHALL'",
    "'PUBLISH','c','m'",
    "'SPOP','t'",
    "'SUBSCRIBE','c'",
    "'MULTI'",
    "'SELECT','3'",
    "'NONE'",
    "'BLPOP','l','0'",
    "'CONFIG','GET','*'",
    "'SCRIPT','KILL'",
    "'PING'",
    "a",
    "a, b",
    "",
];
const STRINGS: &[&str] = &[
    "''",
    "'a'",
    "'s'",
    "'text with \\0 zero'",
    "'%d'",
    "'%99.99f'",
    "'%s%s'",
    "'%q'",
    "'[a-c]'",
    "'%1'",
    "'()'",
    "'%b()'",
    "'%f[a]'",
    "'[1,{\"a\":null}]'",
    "'\\146\\1\\129\\161a\\192'",
    "'\\27Lua'",
    "'return 1'",
    "'leak = 1'",
    "'while true do end'",
    "'__index'",
    "'__gc'",
    "'__metatable'",
    "'err'",
    "'ok'",
    "'map'",
    "'[' .. ('['):rep(300)",
    "('x'):rep(1000)",
    "'k'",
    "'v'",
    "'1'",
    "'0x7f'",
    "' 12 '",
];
const NUMBERS: &[&str] = &[
    "0", "1", "-1", "2", "3", "7", "255", "256", "1000", "99999", "2^31", "-2^31", "2^53", "1e300", "1/0",
    "-1/0", "0/0", "1.5", "7999", "8000",
];
const OPERATORS: &[&str] = &["+", "-", "*", "/", "%", "^", "..", "==", "~=", "<", "<=", "and", "or"];
/// Statements that reach for more than their run.
const REACHES: &[&str] = &[
    "leak = 1",
    "_G.leak = 1",
    "rawset(_G, 'leak', 1)",
    "string.leak = 1",
    "rawset(string, 'leak', 1)",
    "rawset(redis, 'leak', 1)",
    "setmetatable(_G, {})",
    "setmetatable(string, nil)",
    "getmetatable('').__index = nil",
    "getmetatable(_G).__index.leak = 1",
    "rawset(getmetatable(''), 'leak', 1)",
    "string.format = nil",
    "KEYS[1] = 'leak' ARGV = nil",
    "for name, value in pairs(_G) do a = value end",
    "for name, value in pairs(string) do a = value end",
    "a = select(2, pcall(error))",
    "a = select(2, pcall(redis.call, 'NONE'))",
    "a = select(2, pcall(string.rep))",
    "a = coroutine.running()",
    "a = setmetatable({}, {__index = function(t, k) return t[k .. k] end, __newindex = _G}) b = a.k",
    "a = setmetatable({}, {__call = error, __tostring = error, __concat = error, __eq = error, __lt = error}) b = a()",
    "a = setmetatable({}, {__gc = error, __mode = 'kv'})",
    "a = function() return a() end b = a()",
    "a = function() return 1 + a() end b = a()",
    "a = 'x' while true do a = a .. a end",
    "a = {} while true do a = {a} end",
    "a = {} while true do a[#a + 1] = {} end",
    "a = {} a[1] = a return a",
    "a = {} a.a = a return cjson.encode(a)",
    "a = {} a.a = a return cmsgpack.pack(a)",
    "while true do pcall(error) end",
    "while true do coroutine.wrap(function() end)() end",
    "a = coroutine.wrap(function() a() end) a()",
    "a = coroutine.create(function() coroutine.resume(a) end) coroutine.resume(a)",
    "a = function() coroutine.wrap(a)() end a()",
    "a = function() pcall(a) end a()",
    "a = function() string.gsub('x', 'x', a) end a()",
    "a = function() table.sort({3, 2, 1}, a) end a()",
    "a = function() loadstring('a()')() end a()",
    "a = function() xpcall(a, a) end a()",
    "xpcall(error, function() error() end)",
    "table.sort({3, 1, 2, 5, 4}, function() return true end)",
    "table.sort({1, 'a', {}})",
    "coroutine.yield(1)",
    "return coroutine.wrap(function() return redis.call('SET', 's', coroutine.yield()) end)",
    "a = loadstring('leak = 1') if a then a() end",
    "a = load(function() return b end) if a then a() end",
    "for i = 1, 300 do redis.call('RPUSH', 'l', i) end",
    "return unpack({}, 1, 7999)",
    "return string.byte(('x'):rep(100000), 1, -1)",
    "return string.char(string.byte(('x'):rep(5000), 1, -1))",
    "return select('#', unpack({}, 1, 7000))",
    "return {string.format(('%d'):rep(90), unpack({}, 1, 90))}",
    "return string.format('%99.99f', 1e300)",
    "return table.concat({}, ',', 1, 2^30)",
    "return tonumber('z', 36) + tonumber(('9'):rep(400)) + tonumber('1', 1)",
    "os.clock = 1 os.exit()",
];

/// Largest number of nested parts.
const LEVELS_MAX: usize = 6;
/// Length of a script in bytes after which no further statement begins.
const BYTES_MAX: usize = 6000;

struct Writer<'w, 'i> {
    input: &'w mut Input<'i>,
    text: Vec<u8>,
}

/// The next script. `a`, `b` and `c` are local, unless the first byte says else.
pub(super) fn script(input: &mut Input<'_>) -> Vec<u8> {
    let first = input.byte();
    if first >= 0xf0 {
        let count = 16 * input.choice(64);
        return input.bytes(count).to_vec();
    }
    let mut writer = Writer { input, text: Vec::new() };
    if first % 8 != 7 {
        writer.add("local a, b, c = {}, 'x', 1\n");
    }
    writer.block(0, 1 + usize::from(first % 6));
    writer.text
}

impl Writer<'_, '_> {
    fn add(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    fn one_of(&mut self, list: &[&str]) {
        let at = self.input.choice(list.len());
        self.add(list[at]);
    }

    fn block(&mut self, level: usize, statements: usize) {
        for _ in 0..statements {
            if self.text.len() > BYTES_MAX || self.input.is_empty() {
                return;
            }
            let is_protected = level == 0 && self.input.byte() & 3 != 0;
            self.add(if is_protected { "pcall(function(...) " } else { "" });
            self.statement(level);
            self.add(if is_protected { "end)\n" } else { "" });
        }
    }

    fn part(&mut self, level: usize, before: &str, behind: &str) {
        self.add(before);
        let statements = self.input.choice(3);
        self.block(level + 1, statements);
        self.add(behind);
    }

    fn statement(&mut self, level: usize) {
        let choice = self.input.byte();
        if level >= LEVELS_MAX {
            return self.add("a = b\n");
        }
        match choice % 20 {
            0..4 => {
                self.add(["a = ", "b = ", "c = ", "local d = "][usize::from(choice >> 5) % 4]);
                self.value(level + 1);
            }
            4 => {
                self.add("a[");
                self.value(level + 1);
                self.add("] = ");
                self.value(level + 1);
            }
            5..8 => {
                self.add("do ");
                self.one_of(REACHES);
                self.add(" end");
            }
            8 => {
                self.add("if ");
                self.value(level + 1);
                self.part(level, " then ", " end");
            }
            9 => self.part(level, "for i = 1, 20 do ", " end"),
            10 => {
                self.add("for k, v in pairs(");
                self.value(level + 1);
                self.part(level, ") do a = k ", " end");
            }
            11 => {
                self.add("do return ");
                self.value(level + 1);
                self.add(" end");
            }
            12 => self.part(level, "pcall(function(...) ", " end)"),
            13 => self.part(level, "a = coroutine.wrap(function(...) b = ... ", " end) a(1)"),
            14 => {
                self.add("error(");
                self.value(level + 1);
                self.add(")");
            }
            15 => {
                self.add("while ");
                self.value(level + 1);
                self.part(level, " do ", " if c == b then break end end");
            }
            16 if choice >= 200 => {
                let count = self.input.choice(24);
                let piece = self.input.bytes(count).to_vec();
                self.text.extend_from_slice(&piece);
            }
            _ => {
                self.add("b = ");
                self.call(level + 1);
            }
        }
        self.add("\n");
    }

    fn call(&mut self, level: usize) {
        let choice = self.input.byte();
        if choice.is_multiple_of(4) {
            self.one_of(CALLS);
            self.add("(");
            self.one_of(COMMANDS);
            return self.add(")");
        }
        match choice % 16 {
            1 => self.add("(a or error)"),
            _ => self.one_of(FUNCTIONS),
        }
        self.add("(");
        for number in 0..usize::from(choice >> 4) % 4 {
            self.add(if number == 0 { "" } else { ", " });
            self.value(level + 1);
        }
        self.add(")");
    }

    fn value(&mut self, level: usize) {
        let choice = self.input.byte();
        if level >= LEVELS_MAX {
            return self.add("a");
        }
        match choice % 20 {
            0..3 => self.add(["a", "b", "c", "..."][usize::from(choice >> 5) % 4]),
            3 => self.add(["nil", "true", "false", "_G"][usize::from(choice >> 5) % 4]),
            4..7 => self.one_of(STRINGS),
            7..10 => self.one_of(NUMBERS),
            10 | 11 => self.one_of(FUNCTIONS),
            12 => {
                self.add("{");
                self.value(level + 1);
                self.add(", k = ");
                self.value(level + 1);
                self.add("}");
            }
            13 => {
                self.add("(");
                self.value(level + 1);
                self.add(" ");
                self.one_of(OPERATORS);
                self.add(" ");
                self.value(level + 1);
                self.add(")");
            }
            14 => self.part(level, "function(...) ", " return ... end"),
            15 => {
                self.add("(a)[");
                self.value(level + 1);
                self.add("]");
            }
            16 => self.add(["#a", "-c", "not b", "#_G"][usize::from(choice >> 5) % 4]),
            17 => self.one_of(GLOBALS),
            _ => self.call(level + 1),
        }
    }
}
