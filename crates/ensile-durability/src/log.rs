//! The log of an open database: who appends, who writes, what is durable.
//!
//! ```text
//! appender (per worker) --part-filled, taken by the logger (L2)--> logger --> segment files --> synced mark d
//!           \--full, through the logger's queue-----------------/                               |
//!                                       D = min over logs (marks) --> waiters <-----------------+
//! ```
//! No thread is spawned here: `Database` gives every logger a thread that runs
//! `loop { log.logger_wait(i, interval); log.logger_step(i); }`, and a simulator calls the steps itself.
//!
//! Invariants: E1 in `appender`, L1 and L2 in `look` and `slot`, L3 in `marks` and `segments`, the poison in `waiters`.
//!
//! Neighbours: below, `recovery` hands over the first files of a generation; above, the engine's commit and receipts.

mod appender;
mod bell;
pub(crate) mod block;
pub(crate) mod buffer;
#[cfg(feature = "experiments")]
pub(crate) mod compress;
mod logger;
mod look;
#[cfg(all(test, loom))]
mod loom_tests;
mod marks;
mod queue;
pub(crate) mod segments;
mod slot;
mod stats;
mod waiters;

use std::sync::Arc as StdArc;
use std::task::{Poll, Waker};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering, sleep};
use ensile_base::{Epoch, limits::LOG_BUFFER_BYTES};
use ensile_disk::DiskLock;
use ensile_epoch::{CommitSlot, Epochs};

pub use appender::Appender;
pub use stats::LogStats;

use crate::manifest::ManifestKeeper;
use crate::{DurabilityError, Recovered};
use logger::Logger;
use marks::MarkTable;
use stats::Counters;
use waiters::Waiters;

/// How the log is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// How many loggers write in parallel, each its own files; workers are dealt out among them.
    pub loggers: usize,
    /// A log begins a new file once its current one is this long.
    pub segment_bytes: u64,
    /// Sealed bytes of one logger's workers that may wait to be written; a worker that needs a buffer beyond this
    /// waits in [`Appender::reserve`].
    pub unwritten_bytes_max: usize,
    /// Whether loggers compress the entries of each block.
    #[cfg(feature = "experiments")]
    pub compress: bool,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            loggers: 1,
            segment_bytes: 64 << 20,
            unwritten_bytes_max: 64 << 20,
            #[cfg(feature = "experiments")]
            compress: false,
        }
    }
}

impl LogConfig {
    pub(crate) fn check(&self) -> Result<(), DurabilityError> {
        if self.loggers == 0 || self.loggers > 1024 {
            return Err(DurabilityError::Config("a log needs between 1 and 1024 loggers"));
        }
        if self.segment_bytes < 4096 {
            return Err(DurabilityError::Config("segment_bytes must be at least 4096"));
        }
        if self.unwritten_bytes_max < LOG_BUFFER_BYTES {
            return Err(DurabilityError::Config("unwritten_bytes_max must hold at least one log buffer"));
        }
        Ok(())
    }
}

/// Why a closed log gives no further answers.
const CLOSED: &str = "the log was closed";

/// What one logger step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing to write.
    Idle,
    /// Wrote buffers; their epoch is not closed yet.
    Wrote,
    /// Wrote a durable mark and synced it.
    Synced,
    /// The log is poisoned or closed: this logger has nothing to do any more.
    Stopped,
}

/// Does the log work?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It does.
    Running,
    /// It was closed.
    Closed,
    /// A write or sync failed: nothing will become durable any more. Open the database again.
    Poisoned(String),
}

/// The log of an open database, behind std's `Arc` also under a model checker, whose own cannot be a method's `self`.
#[derive(Debug)]
pub struct Log {
    epochs: Arc<Epochs>,
    clock: Clock,
    loggers: Box<[Logger]>,
    marks: MarkTable,
    waiters: Waiters,
    counters: Counters,
    unwritten_bytes_max: usize,
    next_logger: AtomicUsize,
    /// No reserve succeeds any more: poisoned, closing or closed.
    stopped: AtomicBool,
    /// The manifest, for whoever installs a checkpoint.
    pub(crate) manifest: Mutex<ManifestKeeper>,
    /// Keeps other processes out until this log is closed.
    lock: Mutex<Option<Box<dyn DiskLock>>>,
}

impl Log {
    /// Starts the log of the generation that recovery has begun. `epochs` must have been made with
    /// `first = recovered.next_first_epoch` (L4).
    pub fn start(
        recovered: Recovered,
        epochs: Arc<Epochs>,
        clock: Clock,
    ) -> Result<StdArc<Self>, DurabilityError> {
        let durable = recovered.next_first_epoch.previous();
        if epochs.now() <= durable {
            return Err(DurabilityError::Config("epochs must begin at the recovered next_first_epoch (L4)"));
        }
        let loggers: Box<[Logger]> = recovered
            .segments
            .into_iter()
            .enumerate()
            .map(|(index, segments)| Logger::new(index, segments))
            .collect();
        Ok(StdArc::new(Self {
            epochs,
            clock,
            marks: MarkTable::new(loggers.len(), durable),
            loggers,
            waiters: Waiters::new(durable),
            counters: Counters::default(),
            unwritten_bytes_max: recovered.config.unwritten_bytes_max,
            next_logger: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            manifest: Mutex::new(recovered.keeper),
            lock: Mutex::new(Some(recovered.lock)),
        }))
    }

