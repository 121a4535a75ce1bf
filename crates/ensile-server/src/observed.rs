//! Figures that somebody must observe: the time of the last checkpoint, the changes since, and the peak of the memory.
//!
//! Neighbours: the sweeper looks once a second; [`crate::admin`] looks, and shows the figures.

use ensile::stats::Stats;
use ensile_base::clock::unix_seconds;
use ensile_base::sync::Mutex;

/// Figures as of the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObservedFigures {
    /// Time in seconds since 1970 at which the last checkpoint was first seen; at first the time of the start.
    pub(crate) saved_seconds: u64,
    /// Number of entries that the log has taken since the begin of the last checkpoint; without a log 0.
    pub(crate) changes: u64,
    /// Time in seconds since 1970 at which the checkpoint under way was first seen.
    pub(crate) begun_seconds: Option<u64>,
    /// Largest seen memory of the rows in bytes.
    pub(crate) memory_peak_bytes: u64,
}

/// Observed figures, for all threads.
#[derive(Debug)]
pub(crate) struct Observed {
    state: Mutex<ObservedState>,
}

#[derive(Debug)]
struct ObservedState {
    figures: ObservedFigures,
    /// Number of checkpoints at the last look.
    installed: u64,
    /// Entries of the log when the last checkpoint began, and when the checkpoint under way began.
    saved_entries: u64,
    begun_entries: Option<u64>,
}

impl Observed {
    pub(crate) fn new() -> Self {
        let figures = ObservedFigures {
            saved_seconds: unix_seconds(),
            changes: 0,
            begun_seconds: None,
            memory_peak_bytes: 0,
        };
        let state = ObservedState { figures, installed: 0, saved_entries: 0, begun_entries: None };
        Self { state: Mutex::new(state) }
    }

    /// Looks at the figures of the database.
    pub(crate) fn look(&self, stats: &Stats) -> ObservedFigures {
        let (installed, is_running) = stats
            .checkpoints
            .as_ref()
            .map_or((0, false), |checkpoints| (checkpoints.installed, checkpoints.running.is_some()));
        let entries = stats.log.as_ref().map_or(0, |log| log.entries);
        let state = &mut *self.state.lock();
        if state.installed != installed {
            state.installed = installed;
            state.saved_entries = state.begun_entries.take().unwrap_or(entries);
            state.figures.saved_seconds = unix_seconds();
        }
        state.begun_entries = is_running.then(|| state.begun_entries.unwrap_or(entries));
        state.figures.begun_seconds =
            is_running.then(|| state.figures.begun_seconds.unwrap_or_else(unix_seconds));
        debug_assert!(state.saved_entries <= entries, "the log's number of entries grows");
        state.figures.changes = entries.saturating_sub(state.saved_entries);
        state.figures.memory_peak_bytes = state.figures.memory_peak_bytes.max(stats.memory.live_bytes);
        state.figures
    }

    /// Time of the last checkpoint in seconds since 1970; of the start without a checkpoint since.
    pub(crate) fn saved_seconds(&self) -> u64 {
        self.state.lock().figures.saved_seconds
    }
}
