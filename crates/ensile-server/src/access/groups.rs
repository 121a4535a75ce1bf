//! Groups of commands, by redis' names: `@read`, `@admin`, `@dangerous`.
//!
//! Invariant: a command that is added later is in the groups of its flags, so it is never a write outside of `@write`.
//!
//! Neighbours: `user` has rules over groups; `acl` tells the groups.

use ensile_serving::command::{CommandInfo, Subcommand};

/// A group of commands.
#[derive(Debug)]
pub(crate) struct CommandGroup {
    /// Name in small letters, with the sign before it.
    sign: &'static str,
    /// Name in small letters, without the sign before it.
    pub(crate) name: &'static str,
    /// Flag of the commands in the group; empty for a group without a flag.
    flag: &'static str,
    /// Commands and subcommands in the group, beside those with the flag.
    names: &'static [&'static str],
}

/// All groups.
pub(crate) const GROUPS: [CommandGroup; 13] = [
    group("@read", "readonly", &[]),
    group("@write", "write", &[]),
    group("@admin", "admin", &["LASTSAVE", "ROLE"]),
    group("@dangerous", "admin", &["FLUSHALL", "FLUSHDB", "INFO", "KEYS", "LASTSAVE", "ROLE", "SWAPDB"]),
    group("@fast", "fast", &[]),
    group("@slow", "", &[]),
    group("@blocking", "blocking", &[]),
    group("@pubsub", "pubsub", PUBLISHING),
    group("@scripting", "scripting", SCRIPTING),
    group("@stream", "", STREAMS),
    group("@transaction", "", &["DISCARD", "EXEC", "MULTI", "UNWATCH", "WATCH"]),
    group(
        "@connection",
        "",
        &["AUTH", "CLIENT", "COMMAND", "ECHO", "HELLO", "PING", "QUIT", "RESET", "SELECT"],
    ),
    group(
        "@keyspace",
        "",
        &[
            "COPY",
            "DBSIZE",
            "DEL",
            "EXISTS",
            "EXPIRE",
            "EXPIREAT",
            "EXPIRETIME",
            "FLUSHALL",
            "FLUSHDB",
            "KEYS",
            "MEMORY",
            "MOVE",
            "OBJECT",
            "PERSIST",
            "PEXPIRE",
            "PEXPIREAT",
            "PEXPIRETIME",
            "PTTL",
            "RANDOMKEY",
            "RENAME",
            "RENAMENX",
            "SCAN",
            "SWAPDB",
            "TOUCH",
            "TTL",
            "TYPE",
            "UNLINK",
        ],
    ),
];

const PUBLISHING: &[&str] = &[
    "PSUBSCRIBE",
    "PUBLISH",
    "PUBSUB",
    "PUNSUBSCRIBE",
    "SPUBLISH",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SUNSUBSCRIBE",
    "UNSUBSCRIBE",
];
const STREAMS: &[&str] =
    &["XADD", "XDEL", "XINFO", "XLEN", "XRANGE", "XREAD", "XREVRANGE", "XSETID", "XTRIM"];
const SCRIPTING: &[&str] =
    &["EVAL", "EVALSHA", "EVALSHA_RO", "EVAL_RO", "FCALL", "FCALL_RO", "FUNCTION", "SCRIPT"];

const fn group(sign: &'static str, flag: &'static str, names: &'static [&'static str]) -> CommandGroup {
    let (_, name) = sign.split_at(1);
    CommandGroup { sign, name, flag, names }
}

/// Groups of a command, or of its subcommand, each with the sign before it.
pub(crate) fn groups_of(command: &CommandInfo, subcommand: Option<&Subcommand>) -> Vec<&'static str> {
    GROUPS.iter().filter(|group| group.has(command, subcommand)).map(|group| group.sign).collect()
}

impl CommandGroup {
    /// The group of this name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        GROUPS.iter().find(|group| group.name == name)
    }

    /// True if a command, with its subcommand if it has one, is in the group.
    pub(crate) fn has(&self, command: &CommandInfo, subcommand: Option<&Subcommand>) -> bool {
        let has_flag = |flag: &str| {
            command.has_flag(flag) || subcommand.is_some_and(|subcommand| subcommand.flags.contains(&flag))
        };
        match self.name {
            "slow" => !has_flag("fast"),
            _ => !self.flag.is_empty() && has_flag(self.flag) || self.names.contains(&command.name),
        }
    }
}
