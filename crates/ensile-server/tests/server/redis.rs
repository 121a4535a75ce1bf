//! The same requests to this server and to a server of redis 7.0, whose replies are compared byte by byte.
//!
//! `bash ci/redis-compare.sh` runs the comparison. `ENSILE_REDIS` is the address of redis, `ENSILE_SEED` draws the
//! requests, `ENSILE_REQUESTS` is their number.

mod sorted_set_shapes;
mod stream_shapes;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use ensile_base::random::Random;
use ensile_resp::{Reply, ReplyDecoder, ReplyLimits};

use super::rig::shown;
use super::threads::{Connection, running};

/// Requests: the command, a letter for each argument, and the options. The letters: a key (k), mostly a key of a hash
/// (h), of a set (t) or of a list (l), a value (v), a whole number (i), a number with a fraction (f), seconds (s), a
/// database (d), a pattern (p), a cursor (c), a field or a member (m), a number of random elements (n), many members
/// (M), many pairs (P), options (o). A star repeats the group behind.
const SHAPES: &[(&str, &str, &[&str])] = &[
    ("GET", "k", &[]),
    (
        "SET",
        "kvo",
        &[
            "NX",
            "XX",
            "GET",
            "KEEPTTL",
            "EX 5000",
            "PX 5000000",
            "EXAT 4000000000",
            "PXAT 4000000000000",
            "EX 0",
            "EX x",
            "PX",
            "PERSIST",
            "nx",
            "Get",
        ],
    ),
    ("INCR", "k", &[]),
    ("MGET", "k*k", &[]),
    ("DEL", "k*k", &[]),
    ("EXISTS", "k*k", &[]),
    ("MSET", "kv*kv", &[]),
    ("MSETNX", "kv*kv", &[]),
    ("SETNX", "kv", &[]),
    ("SETEX", "ksv", &[]),
    ("PSETEX", "ksv", &[]),
    ("GETSET", "kv", &[]),
    ("GETDEL", "k", &[]),
    (
        "GETEX",
        "ko",
        &[
            "PERSIST",
            "EX 5000",
            "PX 5000000",
            "EXAT 4000000000",
            "EXAT 1",
            "PXAT 1",
            "EX -1",
            "EX x",
            "EX",
            "KEEPTTL",
            "persist",
        ],
    ),
    ("STRLEN", "k", &[]),
    ("APPEND", "kv", &[]),
    ("GETRANGE", "kii", &[]),
    ("SUBSTR", "kii", &[]),
    ("SETRANGE", "kiv", &[]),
    ("DECR", "k", &[]),
    ("INCRBY", "ki", &[]),
    ("DECRBY", "ki", &[]),
    ("INCRBYFLOAT", "kf", &[]),
    ("LCS", "kko", &["LEN", "IDX", "WITHMATCHLEN", "MINMATCHLEN 2", "MINMATCHLEN x", "MINMATCHLEN", "len"]),
    ("UNLINK", "k*k", &[]),
    ("TOUCH", "k*k", &[]),
    ("TYPE", "k", &[]),
    ("RENAME", "kk", &[]),
    ("RENAMENX", "kk", &[]),
    ("COPY", "kko", &["DB 1", "DB 0", "DB 16", "DB x", "DB", "REPLACE", "replace", "db 2147483648"]),
    ("MOVE", "kd", &[]),
    ("KEYS", "p", &[]),
    (
        "SCAN",
        "co",
        &[
            "MATCH *",
            "MATCH k*",
            "COUNT 1000",
            "COUNT 0",
            "COUNT x",
            "TYPE string",
            "TYPE list",
            "MATCH",
            "BOGUS 1",
        ],
    ),
    ("RANDOMKEY", "", &[]),
    ("DBSIZE", "", &[]),
    ("FLUSHDB", "o", &["ASYNC", "SYNC", "bogus"]),
    ("FLUSHALL", "o", &["ASYNC", "sync", "bogus"]),
    ("SWAPDB", "dd", &[]),
    (
        "OBJECT",
        "o",
        &["ENCODING a", "ENCODING none", "FREQ a", "REFCOUNT none", "FOO a", "ENCODING", "freq none"],
    ),
    ("EXPIRE", "kso", &["NX", "XX", "GT", "LT", "gt", "AB"]),
    ("PEXPIRE", "kso", &["NX", "XX", "GT", "LT"]),
    ("EXPIREAT", "kso", &["NX", "XX", "GT", "LT"]),
    ("PEXPIREAT", "kso", &["NX", "XX", "GT", "LT"]),
    ("PERSIST", "k", &[]),
    ("TTL", "k", &[]),
    ("PTTL", "k", &[]),
    ("EXPIRETIME", "k", &[]),
    ("PEXPIRETIME", "k", &[]),
    ("HSET", "hmv*mv", &[]),
    ("HSET", "hP", &[]),
    ("HMSET", "hmv*mv", &[]),
    ("HSETNX", "hmv", &[]),
    ("HGET", "hm", &[]),
    ("HMGET", "hm*m", &[]),
    ("HDEL", "hm*m", &[]),
    ("HDEL", "hM", &[]),
    ("HLEN", "h", &[]),
    ("HGETALL", "h", &[]),
    ("HKEYS", "h", &[]),
    ("HVALS", "h", &[]),
    ("HEXISTS", "hm", &[]),
    ("HSTRLEN", "hm", &[]),
    ("HINCRBY", "hmi", &[]),
    ("HINCRBYFLOAT", "hmf", &[]),
    ("HRANDFIELD", "h", &[]),
    ("HRANDFIELD", "hno", &["WITHVALUES", "withvalues", "x"]),
    (
        "HSCAN",
        "hco",
        &["MATCH *", "MATCH m*", "COUNT 1000", "COUNT 0", "COUNT x", "MATCH", "BOGUS 1", "TYPE hash"],
    ),
    ("SADD", "tm*m", &[]),
    ("SADD", "tM", &[]),
    ("SREM", "tm*m", &[]),
    ("SREM", "tM", &[]),
    ("SCARD", "t", &[]),
    ("SISMEMBER", "tm", &[]),
    ("SMISMEMBER", "tm*m", &[]),
    ("SMEMBERS", "t", &[]),
    ("SPOP", "t", &[]),
    ("SPOP", "tn", &[]),
    ("SRANDMEMBER", "t", &[]),
    ("SRANDMEMBER", "tno", &["x"]),
    ("SMOVE", "ttm", &[]),
    ("SINTER", "t*t", &[]),
    ("SUNION", "t*t", &[]),
    ("SDIFF", "t*t", &[]),
    ("SINTERSTORE", "tt*t", &[]),
    ("SUNIONSTORE", "tt*t", &[]),
    ("SDIFFSTORE", "tt*t", &[]),
    ("SINTERCARD", "ito", &["LIMIT 1", "LIMIT 0", "LIMIT -1", "LIMIT x", "LIMIT", "limit 2", "BOGUS 1"]),
    ("SINTERCARD", "itt*t", &[]),
    ("SSCAN", "tco", &["MATCH *", "MATCH m*", "COUNT 1000", "COUNT 0", "COUNT x", "MATCH", "BOGUS 1"]),
    ("LPUSH", "lv*v", &[]),
    ("RPUSH", "lv*v", &[]),
    ("RPUSH", "lv*v", &[]),
    ("RPUSH", "lM", &[]),
    ("LPUSH", "lM", &[]),
    ("LPUSHX", "lv*v", &[]),
    ("RPUSHX", "lv*v", &[]),
    ("LPOP", "lo", &["1", "2", "0", "-1", "x", "100"]),
    ("RPOP", "lo", &["1", "2", "0", "-1", "x", "100"]),
    ("LLEN", "l", &[]),
    ("LINDEX", "li", &[]),
    ("LRANGE", "lii", &[]),
    ("LSET", "liv", &[]),
    ("LINSERT", "lo", &["BEFORE x new", "AFTER x new", "after 12 0", "before -5 x", "AFTER", "UNDER x new"]),
    ("LREM", "liv", &[]),
    ("LTRIM", "lii", &[]),
    (
        "LPOS",
        "lvo",
        &[
            "RANK 1",
            "RANK -1",
            "RANK 0",
            "RANK 2",
            "rank -2",
            "RANK x",
            "COUNT 0",
            "COUNT 2",
            "COUNT -1",
            "COUNT",
            "MAXLEN 2",
            "MAXLEN 0",
            "MAXLEN -1",
            "BOGUS 1",
        ],
    ),
    ("LMOVE", "llo", &["LEFT RIGHT", "RIGHT LEFT", "left left", "RIGHT RIGHT", "LEFT", "UP LEFT", "LEFT UP"]),
    ("RPOPLPUSH", "ll", &[]),
    (
        "LMPOP",
        "o",
        &[
            "1 l1 LEFT",
            "2 l1 l2 RIGHT",
            "1 l1 LEFT COUNT 2",
            "2 l2 l3 right count 10",
            "0 l1 LEFT",
            "x a LEFT",
            "3 l1 l2 LEFT",
            "1 l1 UP",
            "1 l1 LEFT COUNT 0",
            "1 l1 LEFT COUNT 1 COUNT 2",
            "-1 l1 LEFT",
            "1 l1 LEFT COUNT",
            "3 l3 none l2 LEFT",
            "1 l1 LEFT BOGUS",
            "9223372036854775807 l1 LEFT",
        ],
    ),
    ("BLPOP", "llo", &["0.002", "0.002", "x", "-1", "none 0.001"]),
    ("BRPOP", "lo", &["0.002", "0.002", "nan", "-inf", "l3 0.001"]),
    (
        "BLMOVE",
        "llo",
        &["LEFT RIGHT 0.002", "RIGHT LEFT 0.002", "left left 0.001", "UP LEFT 0.002", "LEFT LEFT x"],
    ),
    ("BRPOPLPUSH", "llo", &["0.002", "0.001", "x"]),
    (
        "BLMPOP",
        "o",
        &[
            "0.002 1 l1 LEFT",
            "0.002 2 l1 l2 RIGHT COUNT 3",
            "x 1 l1 LEFT",
            "0.002 0 l1 LEFT",
            "-1 1 l1 UP",
            "0.002 2 l3 none left",
        ],
    ),
    ("WATCH", "k*k", &[]),
    ("UNWATCH", "", &[]),
    ("MULTI", "", &[]),
    ("EXEC", "", &[]),
    ("EXEC", "", &[]),
    ("DISCARD", "", &[]),
    ("SELECT", "d", &[]),
    ("PING", "o", &["x", "x y"]),
    ("ECHO", "v", &[]),
    ("ROLE", "", &[]),
    (
        "CONFIG",
        "o",
        &[
            "GET appendfsync",
            "GET none",
            "SET appendfsync no",
            "SET appendfsync x",
            "SET none 1",
            "SET appendfsync",
            "FOO",
            "SET appendfsync no appendfsync no",
            "GET",
            "SET a b c",
        ],
    ),
    ("CLIENT", "o", &["GETNAME", "SETNAME me", "SETNAME", "ID x"]),
    ("AUTH", "o", &["x", "default x", "other x", "a b c"]),
    ("NONE", "k*v", &[]),
    ("RESET", "", &[]),
    ("HELLO", "o", &["2 BOGUS", "9", "x", "SETNAME me", "2 AUTH default"]),
];

