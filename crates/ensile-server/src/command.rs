//! A command of the server: its description and its function.
//!
//! Neighbours: `command_table` has the commands; [`crate::execution`] calls the functions.

use ensile_serving::command::CommandInfo;
use ensile_serving::{NewReply, Outcome};

use crate::commands::{CommandResult, DataFunction};
use crate::served_database::{ScriptCall, ServedCall};

/// Function of a command on the connection or the server, outside of transactions.
type ServerFunction = fn(ServedCall<'_>, &mut NewReply<'_>) -> Outcome;

/// Function of a command that calls further commands in its transaction.
pub(crate) type ScriptFunction = fn(&mut ScriptCall<'_, '_>, &mut NewReply<'_>) -> CommandResult;

/// The function of a command.
#[derive(Clone, Copy)]
pub(crate) enum CommandFunction {
    /// Reads and writes rows in a transaction, and writes the reply.
    Data(DataFunction),
    /// Runs a script or a procedure in a transaction, and writes the reply.
    Script(ScriptFunction),
    /// Works on the connection or the server, outside of transactions.
    Server(ServerFunction),
}

/// A command of the server.
#[derive(Clone, Copy)]
pub(crate) struct Command {
    pub(crate) info: CommandInfo,
    pub(crate) function: CommandFunction,
    /// Place in the table of all commands.
    pub(crate) number: u16,
}

/// Description of every command of redis that this server does not have.
pub(crate) const MISSING: &str = "Is refused: this server does not have the command";

/// Function of a command within a transaction.
#[derive(Clone, Copy)]
pub(crate) enum TransactionFunction {
    Data(DataFunction),
    Script(ScriptFunction),
}

impl AsRef<CommandInfo> for Command {
    #[inline]
    fn as_ref(&self) -> &CommandInfo {
        &self.info
    }
}
