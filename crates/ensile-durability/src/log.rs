//! The log of an open database: workers append, loggers write, and D says what is durable.
//!
//! ```text
//! appender (per worker) --part-filled, taken by the logger (L2)--> logger --> segment files --> synced mark d
//!           \--full, through the logger's queue-----------------/                               |
//!                                       D = min over logs (marks) --> waiters <-----------------+
//! ```
//! No thread is spawned here: `Database` gives every logger a thread that runs
//! `loop { log.logger_wait(i, interval); log.logger_step(i); }`, and a simulator calls the steps itself.
//!
//! It may have no loggers (SIREN §5): then nothing is appended. D is e_c of the installed picture, which the
//! checkpoints announce, and a waiter asks for a picture in place of a mark. Waiters, the end, refusals and reserved
//! epochs are the same.
//!
//! Invariants: E1 in `appender`, L1 and L2 in `claim` and `buffers`, L3 in `marks` and `segments`, the end of the
//! log in `waiters`.
//!
//! Neighbours: below, `buffers` has what workers append, `recovery` hands over the first files of a generation, and the
//! store of an open database has what it shares with the checkpoints; above, the engine's commit and receipts.

mod appender;
mod archiving;
mod claim;
mod config;
mod durable;
mod ending;
mod logger;
mod lone;

#[cfg(all(test, loom))]
mod loom_tests;
mod marks;
pub(crate) mod next;
mod pictured;
mod refusing;
mod removal;
mod reserving;
pub(crate) mod segments;

pub(crate) mod start;
mod stats;
mod waiters;

use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::clock::{Clock, unix_seconds};
use ensile_base::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering};
use ensile_epoch::{CommitSlot, Epochs};

pub use appender::Appender;
pub use config::LogConfig;
pub use durable::Durable;
pub use refusing::Health;
use refusing::Refusal;
pub use removal::Removed;
pub use start::LogStart;
pub use stats::LogStats;

use crate::store::handle::OpenStore;
use crate::wake_up::WakeUp;
use logger::Logger;
use marks::{Frontier, MarkTable};
use stats::LogCounters;
use waiters::Waiters;

/// What one logger step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggerStep {
    /// Nothing to write.
    Idle,
    /// Wrote buffers; their epoch is not closed yet.
    Wrote,
    /// Wrote a durable mark and synced it.
    Synced,
    /// The disk is full: what is to be written is held, and a later step tries again.
    Held,
    /// The log is poisoned or closed: this logger has nothing to do any more.
    Stopped,
}

/// The log of an open database. It is shared by std's `Arc` under a model checker too: the checker's own `Arc` cannot
/// be the type of a method's `self`.
#[derive(Debug)]
pub struct Log {
    epochs: Arc<Epochs>,
    clock: Clock,
    loggers: Box<[Logger]>,
    marks: MarkTable,
    waiters: Waiters,
    pub(crate) counters: LogCounters,
    /// Most bytes of the buffers of one logger's workers.
    buffer_bytes_max: usize,
    full_wait_nanos: u64,
    next_logger: AtomicUsize,
    /// Whether every reserve is refused; `refusal` says why.
    refuses: AtomicBool,
    /// Nothing under this lock leaves it half changed.
    refusal: Mutex<Refusal>,
    /// Without loggers: a result waits for a picture.
    picture_wanted: StdArc<WakeUp>,
    /// No file is archived before this, as it has just failed.
    archive_not_before: AtomicU64,
    /// Its folders and their manifest, which the checkpoints share.
    pub(crate) store: StdArc<OpenStore>,
}

impl Log {
    /// The appender of a worker whose binding is `slot`. The slot must not be bound now. Workers are given to loggers
    /// in turn.
    #[must_use]
    pub fn attach(self: &StdArc<Self>, slot: Arc<CommitSlot>) -> Appender {
        assert!(self.has_loggers(), "entries are for a logger");
        // Relaxed: only spreads workers; no partner.
        let logger = self.next_logger.fetch_add(1, Ordering::Relaxed) % self.loggers.len();
        debug_assert!(slot.bound().is_none(), "a worker attaches between commits");
        Appender::new(StdArc::clone(self), logger, slot)
    }

    /// How many loggers there are: one thread each. None where pictures alone make epochs durable.
    #[must_use]
    pub fn loggers(&self) -> usize {
        self.loggers.len()
    }

    /// One iteration of a logger: close the epoch early if strict results wait, take what its workers appended, write
    /// it, and where a closed epoch is complete write a mark, sync once, and announce D (L1 to L3).
    pub fn logger_step(&self, logger: usize) -> LoggerStep {
        if self.store.is_forked() {
            return LoggerStep::Stopped;
        }
        self.loggers[logger].step(self)
    }

    /// Prepares what later commits need, if it is time: the logger's thread calls it after a step. It takes as long as
    /// the disk takes for a few megabytes; commits do not wait for it.
    pub fn logger_prepare(&self, logger: usize) {
        if !self.store.is_forked() {
            self.loggers[logger].prepare(self);
        }
    }

    /// Waits until this logger has a reason to step, or `timeout`.
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

    /// Writes the hint of D if the last one is a second old, and refuses commits if E is near the end of what is
    /// reserved. For the heartbeat: it waits for no sync.
    pub fn hint_step(&self) {
        if self.store.is_forked() {
            return;
        }
        self.look_at_end();
        self.note_alive();
        // A closed log has written its last one.
        if !self.refuses() {
            self.store.write_hint(self.marks.of_all(Frontier::Synced));
        }
    }

    /// Says, where buffers are mapped, that the process lives: what is changed there much later was not changed by it.
    fn note_alive(&self) {
        let now = if self.clock.is_manual() { self.clock.nanos() / 1_000_000_000 } else { unix_seconds() };
        self.loggers.iter().for_each(|logger| logger.queue.note_alive(now));
    }

    /// Asks every logger to begin a new file soon, so that what it wrote so far stands in closed ones. A logger whose
    /// file is empty does not.
    pub fn request_roll(&self) {
        if !self.store.is_forked() {
            self.loggers.iter().for_each(Logger::ask_roll);
        }
    }
}
