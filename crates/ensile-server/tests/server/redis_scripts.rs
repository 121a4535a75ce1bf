//! Scripts beside Debian's redis: the same scripts to both servers, replies compared byte by byte.
//!
//! `bash ci/redis-compare.sh` runs the comparison. `ENSILE_REDIS` is the address of redis, `ENSILE_SEED` draws values.

use std::net::SocketAddr;

use ensile_base::random::Random;

use super::rig::shown;
use super::threads::{Connection, running};

/// Scripts of every rule that translates values and replies, and of redis' error texts.
const SCRIPTS: &[&str] = &[
    "return KEYS[1]",
    "return {KEYS[1], ARGV[1], ARGV[2], #ARGV}",
    "return redis.call('SET', KEYS[1], ARGV[1])",
    "return redis.call('GET', KEYS[1])",
    "return redis.call('GET', 'none')",
    "return redis.call('MGET', KEYS[1], 'none')",
    "redis.setresp(3) return redis.call('GET', 'none')",
    "redis.setresp(3) return {redis.call('GET', 'none'), 1}",
    "redis.setresp(3) redis.call('HSET', 'h', 'f', 'v') return redis.call('HGETALL', 'h')",
    "redis.call('HSET', 'h', 'f', 'v') return redis.call('HGETALL', 'h')",
    "redis.setresp(3) redis.call('SADD', 's', 'm') return redis.call('SMEMBERS', 's')",
    "return redis.call('TYPE', KEYS[1])",
    "return redis.call('TYPE', KEYS[1]).ok",
    "return redis.call('INCR', KEYS[1])",
    "return redis.pcall('INCR', KEYS[1])",
    "return redis.pcall('INCR', KEYS[1]).err",
    "local ok, why = pcall(redis.call, 'INCR', KEYS[1]) return {ok, why, type(why)}",
    "local ok, why = pcall(error, {err = 'X y'}) return {ok, type(why)}",
    "return redis.call('INCR')",
    "return redis.pcall('NONE')",
    "return redis.call()",
    "return redis.call({})",
    "return redis.call('SET', 'n', 1.5)",
    "redis.call('SET', 'n', 3.1) return redis.call('GET', 'n')",
    "redis.call('SET', 'n', 1e20) return redis.call('GET', 'n')",
    "redis.call('SET', 'n', -0.1) return redis.call('GET', 'n')",
    "return redis.call('SELECT', '3')",
    "return redis.call('SELECT', 'x')",
    "return redis.call('PING')",
    "return redis.call('ECHO', 'x')",
    "return redis.call('WATCH', 'x')",
    "return redis.call('EXEC')",
    "return redis.call('SCRIPT', 'LOAD', 'return 1')",
    "return #redis.call('TIME')",
    "error('text')",
    "error('text', 0)",
    "\n\nerror('text')",
    "local function f() error('text') end\nf()",
    "error({err = 'CODE text'})",
    "local t = nil return t.x",
    "return 1 + {}",
    "return x",
    "x = 1",
    "string.x = 1",
    "x x",
    "return redis.error_reply('text')",
    "return redis.error_reply('-CODE text')",
    "return redis.error_reply('CODE text')",
    "return redis.error_reply()",
    "return redis.error_reply(1)",
    "return redis.status_reply('text')",
    "return redis.status_reply({})",
    "return redis.sha1hex('text')",
    "return redis.sha1hex()",
    "return redis.log(1)",
    "return redis.log(7, 'x')",
    "return redis.setresp(4)",
    "return redis.setresp()",
    "return redis.REDIS_VERSION_NUM",
    "return {err = 'text'}",
    "return {ok = 'text'}",
    "return {ok = 'a\\nb'}",
    "return {double = 1.25}",
    "return {map = {a = {1, 2}}}",
    "return {set = {a = true}}",
    "return {big_number = '12345678901234567890'}",
    "return {verbatim_string = {format = 'txt', string = 'text'}}",
    "redis.setresp(3) return true",
    "redis.setresp(3) return false",
    "return print",
    "return tostring",
    "math.randomseed(5) return {math.random(1000), math.random(5, 9), tostring(math.random())}",
    "return {bit.tobit(2^31), bit.band(-1, 255), bit.bor(1, 6), bit.bxor(5, 1), bit.bnot(0)}",
    "return {bit.lshift(1, 31), bit.rshift(-1, 28), bit.arshift(-8, 1), bit.rol(1, 33), bit.ror(1, 1), bit.bswap(1)}",
    "return {bit.tohex(255), bit.tohex(-1, -4), bit.tobit(1.5), bit.tobit(-1.5), bit.tobit(2^40 + 7)}",
    "return bit.band('x', 1)",
    "return cjson.encode({1, 'a/b\\n\\1', true, cjson.null, 1.5, {}, {x = {y = 1}}})",
    "return cjson.encode({1e20, -0.1, 100000000000000, 1e15, 2^53})",
    "return cjson.encode('\\127\\200')",
    "local v = cjson.decode('[1, 2.5, null, {\"a\": [true, \"b\"]}]') return {v[1], tostring(v[2]), v[3] == cjson.null, v[4].a}",
    "return cmsgpack.pack({1, -1, 300, 70000, 1.5, 0.1, 'x', {a = 1}, true, 5000000000, -5000000000})",
    "return cmsgpack.unpack(cmsgpack.pack({1, -300, 'x', {2}, 1.5}))",
    "return {cmsgpack.unpack_one(cmsgpack.pack(7, 8), 1)}",
    "#!lua\nreturn 1",
    "#!lua flags=no-writes,allow-oom\nreturn redis.call('GET', KEYS[1])",
    "#!lua flags=no-writes\nreturn redis.call('SET', KEYS[1], 'x')",
    "#!lua flags=none\nreturn 1",
    "#!python\nreturn 1",
    "#!lua",
];

