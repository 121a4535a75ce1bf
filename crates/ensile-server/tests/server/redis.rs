//! The same requests to this server and to a server of redis 7.0, whose replies are compared byte by byte.
//!
//! `bash ci/redis-compare.sh` runs the comparison. `ENSILE_REDIS` is the address of redis, `ENSILE_SEED` draws the
//! requests, `ENSILE_REQUESTS` is their number.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use ensile_base::random::Random;
use ensile_resp::{Reply, ReplyDecoder, ReplyLimits};

use super::rig::shown;
use super::threads::{Connection, running};

/// Requests: the command, a letter for each argument, and the options. The letters: a key (k), a value (v), a whole
/// number (i), a number with a fraction (f), seconds (s), a database (d), a pattern (p), a cursor (c), options (o). A
/// star repeats the group behind.
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

const KEYS: &[&str] = &["a", "b", "c", "n", "key:1", "key:22", "none", "", "[a-c]", "a\\b^", "K\u{fc}\r\n\0"];
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
    let values = match letter {
        'k' => KEYS,
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
        'c' => &["0", "0", "0", "x", "1x", " 1"],
        _ => {
            for _ in 0..random.next_below(4) {
                words.extend(pick(random, options).split(' ').map(str::to_owned));
            }
            return;
        }
    };
    words.push(pick(random, values).to_owned());
}

fn request(random: &mut Random) -> Vec<String> {
    let (command, shape, options) = SHAPES[random.next_below(SHAPES.len() as u64) as usize];
    let mut words = vec![command.to_owned()];
    if random.percent(10) {
        words[0] = command.to_ascii_lowercase();
    }
    let (once, repeated) = shape.split_once('*').unwrap_or((shape, ""));
    once.chars().for_each(|letter| argument(random, letter, options, &mut words));
    if !repeated.is_empty() {
        for _ in 0..random.next_below(4) {
            repeated.chars().for_each(|letter| argument(random, letter, options, &mut words));
        }
    }
    if random.percent(4) && words.len() > 1 {
        words.pop();
    }
    if random.percent(4) {
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
    all.sort();
    Some(all)
}

/// The replies of an array, as their bytes.
fn elements(reply: &[u8]) -> Option<Vec<&[u8]>> {
    let end = reply.iter().position(|byte| *byte == b'\n').filter(|_| reply.starts_with(b"*"))?;
    let (mut rest, mut all) = (&reply[end + 1..], Vec::new());
    while !rest.is_empty() {
        let length = ReplyDecoder::new(ReplyLimits::default()).decode(rest).ok()??.consumed_bytes();
        let (first, behind) = rest.split_at(length);
        all.push(first);
        rest = behind;
    }
    Some(all)
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
    let mut different = (0..queue.len()).filter(|at| ours[*at] != theirs[*at]);
    different
        .all(|at| permitted_of_one(&queue[at], ours[at], theirs[at]).is_some())
        .then_some("replies of EXEC, each permitted")
}

/// As [`permitted`], for a request that is not `EXEC`.
fn permitted_of_one(words: &[String], ours: &[u8], theirs: &[u8]) -> Option<&'static str> {
    let name = words[0].to_ascii_uppercase();
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
        "INCRBYFLOAT" if both(b"$") => Some("sums are exact, and not of 80 bits"),
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
    let (mut ours, mut theirs) = (Connection::open(server.address()), Connection::open(address));
    let mut ask = |words: &[String]| (ours.ask(words), theirs.ask(words));
    let begin = |version: &str| {
        let lines =
            ["FLUSHALL".to_owned(), format!("HELLO {version}"), "CONFIG SET appendfsync no".to_owned()];
        lines.map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    };
    let (mut faults, mut differences) = (BTreeMap::new(), BTreeMap::<_, u64>::new());
    // Requests that redis has queued; `None` without `MULTI`.
    let mut queue: Option<Vec<Vec<String>>> = None;
    let mut versions = ["2", "3"].into_iter().cycle();
    for at in 0..requests {
        if at % 500 == 0 {
            ask(&["RESET".to_owned()]);
            begin(versions.next().unwrap_or("2")).iter().for_each(|words| drop(ask(words)));
            queue = None;
        }
        let words = request(&mut random);
        let name = words[0].to_ascii_uppercase();
        let is_wrong = name == "EXEC" && words.len() > 1 || name == "PING" && words.len() > 2;
        if queue.is_some() && (matches!(&*name, "HELLO" | "AUTH") || is_wrong) {
            // Within MULTI, redis queues the first two and a wrong PING, and drops the queue after a wrong EXEC.
            continue;
        }
        let (ours, theirs) = ask(&words);
        let in_queue = queue.is_some();
        let queued = queue.take().unwrap_or_default();
        let is_float =
            std::iter::once(&words).chain(&queued).any(|words| words[0].eq_ignore_ascii_case("INCRBYFLOAT"));
        let goes_on = ours == theirs
            || match permitted(&words, &queued, &ours, &theirs) {
                Some(reason) => {
                    *differences.entry(reason).or_default() += 1;
                    !is_float && reason != LOST
                }
                None => {
                    let told =
                        || format!("{words:?}\n  ours   {}\n  theirs {}", shown(&ours), shown(&theirs));
                    faults.entry((name.clone(), ours[0], theirs[0])).or_insert_with(told);
                    false
                }
            };
        if !goes_on {
            // Both servers begin anew, so that a difference is told once.
            ask(&["RESET".to_owned()]);
            begin("2").iter().for_each(|words| drop(ask(words)));
        } else if shown(&theirs) == "+QUEUED" {
            queue = Some([queued, vec![words]].concat());
        } else if name == "MULTI" && shown(&theirs) == "+OK" {
            queue = Some(Vec::new());
        } else if in_queue && name != "EXEC" && !(matches!(&*name, "DISCARD" | "RESET") && theirs[0] == b'+')
        {
            queue = Some(queued);
        }
    }
    for (command, ..) in SHAPES.iter().filter(|(command, ..)| !matches!(*command, "NONE" | "OBJECT")) {
        let (ours, theirs) = ask(&["COMMAND", "INFO", command].map(str::to_owned));
        let (ours, theirs) = (description(&ours), description(&theirs));
        if ours != theirs {
            faults.insert(
                ((*command).to_owned(), 0, 0),
                format!("COMMAND INFO {command}\n  ours   {ours:?}\n  theirs {theirs:?}"),
            );
        }
    }
    for (reason, count) in &differences {
        println!("permitted {count} times: {reason}");
    }
    let all: Vec<&str> = faults.values().map(String::as_str).collect();
    assert!(all.is_empty(), "seed {seed}: {} differences\n{}", all.len(), all.join("\n"));
    server.stop().expect("a server without a log");
}
