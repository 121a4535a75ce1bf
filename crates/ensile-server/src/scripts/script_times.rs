//! Settings of the times of scripts.
//!
//! Neighbours: `served_database` has the settings; `run_guard` keeps them for a run.

use std::time::Duration;

use ensile_base::sync::{AtomicU64, Ordering};

/// Default time of a script until other clients get `BUSY`, in milliseconds.
const BUSY_MILLIS: u64 = 5000;
/// Default longest time of a script in milliseconds.
const MILLIS_MAX: u64 = 60_000;

const _: () = assert!(BUSY_MILLIS < MILLIS_MAX, "clients get BUSY before a script ends");

/// Times of a run in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunTimes {
    /// Time until other clients of the loop get `BUSY`.
    pub(crate) busy_millis: u64,
    /// Longest time.
    pub(crate) millis_max: u64,
    /// Time at which the first run of the request began, of the steady clock; `None` for the first run. Runs after a
    /// conflict, and scripts of one queue, have the time until `BUSY` together (W19).
    pub(crate) request_millis: Option<u64>,
}

/// Times of scripts, as the settings have them.
#[derive(Debug)]
pub(crate) struct ScriptTimes {
    busy_millis: AtomicU64,
    millis_max: AtomicU64,
}

impl Default for ScriptTimes {
    fn default() -> Self {
        Self { busy_millis: AtomicU64::new(BUSY_MILLIS), millis_max: AtomicU64::new(MILLIS_MAX) }
    }
}

impl ScriptTimes {
    /// Times of a run that begins now.
    pub(crate) fn now(&self) -> RunTimes {
        // Relaxed, both: settings.
        let busy_millis = self.busy_millis.load(Ordering::Relaxed);
        let millis_max = self.millis_max.load(Ordering::Relaxed);
        RunTimes { busy_millis, millis_max, request_millis: None }
    }

    /// Sets the time until other clients get `BUSY`, in milliseconds.
    pub(crate) fn set_busy_millis(&self, millis: u64) {
        // Relaxed: a setting; the next script of any loop sees it soon.
        self.busy_millis.store(millis, Ordering::Relaxed);
    }

    /// Sets the longest time in milliseconds.
    pub(crate) fn set_millis_max(&self, millis: u64) {
        debug_assert!(millis > 0, "a script has time");
        // Relaxed: a setting; the next script of any loop sees it soon.
        self.millis_max.store(millis, Ordering::Relaxed);
    }
}

/// A time in milliseconds; the longest time stands for a longer one.
pub(crate) fn millis_of(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
