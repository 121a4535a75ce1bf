//! Progress of a recovery and time of its phases, for display.
//!
//! Neighbours: `replay_state` counts the bytes; the caller that runs the steps has the clock.

use std::time::Duration;

/// Phase of a recovery. A phase begins when the previous phase has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Reads the manifest and the logs, and finds the durable epoch.
    Scan,
    /// Loads the installed checkpoint.
    Load,
    /// Replays the log.
    Replay,
    /// Makes the decision durable, and begins the next generation.
    Finish,
}

impl Phase {
    /// Name of the phase.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::Load => "load",
            Self::Replay => "replay",
            Self::Finish => "finish",
        }
    }
}

/// Progress of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Phase under way.
    pub phase: Phase,
    /// Bytes of files processed so far.
    pub bytes_done: u64,
    /// Bytes of files in the phase.
    pub bytes_total: u64,
    /// Time since the beginning of the phase.
    pub elapsed: Duration,
}

impl Progress {
    /// Rate so far, in bytes per second; 0 before any time has passed.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { self.bytes_done as f64 / seconds } else { 0.0 }
    }

    /// Time left at this rate; `None` while the rate is 0.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let rate = self.bytes_per_second();
        let bytes = self.bytes_total.saturating_sub(self.bytes_done);
        (rate > 0.0).then(|| Duration::from_secs_f64(bytes as f64 / rate))
    }
}

/// Work of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseReport {
    /// Phase of the report.
    pub phase: Phase,
    /// Time of the phase.
    pub elapsed: Duration,
    /// Number of threads.
    pub threads: usize,
    /// Bytes of files whose entries the phase applied.
    pub bytes: u64,
    /// Number of applied entries.
    pub entries: u64,
}

impl PhaseReport {
    /// Rate of one thread, in megabytes (10^6 bytes) of files per second.
    #[must_use]
    pub fn megabytes_per_second_and_thread(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64() * self.threads as f64;
        if seconds > 0.0 { self.bytes as f64 / 1e6 / seconds } else { 0.0 }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::time::Duration;

    use super::{Phase, PhaseReport, Progress};

    #[test]
    fn what_is_left_follows_from_the_rate_so_far() {
        let progress = |bytes_done, seconds| Progress {
            phase: Phase::Replay,
            bytes_done,
            bytes_total: 400,
            elapsed: Duration::from_secs(seconds),
        };
        assert_eq!(progress(100, 2).time_left(), Some(Duration::from_secs(6)));
        assert_eq!(progress(400, 2).time_left(), Some(Duration::ZERO));
        assert_eq!((progress(0, 2).time_left(), progress(100, 0).time_left()), (None, None));
    }

    #[test]
    fn a_rate_is_each_threads_own() {
        let elapsed = Duration::from_secs(5);
        let report =
            PhaseReport { phase: Phase::Load, elapsed, threads: 2, bytes: 2_000_000_000, entries: 7 };
        assert!((report.megabytes_per_second_and_thread() - 200.0).abs() < 1e-9);
    }
}