/// Requests beside `EVAL`.
const REQUESTS: &[&str] = &[
    "EVAL return",
    "EVAL return x",
    "EVAL return -1",
    "EVAL return 2 a",
    "EVALSHA abc 0",
    "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0",
    "SCRIPT",
    "SCRIPT FOO",
    "SCRIPT LOAD",
    "SCRIPT EXISTS a b",
    "SCRIPT FLUSH x",
    "SCRIPT FLUSH SYNC",
    "SCRIPT KILL",
    "FCALL none 0",
    "FCALL none",
    "FCALL_RO none 0",
    "FUNCTION LIST",
];

/// A value of Lua in Lua's form, with tables of this many levels at most.
fn value(random: &mut Random, levels: u64) -> String {
    let numbers = ["0", "1", "-1", "1.99", "-1.99", "2^31", "2^53", "1e18", "1e30", "-1e30", "0/0", "1/0"];
    match random.next_below(if levels == 0 { 5 } else { 9 }) {
        0 => numbers[random.next_below(numbers.len() as u64) as usize].to_owned(),
        1 => "'text'".to_owned(),
        2 => "true".to_owned(),
        3 => "false".to_owned(),
        4 => "nil".to_owned(),
        5 => format!("{{ok = {}}}", value(random, 0)),
        6 => format!("{{map = {{a = {}}}}}", value(random, levels - 1)),
        _ => {
            let elements: Vec<String> =
                (0..random.next_below(5)).map(|_| value(random, levels - 1)).collect();
            format!("{{{}}}", elements.join(", "))
        }
    }
}

/// True if a difference is stated in the guide.
fn is_permitted(script: &str, ours: &str, theirs: &str) -> bool {
    // The third version's doubles have the fewest digits that are read back.
    script.contains("double") && ours.starts_with(',')
        || script.starts_with("SCRIPT FOO")
            && theirs.starts_with("-ERR unknown subcommand")
            && ours.starts_with('-')
}

#[test]
#[ignore = "needs a server of redis: bash ci/redis-compare.sh"]
fn scripts_have_the_replies_of_redis() {
    let address: SocketAddr =
        std::env::var("ENSILE_REDIS").expect("ENSILE_REDIS").parse().expect("an address");
    let seed = std::env::var("ENSILE_SEED").map_or(1, |seed| seed.parse().expect("ENSILE_SEED: a number"));
    let (server, mut random) = (running(), Random::from_seed(seed));
    let (mut ours, mut theirs) = (Connection::open(server.address()), Connection::open(address));
    let drawn: Vec<String> = (0..500).map(|_| format!("return {}", value(&mut random, 4))).collect();
    let mut faults = Vec::new();
    for version in ["2", "3"] {
        for line in ["FLUSHALL", &format!("HELLO {version}"), "SET k text"] {
            let words: Vec<&str> = line.split(' ').collect();
            ours.ask(&words);
            theirs.ask(&words);
        }
        let scripts = SCRIPTS.iter().copied().chain(drawn.iter().map(String::as_str));
        let evals = scripts.map(|script| vec!["EVAL", script, "1", "k", "one", "two"]);
        let others = REQUESTS.iter().map(|line| line.split(' ').collect());
        for words in evals.chain(others) {
            let (own, other) = (shown(&ours.ask(&words)), shown(&theirs.ask(&words)));
            let script = if words[0] == "EVAL" { words[1].to_owned() } else { words.join(" ") };
            if own != other && !is_permitted(&script, &own, &other) {
                faults.push(format!("{script}\n  ours   {own}\n  theirs {other}"));
            }
        }
    }
    assert!(faults.is_empty(), "seed {seed}: {} differences\n{}", faults.len(), faults.join("\n"));
    drop((ours, theirs));
    server.stop().expect("a server without a log");
}
