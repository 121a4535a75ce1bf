//! The table of commands: name, number of arguments, flags, keys and function.
//!
//! Neighbours: `ensile-serving` finds a request's command through [`find`], and tells the table (`COMMAND`).

use ensile_serving::command::{CommandInfo, Subcommand, WhileQueueing};

use crate::command::{Command, CommandFunction};
use crate::commands::{common_subsequence, expiry, hashes, keys, strings};
use crate::{access, admin, execution};

const READ: &[&str] = &["readonly", "fast"];
const READ_SLOW: &[&str] = &["readonly"];
const WRITE: &[&str] = &["write", "denyoom", "fast"];
const WRITE_SLOW: &[&str] = &["write", "denyoom"];
const DELETE: &[&str] = &["write", "fast"];
const DELETE_SLOW: &[&str] = &["write"];
const ADMIN: &[&str] = &["admin", "noscript"];
const CONNECTION: &[&str] = &["noscript", "fast"];

const NO_KEYS: (i64, i64, i64) = (0, 0, 0);
const FIRST: (i64, i64, i64) = (1, 1, 1);
const FIRST_TWO: (i64, i64, i64) = (1, 2, 1);
const ALL: (i64, i64, i64) = (1, -1, 1);
const ALL_PAIRS: (i64, i64, i64) = (1, -1, 2);

use CommandFunction::{Data, Server};

/// All commands of the server, beside the commands of every server.
pub(crate) static COMMANDS: [Command; 108] = [
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
    data("DEL", -2, DELETE_SLOW, ALL, Data(keys::delete), "Deletes keys"),
    data("EXISTS", -2, READ, ALL, Data(keys::exists), "Counts keys that are present"),
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
    data("HGET", 3, READ, FIRST, Data(hashes::get), "Shows the value of a field"),
    data("HSET", -4, WRITE, FIRST, Data(hashes::set), "Sets fields of a hash"),
    data("HMSET", -4, WRITE, FIRST, Data(hashes::set_many), "Sets fields of a hash"),
    data("HDEL", -3, DELETE, FIRST, Data(hashes::delete), "Deletes fields of a hash"),
    data("HLEN", 2, READ, FIRST, Data(hashes::count), "Counts the fields of a hash"),
    data("HGETALL", 2, READ_SLOW, FIRST, Data(hashes::get_all), "Shows all fields and values of a hash"),
    at_once("WATCH", -2, CONNECTION, ALL, Server(execution::watch), "Makes the next EXEC rest on keys"),
    server("UNWATCH", 1, CONNECTION, Server(execution::unwatch), "Forgets watched keys"),
    at_once("RESET", 1, CONNECTION, NO_KEYS, Server(access::reset), "Makes the connection as new"),
    server("TIME", 1, &["fast"], Server(admin::time), "Tells the server's time"),
    server(
        "ROLE",
        1,
        &["fast"],
        Server(admin::role),
        "Tells the role in replication: master, without replicas",
    ),
    server("LASTSAVE", 1, &["fast"], Server(admin::last_save), "Tells the time of the last checkpoint"),
    server(
        "BGREWRITEAOF",
        1,
        ADMIN,
        Server(admin::begin_checkpoint),
        "Begins a checkpoint, which shortens the log",
    )
    .refused_while_queueing(),
    with_subcommands("CONFIG", ADMIN, &CONFIG, Server(admin::config), "Tells and sets parameters: GET, SET"),
    with_subcommands("FUNCTION", ADMIN, &FUNCTION, Server(admin::function), "Drops all functions: FLUSH"),
    missing_command("BITCOUNT"),
    missing_command("BITFIELD"),
    missing_command("BITFIELD_RO"),
    missing_command("BITOP"),
    missing_command("BITPOS"),
    missing_command("GETBIT"),
    missing_command("SETBIT"),
    missing_command("PFADD"),
    missing_command("PFCOUNT"),
    missing_command("PFMERGE"),
    missing_command("GEOADD"),
    missing_command("GEODIST"),
    missing_command("GEOHASH"),
    missing_command("GEOPOS"),
    missing_command("GEORADIUS"),
    missing_command("GEORADIUS_RO"),
    missing_command("GEORADIUSBYMEMBER"),
    missing_command("GEORADIUSBYMEMBER_RO"),
    missing_command("GEOSEARCH"),
    missing_command("GEOSEARCHSTORE"),
    missing_command("SORT"),
    missing_command("SORT_RO"),
    missing_command("DUMP"),
    missing_command("RESTORE"),
    missing_command("SAVE"),
    missing_command("MIGRATE"),
    missing_command("MONITOR"),
    missing_command("MODULE"),
    missing_command("ASKING"),
    missing_command("CLUSTER"),
    missing_command("READONLY"),
    missing_command("READWRITE"),
    missing_command("FAILOVER"),
    missing_command("PSYNC"),
    missing_command("REPLCONF"),
    missing_command("REPLICAOF"),
    missing_command("SLAVEOF"),
    missing_command("SYNC"),
    missing_command("WAIT"),
    missing_command("XACK"),
    missing_command("XAUTOCLAIM"),
    missing_command("XCLAIM"),
    missing_command("XGROUP"),
    missing_command("XPENDING"),
    missing_command("XREADGROUP"),
];

