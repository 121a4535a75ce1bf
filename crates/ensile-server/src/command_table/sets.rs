//! Commands of sets.
//!
//! Neighbours: `command_table` puts all commands together.

use super::entry::{ALL, DELETE, FIRST, FIRST_TWO, NO_KEYS, READ, READ_SLOW, WRITE, WRITE_SLOW, data};
use crate::command::Command;
use crate::command::CommandFunction::Data;
use crate::commands::sets;

pub(super) const COMMANDS: &[Command] = &[
    data("SADD", -3, WRITE, FIRST, Data(sets::add), "Adds members to a set"),
    data("SREM", -3, DELETE, FIRST, Data(sets::remove), "Removes members of a set"),
    data("SISMEMBER", 3, READ, FIRST, Data(sets::contains), "Tells if a set has a member"),
    data("SMISMEMBER", -3, READ, FIRST, Data(sets::contains_many), "Tells which members a set has"),
    data("SCARD", 2, READ, FIRST, Data(sets::count), "Counts the members of a set"),
    data("SMEMBERS", 2, READ_SLOW, FIRST, Data(sets::members), "Shows all members of a set"),
    data("SPOP", -2, DELETE, FIRST, Data(sets::pop), "Shows random members, and removes them"),
    data("SRANDMEMBER", -2, READ_SLOW, FIRST, Data(sets::random_member), "Shows random members"),
    data("SMOVE", 4, DELETE, FIRST_TWO, Data(sets::move_member), "Moves a member to another set"),
    data("SSCAN", -3, READ_SLOW, FIRST, Data(sets::scan), "Shows members from a cursor on: MATCH, COUNT"),
    data("SINTER", -2, READ_SLOW, ALL, Data(sets::intersection), "Shows the members that all sets have"),
    data("SUNION", -2, READ_SLOW, ALL, Data(sets::union), "Shows the members of all sets"),
    data(
        "SDIFF",
        -2,
        READ_SLOW,
        ALL,
        Data(sets::difference),
        "Shows the members of the first set that no other set has",
    ),
    data(
        "SINTERSTORE",
        -3,
        WRITE_SLOW,
        ALL,
        Data(sets::store_intersection),
        "Stores the members that all sets have",
    ),
    data("SUNIONSTORE", -3, WRITE_SLOW, ALL, Data(sets::store_union), "Stores the members of all sets"),
    data(
        "SDIFFSTORE",
        -3,
        WRITE_SLOW,
        ALL,
        Data(sets::store_difference),
        "Stores the members of the first set that no other set has",
    ),
    data(
        "SINTERCARD",
        -3,
        READ_SLOW,
        NO_KEYS,
        Data(sets::count_intersection),
        "Counts the members that all sets have: LIMIT",
    )
    .keys_counted_by(1),
];
