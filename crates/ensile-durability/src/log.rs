//! The log of an open database: workers append, loggers write, and D is the durable epoch.
//!
//! ```text
//! appender (per worker) --part-filled, taken by the logger (L2)--> logger --> segment files --> synced mark d
//!           \--full, through the logger's queue-----------------/                               |
//!                                       D = min over logs (marks) --> waiters <-----------------+
//! ```
//! No thread is spawned here: `Database` gives every logger a thread that runs
//! `loop { log.logger_wait(i, interval); log.logger_step(i); }`, and a simulator calls the steps itself.
//!
//! A log may have no loggers (SIREN §5): then no entry is appended. D is e_c of the installed picture (the last epoch
//! in the picture). The checkpoints announce D, and a waiter asks for a picture in place of a mark. Waiters, the close,
//! refusals and reserved epochs work as with loggers.
//!
//! Invariants: E1 in `appender`, L1 and L2 in `worker_scan` and `buffers`, L3 in `marks` and `segments`, the end of the
//! log in `waiters` and `shutdown`.
//!
//! Neighbours: below, `buffers` has the entries of workers, and `store` the folders, which log and checkpoints share.
//! `recovery` hands over the first files of a generation. Above, the engine's commits append, and its receipts wait.

mod appender;
mod archival;
mod config;
mod durable_epoch;
mod inline_step;
mod logger;
mod shutdown;
mod worker_scan;

mod admission;
mod epoch_reservation;
#[cfg(all(test, loom))]
mod loom_tests;
mod marks;
pub(crate) mod next_file;
mod no_log;
mod removal;
pub(crate) mod segments;

pub(crate) mod start;
mod stats;
mod waiters;

use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::clock::{Clock, unix_seconds};
use ensile_base::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering};
use ensile_epoch::{CommitSlot, Epochs};

pub use admission::Health;
use admission::Refusal;
pub use appender::Appender;
pub use config::LogConfig;
pub use durable_epoch::Durable;
pub use removal::Removed;
pub use start::LogStart;
pub use stats::LogStats;

use crate::store::open_store::OpenStore;
use crate::wake_up::WakeUp;
use logger::Logger;
use marks::{Frontier, MarkTable};
use stats::LogCounters;
use waiters::Waiters;

/// Result of one logger step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggerStep {
    /// Nothing to write.
    Idle,
    /// Wrote buffers; their epoch is not closed yet.
    Wrote,
    /// Wrote a durable mark and synced it.
    Synced,
    /// The disk is full: the unwritten blocks stay in memory, and a later step tries again.
    Held,
    /// The log is poisoned or closed: this logger has no more work.
    Stopped,
}

/// The log of an open database. Threads share a log by std's `Arc` under a model checker too: the checker's own `Arc`
/// cannot be the type of a method's `self`.
#[derive(Debug)]
pub struct Log {
    epochs: Arc<Epochs>,
    clock: Clock,
    loggers: Box<[Logger]>,
    marks: MarkTable,
    waiters: Waiters,
    pub(crate) counters: LogCounters,
    /// Largest memory of the buffers of one logger's workers, in bytes.
    buffer_bytes_max: usize,
    full_wait_nanos: u64,
    next_logger: AtomicUsize,
    /// True if every reserve is refused; `refusal` has the reason.
    refuses: AtomicBool,
    /// No panic under this lock leaves the refusal half changed.
    refusal: Mutex<Refusal>,
    /// Without loggers: wake-up of a picture for which a result waits.
    picture_wanted: StdArc<WakeUp>,
    /// Time before which no file is archived, after a failure, in nanoseconds of the clock.
    archive_not_before: AtomicU64,
    /// Folders of the log and their manifest, shared with the checkpoints.
    pub(crate) store: StdArc<OpenStore>,
}

impl Log {
    /// Makes the appender of a worker whose epoch binding is `slot`. A worker calls once, between commits: the slot
    /// must not be bound now. Loggers get workers in turn.
    #[must_use]
    pub fn attach(self: &StdArc<Self>, slot: Arc<CommitSlot>) -> Appender {
        assert!(self.has_loggers(), "entries are for a logger");
        // Relaxed: only spreads workers; no partner.
        let logger = self.next_logger.fetch_add(1, Ordering::Relaxed) % self.loggers.len();
        debug_assert!(slot.bound_epoch().is_none(), "a worker attaches between commits");
        Appender::new(StdArc::clone(self), logger, slot)
    }

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

    /// Wakes every logger: for the heartbeat, after an epoch has closed.
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
        self.look_at_end();
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