const KEYS: &[&str] =
    &["a", "b", "c", "n", "h1", "s1", "key:1", "key:22", "none", "", "[a-c]", "a\\b^", "K\u{fc}\r\n\0"];
const VALUES: &[&str] = &[
    "",
    "x",
    "hello world",
    "12",
    "-5",
    "3.5",
    "9223372036854775807",
    "0",
    "abcabcabd",
    "0.1",
    "two\r\nlines",
    "012",
    "123456789012345678901234567890123456789012345678901234567890",
];
const WHOLE: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "5",
    "-3",
    "100",
    "9223372036854775807",
    "-9223372036854775808",
    "x",
    "",
    "1.5",
    "+1",
    "007",
    "9223372036854775808",
    " 1",
];
const FLOATS: &[&str] =
    &["0.1", "0.2", "-0.3", "1", "1.5e3", "x", "", "nan", "inf", "1e-7", "-1.25", "3.0", "1e17", ".5", "-0"];
const SECONDS: &[&str] = &[
    "4000000",
    "5000000000",
    "4000000000000",
    "0",
    "-1",
    "x",
    "",
    "9223372036854775807",
    "-9223372036854775808",
    "6000000",
];
const DATABASES: &[&str] = &["0", "1", "0", "1", "15", "16", "-1", "x", "9999999999"];
/// Fields and members. Those with a number are among the many too.
const MEMBERS: &[&str] = &[
    "",
    "f",
    "g",
    "12",
    "-5",
    "m3",
    "m4",
    "m77",
    "m150",
    "two\r\nlines",
    "a longer member of a set",
    "1.5",
    "012",
];
/// Largest number of fields or members that a request names.
const MANY: u64 = 200;
const COUNTS: &[&str] = &[
    "0",
    "1",
    "2",
    "5",
    "40",
    "1000",
    "-1",
    "-2",
    "-40",
    "x",
    "",
    "9223372036854775807",
    "-9223372036854775808",
];
const PATTERNS: &[&str] = &[
    "*",
    "key:*",
    "k?y:[12]",
    "[a-b]",
    "[^a]",
    "a",
    "",
    "*:*2",
    "\\a",
    "[",
    "[a",
    "n[",
    "[b-a]",
    "key:[0-9]*",
];

