//! How far a recovery is, and what its parts took, for people.
//!
//! Neighbours: `recovery` knows the bytes; the caller that drives its steps has the clock.

use std::time::Duration;

/// A part of a recovery. One begins when the one before it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Manifest and logs are read: what is durable?
    Scan,
    /// The installed checkpoint is loaded.
    Load,
    /// The log is replayed.
    Replay,
    /// The decision is made durable, and the next generation begun.
    Finish,
}

impl Phase {
    /// A word for it.
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

/// How far a phase is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The phase that runs.
    pub phase: Phase,
    /// Bytes of files that it is through with.
    pub bytes_done: u64,
    /// Bytes of files that it reads.
    pub bytes_total: u64,
    /// How long it has run.
    pub elapsed: Duration,
}

impl Progress {
    /// Its rate so far.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { self.bytes_done as f64 / seconds } else { 0.0 }
    }

    /// How long it goes on at this rate; `None` while there is no rate.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        let rate = self.bytes_per_second();
        let bytes = self.bytes_total.saturating_sub(self.bytes_done);
        (rate > 0.0).then(|| Duration::from_secs_f64(bytes as f64 / rate))
    }
}

/// What a phase of a recovery did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseReport {
    /// The phase.
    pub phase: Phase,
    /// How long it took.
    pub elapsed: Duration,
    /// Threads that it had.
    pub threads: usize,
    /// Bytes of files whose entries it applied.
    pub bytes: u64,
    /// Entries that it applied.
    pub entries: u64,
}

impl PhaseReport {
    /// Megabytes (10^6 bytes) of files that each of its threads got through in a second.
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
        assert_eq!(progress(100, 2).left(), Some(Duration::from_secs(6)));
        assert_eq!(progress(400, 2).left(), Some(Duration::ZERO));
        assert_eq!((progress(0, 2).left(), progress(100, 0).left()), (None, None));
    }

    #[test]
    fn a_rate_is_each_threads_own() {
        let elapsed = Duration::from_secs(5);
        let report =
            PhaseReport { phase: Phase::Load, elapsed, threads: 2, bytes: 2_000_000_000, entries: 7 };
        assert!((report.megabytes_per_second_and_thread() - 200.0).abs() < 1e-9);
    }
}
