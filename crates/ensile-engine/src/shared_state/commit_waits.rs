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
    /// Log space that a try lacked behind its look ahead, in bytes; 0 without such a try. The next try looks for as
    /// much: a look for less would succeed at once, again and again.
    pub(crate) lacked_bytes: usize,
}

impl CommitWaits {
    /// Ends the registration for log space: the commit waits for a turn's end now.
    #[cold]
    pub(crate) fn end_space(&mut self, shared: &SharedState) {
        if let (Some(wait), Some(log)) = (self.space.take(), &shared.storage.log) {
            log.withdraw_space_wait(wait);
        }
    }

    /// Ends all registrations. In a forked child the registrations are forgotten (I4). Out of line: the paths of
    /// closures do not come here.
    #[cold]
    #[inline(never)]
    pub(crate) fn end(&mut self, shared: &SharedState) {
        let mut ended = std::mem::take(self);
        if !shared.life.is_own_process() {
            return;
        }
        if let Some(number) = ended.passing {
            shared.life.gate.leave(number, &shared.clock);
        }
        ended.end_space(shared);
    }
}
