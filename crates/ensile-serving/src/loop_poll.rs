//! The way from a long request to the loop of the request.
//!
//! Neighbours: a [`ServedProgram`](crate::ServedProgram) has the [`LoopPoll`] of each of its loops; `busy_poll` serves.

use std::rc::Weak;

/// A loop whose other connections can be served during a request.
pub(crate) trait ServesOthers {
    /// Serves the other connections. True if the request under way is to end.
    fn serve_others(&self) -> bool;
}

/// Has the loop of a request under way serve its other connections.
///
/// A program calls [`serve_others`](Self::serve_others) now and then during a long request that began on the loop.
/// Requests of other connections get `BUSY`, but for commands with the flag `allow_busy`
/// ([`ServedProgram::call_while_busy`](crate::ServedProgram::call_while_busy)).
#[derive(Clone)]
pub struct LoopPoll(Weak<dyn ServesOthers>);

impl std::fmt::Debug for LoopPoll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LoopPoll")
    }
}

impl LoopPoll {
    pub(crate) fn new(one_loop: Weak<dyn ServesOthers>) -> Self {
        Self(one_loop)
    }

    /// Serves the other connections of the loop, without a wait. True if the request under way is to end: the server
    /// ends, or the loop cannot go on.
    #[must_use]
    pub fn serve_others(&self) -> bool {
        self.0.upgrade().is_none_or(|one_loop| one_loop.serve_others())
    }
}
