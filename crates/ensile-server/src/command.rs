//! A command of the server: its description and its function.
//!
//! Neighbours: `command_table` has the commands; [`crate::execution`] calls the functions.

use ensile_serving::command::CommandInfo;
use ensile_serving::{NewReply, Outcome};

use crate::commands::DataFunction;
use crate::served_database::ServedCall;

/// Function of a command on the connection or the server, outside of transactions.
type ServerFunction = fn(ServedCall<'_>, &mut NewReply<'_>) -> Outcome;

/// The function of a command.
#[derive(Clone, Copy)]
pub(crate) enum CommandFunction {
    /// Reads and writes rows in a transaction, and writes the reply.
    Data(DataFunction),
    /// Works on the connection or the server, outside of transactions.
    Server(ServerFunction),
}

/// A command of the server.
#[derive(Clone, Copy)]
pub(crate) struct Command {
    pub(crate) info: CommandInfo,
    pub(crate) function: CommandFunction,
}

impl AsRef<CommandInfo> for Command {
    #[inline]
    fn as_ref(&self) -> &CommandInfo {
        &self.info
    }
}
