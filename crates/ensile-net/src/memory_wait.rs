//! A connection's wait for memory: since when it is stuck, and what others that wait may claim of it (W16).
//!
//! Neighbours: [`crate::connection`] says what it lacks; [`crate::NetLoop`] lists those that wait, and chooses among
//! those that may be told.

use std::time::Duration;

use crate::limits::NetLimits;

/// A connection's part in the waiting for memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryWait {
    /// There was no memory for the next read.
    lacks_room: bool,
    /// It needs more than all connections may have.
    never_fits: bool,
    /// It waits for memory.
    waits: bool,
    /// Since when it has waited for memory, or had more than it may have by itself, and owed its client nothing, and
    /// none of its requests was taken.
    stuck_since_nanos: Option<u64>,
    /// Others wait for what it has: its owner is to be told, unless it has gone on by then.
    is_chosen: bool,
    /// Its owner was told that it does not fit.
    is_told: bool,
    /// It is in the list of those that wait for memory.
    is_listed: bool,
}

/// How a connection that holds memory for which others wait gives it back (W16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryClaim {
    /// Its owner is told. Its client has all replies, and loses a request of which nothing was carried out.
    Told,
    /// It is closed: its client does not take its replies.
    Closed,
}

impl MemoryWait {
    /// Whether there was memory for the next read.
    pub(crate) fn set_lacks_room(&mut self, lacks_room: bool) {
        self.lacks_room = lacks_room;
    }

    pub(crate) fn lacks_room(&self) -> bool {
        self.lacks_room
    }

    /// Its next read needs more, or does not need more, than all connections may have.
    pub(crate) fn set_never_fits(&mut self, never_fits: bool) {
        self.never_fits = never_fits;
    }

    /// Whether it needs more than all connections may have: said once.
    pub(crate) fn take_never_fits(&mut self) -> bool {
        std::mem::take(&mut self.never_fits)
    }

    /// One of its requests was taken.
    pub(crate) fn goes_on(&mut self) {
        self.stuck_since_nanos = None;
    }

    /// Notes whether it waits, and since when it is stuck.
    pub(crate) fn note(&mut self, waits: bool, is_stuck: bool, now_nanos: u64) {
        self.waits = waits;
        self.stuck_since_nanos = is_stuck.then(|| self.stuck_since_nanos.unwrap_or(now_nanos));
    }

    pub(crate) fn waits(&self) -> bool {
        self.waits
    }

    pub(crate) fn stuck_since_nanos(&self) -> Option<u64> {
        self.stuck_since_nanos
    }

    /// Whether it is stuck for so long that its owner may be told; `None` if it is not stuck. The time of one that
    /// waits is counted from `from_nanos` on; `heard_nanos` is when bytes last came.
    pub(crate) fn is_stuck_for_long(
        &self,
        limits: &NetLimits,
        (from_nanos, heard_nanos): (u64, u64),
        now_nanos: u64,
    ) -> Option<bool> {
        let since = self.stuck_since_nanos?;
        Some(if self.waits {
            is_over(since.max(from_nanos), limits.memory_wait, now_nanos)
        } else {
            // One that still sends has longer, but not as long as it likes.
            is_over(since, limits.memory_wait, now_nanos)
                && is_over(heard_nanos, limits.memory_wait, now_nanos)
                || is_over(since, limits.memory_wait_max(), now_nanos)
        })
    }

    /// Others wait for what it has.
    pub(crate) fn choose(&mut self) {
        self.is_chosen = true;
    }

    pub(crate) fn is_chosen(&self) -> bool {
        self.is_chosen
    }

    /// It is chosen no longer. Whether its owner is to be told now: if it `is_told` at all, once.
    pub(crate) fn begin_telling(&mut self, is_told: bool) -> bool {
        self.is_chosen = false;
        let begins = is_told && !self.is_told;
        self.is_told |= is_told;
        begins
    }

    pub(crate) fn is_told(&self) -> bool {
        self.is_told
    }

    /// Whether it was not in the list of those that wait: it is from now on.
    pub(crate) fn enter_list(&mut self) -> bool {
        !std::mem::replace(&mut self.is_listed, true)
    }

    pub(crate) fn leave_list(&mut self) {
        self.is_listed = false;
    }

    #[cfg(feature = "simulation")]
    pub(crate) fn is_listed(&self) -> bool {
        self.is_listed
    }
}

/// Whether this time has passed.
pub(crate) fn is_over(since_nanos: u64, limit: Duration, now_nanos: u64) -> bool {
    u128::from(now_nanos.saturating_sub(since_nanos)) >= limit.as_nanos()
}
