//! Commands of strings.
//!
//! Neighbours: `command_table` puts all commands together.

use super::entry::{ALL, ALL_PAIRS, DELETE, FIRST, FIRST_TWO, READ, READ_SLOW, WRITE, WRITE_SLOW, data};
use crate::command::Command;
use crate::command::CommandFunction::Data;
use crate::commands::{common_subsequence, strings};

pub(super) const COMMANDS: &[Command] = &[
    data("GET", 2, READ, FIRST, Data(strings::get), "Shows a string"),
    data(
        "SET",
        -3,
        WRITE,
        FIRST,
        Data(strings::set),
        "Sets a string: NX, XX, GET, EX, PX, EXAT, PXAT, KEEPTTL",
    ),
    data("INCR", 2, WRITE, FIRST, Data(strings::increment), "Adds one to a whole number"),
    data("MGET", -2, READ, ALL, Data(strings::get_many), "Shows several strings"),
    data("MSET", -3, WRITE_SLOW, ALL_PAIRS, Data(strings::set_many), "Sets several strings"),
    data(
        "MSETNX",
        -3,
        WRITE_SLOW,
        ALL_PAIRS,
        Data(strings::set_many_absent),
        "Sets several strings, if no key is present",
    ),
    data("SETNX", 3, WRITE, FIRST, Data(strings::set_absent), "Sets a string, if the key is absent"),
    data("SETEX", 4, WRITE, FIRST, Data(strings::set_expiring), "Sets a string that expires, in seconds"),
    data(
        "PSETEX",
        4,
        WRITE,
        FIRST,
        Data(strings::set_expiring),
        "Sets a string that expires, in milliseconds",
    ),
    data("GETSET", 3, WRITE, FIRST, Data(strings::get_set), "Sets a string, and shows the string before"),
    data("GETDEL", 2, DELETE, FIRST, Data(strings::get_delete), "Shows a string, and deletes it"),
    data("GETEX", -2, DELETE, FIRST, Data(strings::get_expiring), "Shows a string, and sets its expiry"),
    data("STRLEN", 2, READ, FIRST, Data(strings::length), "Tells a string's length"),
    data("APPEND", 3, WRITE, FIRST, Data(strings::append), "Appends to a string"),
    data("GETRANGE", 4, READ_SLOW, FIRST, Data(strings::get_range), "Shows a part of a string"),
    data("SUBSTR", 4, READ_SLOW, FIRST, Data(strings::get_range), "Shows a part of a string"),
    data("SETRANGE", 4, WRITE_SLOW, FIRST, Data(strings::set_range), "Overwrites a part of a string"),
    data("DECR", 2, WRITE, FIRST, Data(strings::decrement), "Takes one from a whole number"),
    data("INCRBY", 3, WRITE, FIRST, Data(strings::increment_by), "Adds to a whole number"),
    data("DECRBY", 3, WRITE, FIRST, Data(strings::decrement_by), "Takes from a whole number"),
    data("INCRBYFLOAT", 3, WRITE, FIRST, Data(strings::increment_float), "Adds to a number with a fraction"),
    data(
        "LCS",
        -3,
        READ_SLOW,
        FIRST_TWO,
        Data(common_subsequence::common_subsequence),
        "Shows the longest common subsequence of two strings: LEN, IDX, MINMATCHLEN, WITHMATCHLEN",
    ),
];
