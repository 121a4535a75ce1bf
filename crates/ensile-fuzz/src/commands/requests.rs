//! Requests out of bytes: a command of the server's table, and arguments that mostly fit.
//!
//! Invariant: a name stands for a range of numbers, so that further commands leave the kept inputs mostly as they are.
//!
//! Neighbours: the target `commands` sends the requests.

use std::sync::OnceLock;

use ensile_server::simulation::command_infos;
use ensile_serving::command::{CommandInfo, MoreKeys, WhileQueueing};

use crate::input::Input;
use crate::served::Words;

/// Keys, with the types of the first values: small and large ones.
const KEYS: &[&str] =
    &["s", "n", "h", "H", "l", "L", "t", "T", "z", "Z", "x", "X", "e", "none", "", "a key with spaces\r\n"];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "5",
    "10",
    "64",
    "100",
    "-100",
    "1000",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "1.5",
    "-0",
    "1e300",
    "nan",
    "inf",
    "+inf",
    "-inf",
    "(1",
    "(-inf",
    "0.001",
    "01",
    " 1",
    "4000000000",
    "4000000000000",
    "",
    "0x10",
    "1e400",
];
const OPTIONS: &[&str] = &[
    "NX",
    "XX",
    "GET",
    "KEEPTTL",
    "EX",
    "PX",
    "EXAT",
    "PXAT",
    "PERSIST",
    "GT",
    "LT",
    "CH",
    "INCR",
    "COUNT",
    "MATCH",
    "TYPE",
    "LIMIT",
    "WITHSCORES",
    "WITHVALUES",
    "BYSCORE",
    "BYLEX",
    "REV",
    "WEIGHTS",
    "AGGREGATE",
    "SUM",
    "MIN",
    "MAX",
    "LEFT",
    "RIGHT",
    "BEFORE",
    "AFTER",
    "RANK",
    "MAXLEN",
    "MINID",
    "LEN",
    "IDX",
    "MINMATCHLEN",
    "WITHMATCHLEN",
    "DB",
    "REPLACE",
    "ASYNC",
    "SYNC",
    "STREAMS",
    "BLOCK",
    "NOMKSTREAM",
    "~",
    "=",
    "SETNAME",
    "AUTH",
    "ID",
    "USER",
    "SKIPME",
    "yes",
    "no",
    "SAMPLES",
    "ABSTTL",
    "string",
    "hash",
    "list",
    "set",
    "zset",
    "stream",
    "always",
    "everysec",
    "appendfsync",
    "multi-rollback",
    "slowlog-log-slower-than",
    "slowlog-max-len",
    "default",
    "ERROR",
    "TIMEOUT",
    "ON",
    "stats",
    "everything",
    "ENTRIESADDED",
    "MAXDELETEDID",
];
const ELEMENTS: &[&str] = &[
    "a", "b", "c", "m1", "m2", "m3", "", "[a", "(b", "[m2", "-", "+", "*", "m*", "[a-z]?", "1-1", "5-0", "$",
    "7-*",
];
const CHANNELS: &[&str] = &["news", "new*", "other", "n?ws"];
const SCRIPTS: &[&str] = &[
    "return redis.call(unpack(ARGV))",
    "redis.call('SET','s','1') return redis.pcall(unpack(ARGV))",
    "redis.call('RPUSH','l','1') return redis.call(unpack(ARGV))",
    "return {KEYS,ARGV,1.5,false,{ok='fine'},{err='My error'}}",
    "redis.setresp(3) return redis.call(unpack(ARGV))",
    "for i=1,40 do redis.call('ZADD','z',i,'of a script '..i) end return redis.call(unpack(ARGV))",
    "while true do end",
    "for i=1,1500000 do end return redis.call(unpack(ARGV))",
    "redis.call('SET','s','1') for i=1,1500000 do end return redis.call(unpack(ARGV))",
    "error('no')",
    "#!lua flags=no-writes\nreturn redis.call(unpack(ARGV))",
    "return return",
    "return redis.sha1hex(ARGV[1])",
];
/// SHA-1 of a script that some request may have sent: `return redis.call(unpack(ARGV))`, and of none.
const HASHES: &[&str] =
    &["3c44b7a40779a5c68a6e3920550ff76660a813aa", "ffffffffffffffffffffffffffffffffffffffff"];

