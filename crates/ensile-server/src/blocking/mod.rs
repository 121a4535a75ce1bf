//! Clients that wait for keys: the server's queue of each key, and the wait of a client.
//!
//! ```text
//! look: nothing -> registered -> look again: nothing -> asleep -> woken -> look .. -> a reply, or the end of the time
//! push -> commit -> the first waiting clients without a wake-up, as many as elements came
//! ```
//! Every look is a transaction of its own, which rests on what it has read.
//!
//! Invariants:
//! - J3: while a client without a wake-up sleeps for a key, no more elements are there than wake-ups are under way. A
//!   wake-up ends only with a look that begins behind it, and a client that leaves early hands its wake-ups on.
//! - A client keeps its place in the queues from its first look to its end, also if others take the elements.
//!
//! Neighbours: `execution` looks, sleeps and wakes; commands say which keys they wait for; loops take letters.

mod wait;
mod waiting;

use std::time::Duration;

pub(crate) use wait::Wait;
pub(crate) use waiting::{UnblockReason, WaiterName, WaitingClients};

/// Kind of the values that a client waits for. A value of another kind wakes nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WaitKind {
    List,
    SortedSet,
    Stream,
}

/// Keys that a command waits for, as it has found nothing.
#[derive(Debug)]
pub(crate) struct KeyWait {
    pub(crate) kind: WaitKind,
    pub(crate) keys: Vec<Box<[u8]>>,
    /// Longest wait; `None` is no limit.
    pub(crate) timeout: Option<Duration>,
}

/// A key that clients wait for.
///
/// The number of the database and not its content: `SWAPDB` exchanges contents, and clients wait on in their database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WaitedKey {
    /// Number of the database.
    pub(crate) database: u32,
    pub(crate) kind: WaitKind,
    pub(crate) key: Box<[u8]>,
}

/// Part of a command's run in a wait for keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LookTerms {
    /// True if the command may wait for keys: not within `MULTI` and scripts, and not at the end of its time.
    pub(crate) may_wait: bool,
    /// True if the client has waited before. A value of another type is then no error: the wait goes on.
    pub(crate) has_waited: bool,
}

impl LookTerms {
    /// Terms of a command that never waits, as within `MULTI`.
    pub(crate) const WITHOUT_WAIT: Self = Self { may_wait: false, has_waited: false };
}

/// Elements that a transaction has brought.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// New elements of a key, and their number.
    Pushed(WaitedKey, usize),
    /// A database has other contents, with any keys.
    Swapped(u32),
}

impl Arrival {
    /// Number of the database.
    pub(crate) fn database(&self) -> u32 {
        match self {
            Self::Pushed(key, _) => key.database,
            Self::Swapped(database) => *database,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
