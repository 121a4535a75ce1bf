//! Waits for keys: the server's queue of a key, and the wait of a client.
//!
//! ```text
//! look: nothing -> registered -> look again: nothing -> asleep -> woken -> look .. -> a reply, or the end of the time
//! push -> commit -> the first waiting clients without a wake-up, as many as elements came
//! ```
//! A look is one transaction, and rests on the rows of the look.
//!
//! Invariants:
//! - J3: while a client without a wake-up sleeps for a key, the elements of the key are at most as many as the wake-ups
//!   under way. A wake-up ends only with a later look, and a client hands its wake-ups on when the client leaves early.
//! - A client keeps its place in the queues from the first look to the end, also if another client takes the elements.
//! - J5: a client that reads behind a position, as `XREAD` with `$`, has the position of its first look in all looks.
//!
//! Neighbours: `execution` looks, sleeps and wakes; commands name the waited keys; loops take letters.

mod wait;
mod waiting;

use std::time::Duration;

pub(crate) use wait::Wait;
pub(crate) use waiting::{UnblockReason, WaiterName, WaitingClients};

/// Kind of waited values. A value of a different kind wakes no client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WaitKind {
    List,
    SortedSet,
    /// A reader takes nothing, so an entry wakes all waiting clients.
    Stream,
}

/// Keys and time of a command's wait. The command has found no element.
#[derive(Debug)]
pub(crate) struct KeyWait {
    pub(crate) kind: WaitKind,
    pub(crate) keys: Vec<Box<[u8]>>,
    /// Longest wait; `None` is no limit.
    pub(crate) timeout: Option<Duration>,
    /// Positions in the keys behind which later looks read (J5); empty for a command that takes elements.
    pub(crate) positions: Box<[u128]>,
}

/// A waited key.
///
/// The key names a database by the number: `SWAPDB` exchanges contents, and a client waits on in the same database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WaitedKey {
    /// Number of the database.
    pub(crate) database: u32,
    pub(crate) kind: WaitKind,
    pub(crate) key: Box<[u8]>,
}

/// Part of a command's run in a wait for keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LookTerms<'w> {
    /// True if the command may wait for keys: not within `MULTI` and scripts, and not at the end of its time.
    pub(crate) may_wait: bool,
    /// True if the client has waited before. A value of a different type is then no error: the wait goes on.
    pub(crate) has_waited: bool,
    /// True for a command that a script calls.
    pub(crate) is_in_script: bool,
    /// Positions of the wait ([`KeyWait::positions`]).
    pub(crate) positions: &'w [u128],
}

impl LookTerms<'_> {
    /// Terms of the first look of a command that may wait.
    pub(crate) const FIRST: Self =
        Self { may_wait: true, has_waited: false, is_in_script: false, positions: &[] };
    /// Terms of a command that never waits, as within `MULTI`.
    pub(crate) const WITHOUT_WAIT: Self = Self { may_wait: false, ..Self::FIRST };
    /// Terms of a command that a script calls.
    pub(crate) const IN_SCRIPT: Self = Self { is_in_script: true, ..Self::WITHOUT_WAIT };
}

/// New elements of a transaction.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// A key, and the number of new elements.
    Pushed(WaitedKey, usize),
    /// A database has new contents, with unknown keys.
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