    /// The appender of a worker whose binding is `slot`, which must not be bound now. Loggers are dealt out in turn.
    #[must_use]
    pub fn attach(self: &StdArc<Self>, slot: Arc<CommitSlot>) -> Appender {
        // Relaxed: only spreads workers; no partner.
        let logger = self.next_logger.fetch_add(1, Ordering::Relaxed) % self.loggers.len();
        Appender::new(StdArc::clone(self), logger, slot)
    }

    /// How many loggers there are: one thread each.
    #[must_use]
    pub fn loggers(&self) -> usize {
        self.loggers.len()
    }

    /// One iteration of a logger: close the epoch early if strict results wait, take what its workers appended, write
    /// it, and where a closed epoch is complete write a mark, sync once, and announce D (L1 to L3).
    pub fn logger_step(&self, logger: usize) -> Step {
        self.loggers[logger].step(self)
    }

    /// Waits until this logger has a reason to step, or `timeout`.
    pub fn logger_wait(&self, logger: usize, timeout: Duration) {
        self.loggers[logger].wait(timeout);
    }

    /// Wakes every logger: for the heartbeat, after an epoch has closed.
    pub fn wake_loggers(&self) {
        self.loggers.iter().for_each(Logger::ring);
    }

    /// The durable epoch D: everything of epochs up to this survives a crash.
    #[inline]
    #[must_use]
    pub fn durable_epoch(&self) -> Epoch {
        self.waiters.durable()
    }

    /// Blocks until `epoch` is durable. Not for a thread that drives loggers.
    ///
    /// # Errors
    /// [`DurabilityError::OutcomeUnknown`] when the log was poisoned before that.
    pub fn wait_durable(&self, epoch: Epoch) -> Result<(), DurabilityError> {
        self.waiters.wait(epoch, || self.wake_loggers())
    }

    /// As [`Log::wait_durable`], for futures: if pending, `waker` is called once there is an answer.
    pub fn poll_durable(&self, epoch: Epoch, waker: &Waker) -> Poll<Result<(), DurabilityError>> {
        let (answer, tell) = self.waiters.poll(epoch, waker);
        if tell {
            self.wake_loggers();
        }
        answer.map_or(Poll::Pending, Poll::Ready)
    }

    /// Does the log work?
    #[must_use]
    pub fn health(&self) -> Health {
        match self.waiters.poison_reason() {
            Some(reason) if *reason == *CLOSED => Health::Closed,
            Some(reason) => Health::Poisoned(reason.to_string()),
            None => Health::Running,
        }
    }

    /// What the log has done since it started.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        self.counters.read()
    }

    /// Refuses further entries, makes everything appended durable, and gives unused space back. The caller has ended
    /// its workers' commits before; logger threads may still run, and find [`Step::Stopped`] afterwards. A second call
    /// does nothing.
    ///
    /// # Errors
    /// [`DurabilityError::OutcomeUnknown`] when the log was, or is now, poisoned.
    pub fn close(&self) -> Result<(), DurabilityError> {
        let closed = self.make_durable_and_stop();
        // A logger that was writing when another one poisoned the log still is.
        self.loggers.iter().for_each(Logger::wait_for_step);
        // Whoever still has an appender keeps this log, but nothing writes any more: the folder is free.
        self.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        closed
    }

    fn make_durable_and_stop(&self) -> Result<(), DurabilityError> {
        // Release: partner is the Acquire in `is_stopped`.
        self.stopped.store(true, Ordering::Release);
        let target = self.epochs.now();
        while self.durable_epoch() < target {
            match self.waiters.poison_reason() {
                Some(reason) if *reason == *CLOSED => return Ok(()),
                Some(reason) => return Err(DurabilityError::OutcomeUnknown(reason)),
                None => self.step_towards_close(),
            }
        }
        // Two rounds: the second carries the D that the first one made, so that later damage to it is seen (L5).
        for (last, logger) in
            [false, true].into_iter().flat_map(|last| self.loggers.iter().map(move |l| (last, l)))
        {
            logger.write_last_mark(self, last);
        }
        match self.waiters.poison_reason() {
            Some(reason) if *reason != *CLOSED => Err(DurabilityError::OutcomeUnknown(reason)),
            _ => {
                self.poison(CLOSED);
                Ok(())
            }
        }
    }

    fn step_towards_close(&self) {
        // A clock that stands still would never let the epoch close; the machine's ignores this.
        self.clock.advance(Duration::from_micros(EPOCH_MICROS_MIN));
        let advanced = self.epochs.try_advance(self.clock.nanos());
        self.loggers.iter().for_each(|logger| {
            logger.step(self);
        });
        if !matches!(advanced, ensile_epoch::Advance::Advanced(_)) {
            sleep(Duration::from_micros(EPOCH_MICROS_MIN / 2));
        }
    }

    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        // Acquire: who sees the stop finds its reason (partners: `poison`, `close`).
        self.stopped.load(Ordering::Acquire)
    }

    /// Why nothing can be reserved.
    fn stopped_error(&self) -> DurabilityError {
        DurabilityError::Stopped(self.waiters.poison_reason().unwrap_or_else(|| CLOSED.into()))
    }

    /// One failed write or sync stops the log for good: what the disk holds is not known any more. A close stops it the
    /// same way, once everything is durable.
    fn poison(&self, reason: &str) -> DurabilityError {
        let woken = self.waiters.poison(reason);
        // Release: partner is the Acquire in `is_stopped`.
        self.stopped.store(true, Ordering::Release);
        self.loggers.iter().for_each(Logger::wake_all);
        woken.into_iter().for_each(Waker::wake);
        DurabilityError::OutcomeUnknown(self.waiters.poison_reason().unwrap_or_else(|| reason.into()))
    }
}
