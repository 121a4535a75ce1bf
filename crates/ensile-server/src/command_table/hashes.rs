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
];