/// Kinds of the arguments of commands: a key (k), an element (e), a whole number (i), a number with a fraction (f), the
/// bound of scores (s) or of members (x), a side of a list (l), a place in a list (p), an id (d), a cursor (c), a
/// time-out in seconds (t), or the number of keys (n).
const KINDS: &[(&str, &str)] = &[
    (
        "INCRBY DECRBY EXPIRE PEXPIRE LINDEX SPOP SRANDMEMBER LPOP RPOP HRANDFIELD ZRANDMEMBER ZPOPMIN ZPOPMAX",
        "ki",
    ),
    ("GETRANGE SUBSTR LRANGE LTRIM ZREMRANGEBYRANK ZREVRANGE ZRANGE", "kii"),
    ("SETRANGE LSET LREM SETEX PSETEX", "kie"),
    ("INCRBYFLOAT", "kf"),
    ("HINCRBY", "kei"),
    ("HINCRBYFLOAT", "kef"),
    ("ZADD", "kfefefe"),
    ("ZINCRBY", "kfe"),
    ("ZCOUNT ZRANGEBYSCORE ZREMRANGEBYSCORE ZREVRANGEBYSCORE", "kss"),
    ("ZLEXCOUNT ZRANGEBYLEX ZREMRANGEBYLEX ZREVRANGEBYLEX", "kxx"),
    ("ZRANGESTORE", "kkii"),
    ("SCAN", "c"),
    ("HSCAN SSCAN ZSCAN", "kc"),
    ("BLPOP BRPOP BZPOPMIN BZPOPMAX", "kt"),
    ("LMOVE", "kkll"),
    ("BLMOVE", "kkllt"),
    ("BRPOPLPUSH", "kkt"),
    ("LMPOP ZMPOP SINTERCARD ZINTERCARD", "nkk"),
    ("BLMPOP BZMPOP", "tnkk"),
    ("LINSERT", "kpee"),
    ("LPOS", "ke"),
    ("SELECT SWAPDB", "ii"),
    ("MOVE", "ki"),
    ("XADD", "kdeeee"),
    ("XDEL", "kdd"),
    ("XRANGE XREVRANGE", "kdd"),
    ("SET GETSET SETNX APPEND SADD RPUSH LPUSH HGET HDEL HSETNX SREM ZREM ZSCORE ZRANK", "keee"),
    ("HSET HMSET", "keeee"),
];

/// Number of generated arguments of a large request.
const MANY: usize = 60;

/// Requests for the first values.
pub(super) fn first_values() -> Vec<Words> {
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Words>();
    let small = [
        "SET s text",
        "SET n 41",
        "HSET h a 1 b two",
        "RPUSH l a b c",
        "SADD t a b m1",
        "ZADD z 1 a 2 b 2 c",
        "SET e text PX 20",
    ];
    let large = [("HSET", "H", true), ("RPUSH", "L", false), ("SADD", "T", false), ("ZADD", "Z", true)];
    let large = large.into_iter().map(|(name, key, has_pairs)| {
        let mut all: Words = vec![name.into(), key.into()];
        for number in 0..MANY {
            let member = format!("m{number} with a longer text");
            let pair =
                if name == "HSET" { [member.clone(), "value".into()] } else { [number.to_string(), member] };
            let [first, second] = pair.map(String::into_bytes);
            if has_pairs { all.extend([first, second]) } else { all.push(second) }
        }
        all
    });
    small.into_iter().map(words).chain(large).collect()
}

/// Commands in the order of their numbers. `CLIENT REPLY` changes the number of replies, so the target leaves the
/// subcommand out.
fn commands() -> &'static [(u16, &'static CommandInfo)] {
    static COMMANDS: OnceLock<Vec<(u16, &CommandInfo)>> = OnceLock::new();
    COMMANDS.get_or_init(|| {
        let mut all: Vec<_> = command_infos().map(|info| (number_of(info.name), info)).collect();
        all.sort_by_key(|(number, info)| (*number, info.name));
        // An absent command says so: a few stand for all.
        let is_absent =
            |info: &CommandInfo| info.arity == -1 && info.while_queueing == WhileQueueing::Refused;
        all.retain(|(number, info)| !is_absent(info) || number % 16 == 0);
        all
    })
}

/// Hash of a name: FNV-1a, folded.
fn number_of(name: &str) -> u16 {
    let fold = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = name.as_bytes().iter().fold(0x811c_9dc5, fold);
    (hash >> 16 ^ hash & 0xffff) as u16
}

/// The next request. Without a channel, the number of confirmations depends on the channels of the client.
pub(super) fn request(input: &mut Input<'_>) -> Words {
    let (commands, number) = (commands(), input.u16());
    let place = commands.partition_point(|(of, _)| *of < number) % commands.len();
    let info = commands[place].1;
    let mut words: Words = vec![info.name.into()];
    let mut arity = info.arity;
    let shape = input.byte();
    if !info.subcommands.is_empty() && shape % 16 != 15 {
        let subcommand = &info.subcommands[input.choice(info.subcommands.len())];
        let name = if subcommand.name == "REPLY" { "ID" } else { subcommand.name };
        words.push(name.into());
        arity = if name == "ID" { 2 } else { subcommand.arity };
    }
    let least = usize::try_from(arity.unsigned_abs()).unwrap_or(1);
    let count = match shape {
        240.. => usize::from(shape % 8),
        _ if arity < 0 => least + [0, 0, 0, 1, 2, 4][usize::from(shape % 6)],
        _ => least,
    };
    let count = if info.name.ends_with("SUBSCRIBE") { count.max(2) } else { count };
    while words.len() < count {
        let word = word(input, info, words.len(), count);
        words.push(word);
    }
    if (200..240).contains(&shape) && arity < 0 {
        let many = (0..MANY).map(|at| match at % 2 {
            0 => at.to_string().into_bytes(),
            _ => format!("m{at} with a longer text").into_bytes(),
        });
        words.extend(many);
    }
    if words[0] == b"CLIENT" && words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"REPLY")) {
        words.truncate(1);
    }
    words
}

