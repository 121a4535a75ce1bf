//! Scripts and procedures.
//!
//! Neighbours: `command_table` puts all commands together.

use super::entry::{NO_KEYS, data, with_subcommands};
use crate::command::Command;
use crate::command::CommandFunction::{Script, Server};
use crate::script_calls::{procedure_commands, script_commands};
use ensile_serving::command::{MoreKeys, Subcommand};

const SCRIPT: &[&str] = &["noscript"];
const SCRIPT_READ: &[&str] = &["readonly", "noscript"];

pub(super) const COMMANDS: &[Command] = &[
    with_counted_keys(data(
        "EVAL",
        -3,
        SCRIPT,
        NO_KEYS,
        Script(script_commands::eval),
        "Runs a script as one transaction",
    )),
    with_counted_keys(data(
        "EVALSHA",
        -3,
        SCRIPT,
        NO_KEYS,
        Script(script_commands::eval_hash),
        "Runs a known script as one transaction, by the script's SHA-1",
    )),
    with_counted_keys(data(
        "EVAL_RO",
        -3,
        SCRIPT_READ,
        NO_KEYS,
        Script(script_commands::eval),
        "Runs a script that does not write",
    )),
    with_counted_keys(data(
        "EVALSHA_RO",
        -3,
        SCRIPT_READ,
        NO_KEYS,
        Script(script_commands::eval_hash),
        "Runs a known script that does not write",
    )),
    with_counted_keys(data(
        "FCALL",
        -3,
        SCRIPT,
        NO_KEYS,
        Script(procedure_commands::call_procedure),
        "Calls a procedure of the server's program as one transaction",
    )),
    with_counted_keys(data(
        "FCALL_RO",
        -3,
        SCRIPT_READ,
        NO_KEYS,
        Script(procedure_commands::call_procedure),
        "Calls a procedure that does not write",
    )),
    with_subcommands(
        "SCRIPT",
        SCRIPT,
        &SUBCOMMANDS,
        Server(script_commands::script),
        "Keeps scripts: LOAD, EXISTS, FLUSH; ends scripts: KILL",
    ),
    with_subcommands(
        "FUNCTION",
        SCRIPT,
        &FUNCTION,
        Server(procedure_commands::function),
        "Tells the procedures of the server's program: LIST",
    ),
];

const SUBCOMMANDS: [Subcommand; 6] = [
    Subcommand::new("LOAD", 3),
    Subcommand::new("EXISTS", -3),
    Subcommand::new("FLUSH", -2),
    Subcommand::new("KILL", 2).flags(&["allow_busy"]),
    Subcommand::new("DEBUG", 3),
    Subcommand::new("HELP", 2),
];
const FUNCTION: [Subcommand; 3] =
    [Subcommand::new("FLUSH", -2), Subcommand::new("LIST", -2), Subcommand::new("LOAD", -3)];

/// A command whose third word is the number of keys behind.
const fn with_counted_keys(command: Command) -> Command {
    Command { info: command.info.more_keys(MoreKeys::Counted(2)), ..command }
}