fn pick<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    from[random.next_below(from.len() as u64) as usize]
}

/// Appends the argument of a letter.
fn argument(random: &mut Random, letter: char, options: &[&str], words: &mut Vec<String>) {
    let values: &[&str] = match letter {
        'h' if random.percent(90) => &["h1", "h2", "h3"],
        't' if random.percent(90) => &["s1", "s2", "s3", "s4"],
        'l' if random.percent(90) => &["l1", "l2", "l3"],
        'k' | 'h' | 't' | 'l' => KEYS,
        'v' => VALUES,
        'i' => WHOLE,
        'f' => FLOATS,
        's' => SECONDS,
        'd' => DATABASES,
        'p' if random.percent(70) => {
            let bytes = b"*?[]^-\\ab1:ck";
            let byte =
                |random: &mut Random| char::from(bytes[random.next_below(bytes.len() as u64) as usize]);
            words.push((0..random.next_below(8)).map(|_| byte(random)).collect());
            return;
        }
        'p' => PATTERNS,
        'm' => MEMBERS,
        'n' => COUNTS,
        'M' | 'P' => {
            let (begin, count) = (random.next_below(MANY), 1 + random.next_below(MANY));
            for number in begin..begin + count {
                words.push(format!("m{}", number % MANY));
                if letter == 'P' {
                    words.push(number.to_string());
                }
            }
            return;
        }
        'c' => &["0", "0", "0", "", "x", "1x", " 1"],
        _ => {
            for _ in 0..random.next_below(4) {
                words.extend(pick(random, options).split(' ').map(str::to_owned));
            }
            return;
        }
    };
    words.push(pick(random, values).to_owned());
}

