//! Scripts: values and replies, transactions, limits, the sandbox.

use ensile_net::simulation::ClientId;

use super::rig::{Rig, shown};

impl Rig {
    /// Runs a script, and returns the reply as a line.
    fn eval_as(&mut self, client: ClientId, script: &str, keys_and_arguments: &[&str]) -> String {
        let mut words: Vec<&[u8]> = vec![b"EVAL", script.as_bytes()];
        if keys_and_arguments.is_empty() {
            words.push(b"0");
        }
        words.extend(keys_and_arguments.iter().map(|word| word.as_bytes()));
        shown(&self.ask_bytes(client, &words))
    }

    fn eval(&mut self, script: &str) -> String {
        self.eval_as(self.client, script, &[])
    }

    /// Runs scripts, and compares the beginnings of the replies.
    fn eval_each(&mut self, cases: &[(&str, &str)]) {
        for (script, expected) in cases {
            let reply = self.eval(script);
            assert!(reply.starts_with(expected), "{script}\n got {reply}\nnot {expected}");
        }
    }
}

#[test]
fn values_become_replies_by_redis_rules() {
    let mut rig = Rig::new();
    rig.eval_each(&[
        ("return 1.99", ":1"),
        ("return -1.99", ":-1"),
        ("return 1e30", ":-9223372036854775808"),
        ("return 'text'", "$4 text"),
        ("return true", ":1"),
        ("return false", "$-1"),
        ("return", "$-1"),
        ("return {1,2,nil,4}", "*2 :1 :2"),
        ("return {1.5,'x',true,false,{ok='a'},{{2}}}", "*6 :1 $1 x :1 $-1 +a *1 *1 :2"),
        ("return redis.status_reply('FINE')", "+FINE"),
        ("return redis.error_reply('FOO')", "-ERR FOO"),
        ("return redis.error_reply('-My text')", "-My text"),
        ("return {err='FOO'}", "-FOO"),
        ("return {double=3.1}", "$18 3.1000000000000001"),
        ("return {map={a=1}}", "*2 $1 a :1"),
        ("return redis.call('PING')", "+PONG"),
        ("return redis.call('GET','none')", "$-1"),
        (
            "return type(redis.call('SET','a','1'))..redis.call('INCR','a')..type(redis.call('GET','none'))",
            "$13 table2boolean",
        ),
        ("return tostring(redis.call('SET','a','1').ok)", "$2 OK"),
        ("return redis.sha1hex('a')", "$40 86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
    ]);
    rig.play("HELLO 3 | %7 ..");
    rig.eval_each(&[
        ("return redis.call('GET','none')", "_"),
        ("redis.setresp(3) return tostring(redis.call('GET','none'))", "$3 nil"),
        ("redis.setresp(3) return true", "#t"),
        ("return {map={a=1}}", "%1 $1 a :1"),
        ("return {set={x=true}}", "~1 $1 x"),
    ]);
}

#[test]
fn errors_have_redis_words_and_the_line() {
    let mut rig = Rig::new();
    rig.play("SET text x | +OK");
    let place = |hash: &str, line: u32| format!(" script: {hash}, on @user_script:{line}.");
    assert_eq!(
        rig.eval("error('boom')"),
        format!("-ERR user_script:1: boom{}", place("82903a0434f1503e152f89c03c9acd881a0e8150", 1))
    );
    rig.eval_each(&[
        ("\n\nerror('boom')", "-ERR user_script:3: boom script: "),
        (
            "error({err='MY text'})",
            "-MY text script: 33782b23ec0b77dd0c89e0620280f87fd6c4c0e8, on @user_script:1.",
        ),
        ("return redis.call('INCR','text')", "-ERR value is not an integer or out of range script: "),
        ("return redis.call('INCR')", "-ERR Wrong number of args calling Redis command from script script: "),
        ("return redis.call('NONE')", "-ERR Unknown Redis command called from script script: "),
        ("return redis.call()", "-ERR Please specify at least one argument for this redis lib call script: "),
        (
            "return redis.call({})",
            "-ERR Lua redis lib command arguments must be strings or integers script: ",
        ),
        ("return redis.call('EVAL','x',0)", "-ERR This Redis command is not allowed from script script: "),
        ("return redis.call('MULTI')", "-ERR This Redis command is not allowed from script script: "),
        (
            "return redis.call('GETBIT','a',1)",
            "-ERR GETBIT is not available in this version of ensile script: ",
        ),
        ("return redis.pcall('INCR','text')", "-ERR value is not an integer or out of range"),
        ("return redis.pcall('INCR','text').err", "$43 ERR value is not an integer or out of range"),
        ("local ok, why = pcall(redis.call, 'INCR', 'text') return why", "$43 ERR value is not an integer"),
        (
            "return x",
            "-ERR user_script:1: Script attempted to access nonexistent global variable 'x' script: ",
        ),
        ("x = 1", "-ERR user_script:1: Attempt to modify a readonly table script: "),
        ("string.x = 1", "-ERR user_script:1: Attempt to modify a readonly table script: "),
        ("x x", "-ERR Error compiling script (new function): user_script:1: '=' expected near 'x'"),
        ("return cjson.decode('x')", "-ERR user_script:1: Expected value but found invalid token"),
        (
            "return string.rep()",
            "-ERR user_script:1: bad argument #1 to 'rep' (string expected, got no value)",
        ),
        ("return {redis.error_reply('x y'), 1}", "*2 -x y :1"),
        ("#!lua flags=xx\nreturn 1", "-ERR Unexpected flag in script shebang: xx"),
        (
            "#!lua flags=no-writes\nreturn redis.call('SET','a','b')",
            "-ERR Write commands are not allowed from read-only scripts. script: ",
        ),
    ]);
    rig.play(
        "EVAL return a | -ERR value is not an integer or out of range
         EVAL return -1 | -ERR Number of keys can't be negative
         EVAL return 1 | -ERR Number of keys can't be greater than number of args
         EVALSHA abc 0 | -NOSCRIPT No matching script. Please use EVAL.
         FCALL f 0 | -ERR Function not found",
    );
}

#[test]
fn q5_a_script_that_raises_an_error_has_no_effect() {
    let mut rig = Rig::new();
    rig.eval_each(&[
        ("redis.call('SET','a','1') error('no')", "-ERR user_script:1: no"),
        ("redis.call('SET','a','1') return redis.call('INCR','b','c')", "-ERR Wrong number"),
        ("redis.call('SET','b','1') return redis.error_reply('its effect stays')", "-its effect stays"),
        ("redis.call('SET','c','1') pcall(redis.call, 'INCR', 'a', 'b') return 'caught'", "$6 caught"),
    ]);
    assert_eq!(rig.ask(rig.client, "MGET a b c"), "*3 $-1 $1 1 $1 1", "Q5: a raised script has no effect");
}

#[test]
fn a_script_in_a_queue_is_a_part_of_the_queue() {
    let mut rig = Rig::new();
    let queued = |rig: &mut Rig, script: &str| {
        rig.play("MULTI | +OK\n SET before 1 | +QUEUED");
        assert_eq!(rig.eval(script), "+QUEUED");
        rig.play("INCR after | +QUEUED");
        rig.ask(rig.client, "EXEC")
    };
    assert_eq!(queued(&mut rig, "return redis.call('GET','before')"), "*3 +OK $1 1 :1");
    assert!(
        queued(&mut rig, "error('no')").starts_with("*3 +OK -ERR user_script:1: no"),
        "nothing was written"
    );
    rig.play("GET after | $1 2");
    let reply = queued(&mut rig, "redis.call('SET','before','2') error('no')");
    assert!(
        reply.starts_with("-EXECABORT Transaction rolled back because a script failed after a write"),
        "{reply}"
    );
    rig.play("MGET before after | *2 $1 1 $1 2");
}

#[test]
fn a_script_of_a_watch_loses_to_a_change() {
    let mut rig = Rig::new();
    let other = rig.connect();
    rig.play("SET a 1 | +OK\n WATCH a | +OK\n MULTI | +OK");
    rig.eval("return redis.call('SET','b','1')");
    rig.play_as(other, "SET a 2 | +OK");
    rig.play("EXEC | *-1\n GET b | $-1");
}

#[test]
fn a_message_of_a_script_is_sent_if_the_script_has_its_effect() {
    let mut rig = Rig::new();
    let listener = rig.connect();
    rig.play_as(listener, "SUBSCRIBE c | *3 $9 subscribe $1 c :1");
    rig.eval_each(&[
        ("redis.call('PUBLISH', 'c', 'raised') error('no')", "-ERR user_script:1: no"),
        ("return redis.call('PUBLISH', 'c', 'sent')", ":1"),
    ]);
    rig.steps(3);
    let message = rig.received(listener).expect("a message");
    assert_eq!(shown(&message), "*3 $7 message $1 c $4 sent");
    assert_eq!(rig.received(listener), None);
}

#[test]
fn the_time_of_a_script_stands_still() {
    let mut rig = Rig::new();
    rig.eval_each(&[
        ("local t = redis.call('TIME') for i = 1, 1000 do end return redis.call('TIME')[1] - t[1]", ":0"),
        ("redis.call('SET','a','1','PX',5) return redis.call('PTTL','a')", ":5"),
    ]);
}

#[test]
fn scripts_are_kept_by_their_hash() {
    let mut rig = Rig::new();
    let hash = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let load = |rig: &mut Rig| shown(&rig.ask_bytes(rig.client, &[b"SCRIPT", b"LOAD", b"return 1"]));
    assert_eq!(load(&mut rig), format!("$40 {hash}"));
    rig.play(&format!(
        "EVALSHA {hash} 0 | :1
         EVALSHA {} 0 | :1
         SCRIPT EXISTS {hash} x | *2 :1 :0
         SCRIPT FLUSH x | -ERR SCRIPT FLUSH only support SYNC|ASYNC option
         SCRIPT FLUSH | +OK
         SCRIPT EXISTS {hash} | *1 :0
         EVALSHA {hash} 0 | -NOSCRIPT No matching script. Please use EVAL.
         SCRIPT KILL | -NOTBUSY No scripts in execution right now.
         FUNCTION LOAD x | -ERR FUNCTION LOAD is not available..",
        hash.to_ascii_uppercase()
    ));
    rig.eval("return 1");
    rig.play(&format!("EVALSHA {hash} 0 | :1\n EVALSHA_RO {hash} 0 | :1"));
}

#[test]
fn nothing_of_a_script_reaches_another_script() {
    let mut rig = Rig::new();
    rig.eval_each(&[
        ("rawset(redis, 'call', 1)", "-ERR Attempt to modify a readonly table"),
        ("rawset(string, 'len', 1)", "-ERR Attempt to modify a readonly table"),
        ("table.insert(redis, 7)", "-ERR Attempt to modify a readonly table"),
        ("return {type(redis.call), ('abc'):len(), redis[1] or 'none'}", "*3 $8 function :3 $4 none"),
        ("rawset(_G, 'a', 1)", "-ERR Attempt to modify a readonly table"),
        ("loadstring('y = 1')()", "-ERR [string \"y = 1\"]:1: Attempt to modify a readonly table"),
        ("return loadstring('return KEYS')() == KEYS", ":1"),
        ("getmetatable('').__index = nil", "-ERR user_script:1: attempt to index a boolean value"),
        ("setmetatable(_G, {})", "-ERR user_script:1: cannot change a protected metatable"),
        ("setmetatable(string, nil)", "-ERR user_script:1: cannot change a protected metatable"),
        ("return {math.random(1000), math.random(1000)}", "*2"),
    ]);
    let drawn = rig.eval("math.randomseed(7) return math.random(1000000)");
    rig.eval("math.randomseed(8) return math.random(1000000)");
    assert_eq!(rig.eval("math.randomseed(7) return math.random(1000000)"), drawn);
}

/// Scripts that would reach out of the sandbox, exhaust it, or break it. Each reply begins as stated, and the server
/// serves on.
const ATTACKS: &[(&str, &str)] = &[
    ("return io", "-ERR user_script:1: Script attempted to access nonexistent global variable 'io'"),
    ("return os.execute", "$-1"),
    ("return os.getenv", "$-1"),
    ("return debug", "-ERR user_script:1: Script attempted to access"),
    ("return require", "-ERR user_script:1: Script attempted to access"),
    ("return package", "-ERR user_script:1: Script attempted to access"),
    ("return dofile", "-ERR user_script:1: Script attempted to access"),
    ("return loadfile", "-ERR user_script:1: Script attempted to access"),
    ("return getfenv", "-ERR user_script:1: Script attempted to access"),
    ("return setfenv", "-ERR user_script:1: Script attempted to access"),
    ("return newproxy", "-ERR user_script:1: Script attempted to access"),
    ("return collectgarbage", "-ERR user_script:1: Script attempted to access"),
    ("return print", "-ERR user_script:1: Script attempted to access"),
    ("return string.dump", "$-1"),
    ("return select(2, loadstring('\\27Lua'))", "$30 compiled chunks are not loaded"),
    (
        "local i = 0 return select(2, load(function() i = i + 1 return ({'\\27', 'Lua'})[i] end))",
        "$30 compiled",
    ),
    ("local function f() return f() + 1 end return f()", "-ERR user_script:1: stack overflow"),
    ("local function f() return pcall(f) end return f()", ""),
    ("local s = 'x' while true do s = s .. s end", "-ERR the script needs more than"),
    (
        "local t = {} while true do t[#t + 1] = string.rep('x', 100000) .. #t end",
        "-ERR the script needs more than",
    ),
    (
        "while true do pcall(function() local s = 'x' while true do s = s .. s end end) end",
        "-ERR the script needs more",
    ),
    ("return string.rep('x', 1e10)", "-ERR user_script:1: the result of string.rep has"),
    ("return #string.rep('', 1e15)", ":0"),
    (
        "return (string.find(string.rep('a', 200000), string.rep('a?', 200000)))",
        "-ERR user_script:1: pattern too long",
    ),
    ("return (('x'):gsub(string.rep('(', 2000), ''))", "-ERR user_script:1: pattern too long"),
    ("local t = {} t[1] = t return t", "-ERR reached lua stack limit"),
    ("local t = {} t.x = t return cjson.encode(t)", "-ERR user_script:1: Cannot serialise , excessive depth"),
    ("return cjson.decode(string.rep('[', 100000))", "-ERR user_script:1: Expected value"),
    ("return cjson.decode('[1] 2')", "-ERR user_script:1: Expected value"),
    (
        "return cjson.encode({[1]=1,[1000000]=1})",
        "-ERR user_script:1: Cannot serialise table: excessively sparse",
    ),
    ("return cjson.encode(print)", "-ERR user_script:1: Script attempted to access"),
    ("return cjson.encode(type)", "-ERR user_script:1: Cannot serialise function"),
    ("return cmsgpack.unpack(string.rep('\\145', 100000))", "-ERR user_script:1: more than 100 levels"),
    ("return cmsgpack.unpack('\\221\\255\\255\\255\\255')", "-ERR user_script:1: Missing bytes in input."),
    ("return cmsgpack.unpack('\\219\\255\\255\\255\\255')", "-ERR user_script:1: Missing bytes in input."),
    ("return cmsgpack.unpack(string.rep('\\1', 100000))", "-ERR user_script:1: more than"),
    ("return unpack({}, 1, 1e8)", "-ERR too many results to unpack"),
    ("return unpack({}, -2147483648, 2147483647)", "-ERR too many results to unpack"),
    ("return unpack({}, 0/0, 1)", "-ERR too many results to unpack"),
    ("return {unpack({1, 2, 3}, 2)}", "*2 :2 :3"),
    ("table.insert({}, -2147483648, 1)", "-ERR user_script:1: bad argument #2 to 'insert'"),
    ("local t = {1} table.insert(t, 1, 2) table.insert(t, 3) return t", "*3 :2 :1 :3"),
    ("return loadstring('return 1', 'a\\0b')()", ":1"),
    ("return redis.call(unpack({}, 1, 7000))", "-ERR Lua redis lib command arguments must be"),
    ("local t = {} for i = 1, 20000 do t['k' .. i] = 'v' end return #cjson.encode(t)", ":"),
    ("local t = {} for i = 1, 20000 do t['k' .. i] = 'v' end return {map = t}", "*40000"),
    ("local t = {} for i = 1, 20000 do t[i] = 'v' end return #cmsgpack.pack(t)", ":"),
    ("error()", "-ERR nil"),
    ("error({})", "-ERR the script has raised a table without a field err"),
    ("error(setmetatable({}, {__tostring = error, __index = error}))", "-ERR the script has raised a table"),
    ("error(function() end)", "-ERR the script has raised a function"),
    ("return setmetatable({}, {__index = function() error('x') end})", "*0"),
    ("return coroutine.wrap(function() coroutine.yield(redis.call('PING')) end)()", "+PONG"),
    ("local function f() return coroutine.wrap(f)() end return f()", "-ERR"),
    ("coroutine.yield(1)", "-ERR attempt to yield across metamethod/C-call boundary"),
    ("return xpcall(error, error)", "$-1"),
    ("table.sort({3, 1, 2, 5, 4}, function() return true end)", "-ERR user_script:1: invalid order function"),
    ("return tostring(redis.call):gsub('0x%x+', '')", "$"),
    ("redis.log(redis.LOG_DEBUG, 'quiet') return 1", ":1"),
    ("struct.pack('i', 1)", "-ERR struct.pack is not available in this version of ensile"),
    ("return string.format('%99999d', 1)", "-ERR user_script:1: invalid format"),
    ("return bit.tohex(bit.bor(1, 2, 2^31))", "$8 80000003"),
];

#[test]
fn the_sandbox_keeps_every_attack() {
    let mut rig = Rig::new();
    rig.eval_each(ATTACKS);
    assert_eq!(rig.eval("return redis.call('INCR', 'serves')"), ":1");
}

#[test]
fn json_and_message_pack_are_read_as_they_are_written() {
    let mut rig = Rig::new();
    rig.eval_each(&[
        ("return cjson.encode({1,'a/b',true,cjson.null,{x=1.5}})", "$30 [1,\"a\\/b\",true,null,{\"x\":1.5}]"),
        ("return cjson.encode({})", "$2 {}"),
        ("return cjson.encode(1e20)", "$5 1e+20"),
        ("local v = cjson.decode('{\"a\":[1,2.5,null,true,\"\\\\u00e9\"]}') return {v.a[1], tostring(v.a[2]), v.a[3] == cjson.null, v.a[4], v.a[5]}",
            "*5 :1 $3 2.5 :1 :1 $2 \u{e9}"),
        ("return cmsgpack.pack(1,-1,300,'x',{1,2},true,nil)", "$12"),
        ("return {cmsgpack.unpack(cmsgpack.pack(1,-200,70000,'x',{1,{a=2}},true,1.5))}", "*7 :1 :-200 :70000 $1 x *2 :1 *0 :1 :1"),
        ("local next, one = cmsgpack.unpack_one(cmsgpack.pack(7, 8)) return {next, one}", "*2 :1 :7"),
        ("return {cmsgpack.unpack_limit(cmsgpack.pack(7, 8, 9), 2)}", "*3 :2 :7 :8"),
    ]);
}

#[test]
fn a_script_at_the_limit_of_the_memory_gets_oom() {
    let mut rig = Rig::limited(8 << 20);
    let script = "for i = 1, 100000 do pcall(redis.call, 'SET', 'k' .. ARGV[1] .. i, string.rep('x', 1000)) end return 1";
    let full = (0..100).any(|round| {
        let reply = rig.eval_as(rig.client, script, &["0", &round.to_string()]);
        reply.starts_with("-OOM command not allowed when used memory > 'maxmemory'")
    });
    assert!(full);
    assert_eq!(rig.eval("return redis.call('DEL', 'none')"), ":0");
}

#[test]
fn a_loop_runs_any_number_of_distinct_scripts() {
    let mut rig = Rig::new();
    for number in 0..8100 {
        assert_eq!(rig.eval(&format!("return {number}")), format!(":{number}"));
    }
}

#[test]
fn functions_of_the_server_have_limits_of_memory() {
    let mut rig = Rig::new();
    rig.eval_each(&[
        (
            "local s = string.rep('x', 1e7) return cmsgpack.pack(s, s, s, s, s, s, s)",
            "-ERR user_script:1: the result of pack has 67108864 bytes at most",
        ),
        (
            "local s = string.rep('x', 1e7) return redis.call('ECHO', s, s, s, s, s, s, s)",
            "-ERR the arguments of a call have 67108864 bytes at most",
        ),
    ]);
}

#[test]
fn a_reply_of_shared_tables_ends_at_its_limit() {
    let mut rig = Rig::new();
    let shared =
        "local t = string.rep('x', 100000) for i = 1, 27 do t = {t, t, t, t, t, t, t, t} end return t";
    rig.eval_each(&[(shared, "-ERR the reply would be longer than")]);
}

#[test]
fn an_error_of_a_wrapped_coroutine_has_the_place_of_the_call() {
    let mut rig = Rig::new();
    rig.eval_each(&[
        ("local f = coroutine.wrap(function() return 7 end)\nreturn f()", ":7"),
        (
            "local f = coroutine.wrap(function() end) f()\nf()",
            "-ERR user_script:2: cannot resume dead coroutine",
        ),
        ("coroutine.wrap(function() redis.call('INCR') end)()", "-ERR Wrong number of args"),
        (
            "coroutine.wrap(function() local s = 'x' while true do s = s .. s end end)()",
            "-ERR the script needs more than",
        ),
    ]);
}

#[test]
fn calls_of_scripts_are_checked_as_requests() {
    let mut rig = Rig::new();
    let client = rig.client;
    for (command, call, error) in [
        ("EVAL_RO", "'PUBLISH','c','m'", "Write commands are not allowed"),
        ("EVAL", "'OBJECT','ENCODING'", "Unknown subcommand or wrong number"),
        ("EVAL", "'OBJECT','x','k'", "Unknown subcommand or wrong number"),
    ] {
        let script = format!("return redis.call({call})");
        let reply = shown(&rig.ask_bytes(client, &[command.as_bytes(), script.as_bytes(), b"0"]));
        assert!(reply.contains(error), "{call}: {reply}");
    }
}
