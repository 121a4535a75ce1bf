//! Requests for sorted sets, for the comparison with redis.
//!
//! A range by members is only defined for members of one score, so such ranges are asked of keys of their own.

use ensile_base::random::Random;

use super::pick;

/// As [`super::SHAPES`]. Further letters: a key of a sorted set (z), a key whose members have one score (l), a member
/// (m), a score (x), many pairs of scores and members (Z), many members with the score 0 (L), a bound of a range by
/// scores (b) or by members (B), keys with their number before (n), a set's key (t).
pub(super) const SHAPES: &[(&str, &str, &[&str])] = &[
    ("ZADD", "zZ", &[]),
    ("ZADD", "zZ", &[]),
    ("ZADD", "zxm*xm", &[]),
    ("ZADD", "zoxm", &["NX", "XX", "GT", "LT", "CH", "INCR", "gt", "Nx"]),
    ("ZADD", "lL", &[]),
    ("ZINCRBY", "zxm", &[]),
    ("ZREM", "zm*m", &[]),
    ("ZREM", "lm*m", &[]),
    ("ZCARD", "z", &[]),
    ("ZSCORE", "zm", &[]),
    ("ZMSCORE", "zm*m", &[]),
    ("ZRANK", "zm", &[]),
    ("ZREVRANK", "zm", &[]),
    ("ZCOUNT", "zbb", &[]),
    ("ZLEXCOUNT", "lBB", &[]),
    ("ZRANGE", "zrro", RANK_OPTIONS),
    ("ZRANGE", "zbbBYSCOREo", SCORE_OPTIONS),
    ("ZRANGE", "lBBBYLEXo", MEMBER_OPTIONS),
    ("ZREVRANGE", "zrro", &["WITHSCORES", "LIMIT 0 1", "REV"]),
    ("ZRANGEBYSCORE", "zbbo", SCORE_OPTIONS),
    ("ZREVRANGEBYSCORE", "zbbo", SCORE_OPTIONS),
    ("ZRANGEBYLEX", "lBBo", MEMBER_OPTIONS),
    ("ZREVRANGEBYLEX", "lBBo", MEMBER_OPTIONS),
    ("ZRANGESTORE", "zzrro", RANK_OPTIONS),
    ("ZRANGESTORE", "zzbbBYSCOREo", SCORE_OPTIONS),
    ("ZRANGESTORE", "llBBBYLEXo", MEMBER_OPTIONS),
    ("ZREMRANGEBYRANK", "zrr", &[]),
    ("ZREMRANGEBYSCORE", "zbb", &[]),
    ("ZREMRANGEBYLEX", "lBB", &[]),
    ("ZPOPMIN", "zo", COUNTS),
    ("ZPOPMAX", "zo", COUNTS),
    ("ZMPOP", "no", &["MIN", "MAX", "COUNT 2", "COUNT 0", "COUNT x", "min"]),
    ("ZMPOP", "nMINo", &["COUNT 2", "COUNT 100", "COUNT"]),
    ("ZRANDMEMBER", "zo", &["1", "-3", "0", "1000", "5 WITHSCORES", "x", "-9223372036854775808"]),
    ("ZSCAN", "zco", &["MATCH *1*", "COUNT 1000", "COUNT 0", "BOGUS 1"]),
    ("ZUNION", "no", OPERATION_OPTIONS),
    ("ZINTER", "no", OPERATION_OPTIONS),
    ("ZDIFF", "no", OPERATION_OPTIONS),
    ("ZINTERCARD", "no", &["LIMIT 3", "LIMIT 0", "LIMIT -1", "LIMIT x", "LIMIT", "WITHSCORES"]),
    ("ZUNIONSTORE", "zno", OPERATION_OPTIONS),
    ("ZINTERSTORE", "zno", OPERATION_OPTIONS),
    ("ZDIFFSTORE", "zno", OPERATION_OPTIONS),
    ("SADD", "tm*m", &[]),
    ("SREM", "tm*m", &[]),
    ("DEL", "z", &[]),
    ("COPY", "zzo", &["REPLACE"]),
    ("RENAME", "zz", &[]),
    ("EXPIRE", "zso", &["NX", "GT"]),
    ("TTL", "z", &[]),
    ("TYPE", "z", &[]),
    ("DBSIZE", "", &[]),
    ("GET", "z", &[]),
];

const RANK_OPTIONS: &[&str] =
    &["REV", "WITHSCORES", "LIMIT 0 -1", "LIMIT 1 2", "rev", "BYSCORE", "BYLEX", "LIMIT 1"];
const SCORE_OPTIONS: &[&str] = &[
    "REV",
    "WITHSCORES",
    "LIMIT 0 10",
    "LIMIT 3 -1",
    "LIMIT 100 50",
    "LIMIT -1 5",
    "LIMIT 2 0",
    "LIMIT x 1",
    "LIMIT 1",
    "limit 1 1",
];
const MEMBER_OPTIONS: &[&str] =
    &["REV", "WITHSCORES", "LIMIT 0 10", "LIMIT 3 -1", "LIMIT 40 50", "LIMIT -1 5"];