/// Requests of a round. Sorted sets and streams have rounds of their own, so that these become large.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RoundKind {
    SortedSets,
    Streams,
    Others,
}

impl RoundKind {
    fn of(round: u64) -> Self {
        match round % 6 {
            0 | 1 => Self::SortedSets,
            2 | 3 => Self::Streams,
            _ => Self::Others,
        }
    }
}

/// A request of a round.
fn request(random: &mut Random, round: u64) -> Vec<String> {
    let kind = RoundKind::of(round);
    let shapes = match kind {
        RoundKind::SortedSets => sorted_set_shapes::SHAPES,
        RoundKind::Streams => stream_shapes::SHAPES,
        RoundKind::Others => SHAPES,
    };
    let argument = |random: &mut Random, letter: char, options: &[&str], words: &mut Vec<String>| {
        let is_own = match kind {
            RoundKind::SortedSets => sorted_set_shapes::argument(random, letter, words),
            RoundKind::Streams => stream_shapes::argument(random, letter, words),
            RoundKind::Others => false,
        };
        if !is_own {
            argument(random, letter, options, words);
        }
    };
    let (mut command, mut shape, options) = shapes[random.next_below(shapes.len() as u64) as usize];
    if random.percent(20) {
        (command, shape) = [("WATCH", "k*k"), ("MULTI", ""), ("EXEC", "")][random.next_below(3) as usize];
    }
    let mut words = vec![command.to_owned()];
    if random.percent(10) {
        words[0] = command.to_ascii_lowercase();
    }
    let (once, repeated) = shape.split_once('*').unwrap_or((shape, ""));
    // A word within a shape stands for itself.
    let word = ["BYSCORE", "BYLEX", "MIN"].into_iter().find(|word| once.contains(word));
    let (once, once_behind) = word.and_then(|word| once.split_once(word)).unwrap_or((once, ""));
    once.chars().for_each(|letter| argument(random, letter, options, &mut words));
    words.extend(word.map(str::to_owned));
    once_behind.chars().for_each(|letter| argument(random, letter, options, &mut words));
    if !repeated.is_empty() {
        for _ in 0..random.next_below(4) {
            repeated.chars().for_each(|letter| argument(random, letter, options, &mut words));
        }
    }
    if random.percent(4) && words.len() > 1 {
        words.pop();
    }
    // The last argument may be a time, and a long wait would end the comparison.
    if random.percent(4) && !matches!(command, "BLPOP" | "BRPOP" | "BRPOPLPUSH") {
        words.push(pick(random, VALUES).to_owned());
    }
    words
}

