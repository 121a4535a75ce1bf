//! Figures for C: structs that may grow at their end, numbers for reasons, and texts with the reason of a missing
//! action.
//!
//! Neighbours: `objects` fills the figures.

use std::ffi::c_char;
use std::time::Duration;

use ensile_objects::{
    ApplicationLog, CheckpointReason, CheckpointReport, CheckpointVerdict, ObjectsStats, RecoveryReport,
    ThresholdMeasure,
};

use crate::code::Failure;
use crate::settings::numbers;

/// The numbers of reasons, verdicts and texts, as in the header.
#[expect(missing_docs, reason = "the header has them")]
pub mod told {
    pub const REASON_NONE: u32 = 0;
    pub const REASON_DEMAND: u32 = 1;
    pub const REASON_INTERVAL: u32 = 2;
    pub const REASON_LOG_BYTES: u32 = 3;
    pub const REASON_LOG_RECORDS: u32 = 4;
    pub const REASON_ADAPTIVE: u32 = 5;
    pub const REASON_RECOVERY: u32 = 6;
    pub const REASON_OTHER: u32 = 7;
    pub const VERDICT_NOT_LOOKED: u32 = 0;
    pub const VERDICT_BEGINS: u32 = 1;
    pub const VERDICT_NOT_DUE: u32 = 2;
    pub const VERDICT_HARDLY_GREW: u32 = 3;
    pub const VERDICT_AFTER_FAILURE: u32 = 4;
    pub const VERDICT_LOG_IS_FULL: u32 = 5;
    pub const VERDICT_OTHER: u32 = 6;
    pub const TEXT_LAST_ERROR: u32 = 1;
    pub const TEXT_UNREACHABLE: u32 = 2;
    pub const TEXT_MISFIT: u32 = 3;
    pub const TEXT_NICENESS_REFUSED: u32 = 4;
    pub const TEXT_NOT_PROVEN: u32 = 5;
    pub const TEXT_CHANGED: u32 = 6;
    pub const TEXT_DIFFERENCE: u32 = 7;
}

fn reason_of(reason: CheckpointReason) -> u64 {
    u64::from(match reason {
        CheckpointReason::Demand => told::REASON_DEMAND,
        CheckpointReason::Interval => told::REASON_INTERVAL,
        CheckpointReason::LogBytes => told::REASON_LOG_BYTES,
        CheckpointReason::LogRecords => told::REASON_LOG_RECORDS,
        CheckpointReason::Adaptive => told::REASON_ADAPTIVE,
        CheckpointReason::RecoveryTime => told::REASON_RECOVERY,
        _ => told::REASON_OTHER,
    })
}

/// A verdict, and its reason if a checkpoint begins.
fn verdict_of(verdict: CheckpointVerdict) -> (u64, u64) {
    let (number, reason) = match verdict {
        CheckpointVerdict::NotLooked => (told::VERDICT_NOT_LOOKED, None),
        CheckpointVerdict::Begins(reason) => (told::VERDICT_BEGINS, Some(reason)),
        CheckpointVerdict::NotDue => (told::VERDICT_NOT_DUE, None),
        CheckpointVerdict::HardlyGrew => (told::VERDICT_HARDLY_GREW, None),
        CheckpointVerdict::AfterFailure => (told::VERDICT_AFTER_FAILURE, None),
        CheckpointVerdict::LogIsFull => (told::VERDICT_LOG_IS_FULL, None),
        _ => (told::VERDICT_OTHER, None),
    };
    (u64::from(number), reason.map_or(u64::from(told::REASON_NONE), reason_of))
}

/// The text for question number `what`: the reason of a missing action or proof; empty if there is no obstacle.
pub(crate) fn text_of(what: u32, log: &ApplicationLog) -> Result<String, Failure> {
    let (checkpoints, recovery) = (log.stats().checkpoints, log.recovery());
    let text = match what {
        told::TEXT_LAST_ERROR => checkpoints.last_error,
        told::TEXT_UNREACHABLE => checkpoints.unreachable,
        told::TEXT_MISFIT => checkpoints.misfit,
        told::TEXT_NICENESS_REFUSED => checkpoints.niceness_refused,
        told::TEXT_NOT_PROVEN => not_proven(recovery, false),
        told::TEXT_CHANGED => not_proven(recovery, true),
        told::TEXT_DIFFERENCE => log.difference(),
        _ => return Err(Failure::invalid(format!("{what} is the number of no text"))),
    };
    Ok(text.unwrap_or_default())
}

/// Results that a process-safe process returned and that the open could not prove: recovered results if `is_taken`,
/// ignored results otherwise.
fn not_proven(recovery: &RecoveryReport, is_taken: bool) -> Option<String> {
    recovery.not_proven.as_ref().filter(|left| left.is_taken() == is_taken).map(ToString::to_string)
}