const fn data(
    name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    keys: (i64, i64, i64),
    function: CommandFunction,
    summary: &'static str,
) -> Command {
    Command { info: CommandInfo::new(name, arity, flags, keys, summary), function }
}

const OBJECT: [Subcommand; 5] = [
    Subcommand::new("ENCODING", 3),
    Subcommand::new("REFCOUNT", 3),
    Subcommand::new("IDLETIME", 3),
    Subcommand::new("FREQ", 3),
    Subcommand::new("HELP", 2),
];
const FUNCTION: [Subcommand; 3] =
    [Subcommand::new("FLUSH", -2), Subcommand::new("LIST", -2), Subcommand::new("LOAD", -3)];
const CONFIG: [Subcommand; 5] = [
    Subcommand::new("GET", -3),
    Subcommand::new("SET", -4),
    Subcommand::new("RESETSTAT", 2),
    Subcommand::new("REWRITE", 2),
    Subcommand::new("HELP", 2),
];

const fn with_subcommands(
    name: &'static str,
    flags: &'static [&'static str],
    subcommands: &'static [Subcommand],
    function: CommandFunction,
    summary: &'static str,
) -> Command {
    let info = CommandInfo::new(name, -2, flags, NO_KEYS, summary).subcommands(subcommands);
    Command { info, function }
}

const fn server(
    name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    function: CommandFunction,
    summary: &'static str,
) -> Command {
    data(name, arity, flags, NO_KEYS, function, summary)
}

const fn at_once(
    name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    keys: (i64, i64, i64),
    function: CommandFunction,
    summary: &'static str,
) -> Command {
    let info = CommandInfo::new(name, arity, flags, keys, summary).while_queueing(WhileQueueing::AtOnce);
    Command { info, function }
}

impl Command {
    /// Refuses the command between `MULTI` and `EXEC`: the queue may run several times, or without a commit.
    const fn refused_while_queueing(self) -> Self {
        Self { info: self.info.while_queueing(WhileQueueing::Refused), ..self }
    }
}

/// A command of redis that this server does not have.
const fn missing_command(name: &'static str) -> Command {
    let info = CommandInfo::new(name, -1, &[], NO_KEYS, "Is refused: this server does not have the command")
        .while_queueing(WhileQueueing::Refused);
    Command { info, function: Server(admin::refuse_missing) }
}

/// Longest name of a command in bytes.
const NAME_BYTES_MAX: usize = 20;

/// Numbers of the commands, in the order of the names.
const NUMBERS_BY_NAME: [u8; COMMANDS.len()] = numbers_by_name();

/// Sorts by insertion.
const fn numbers_by_name() -> [u8; COMMANDS.len()] {
    let mut numbers = [0; COMMANDS.len()];
    let mut sorted = 0;
    while sorted < COMMANDS.len() {
        let mut place = sorted;
        while place > 0 && comes_before(name_of(sorted), name_of(numbers[place - 1] as usize)) {
            numbers[place] = numbers[place - 1];
            place -= 1;
        }
        numbers[place] = sorted as u8;
        sorted += 1;
    }
    numbers
}

const fn name_of(number: usize) -> &'static [u8] {
    COMMANDS[number].info.name.as_bytes()
}

/// True if a name comes before another. Both names differ, as the table has each name once.
const fn comes_before(name: &[u8], other: &[u8]) -> bool {
    assert!(name.len() <= NAME_BYTES_MAX, "the search takes no longer names");
    let mut at = 0;
    while at < name.len() && at < other.len() {
        if name[at] != other[at] {
            return name[at] < other[at];
        }
        at += 1;
    }
    assert!(name.len() != other.len(), "a name stands for one command");
    name.len() < other.len()
}

/// The command of this name, in any case.
#[inline]
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut capitals = [0; NAME_BYTES_MAX];
    let capitals = capitals.get_mut(..name.len())?;
    capitals.copy_from_slice(name);
    capitals.make_ascii_uppercase();
    let found = NUMBERS_BY_NAME.binary_search_by(|number| name_of(usize::from(*number)).cmp(capitals));
    found.ok().map(|place| &COMMANDS[usize::from(NUMBERS_BY_NAME[place])])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{COMMANDS, find};

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        let names: HashSet<_> = COMMANDS.iter().map(|command| command.info.name).collect();
        assert_eq!(names.len(), COMMANDS.len(), "a name is used once");
        for name in names {
            for spelled in [name.to_owned(), name.to_ascii_lowercase()] {
                assert_eq!(find(spelled.as_bytes()).expect(name).info.name, name);
            }
        }
        assert!(find(b"NONE").is_none() && find(b"a name that is longer than any").is_none());
    }
}
