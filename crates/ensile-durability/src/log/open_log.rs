//! The handle of an open database's log: the shared parts of the log, and the calls of the threads that drive its
//! loggers.
//!
//! Neighbours: `start` makes the handle, and `logger` steps with the handle. `appender`, `durable_epoch`, `removal`,
//! `shutdown` and other files add the calls of workers, waiters, checkpoints, the shipper and the close.

use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::clock::{Clock, unix_seconds};
use ensile_base::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex};
use ensile_epoch::Epochs;

use super::logger::{Logger, LoggerStep};
use super::marks::{Frontier, MarkTable};
use super::refusal::Refusal;
use super::stats::LogCounters;
use super::waiters::Waiters;
use crate::store::open_store::OpenStore;
use crate::wake_up::WakeUp;

/// The log of an open database. Threads share a log by std's `Arc` under a model checker too: the checker's own `Arc`
/// cannot be the type of a method's `self`.
#[derive(Debug)]
pub struct Log {
    pub(super) epochs: Arc<Epochs>,
    pub(super) clock: Clock,
    pub(super) loggers: Box<[Logger]>,
    pub(super) marks: MarkTable,
    pub(super) waiters: Waiters,
    pub(crate) counters: LogCounters,
    /// Largest memory of the buffers of one logger's workers, in bytes.
    pub(super) buffer_bytes_max: usize,
    pub(super) full_wait_nanos: u64,
    pub(super) next_logger: AtomicUsize,
    /// True if every call of [`Appender::reserve`](super::appender::Appender::reserve) is refused; `refusal` has the
    /// reason.
    pub(super) refuses: AtomicBool,
    /// No panic under this lock leaves the refusal half changed.
    pub(super) refusal: Mutex<Refusal>,
    /// Wake-up for the picture that makes a waiting result durable, in a log without loggers.
    pub(super) picture_wanted: StdArc<WakeUp>,
    /// Earliest time of the next archiving after a failure, in nanoseconds of the clock.
    pub(super) archive_not_before: AtomicU64,
    /// Folders of the log and their manifest, shared with the checkpoints.
    pub(crate) store: StdArc<OpenStore>,
}

impl Log {
    /// Number of loggers; each has one thread. Zero if pictures alone make epochs durable.
    #[must_use]
    pub fn loggers(&self) -> usize {
        self.loggers.len()
    }

    /// Runs one iteration of the logger with this index, for the logger's thread. The step closes the epoch early if
    /// strict results wait, and takes and writes the entries of its workers. If a closed epoch is complete, the step
    /// writes a mark, syncs once, and announces D (L1 to L3).
    pub fn logger_step(&self, logger: usize) -> LoggerStep {
        if self.store.is_forked() {
            return LoggerStep::Stopped;
        }
        self.loggers[logger].step(self)
    }

    /// Makes a part of the logger's next file, if due. The logger's thread calls this function after a step. The call
    /// takes as long as the disk takes for a few megabytes; commits do not wait for the call.
    pub fn logger_prepare(&self, logger: usize) {
        if !self.store.is_forked() {
            self.loggers[logger].prepare(self);
        }
    }

    /// Waits until this logger has a reason to step, at most for `timeout`.
    pub fn logger_wait(&self, logger: usize, timeout: Duration) {
        if !self.store.is_forked() {
            self.loggers[logger].wait(timeout);
        }
    }

    /// Wakes every logger: after the heartbeat or a checkpoint has closed an epoch, for a caller that waits for marks
    /// or an epoch, and after space has come free.
    pub fn wake_loggers(&self) {
        if !self.store.is_forked() {
            self.loggers.iter().for_each(Logger::wake);
        }
    }

    /// Writes the hint of D if the last hint is a second old, and refuses commits if E is near the end of the reserved
    /// epochs. The heartbeat calls this function, which waits for no sync.
    pub fn hint_step(&self) {
        if self.store.is_forked() {
            return;
        }
        self.refuse_near_epoch_limit();
        self.note_alive();
        // A closed log has written its last hint.
        if !self.refuses() {
            self.store.write_hint(self.marks.of_all(Frontier::Synced));
        }
    }

    /// Records in mapped buffers that the process is alive. A much later change of the files then has another cause.
    fn note_alive(&self) {
        let now = if self.clock.is_manual() { self.clock.nanos() / 1_000_000_000 } else { unix_seconds() };
        self.loggers.iter().for_each(|logger| logger.queue.note_alive(now));
    }

    /// Asks every logger to begin a new file soon, so that closed files hold the entries so far. Checkpoints ask before
    /// a removal of log files, and the shipper before an upload. A logger with an empty file does nothing.
    pub fn request_roll(&self) {
        if !self.store.is_forked() {
            self.loggers.iter().for_each(Logger::ask_roll);
        }
    }
}