/// Integer of a reply.
fn integer_of(reply: &[u8]) -> Option<i64> {
    shown(reply).strip_prefix(':')?.parse().ok()
}

/// The sorted strings of an array of strings.
fn sorted(reply: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut decoder = ReplyDecoder::new(ReplyLimits::default());
    let Reply::Array(replies) = decoder.decode(reply).ok()??.reply() else { return None };
    let mut all: Vec<Vec<u8>> =
        replies
            .map(|reply| {
                if let Reply::Bulk(bytes) = reply {
                    bytes.to_vec()
                } else {
                    format!("{reply:?}").into_bytes()
                }
            })
            .collect();
    // An empty key has no match in redis but by the pattern `*` alone.
    all.retain(|key| !key.is_empty());
    all.sort();
    Some(all)
}

/// The replies of an array, a set or a map, as their bytes.
fn elements(reply: &[u8]) -> Option<Vec<&[u8]>> {
    let end = reply.iter().position(|byte| *byte == b'\n').filter(|_| b"*~%".contains(&reply[0]))?;
    let (mut rest, mut all) = (&reply[end + 1..], Vec::new());
    while !rest.is_empty() {
        let length = ReplyDecoder::new(ReplyLimits::default()).decode(rest).ok()??.consumed_bytes();
        let (first, behind) = rest.split_at(length);
        all.push(first);
        rest = behind;
    }
    Some(all)
}

/// True if two arrays, sets or maps have the same groups of replies in any order.
pub(super) fn are_alike(ours: &[u8], theirs: &[u8], group: usize) -> bool {
    let groups = |reply| {
        let all = elements(reply)?;
        let mut groups: Vec<Vec<&[u8]>> = all.chunks(group).map(<[&[u8]]>::to_vec).collect();
        groups.sort();
        Some(groups)
    };
    ours.first() == theirs.first() && groups(ours).is_some_and(|ours| Some(ours) == groups(theirs))
}

/// True if both replies have the same type, and the same number of parts.
fn are_of_one_form(ours: &[u8], theirs: &[u8]) -> bool {
    let count = |reply| elements(reply).map(|all| all.len());
    ours.first() == theirs.first() && count(ours) == count(theirs)
}

/// True if both servers may have different rows after a command with different replies.
fn diverges(name: &str) -> bool {
    ["INCRBYFLOAT", "HINCRBYFLOAT", "SPOP"].iter().any(|diverging| name.eq_ignore_ascii_case(diverging))
}

/// Reason of an `EXEC` that replies nil without a change of a watched key.
const LOST: &str =
    "a watch of an absent key loses to a new key beside it, and every watch to FLUSHDB and SWAPDB";

/// Difference that is permitted, with its reason; `None` for a fault. `queue` has the queued requests of `EXEC`.
fn permitted(words: &[String], queue: &[Vec<String>], ours: &[u8], theirs: &[u8]) -> Option<&'static str> {
    if !words[0].eq_ignore_ascii_case("EXEC") || words.len() > 1 {
        return permitted_of_one(words, ours, theirs);
    }
    if (ours == b"*-1\r\n" || ours == b"_\r\n") && theirs.starts_with(b"*") {
        return Some(LOST);
    }
    let (ours, theirs) = (elements(ours)?, elements(theirs)?);
    if ours.len() != queue.len() || theirs.len() != queue.len() {
        return None;
    }
    // Replies behind another sum or another popped member may rest on it.
    let has_diverged = |at: &usize| diverges(&queue[*at][0]) && ours[*at] != theirs[*at];
    let end = (0..queue.len()).find(has_diverged).unwrap_or(queue.len());
    let mut different = (0..end).filter(|at| ours[*at] != theirs[*at]);
    different
        .all(|at| permitted_of_one(&queue[at], ours[at], theirs[at]).is_some())
        .then_some("replies of EXEC, each permitted")
}

