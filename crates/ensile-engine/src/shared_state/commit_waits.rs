//! Waits of a commit without a thread, between two tries of the commit (P2).
//!
//! Invariant: The numbers stand for registrations of wakers, and for the commit's passing at the gate (P1). Each
//! registration ends by [`CommitWaits::end`]: before a commit of another kind, after the last try, or at the
//! transaction's drop.
//!
//! Neighbours: a transaction's context keeps the waits; `commit` adds waits; the gate and the log have the wakers.

use ensile_durability::SpaceWait;

use super::SharedState;

/// Registrations of a commit that was busy. Without registrations the commit waits for nothing.
#[derive(Debug, Default)]
pub(crate) struct CommitWaits {
    /// Number of the commit at the gate, if the commit made way for a turn.
    pub(crate) passing: Option<u64>,
    /// Registration for log space.
    pub(crate) space: Option<SpaceWait>,
}

impl CommitWaits {
    /// Ends all registrations. In a forked child the registrations are forgotten (I4). Out of line: the paths of
    /// closures do not come here.
    #[cold]
    #[inline(never)]
    pub(crate) fn end(&mut self, shared: &SharedState) {
        let Self { passing, space } = std::mem::take(self);
        if !shared.life.is_own_process() {
            return;
        }
        if let Some(number) = passing {
            shared.life.gate.leave(number, &shared.clock);
        }
        if let (Some(wait), Some(log)) = (space, &shared.storage.log) {
            log.withdraw_space_wait(wait);
        }
    }
}
