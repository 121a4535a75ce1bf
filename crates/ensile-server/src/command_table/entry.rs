//! Entries of the table of commands, by their form.
//!
//! Neighbours: the files of each kind of command have the entries.

use ensile_serving::command::{CommandInfo, MoreKeys, Subcommand, WhileQueueing};

use crate::admin;
use crate::command::{Command, CommandFunction, MISSING};

pub(super) const READ: &[&str] = &["readonly", "fast"];
pub(super) const READ_SLOW: &[&str] = &["readonly"];
pub(super) const WRITE: &[&str] = &["write", "denyoom", "fast"];
pub(super) const WRITE_SLOW: &[&str] = &["write", "denyoom"];
pub(super) const DELETE: &[&str] = &["write", "fast"];
pub(super) const DELETE_SLOW: &[&str] = &["write"];
pub(super) const ADMIN: &[&str] = &["admin", "noscript"];
pub(super) const CONNECTION: &[&str] = &["noscript", "fast", "allow_busy"];

pub(super) const NO_KEYS: (i64, i64, i64) = (0, 0, 0);
pub(super) const FIRST: (i64, i64, i64) = (1, 1, 1);
pub(super) const SECOND: (i64, i64, i64) = (2, 2, 1);
pub(super) const FIRST_TWO: (i64, i64, i64) = (1, 2, 1);
pub(super) const ALL: (i64, i64, i64) = (1, -1, 1);
pub(super) const ALL_PAIRS: (i64, i64, i64) = (1, -1, 2);

pub(super) const fn data(
    name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    keys: (i64, i64, i64),
    function: CommandFunction,
    summary: &'static str,
) -> Command {
    Command { info: CommandInfo::new(name, arity, flags, keys, summary), function, number: 0 }
}

pub(super) const fn with_subcommands(
    name: &'static str,
    flags: &'static [&'static str],
    subcommands: &'static [Subcommand],
    function: CommandFunction,
    summary: &'static str,
) -> Command {
    let info = CommandInfo::new(name, -2, flags, NO_KEYS, summary).subcommands(subcommands);
    Command { info, function, number: 0 }
}

pub(super) const fn server(
    name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    function: CommandFunction,
    summary: &'static str,
) -> Command {
    data(name, arity, flags, NO_KEYS, function, summary)
}

pub(super) const fn at_once(
    name: &'static str,
    arity: i64,
    flags: &'static [&'static str],
    keys: (i64, i64, i64),
    function: CommandFunction,
    summary: &'static str,
) -> Command {
    let info = CommandInfo::new(name, arity, flags, keys, summary).while_queueing(WhileQueueing::AtOnce);
    Command { info, function, number: 0 }
}

impl Command {
    /// Refuses the command between `MULTI` and `EXEC`: the queue may run several times, or without a commit.
    pub(super) const fn refused_while_queueing(self) -> Self {
        Self { info: self.info.while_queueing(WhileQueueing::Refused), ..self }
    }

    /// Sets the argument that is the number of keys behind it.
    pub(super) const fn keys_counted_by(self, argument: usize) -> Self {
        Self { info: self.info.more_keys(MoreKeys::Counted(argument)), ..self }
    }
}

/// A command of redis that this server does not have.
pub(super) const fn missing_command(name: &'static str) -> Command {
    let info = CommandInfo::new(name, -1, &[], NO_KEYS, MISSING).while_queueing(WhileQueueing::Refused);
    Command { info, function: CommandFunction::Server(admin::refuse_missing), number: 0 }
}
