//! Commands: a table of all commands, and a file with the functions for each type of value.
//!
//! Invariants:
//! - A command that fails has written nothing to its transaction, so the other commands of an `EXEC` keep their effect.
//! - A command over data touches nothing but its transaction and its reply, so it can run again after a conflict.
//!
//! Neighbours: `execution` calls commands; [`crate::model::Keyspace`] has the rows.

mod arguments;
mod common_subsequence;
mod decimal;
mod error;
mod expiry;
mod keys;
mod strings;
mod table;

use ensile_resp::{ReplyEncoder, Request};
use ensile_serving::command::CommandInfo;

pub(crate) use error::CommandError;
pub(crate) use table::{COMMANDS, find};

use crate::model::Keyspace;
use crate::served_database::ServedCall;

/// Result of a command over data.
pub(crate) type CommandResult = Result<(), CommandError>;

/// A command over data, within a transaction.
pub(crate) struct Call<'c, 'db> {
    pub(crate) keyspace: Keyspace<'c, 'db>,
    pub(crate) request: Request<'c>,
}

/// The function of a command.
#[derive(Clone, Copy)]
pub(crate) enum CommandFunction {
    /// Reads and writes rows in a transaction, and writes the reply.
    Data(fn(&mut Call<'_, '_>, &mut ReplyEncoder<'_>) -> CommandResult),
    /// Works on the connection or the server, outside of transactions.
    Server(fn(ServedCall<'_>, &mut ensile_serving::NewReply<'_>) -> ensile_serving::Outcome),
}

/// A command of the server.
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

impl<'c> Call<'c, '_> {
    /// An argument of the request, the first behind the name is 1. The request has the command's number of arguments.
    #[inline]
    pub(crate) fn argument(&self, at: usize) -> &'c [u8] {
        debug_assert!(at < self.request.len(), "the number of arguments was checked");
        self.request.get(at).unwrap_or_default()
    }

    /// The arguments of the request from this one on.
    pub(crate) fn arguments(&self, from: usize) -> impl Iterator<Item = &'c [u8]> + use<'c> {
        let request = self.request;
        (from..request.len()).map(move |at| request.get(at).unwrap_or_default())
    }
}