const COUNTS: &[&str] = &["1", "0", "3", "40", "-1", "x", "9223372036854775807"];
const OPERATION_OPTIONS: &[&str] = &[
    "WITHSCORES",
    "AGGREGATE MIN",
    "AGGREGATE MAX",
    "aggregate sum",
    "AGGREGATE x",
    "WEIGHTS 2",
    "WEIGHTS 2 3",
    "WEIGHTS 0.5 -1",
    "WEIGHTS inf 0.1 7",
    "WEIGHTS x 1",
    "LIMIT 1",
];

const KEYS: &[&str] = &["z1", "z2", "z3", "z1", "z2", "z3", "z1", "z2", "none", "t1", "a"];
const SCORES: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "-1",
    "0.1",
    "-2.5",
    "1e300",
    "-1e300",
    "inf",
    "-inf",
    "1.5e-7",
    "123456789012345678",
    "1e17",
    "3.0",
    "4.9e-324",
    "x",
    "nan",
    "",
    "1e400",
    " 1",
];
const BOUNDS: &[&str] = &[
    "-inf", "+inf", "0", "(0", "1", "(1", "2", "(2", "-1", "50", "(50", "100", "150", "0.1", "1e300", "inf",
    "(inf", "(-inf", "x", "", "(", "nan", " 1", "1 ",
];
const MEMBER_BOUNDS: &[&str] = &[
    "-", "+", "[m1", "(m1", "[m150", "(m2", "[m", "[", "(", "[n", "(m250", "[m7", "x", "", "-1", "(m99", "+x",
];
const RANKS: &[&str] = &[
    "0",
    "1",
    "-1",
    "-2",
    "5",
    "60",
    "70",
    "130",
    "-100",
    "1000",
    "9223372036854775807",
    "-9223372036854775808",
    "x",
];

fn member(random: &mut Random) -> String {
    match random.next_below(12) {
        0 => String::new(),
        1 => "7".to_owned(),
        2 => "x".repeat(70),
        _ => format!("m{}", random.next_below(300)),
    }
}

/// Number of pairs of a request with many.
fn many(random: &mut Random) -> u64 {
    let most = if random.percent(30) { 200 } else { 8 };
    1 + random.next_below(most)
}

/// Appends the argument of a letter; false for a letter that is not of this file.
pub(super) fn argument(random: &mut Random, letter: char, words: &mut Vec<String>) -> bool {
    let values: &[&str] = match letter {
        'z' => KEYS,
        'l' => &["l1", "l2", "l1", "l3"],
        't' => &["t1", "t2", "t1", "z1"],
        'x' => SCORES,
        'b' => BOUNDS,
        'B' => MEMBER_BOUNDS,
        'r' => RANKS,
        'm' => {
            words.push(member(random));
            return true;
        }
        'Z' => {
            for _ in 0..many(random) {
                let score = if random.percent(20) {
                    pick(random, &SCORES[..16]).to_owned()
                } else {
                    random.next_below(200).to_string()
                };
                words.extend([score, member(random)]);
            }
            return true;
        }
        'L' => {
            for _ in 0..many(random) {
                words.extend(["0".to_owned(), member(random)]);
            }
            return true;
        }
        'n' => {
            let count = random.next_below(4);
            let told = if random.percent(4) { pick(random, RANKS).to_owned() } else { count.to_string() };
            words.push(told);
            for _ in 0..count {
                let keys = if random.percent(20) { &["t1", "t2"] } else { KEYS };
                words.push(pick(random, keys).to_owned());
            }
            return true;
        }
        _ => return false,
    };
    words.push(pick(random, values).to_owned());
    true
}

/// A reply without the sign of zero.
fn without_sign(reply: &[u8]) -> String {
    String::from_utf8_lossy(reply).replace("$2\r\n-0\r\n", "$1\r\n0\r\n").replace(",-0\r\n", ",0\r\n")
}

/// First line of a reply.
fn header(reply: &[u8]) -> Option<&[u8]> {
    reply.split(|byte| *byte == b'\n').next()
}

/// Difference that is permitted, with its reason.
pub(super) fn permitted(name: &str, ours: &[u8], theirs: &[u8]) -> Option<&'static str> {
    match name {
        "ZRANDMEMBER" if header(ours)?[0] == b'$' && header(theirs)?[0] == b'$' => Some("any member"),
        "ZRANDMEMBER" if header(ours) == header(theirs) => Some("any members"),
        "ZSCAN" if ours.starts_with(b"*2") && theirs.starts_with(b"*2") => Some("a walk has other steps"),
        _ if name.starts_with('Z') && without_sign(ours) == without_sign(theirs) => Some("zero has no sign"),
        _ => None,
    }
}