/// Writes a text and a zero behind, cut to the caller's `size` bytes.
///
/// # Safety
/// `place` is null, or the caller's memory of `size` bytes, unused by other threads meanwhile.
pub(crate) unsafe fn put_text(place: *mut c_char, size: usize, text: &str) -> Result<(), Failure> {
    if place.is_null() || size == 0 {
        return Err(Failure::invalid("there is no place for the text: it is NULL, or of 0 bytes"));
    }
    let kept = ensile_base::text::cut(text, size - 1);
    // SAFETY: the place has room for these bytes and the zero, and the text is elsewhere.
    unsafe {
        place.cast::<u8>().copy_from_nonoverlapping(kept.as_ptr(), kept.len());
        place.cast::<u8>().add(kept.len()).write(0);
    }
    Ok(())
}

/// `ensile_checkpoint_report`: figures of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
#[expect(missing_docs, reason = "the header has them")]
pub struct ForeignCheckpoint {
    pub number: u64,
    pub entries: u64,
    pub bytes: u64,
    pub micros: u64,
    pub reason: u64,
    pub load: f64,
    pub capacity: u64,
    pub measure: u64,
    pub threshold: u64,
    pub reached: u64,
}

fn measure_of(measure: ThresholdMeasure) -> u64 {
    u64::from(match measure {
        ThresholdMeasure::Records => numbers::MEASURE_RECORDS,
        ThresholdMeasure::Time => numbers::MEASURE_TIME,
        _ => numbers::MEASURE_BYTES,
    })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl From<&CheckpointReport> for ForeignCheckpoint {
    fn from(report: &CheckpointReport) -> Self {
        let CheckpointReport { number, entries, bytes, adaptive, .. } = *report;
        Self {
            number,
            entries,
            bytes,
            micros: micros(report.elapsed),
            reason: reason_of(report.reason),
            load: adaptive.map_or(-1.0, |reading| reading.load),
            capacity: adaptive.map_or(0, |reading| reading.capacity),
            measure: adaptive.map_or(0, |reading| measure_of(reading.measure)),
            threshold: adaptive.map_or(0, |reading| reading.threshold),
            reached: adaptive.map_or(0, |reading| reading.reached),
        }
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
    pub capacity: u64,
    pub checkpoint_verdict: u64,
    pub checkpoint_verdict_reason: u64,
    pub checkpoint_last_reason: u64,
    pub recovery_unreachable: u64,
    pub interval_threshold_millis: u64,
    pub applied_nanos: u64,
    pub poisoned: u64,
    pub waiting_object: u64,
    pub waiting_millis: u64,
}

impl From<&ObjectsStats> for ForeignStats {
    fn from(stats: &ObjectsStats) -> Self {
        let ObjectsStats { log, checkpoints, waiting_call_back, .. } = stats;
        let (checkpoint_verdict, checkpoint_verdict_reason) = verdict_of(checkpoints.verdict);
        let (recovery, last) = (checkpoints.recovery.as_ref(), checkpoints.last.as_ref());
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
            recovery_micros: recovery.map_or(0, |next| micros(next.load + next.replay + next.rest)),
            capacity: checkpoints.capacity.unwrap_or(0),
            checkpoint_verdict,
            checkpoint_verdict_reason,
            checkpoint_last_reason: last.map_or(u64::from(told::REASON_NONE), |last| reason_of(last.reason)),
            recovery_unreachable: u64::from(checkpoints.unreachable.is_some()),
            interval_threshold_millis: checkpoints.interval_threshold.map_or(0, millis),
            applied_nanos: recovery.map_or(0, |next| next.rates.applied_nanos_per_entry),
            poisoned: stats.poisoned,
            waiting_object: waiting_call_back.map_or(0, |waiting| waiting.object),
            waiting_millis: waiting_call_back.map_or(0, |waiting| millis(waiting.waited)),
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
    pub log_entries_passed_over: u64,
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
            log_entries_passed_over: report.passed_over_entries,
        }
    }
}

/// Figures that a caller gets up to the size of the caller's struct.
///
/// # Safety
/// The type is `repr(C)` and has no padding.
pub(crate) unsafe trait GrowingFigures: Copy {}

// SAFETY: `repr(C)`, and all fields are of eight bytes.
unsafe impl GrowingFigures for ForeignStats {}
// SAFETY: `repr(C)`, and all fields are of eight bytes.
unsafe impl GrowingFigures for ForeignRecovery {}
// SAFETY: `repr(C)`, and all fields are of eight bytes.
unsafe impl GrowingFigures for ForeignCheckpoint {}

/// Refuses a size smaller than every struct.
pub(crate) fn check_size(size: usize) -> Result<(), Failure> {
    if size < size_of::<u64>() {
        return Err(Failure::invalid("the size of the figures is that of no struct: give sizeof of it"));
    }
    Ok(())
}

/// Fills a caller's struct of this size.
///
/// # Safety
/// `place` is null, or the caller's memory of `size` bytes, unused by other threads meanwhile.
pub(crate) unsafe fn fill<F: GrowingFigures>(place: *mut F, size: usize, figures: F) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::invalid("there is no place for the figures: it is NULL"));
    }
    check_size(size)?;
    let known = size_of::<F>().min(size);
    // SAFETY: both have this many bytes, which are plain and do not overlap.
    unsafe {
        place.cast::<u8>().copy_from_nonoverlapping((&raw const figures).cast(), known);
        // Fields of a later header, beyond this library's, are 0.
        place.cast::<u8>().add(known).write_bytes(0, size - known);
    }
    Ok(())
}
