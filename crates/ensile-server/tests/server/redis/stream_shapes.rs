//! Requests for streams, for the comparison with redis. Ids are given as a whole, or but for the sequence number.

use ensile_base::random::Random;

use super::{elements, pick};

/// As [`super::SHAPES`]. Further letters: a key of a stream (x), a key of any type (k), an id of a new entry (n), an id
/// (i), a bound of a range (b), a valid trim (T), fields with values (F), keys with positions behind `STREAMS` (R), a
/// subcommand of `XINFO` (I).
pub(super) const SHAPES: &[(&str, &str, &[&str])] = &[
    ("XADD", "xnF", &[]),
    ("XADD", "xnF", &[]),
    ("XADD", "xnF", &[]),
    ("XADD", "xTnF", &[]),
    ("XADD", "xonF", TRIMS),
    ("XADD", "xoo", &["7-*", "f v", "NOMKSTREAM", "MAXLEN"]),
    ("XLEN", "x", &[]),
    ("XRANGE", "xbbo", COUNTS),
    ("XREVRANGE", "xbbo", COUNTS),
    ("XREAD", "R", &[]),
    ("XREAD", "oR", READS),
    ("XTRIM", "xT", &[]),
    ("XTRIM", "xo", TRIMS),
    ("XDEL", "xi*i", &[]),
    (
        "XSETID",
        "xio",
        &["ENTRIESADDED 5", "ENTRIESADDED -1", "entriesadded x", "MAXDELETEDID 1-1", "MAXDELETEDID 7-2", "x"],
    ),
    ("XINFO", "I", &[]),
    ("SET", "kv", &[]),
    ("GET", "x", &[]),
    ("TYPE", "x", &[]),
    ("EXISTS", "x", &[]),
    ("DEL", "x", &[]),
    ("COPY", "xxo", &["REPLACE"]),
    ("RENAME", "xx", &[]),
    ("EXPIRE", "xso", &["NX", "GT"]),
];

const VALID_TRIMS: &[&str] = &[
    "MAXLEN 3",
    "MAXLEN = 4",
    "maxlen = 2",
    "MAXLEN 0",
    "MAXLEN ~ 0",
    "MAXLEN ~ 1000 LIMIT 0",
    "MAXLEN ~ 0 LIMIT 1000",
    "MINID 2",
    "MINID = 3-2",
    "minid ~ 0-1",
];
const TRIMS: &[&str] = &[
    "NOMKSTREAM",
    "nomkstream",
    "MAXLEN 3",
    "MINID 2",
    "MINID x",
    "MAXLEN x",
    "MAXLEN -1",
    "MAXLEN",
    "LIMIT 5",
    "LIMIT 0",
    "LIMIT -1",
    "MAXLEN = 4 LIMIT 1",
];
const COUNTS: &[&str] = &["COUNT 1", "COUNT 2", "count 10", "COUNT 0", "COUNT -1", "COUNT x", "COUNT", "x"];
const READS: &[&str] = &[
    "COUNT 1",
    "COUNT 2",
    "COUNT 0",
    "count -1",
    "BLOCK 2",
    "block 1",
    "COUNT x",
    "BLOCK x",
    "BLOCK -1",
    "GROUP a b",
    "NOACK",
    "x",
];
const INFO: &[&str] = &[
    "STREAM x1",
    "STREAM x2",
    "STREAM x1 FULL",
    "STREAM x2 FULL COUNT 1",
    "STREAM x1 FULL COUNT 0",
    "STREAM x1 full count -1",
    "STREAM x1 FULL COUNT x",
    "STREAM x1 BOGUS",
    "STREAM none",
    "STREAM s",
    "STREAM",
    "GROUPS x1",
    "GROUPS none",
    "FOO x1",
    "HELP",
];
/// Ids that are often valid, and ids that seldom are.
const NEW_IDS: [&[&str]; 2] = [
    &[
        "1-*", "2-*", "3-*", "5-*", "5-*", "5-*", "7-*", "7-1", "5-2", "3-3", "2-0", "1-1", "5", "+6-2",
        "007-2",
    ],
    &[
        "0-*",
        "0-0",
        "6-18446744073709551615",
        "7-x",
        "1-1-1",
        " 6-3",
        "-",
        "+",
        "",
        "-*",
        "18446744073709551616-1",
        "18446744073709551615-18446744073709551615",
    ],
];
const IDS: [&[&str]; 2] =
    [&["1-0", "1-1", "2-0", "3-3", "5-0", "5-1", "5-2", "5-3", "7-0", "7-1", "7"], &["0-1", "x", "-", "9-9"]];
const BOUNDS: [&[&str]; 2] = [
    &["-", "+", "-", "+", "1", "2-1", "(1-1", "(2", "3-3", "(3", "5", "5-2", "(5-2", "7", "(7-2", "0-0"],
    &[
        "(0-0",
        "(",
        "(-",
        "x",
        "18446744073709551615-18446744073709551615",
        "(18446744073709551615-18446744073709551615",
    ],
];
const POSITIONS: [&[&str]; 2] = [
    &["0", "0-0", "1-1", "2", "5-1", "5-3", "7-1", "$", "18446744073709551615-18446744073709551615"],
    &[">", "x", "+"],
];

/// Appends the argument of a letter. False for a letter of other shapes.
pub(super) fn argument(random: &mut Random, letter: char, words: &mut Vec<String>) -> bool {
    let key = |random: &mut Random| {
        let keys: &[&str] = if random.percent(90) { &["x1", "x2", "x3"] } else { &["s", "none", ""] };
        pick(random, keys).to_owned()
    };
    let any_of = |random: &mut Random, [often, seldom]: [&[&str]; 2]| {
        let ids = if random.percent(92) { often } else { seldom };
        pick(random, ids).to_owned()
    };
    let word = match letter {
        'x' => key(random),
        'k' => pick(random, &["s", "s", "s", "x1"]).to_owned(),
        'n' => any_of(random, NEW_IDS),
        'i' => any_of(random, IDS),
        'b' => any_of(random, BOUNDS),
        'T' | 'I' => {
            let choices = if letter == 'T' { VALID_TRIMS } else { INFO };
            words.extend(pick(random, choices).split(' ').map(str::to_owned));
            return true;
        }
        'F' => {
            for at in 0..=random.next_below(3) {
                words.extend([format!("f{at}"), pick(random, super::VALUES).to_owned()]);
            }
            return true;
        }
        'R' => {
            let count = 1 + random.next_below(3);
            words.push("STREAMS".to_owned());
            words.extend((0..count).map(|_| key(random)).collect::<Vec<_>>());
            words.extend((0..count).map(|_| any_of(random, POSITIONS)).collect::<Vec<_>>());
            return true;
        }
        _ => return false,
    };
    words.push(word);
    true
}

/// Difference that is permitted, with its reason.
pub(super) fn permitted(name: &str, ours: &[u8], theirs: &[u8]) -> Option<&'static str> {
    // The numbers of keys and nodes of the tree.
    let others = |reply| {
        let parts = elements(reply)?.into_iter().enumerate();
        Some(parts.filter(|(at, _)| !matches!(at, 3 | 5)).map(|(_, part)| part).collect::<Vec<_>>())
    };
    let is_stream = name == "XINFO" && ours.first() == theirs.first();
    (is_stream && others(ours).is_some_and(|ours| Some(ours) == others(theirs)))
        .then_some("redis tells the nodes of its tree")
}
