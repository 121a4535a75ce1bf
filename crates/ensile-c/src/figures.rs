//! Figures as C has them: structs that may grow at their end.
//!
//! Neighbours: `objects` fills them.

use std::time::Duration;

use ensile_objects::{CheckpointReport, ObjectsStats, RecoveryReport};

use crate::code::Failure;

/// `ensile_checkpoint_report`: figures of one checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "the header has them")]
pub struct ForeignCheckpoint {
    pub number: u64,
    pub entries: u64,
    pub bytes: u64,
    pub micros: u64,
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl From<&CheckpointReport> for ForeignCheckpoint {
    fn from(report: &CheckpointReport) -> Self {
        let CheckpointReport { number, entries, bytes, .. } = *report;
        Self { number, entries, bytes, micros: micros(report.elapsed) }
    }
}

/// `ensile_stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
#[expect(missing_docs, reason = "the header has them")]
pub struct ForeignStats {
    pub epoch: u64,
    pub durable_epoch: u64,
    pub log_bytes: u64,
    pub log_entries: u64,
    pub log_syncs: u64,
    pub log_files: u64,
    pub log_file_bytes: u64,
    pub checkpoints: u64,
    pub checkpoints_failed: u64,
    pub checkpoint_entries: u64,
    pub checkpoint_bytes: u64,
    pub load: f64,
    pub log_bytes_threshold: u64,
    pub log_records_threshold: u64,
    pub recovery_micros: u64,
}

impl From<&ObjectsStats> for ForeignStats {
    fn from(stats: &ObjectsStats) -> Self {
        let ObjectsStats { log, checkpoints, .. } = stats;
        Self {
            epoch: stats.epoch.number(),
            durable_epoch: stats.durable_epoch.number(),
            log_bytes: log.bytes,
            log_entries: log.entries,
            log_syncs: log.syncs,
            log_files: log.files,
            log_file_bytes: log.file_bytes,
            checkpoints: checkpoints.installed,
            checkpoints_failed: checkpoints.failed,
            checkpoint_entries: checkpoints.entries,
            checkpoint_bytes: checkpoints.bytes,
            load: checkpoints.load.unwrap_or(-1.0),
            log_bytes_threshold: checkpoints.log_bytes_threshold.unwrap_or(0),
            log_records_threshold: checkpoints.log_records_threshold.unwrap_or(0),
            recovery_micros: checkpoints
                .recovery
                .as_ref()
                .map_or(0, |next| micros(next.load + next.replay + next.rest)),
        }
    }
}

/// `ensile_recovery`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[expect(missing_docs, reason = "the header has them")]
pub struct ForeignRecovery {
    pub durable_epoch: u64,
    pub generation: u64,
    pub checkpoint_entries: u64,
    pub checkpoint_bytes: u64,
    pub log_entries: u64,
    pub log_entries_ignored: u64,
}

impl From<&RecoveryReport> for ForeignRecovery {
    fn from(report: &RecoveryReport) -> Self {
        Self {
            durable_epoch: report.durable_epoch.number(),
            generation: report.generation,
            checkpoint_entries: report.checkpoint_entries,
            checkpoint_bytes: report.checkpoint_bytes,
            log_entries: report.entries,
            log_entries_ignored: report.ignored_entries,
        }
    }
}

/// Figures that a caller gets as far as its struct goes.
///
/// # Safety
/// The type is `repr(C)` and has no padding.
pub(crate) unsafe trait GrowingFigures: Copy {}

// SAFETY: `repr(C)`, and all fields are of eight bytes.
unsafe impl GrowingFigures for ForeignStats {}
// SAFETY: `repr(C)`, and all fields are of eight bytes.
unsafe impl GrowingFigures for ForeignRecovery {}

/// Fills a caller's struct of this size.
///
/// # Safety
/// `place` is null, or the caller's memory of `size` bytes, which nobody else uses meanwhile.
pub(crate) unsafe fn fill<F: GrowingFigures>(place: *mut F, size: usize, figures: F) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::invalid("there is no place for the figures: it is NULL"));
    }
    if size < size_of::<u64>() {
        return Err(Failure::invalid("the size of the figures is that of no struct: give sizeof of it"));
    }
    let known = size_of::<F>().min(size);
    // SAFETY: both have this many bytes, which are plain and do not overlap.
    unsafe {
        place.cast::<u8>().copy_from_nonoverlapping((&raw const figures).cast(), known);
        // What a later header has beyond this library's is 0.
        place.cast::<u8>().add(known).write_bytes(0, size - known);
    }
    Ok(())
}