/// As [`permitted`], for a request that is not `EXEC`.
fn permitted_of_one(words: &[String], ours: &[u8], theirs: &[u8]) -> Option<&'static str> {
    let name = words[0].to_ascii_uppercase();
    let by_kind = sorted_set_shapes::permitted(&name, ours, theirs)
        .or_else(|| stream_shapes::permitted(&name, ours, theirs));
    if by_kind.is_some() {
        return by_kind;
    }
    if ours.starts_with(b"-") && ours.starts_with(theirs.strip_suffix(b"\r\n")?) {
        return Some("an error has redis' words, and the remedy behind");
    }
    let both = |begin: &[u8]| ours.starts_with(begin) && theirs.starts_with(begin);
    match &*name {
        "RANDOMKEY" if both(b"$") => Some("any key"),
        "KEYS" if sorted(ours) == sorted(theirs) => Some("keys have another order"),
        "SCAN" if both(b"*2") => Some("a walk has other steps"),
        "PTTL" | "PEXPIRETIME" if (integer_of(ours)? - integer_of(theirs)?).abs() < 3000 => {
            Some("the clock goes on")
        }
        "TTL" | "EXPIRETIME" if (integer_of(ours)? - integer_of(theirs)?).abs() < 4 => {
            Some("the clock goes on")
        }
        "CLIENT" if both(b":") => Some("ids of connections"),
        "OBJECT" if both(b":") => Some("no value is shared here"),
        "OBJECT" if both(b"$") => Some("encodings name no layout here"),
        "CLIENT" if both(b"-ERR unknown subcommand") => Some("CLIENT has no HELP"),
        "HELLO" if both(b"*14\r\n$6\r\nserver") || both(b"%7\r\n$6\r\nserver") => Some("ids of connections"),
        "NONE" if both(b"-ERR unknown command '") => Some("redis shows no more behind a zero byte"),
        "EXEC" if theirs.starts_with(b"-EXECABORT Transaction discarded because of: wrong") => {
            Some("EXEC with arguments")
        }
        "SMEMBERS" | "SINTER" | "SUNION" | "SDIFF" | "HKEYS" | "HVALS" if are_alike(ours, theirs, 1) => {
            Some("elements have another order")
        }
        "HGETALL" if are_alike(ours, theirs, 2) => Some("elements have another order"),
        "HSCAN" | "SSCAN" if both(b"*2") => Some("a walk has other steps"),
        "HRANDFIELD" | "SRANDMEMBER" | "SPOP" if are_of_one_form(ours, theirs) => Some("any elements"),
        "INCRBYFLOAT" | "HINCRBYFLOAT" if both(b"$") => Some("sums are exact, and not of 80 bits"),
        _ => None,
    }
}

/// Name, number of arguments, keys and the main flags of a reply to `COMMAND INFO` with one name.
fn description(reply: &[u8]) -> Vec<String> {
    let parts = elements(reply).and_then(|all| elements(all.first()?)).unwrap_or_default();
    let flags = parts.get(2).map(|flags| shown(flags)).unwrap_or_default();
    let is_main = |flag: &&str| matches!(*flag, "+readonly" | "+write" | "+denyoom");
    let mut all: Vec<String> =
        [0, 1, 3, 4, 5].into_iter().filter_map(|at| parts.get(at)).map(|part| shown(part)).collect();
    all.extend(flags.split(' ').filter(is_main).map(str::to_owned));
    all
}

/// Two connections of which each has got the same requests.
struct ConnectionPair {
    ours: Connection,
    theirs: Connection,
    /// Requests that both servers have queued; `None` without `MULTI`.
    queue: Option<Vec<Vec<String>>>,
}

impl ConnectionPair {
    fn ask(&mut self, words: &[String]) -> (Vec<u8>, Vec<u8>) {
        (self.ours.ask(words), self.theirs.ask(words))
    }

