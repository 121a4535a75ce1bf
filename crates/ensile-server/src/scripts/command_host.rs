//! The transaction of a script or a procedure, as both see it.
//!
//! Neighbours: `script_calls` carries out the commands; `lua_state` and `procedures` call.

use ensile::Transaction;
use ensile_resp::Request;
use ensile_serving::NewReply;

/// A refused call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallRefusal {
    /// The call is refused, and the script may go on. The text is of the error reply, with its code.
    Reply(Vec<u8>),
    /// The transaction has ended, and the host has the error of the engine.
    Ended,
}

/// Calls of commands within a transaction.
pub(crate) trait CommandHost<'db> {
    /// Carries out a command, and writes the reply.
    ///
    /// # Errors
    /// [`CallRefusal`]; nothing is written by the command.
    fn call(&mut self, request: Request<'_>, reply: &mut NewReply<'_>) -> Result<(), CallRefusal>;

    /// The transaction itself.
    ///
    /// # Errors
    /// Text of the reply if the caller may not have the transaction.
    fn transaction(&mut self) -> Result<&mut Transaction<'db>, &'static str>;
}
