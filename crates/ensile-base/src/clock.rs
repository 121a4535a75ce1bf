//! Time: the only reader of clocks.
//!
//! Lower crates take nanoseconds as numbers. Code that must ask is given a [`Clock`]; a simulator can then own time.
//!
//! Neighbours: the engine's heartbeat and loggers, back-off, the bench.

use std::time::{Duration, Instant};

use crate::sync::{Arc, AtomicU64, Ordering};

/// A source of monotonic time: the machine's, or a time that a test advances by hand. Clones share the same time.
///
/// ```
/// use ensile_base::clock::Clock;
/// let clock = Clock::manual();
/// clock.advance(std::time::Duration::from_millis(3));
/// assert_eq!(clock.nanos(), 3_000_000);
/// ```
#[derive(Clone, Debug)]
pub struct Clock(TimeSource);

#[derive(Clone, Debug)]
enum TimeSource {
    Machine(Instant),
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's monotonic clock, counted from now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one door to the machine's clock")]
    pub fn machine() -> Self {
        Self(TimeSource::Machine(Instant::now()))
    }

    /// A clock that stands still until [`Clock::advance`].
    #[must_use]
    pub fn manual() -> Self {
        Self(TimeSource::Manual(Arc::new(AtomicU64::new(0))))
    }

    /// True if time stands still until moved: a test then owns every step, and waiting lets no other thread run.
    #[must_use]
    pub fn is_manual(&self) -> bool {
        matches!(self.0, TimeSource::Manual(_))
    }

    /// Nanoseconds since this clock was made.
    #[must_use]
    pub fn nanos(&self) -> u64 {
        match &self.0 {
            TimeSource::Machine(start) => u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            // Relaxed: a simulated clock orders nothing; its readers need only a recent time.
            TimeSource::Manual(nanos) => nanos.load(Ordering::Relaxed),
        }
    }

    /// Moves a manual clock forward. A machine clock moves by itself and ignores the call.
    pub fn advance(&self, by: Duration) {
        if let TimeSource::Manual(nanos) = &self.0 {
            let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
            // Relaxed: a simulated clock orders nothing; its readers need only a recent time.
            nanos.fetch_add(by, Ordering::Relaxed);
        }
    }
}

/// Seconds since 1970 by the machine's calendar, for names and reports (never for ordering).
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one door to the machine's clock")]
pub fn unix_seconds() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Milliseconds since 1970 by the machine's calendar, for times that people name (never for ordering).
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one door to the machine's clock")]
pub fn unix_millis() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