/// A script with the words of another request.
pub(super) fn script(input: &mut Input<'_>) -> Words {
    let script = SCRIPTS[input.choice(SCRIPTS.len())];
    let words = request(input);
    [vec![b"EVAL".to_vec(), script.into(), b"0".to_vec()], words].concat()
}

/// True if the argument `at` of `count` is a key.
fn is_key(info: &CommandInfo, at: usize, count: usize) -> bool {
    let (first, last, step) = info.keys;
    let [at, count] = [at, count].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
    let last = if last < 0 { count + last } else { last };
    first > 0 && (first..=last).contains(&at) && (at - first) % step == 0
}

/// A key that fits the command, or any key.
fn key(input: &mut Input<'_>, info: &CommandInfo) -> Vec<u8> {
    let choice = input.byte();
    let fitting = match info.name.trim_start_matches('B').as_bytes().first() {
        Some(b'H') => 2..4,
        Some(b'L' | b'R') => 4..6,
        Some(b'S') => [0..2, 6..8][usize::from(choice >> 1 & 1)].clone(),
        Some(b'Z') => 8..10,
        Some(b'X') => 10..12,
        _ => 0..KEYS.len(),
    };
    let places = if choice % 8 == 7 { 0..KEYS.len() } else { fitting };
    KEYS[places.start + usize::from(choice >> 3) % places.len()].into()
}

/// An argument of a kind of [`KINDS`].
fn of_kind(input: &mut Input<'_>, info: &CommandInfo, kind: u8) -> Vec<u8> {
    let choice = input.byte();
    let small = i64::from(choice % 24) - 8;
    let of = |list: &[&str]| list[usize::from(choice) % list.len()].as_bytes().to_vec();
    match kind {
        b'k' => key(input, info),
        b'i' => small.to_string().into_bytes(),
        b'f' => format!("{small}.{}", choice / 100).into_bytes(),
        b's' => [&b"("[..choice.is_multiple_of(5).into()], small.to_string().as_bytes()].concat(),
        b'x' => of(&["-", "+", "[a", "(b", "[m2", "(m3", "[m5"]),
        b'l' => of(&["LEFT", "RIGHT"]),
        b'p' => of(&["BEFORE", "AFTER"]),
        b'd' => of(&["*", "-", "+", "1-1", "2-2", "3-*", "5", "7-9", "0-1", "$"]),
        b'c' => b"0".to_vec(),
        b't' => of(&["0", "0.01", "0.5", "3"]),
        b'n' => of(&["1", "2", "1", "3"]),
        _ if choice < 0xe0 => format!("m{}", choice % 20).into_bytes(),
        _ => of(ELEMENTS),
    }
}

/// The argument `at` of `count`.
fn word(input: &mut Input<'_>, info: &CommandInfo, at: usize, count: usize) -> Vec<u8> {
    let choice = input.byte();
    let of = |list: &[&str], input: &mut Input<'_>| list[input.choice(list.len())].as_bytes().to_vec();
    if choice < 240 {
        let kinds = KINDS.iter().find(|(names, _)| names.split(' ').any(|name| name == info.name));
        if let Some(kind) = kinds.and_then(|(_, kinds)| kinds.as_bytes().get(at - 1)) {
            return of_kind(input, info, *kind);
        }
        if is_key(info, at, count) {
            return key(input, info);
        }
        match (info.name, at) {
            ("EVAL" | "EVAL_RO", 1) | ("SCRIPT", 2) => return of(SCRIPTS, input),
            ("EVALSHA" | "EVALSHA_RO", 1) => return of(HASHES, input),
            ("FCALL" | "FCALL_RO", 1) => return b"f".to_vec(),
            _ => {}
        }
        if info.more_keys == MoreKeys::Counted(at) {
            return (choice % 4).to_string().into_bytes();
        }
        if info.name.ends_with("SUBSCRIBE") || info.name == "PUBLISH" || info.name == "SPUBLISH" {
            return of(CHANNELS, input);
        }
        // The words of a script's or a procedure's command.
        if matches!(info.name, "EVAL" | "EVAL_RO" | "FCALL" | "EVALSHA") && at == 3 {
            let commands = commands();
            return commands[usize::from(input.u16()) % commands.len()].1.name.into();
        }
    }
    match choice % 16 {
        0..3 => (i64::from(input.byte()) - 20).to_string().into_bytes(),
        3 | 4 => of(NUMBERS, input),
        5..8 => of(OPTIONS, input),
        8..11 => of(ELEMENTS, input),
        11 | 12 => key(input, info),
        13 => {
            let count = input.choice(24);
            input.bytes(count).to_vec()
        }
        14 => vec![b'a' + choice % 26; 100 * input.choice(200)],
        _ => of(CHANNELS, input),
    }
}