    /// Makes both connections as new.
    fn reset(&mut self, version: &str) {
        for line in ["RESET", "FLUSHALL", &format!("HELLO {version}"), "CONFIG SET appendfsync no"] {
            self.ask(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        }
        self.queue = None;
    }

    /// Notes the requests that are queued behind this request. `ended` has the queue before the request.
    fn note_queue(&mut self, words: Vec<String>, reply: &[u8], ended: Option<Vec<Vec<String>>>) {
        let (name, reply) = (words[0].to_ascii_uppercase(), shown(reply));
        self.queue = match ended {
            Some(queued) if reply == "+QUEUED" => Some([queued, vec![words]].concat()),
            Some(_) if name == "EXEC" => None,
            Some(_) if matches!(&*name, "DISCARD" | "RESET") && reply.starts_with('+') => None,
            None if name == "MULTI" && reply == "+OK" => Some(Vec::new()),
            unchanged => unchanged,
        };
    }
}

/// Differences of the replies so far.
#[derive(Default)]
struct Differences {
    /// Texts of faults, by command and types of both replies.
    faults: BTreeMap<(String, u8, u8), String>,
    /// Numbers of permitted differences, by reason.
    permitted: BTreeMap<&'static str, u64>,
}

impl Differences {
    /// Compares the replies to a request. False if both servers may have other rows from now on.
    fn compare(&mut self, words: &[String], queued: &[Vec<String>], ours: &[u8], theirs: &[u8]) -> bool {
        if ours == theirs {
            return true;
        }
        if let Some(reason) = permitted(words, queued, ours, theirs) {
            *self.permitted.entry(reason).or_default() += 1;
            let mut names =
                std::iter::once(words).chain(queued.iter().map(Vec::as_slice)).map(|words| &words[0]);
            return reason != LOST && !names.any(|name| diverges(name));
        }
        let told = || format!("{words:?}\n  ours   {}\n  theirs {}", shown(ours), shown(theirs));
        self.faults.entry((words[0].to_ascii_uppercase(), ours[0], theirs[0])).or_insert_with(told);
        false
    }
}

/// Number of pairs of connections.
const PAIRS: u64 = 3;
/// Number of requests after which both servers begin anew.
const ROUND: u64 = 500;

#[test]
#[ignore = "needs a server of redis: bash ci/redis-compare.sh"]
fn replies_are_those_of_redis() {
    let address: SocketAddr =
        std::env::var("ENSILE_REDIS").expect("ENSILE_REDIS").parse().expect("an address");
    let number = |name: &str, default: u64| {
        std::env::var(name)
            .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: a number")))
    };
    let (seed, requests) = (number("ENSILE_SEED", 1), number("ENSILE_REQUESTS", 20_000));
    let (server, mut random) = (running(), Random::from_seed(seed));
    let open = |_| ConnectionPair {
        ours: Connection::open(server.address()),
        theirs: Connection::open(address),
        queue: None,
    };
    let mut pairs: Vec<ConnectionPair> = (0..PAIRS).map(open).collect();
    let mut differences = Differences::default();
    let mut goes_on = false;
    for at in 0..requests {
        // After a difference both servers begin anew, so that the difference is told once.
        if at % ROUND == 0 || !goes_on {
            let version = if (at / ROUND).is_multiple_of(2) { "2" } else { "3" };
            pairs.iter_mut().for_each(|pair| pair.reset(version));
            goes_on = true;
        }
        let pair = &mut pairs[random.next_below(PAIRS) as usize];
        let words = request(&mut random, at / ROUND);
        let name = words[0].to_ascii_uppercase();
        let is_wrong = name == "EXEC" && words.len() > 1 || name == "PING" && words.len() > 2;
        if pair.queue.is_some() && (matches!(&*name, "HELLO" | "AUTH") || is_wrong) {
            // Within MULTI, redis queues the first two and a wrong PING, and drops the queue after a wrong EXEC.
            continue;
        }
        let (ours, theirs) = pair.ask(&words);
        let queued = pair.queue.take();
        goes_on = differences.compare(&words, queued.as_deref().unwrap_or_default(), &ours, &theirs);
        pair.note_queue(words, &theirs, queued);
    }
    let shapes = SHAPES.iter().chain(sorted_set_shapes::SHAPES).chain(stream_shapes::SHAPES);
    // Redis gives the flags of these commands to their subcommands alone.
    let is_compared = |command: &str| !matches!(command, "NONE" | "OBJECT" | "XINFO");
    for (command, ..) in shapes.filter(|(command, ..)| is_compared(command)) {
        pairs[0].reset("2");
        let words = ["COMMAND", "INFO", command].map(str::to_owned);
        let (ours, theirs) = pairs[0].ask(&words);
        if description(&ours) != description(&theirs) {
            differences.compare(&words, &[], &ours, &theirs);
        }
    }
    for (reason, count) in &differences.permitted {
        println!("permitted {count} times: {reason}");
    }
    let all: Vec<&str> = differences.faults.values().map(String::as_str).collect();
    assert!(all.is_empty(), "seed {seed}: {} differences\n{}", all.len(), all.join("\n"));
    drop(pairs);
    server.stop().expect("a server without a log");
}
