//! The calendar of a server: the machine's time, or a time that a test moves.
//!
//! Invariant: the time of a server never goes back, so a key that was absent as expired stays absent.
//!
//! Neighbours: expiries, `TIME` and the sweeper ask for the time; [`crate::simulation`] sets the time of a test.

use std::sync::Arc;

#[cfg(feature = "simulation")]
use ensile_base::clock::Clock;
use ensile_base::clock::unix_millis;
use ensile_base::sync::{AtomicU64, Ordering};

/// Time of a server in milliseconds since 1970. All clones have one time.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    source: CalendarSource,
    newest: Arc<NewestTime>,
}

/// Source of the time.
#[derive(Clone, Debug)]
enum CalendarSource {
    Machine,
    /// A time that stands still until the clock is advanced.
    #[cfg(feature = "simulation")]
    Manual {
        /// Time at the begin of the clock, in milliseconds since 1970.
        begin_millis: u64,
        clock: Clock,
    },
}

/// The newest time that was told.
#[derive(Debug, Default)]
struct NewestTime {
    /// Time in milliseconds since 1970.
    millis: AtomicU64,
}

impl NewestTime {
    /// The given time, or the newest time before, whichever is later.
    #[inline]
    fn not_before(&self, millis: u64) -> u64 {
        // Relaxed: the number stands for itself. The store is left out within a millisecond, so loops share the line.
        let newest = self.millis.load(Ordering::Relaxed);
        if millis <= newest {
            return newest;
        }
        // Relaxed: the number stands for itself.
        self.millis.fetch_max(millis, Ordering::Relaxed).max(millis)
    }
}

impl Calendar {
    /// The machine's time.
    pub(crate) fn of_machine() -> Self {
        Self { source: CalendarSource::Machine, newest: Arc::default() }
    }

    /// The time of a manual clock that begins at this time, in milliseconds since 1970.
    #[cfg(feature = "simulation")]
    pub(crate) fn of_clock(begin_millis: u64, clock: Clock) -> Self {
        Self { source: CalendarSource::Manual { begin_millis, clock }, newest: Arc::default() }
    }

    /// Time in milliseconds since 1970.
    #[inline]
    pub(crate) fn millis(&self) -> u64 {
        let millis = match &self.source {
            CalendarSource::Machine => unix_millis(),
            #[cfg(feature = "simulation")]
            CalendarSource::Manual { begin_millis, clock } => begin_millis + clock.nanos() / 1_000_000,
        };
        self.newest.not_before(millis)
    }

    /// Time in milliseconds since 1970, in the form of expiries.
    #[inline]
    pub(crate) fn signed_millis(&self) -> i64 {
        i64::try_from(self.millis()).unwrap_or(i64::MAX)
    }

    /// True if a test moves the time, and takes the sweeper's steps.
    pub(crate) fn is_manual(&self) -> bool {
        !matches!(self.source, CalendarSource::Machine)
    }
}

#[cfg(test)]
mod tests {
    use super::NewestTime;

    #[test]
    fn the_time_does_not_go_back() {
        let newest = NewestTime::default();
        let told = [5, 3, 5, 9, 8].map(|millis| newest.not_before(millis));
        assert_eq!(told, [5, 5, 5, 9, 9]);
    }
}
