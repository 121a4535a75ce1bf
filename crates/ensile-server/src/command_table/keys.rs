//! Commands of keys of any type.
//!
//! Neighbours: `command_table` puts all commands together.

use super::entry::{
    ALL, DELETE, DELETE_SLOW, FIRST, FIRST_TWO, NO_KEYS, READ, READ_SLOW, SECOND, WRITE_SLOW, data,
    with_subcommands,
};
use crate::command::Command;
use crate::command::CommandFunction::Data;
use crate::commands::{expiry, keys, memory};
use ensile_serving::command::Subcommand;

pub(super) const COMMANDS: &[Command] = &[
    data("DEL", -2, DELETE_SLOW, ALL, Data(keys::delete), "Deletes keys"),
    data("EXISTS", -2, READ, ALL, Data(keys::exists), "Counts keys that are present"),
    data("UNLINK", -2, DELETE, ALL, Data(keys::delete), "Deletes keys"),
    data("TOUCH", -2, READ, ALL, Data(keys::exists), "Counts keys that are present"),
    data("TYPE", 2, READ, FIRST, Data(keys::type_of), "Tells the type of a key's value"),
    data("RENAME", 3, DELETE_SLOW, FIRST_TWO, Data(keys::rename), "Gives a value another key"),
    data(
        "RENAMENX",
        3,
        DELETE,
        FIRST_TWO,
        Data(keys::rename_absent),
        "Gives a value another key, if that key is absent",
    ),
    data("COPY", -3, WRITE_SLOW, FIRST_TWO, Data(keys::copy), "Copies a value: DB, REPLACE"),
    data("MOVE", 3, DELETE, FIRST, Data(keys::move_key), "Moves a key to another database"),
    data("KEYS", 2, READ_SLOW, NO_KEYS, Data(keys::keys), "Shows the keys of a pattern"),
    data("SCAN", -2, READ_SLOW, NO_KEYS, Data(keys::scan), "Shows keys from a cursor on: MATCH, COUNT, TYPE"),
    data("RANDOMKEY", 1, READ_SLOW, NO_KEYS, Data(keys::random_key), "Shows any key"),
    data("DBSIZE", 1, READ, NO_KEYS, Data(keys::size), "Counts the keys of the database"),
    data("FLUSHDB", -1, DELETE_SLOW, NO_KEYS, Data(keys::flush), "Empties the database at once"),
    data("FLUSHALL", -1, DELETE_SLOW, NO_KEYS, Data(keys::flush_all), "Empties all databases at once"),
    data("SWAPDB", 3, DELETE, NO_KEYS, Data(keys::swap), "Exchanges the contents of two databases"),
    with_subcommands(
        "OBJECT",
        READ_SLOW,
        &OBJECT,
        Data(keys::object),
        "Tells properties of a value: ENCODING, REFCOUNT",
    ),
    with_subcommands("MEMORY", READ_SLOW, &MEMORY, Data(memory::memory), "Tells the bytes of a value: USAGE"),
    data(
        "EXPIRE",
        -3,
        DELETE,
        FIRST,
        Data(expiry::expire),
        "Sets an expiry in seconds from now: NX, XX, GT, LT",
    ),
    data(
        "PEXPIRE",
        -3,
        DELETE,
        FIRST,
        Data(expiry::expire),
        "Sets an expiry in milliseconds from now: NX, XX, GT, LT",
    ),
    data(
        "EXPIREAT",
        -3,
        DELETE,
        FIRST,
        Data(expiry::expire),
        "Sets an expiry in seconds since 1970: NX, XX, GT, LT",
    ),
    data(
        "PEXPIREAT",
        -3,
        DELETE,
        FIRST,
        Data(expiry::expire),
        "Sets an expiry in milliseconds since 1970: NX, XX, GT, LT",
    ),
    data("PERSIST", 2, DELETE, FIRST, Data(expiry::persist), "Removes an expiry"),
    data("TTL", 2, READ, FIRST, Data(expiry::time_left), "Tells the seconds up to the expiry"),
    data("PTTL", 2, READ, FIRST, Data(expiry::time_left), "Tells the milliseconds up to the expiry"),
    data("EXPIRETIME", 2, READ, FIRST, Data(expiry::time_left), "Tells the expiry in seconds since 1970"),
    data(
        "PEXPIRETIME",
        2,
        READ,
        FIRST,
        Data(expiry::time_left),
        "Tells the expiry in milliseconds since 1970",
    ),
];

const OBJECT: [Subcommand; 5] = [
    Subcommand::new("ENCODING", 3).keys(SECOND),
    Subcommand::new("REFCOUNT", 3).keys(SECOND),
    Subcommand::new("IDLETIME", 3).keys(SECOND),
    Subcommand::new("FREQ", 3).keys(SECOND),
    Subcommand::new("HELP", 2),
];
const MEMORY: [Subcommand; 6] = [
    Subcommand::new("USAGE", -3).keys(SECOND),
    Subcommand::new("DOCTOR", 2),
    Subcommand::new("HELP", 2),
    Subcommand::new("MALLOC-STATS", 2),
    Subcommand::new("PURGE", 2),
    Subcommand::new("STATS", 2),
];
