//! Findings and work of a recovery, in figures, and the progress of its phases.
//!
//! Neighbours: the parts of a recovery fill the report; the engine and the objects hand the report on.

use std::time::Duration;

use ensile_base::Epoch;

use crate::files::manifest::shipping_target::RememberedStore;
use crate::store::NameGiven;
use crate::unproven_tail::NotProven;

/// End of a log that was incomplete when the database stopped. Recovery cuts the end: no result rested on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TornTail {
    /// File in which the whole part of the log ends.
    pub file: String,
    /// End of the whole part in the file, in bytes.
    pub offset: u64,
    /// Number of written bytes after the whole part, over the later files of the log too.
    pub bytes: u64,
    /// Smallest and largest readable epoch of the entries after the whole part.
    pub epochs: Option<(Epoch, Epoch)>,
    /// Reason why the whole part ends.
    pub detail: &'static str,
}

/// Findings and work of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// D of the last generation. The database has every entry up to this epoch, and no entry above.
    pub durable_epoch: Epoch,
    /// Number of the generation that begins now; 1 for a new database.
    pub generation: u64,
    /// First epoch of the new generation (L6). Results of an earlier life have smaller epochs. A result is kept if its
    /// epoch is not above `durable_epoch`, and if it was not lost before. On a full disk, the life is read-only. Then
    /// results above the database's own D are kept only for now, and the next open decides.
    pub first_epoch: Epoch,
    /// e_l and e_h of the loaded checkpoint; S and e_c = S - 1 of a picture.
    pub checkpoint: Option<(Epoch, Epoch)>,
    /// Number of entries that were loaded from the checkpoint.
    pub checkpoint_entries: u64,
    /// Bytes of the checkpoint's files.
    pub checkpoint_bytes: u64,
    /// Number of replayed data blocks.
    pub blocks: u64,
    /// Number of replayed entries.
    pub entries: u64,
    /// Bytes of the replayed blocks.
    pub bytes: u64,
    /// Number of replayed entries without an effect, on objects of marked lives that are gone. The caller counts.
    pub passed_over_entries: u64,
    /// Number of entries in the log that a checkpoint covers. Recovery does not replay covered entries (K1).
    pub covered_entries: u64,
    /// Number of whole entries that were not replayed, because their epochs never became durable.
    pub ignored_entries: u64,
    /// Number of entries, all of which count, that only the mapped buffers of a dead process's life had.
    pub taken_entries: u64,
    /// Results of a process-safe life that the folder cannot prove, with files, reason and remedy. An open [leaves them
    /// out](NotProven::is_left_out) in a copy, and after a new start of the system or a new mount of a file system.
    pub not_proven: Option<NotProven>,
    /// Folders of this process-safe life on file systems without a known mount. There, recovery cannot recognize a
    /// device that is lost and returns within one boot. Results of that life with epochs above D may be gone then.
    pub unknown_mounts: Vec<String>,
    /// New name of a folder that was opened without a name (I5); `None` for a new folder. `Display` writes the message.
    pub name_given: Option<NameGiven>,
    /// Shared store that the folder remembers, if the database ships. A fenced folder is open for reading only.
    pub shared_store: Option<RememberedStore>,
    /// Cut ends of logs.
    pub torn_tails: Vec<TornTail>,
    /// Log files that the database only keeps for the archive, which cannot take them. Each text names file and remedy.
    pub not_archived: Vec<String>,
    /// Epochs above D that only some logs have marked. If a log lost entries of these epochs, the entries are gone. If
    /// a crash took the entries, no entry was acknowledged.
    pub unfinished_epochs: Option<(Epoch, Epoch)>,
    /// Number of earlier generations whose entries were merged into one file.
    pub merged_generations: u64,
    /// Cost of each phase, as measured by the caller that drove the steps.
    pub phases: Vec<PhaseReport>,
}

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
