//! A connection's wait for memory: the time since it is stuck, and the claims of other connections on it (W16).
//!
//! Neighbours: [`crate::connection`] notes the lack of memory; [`crate::NetLoop`] lists waiting connections, and
//! chooses the connection that gives memory back.

use std::time::Duration;

use crate::limits::NetLimits;

/// State of a connection in the wait for memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryWait {
    /// True if there was no memory for the next read.
    lacks_room: bool,
    /// True if the next read needs more than all connections may have.
    never_fits: bool,
    /// True while the connection waits for memory.
    waits: bool,
    /// Start of the time in which no request was taken and no reply was owed, and the connection waited for memory or
    /// had more than `free_bytes`.
    stuck_since_nanos: Option<u64>,
    /// True if the owner is to be told, because other connections wait for the memory. False again if requests go on.
    is_chosen: bool,
    /// True if the owner was told.
    is_told: bool,
    /// True while the loop lists the connection as waiting.
    is_listed: bool,
}

/// The way in which a connection gives memory back for others (W16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryClaim {
    /// The owner is told. The client has all replies, and loses a request of which nothing was carried out.
    Told,
    /// The connection is closed: its client does not take its replies.
    Closed,
}

impl MemoryWait {
    /// Notes the lack of memory for the next read, or its end.
    pub(crate) fn set_lacks_room(&mut self, lacks_room: bool) {
        self.lacks_room = lacks_room;
    }

    pub(crate) fn lacks_room(&self) -> bool {
        self.lacks_room
    }

    /// Notes a next read that needs more than all connections may have, or its end.
    pub(crate) fn set_never_fits(&mut self, never_fits: bool) {
        self.never_fits = never_fits;
    }

    /// True once if the next read needs more than all connections may have.
    pub(crate) fn take_never_fits(&mut self) -> bool {
        std::mem::take(&mut self.never_fits)
    }

    /// A request was taken.
    pub(crate) fn goes_on(&mut self) {
        self.stuck_since_nanos = None;
    }

    /// Notes a wait, and the start of the time without progress.
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

    /// True if the connection is stuck for long enough that its owner may be told; `None` if it is not stuck. The time
    /// of a waiting connection counts from `from_nanos` on; bytes last came at `heard_nanos`.
    pub(crate) fn is_stuck_for_long(
        &self,
        limits: &NetLimits,
        from_nanos: u64,
        heard_nanos: u64,
        now_nanos: u64,
    ) -> Option<bool> {
        let since = self.stuck_since_nanos?;
        Some(if self.waits {
            is_over(since.max(from_nanos), limits.memory_wait, now_nanos)
        } else {
            // A client that still sends has longer, up to a limit.
            is_over(since, limits.memory_wait, now_nanos)
                && is_over(heard_nanos, limits.memory_wait, now_nanos)
                || is_over(since, limits.memory_wait_max(), now_nanos)
        })
    }

    /// Chooses the connection: other connections wait for its memory.
    pub(crate) fn choose(&mut self) {
        self.is_chosen = true;
    }

    pub(crate) fn is_chosen(&self) -> bool {
        self.is_chosen
    }

    /// Ends the choice. True if the owner is to be told now: once, and if `is_told`.
    pub(crate) fn begin_telling(&mut self, is_told: bool) -> bool {
        self.is_chosen = false;
        let begins = is_told && !self.is_told;
        self.is_told |= is_told;
        begins
    }

    pub(crate) fn is_told(&self) -> bool {
        self.is_told
    }

    /// True if the loop did not list the connection as waiting. It does from now on.
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

/// True if the limit has passed since `since_nanos`.
pub(crate) fn is_over(since_nanos: u64, limit: Duration, now_nanos: u64) -> bool {
    u128::from(now_nanos.saturating_sub(since_nanos)) >= limit.as_nanos()
}
