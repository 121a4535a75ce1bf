//! Timers of a loop, in the order of their time.
//!
//! Neighbours: [`crate::NetLoop`] waits for the first timer, and sets timers of connections.

use std::collections::BTreeMap;

/// The name of a timer, for its cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerId {
    due_nanos: u64,
    /// Timers of the same time go off in the order in which they were set.
    number: u64,
}

/// Timers, each with its purpose.
#[derive(Debug)]
pub(crate) struct Timers<P> {
    waiting: BTreeMap<TimerId, P>,
    set: u64,
}

impl<P> Timers<P> {
    pub(crate) fn new() -> Self {
        Self { waiting: BTreeMap::new(), set: 0 }
    }

    pub(crate) fn set(&mut self, due_nanos: u64, purpose: P) -> TimerId {
        let id = TimerId { due_nanos, number: self.set };
        self.set += 1;
        let earlier = self.waiting.insert(id, purpose);
        debug_assert!(earlier.is_none(), "W3: a timer takes no other timer's place");
        id
    }

    /// True if the timer had not gone off.
    pub(crate) fn cancel(&mut self, id: TimerId) -> bool {
        self.waiting.remove(&id).is_some()
    }

    pub(crate) fn next_nanos(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(id, _)| id.due_nanos)
    }

    #[cfg(feature = "simulation")]
    pub(crate) fn purpose(&self, id: TimerId) -> Option<&P> {
        self.waiting.get(&id)
    }

    #[cfg(feature = "simulation")]
    pub(crate) fn purposes(&self) -> impl Iterator<Item = &P> {
        self.waiting.values()
    }

    /// A timer that is due, the earliest first.
    pub(crate) fn take_due(&mut self, now_nanos: u64) -> Option<P> {
        let first = self.waiting.first_entry()?;
        (first.key().due_nanos <= now_nanos).then(|| first.remove())
    }
}
