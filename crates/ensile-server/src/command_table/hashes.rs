//! Commands of hashes.
//!
//! Neighbours: `command_table` puts all commands together.

use super::entry::{DELETE, FIRST, READ, READ_SLOW, WRITE, data};
use crate::command::Command;
use crate::command::CommandFunction::Data;
use crate::commands::hashes;

pub(super) const COMMANDS: &[Command] = &[
    data("HGET", 3, READ, FIRST, Data(hashes::get), "Shows the value of a field"),
    data("HSET", -4, WRITE, FIRST, Data(hashes::set), "Sets fields of a hash"),
    data("HMSET", -4, WRITE, FIRST, Data(hashes::set_many), "Sets fields of a hash"),
    data("HDEL", -3, DELETE, FIRST, Data(hashes::delete), "Deletes fields of a hash"),
    data("HLEN", 2, READ, FIRST, Data(hashes::count), "Counts the fields of a hash"),
    data("HGETALL", 2, READ_SLOW, FIRST, Data(hashes::get_all), "Shows all fields and values of a hash"),
    data("HMGET", -3, READ, FIRST, Data(hashes::get_many), "Shows the values of fields"),
    data("HEXISTS", 3, READ, FIRST, Data(hashes::exists), "Tells if a hash has a field"),
    data("HSTRLEN", 3, READ, FIRST, Data(hashes::length), "Tells the length of a field's value"),
    data("HSETNX", 4, WRITE, FIRST, Data(hashes::set_absent), "Sets a field, if the field is absent"),
    data("HINCRBY", 4, WRITE, FIRST, Data(hashes::increment_by), "Adds to the whole number of a field"),
    data(
        "HINCRBYFLOAT",
        4,
        WRITE,
        FIRST,
        Data(hashes::increment_float),
        "Adds to a field's number with a fraction",
    ),
    data("HKEYS", 2, READ_SLOW, FIRST, Data(hashes::fields), "Shows all fields of a hash"),
    data("HVALS", 2, READ_SLOW, FIRST, Data(hashes::values), "Shows all values of a hash"),
    data("HSCAN", -3, READ_SLOW, FIRST, Data(hashes::scan), "Shows fields from a cursor on: MATCH, COUNT"),
    data("HRANDFIELD", -2, READ_SLOW, FIRST, Data(hashes::random_field), "Shows random fields: WITHVALUES"),
];
