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
//! Invariants: E1 in `appender`, L1 and L2 in `look` and `slot`, L3 in `marks` and `segments`, the end in `waiters`.
//!
//! Neighbours: below, `recovery` hands over the first files of a generation; above, the engine's commit and receipts.

mod appender;
pub(crate) mod buffer;
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
mod queue;
mod refusing;
mod removal;
pub(crate) mod segments;

mod start;
mod stats;
mod waiters;
mod wake_up;
mod worker_slot;

use std::collections::VecDeque;
use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_base::sync::{Arc, AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering};
use ensile_disk::{Disk, DiskError, Process};
use ensile_epoch::{CommitSlot, Epochs};

pub use appender::Appender;
pub use config::LogConfig;
pub use durable::Durable;
pub use refusing::Health;
use refusing::Refusal;
pub use removal::Removed;
pub use start::LogStart;
pub use stats::LogStats;
pub(crate) use wake_up::WakeUp;

use crate::DurabilityError;
use crate::store::Locks;
use crate::store::hint::HintWriter;
use crate::store::leases::Leases;
use crate::store::manifest::{Manifest, ManifestKeeper, NotReplaced};
use crate::store::reserve::Reserve;
use crate::store::reserved_epochs::ReservedEpochs;
use logger::Logger;
use marks::MarkTable;
use segments::ClosedFile;
use stats::LogCounters;
use waiters::{LogEnd, Waiters, wake_all};

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

/// The log of an open database, behind std's `Arc` also under a model checker, whose own cannot be a method's `self`.
#[derive(Debug)]
pub struct Log {
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) clock: Clock,
    loggers: Box<[Logger]>,
    marks: MarkTable,
    waiters: Waiters,
    counters: LogCounters,
    /// Of one logger's workers.
    buffer_bytes_max: usize,
    full_wait_nanos: u64,
    next_logger: AtomicUsize,
    /// No reserve succeeds: as `refusal` says.
    refuses: AtomicBool,
    refusal: Mutex<Refusal>,
    disk: StdArc<dyn Disk>,
    /// The process that opened the log: no other one does anything with it (I4).
    process: Process,
    /// Files of closed generations, which the next checkpoint makes void.
    older: Mutex<VecDeque<ClosedFile>>,
    /// One at a time removes files.
    removing: Mutex<()>,
    /// For which it waits.
    leases: Leases,
    hint: Mutex<HintWriter>,
    reserved_epochs: Mutex<ReservedEpochs>,
    /// The manifest, for whoever installs a checkpoint.
    pub(crate) manifest: Mutex<ManifestKeeper>,
    /// Bytes of log that recovery replayed, and would again.
    pub(crate) replayed_bytes: u64,
    /// Keeps other processes out until this log is closed.
    pub(crate) reserve: Reserve,
    locks: Mutex<Option<Locks>>,
}

impl Log {
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
    pub fn logger_step(&self, logger: usize) -> LoggerStep {
        if !self.process.is_this() {
            return LoggerStep::Stopped;
        }
        self.loggers[logger].step(self)
    }

    /// Makes ready what later commits need, if it is time: for the logger's thread after a step. It takes as long as the disk
    /// takes for a few megabytes; commits do not wait for it.
    pub fn logger_prepare(&self, logger: usize) {
        if self.process.is_this() {
            self.loggers[logger].prepare(self);
        }
    }

    /// Waits until this logger has a reason to step, or `timeout`.
    pub fn logger_wait(&self, logger: usize, timeout: Duration) {
        if self.process.is_this() {
            self.loggers[logger].wait(timeout);
        }
    }

    /// Wakes every logger: for the heartbeat, after an epoch has closed.
    pub fn wake_loggers(&self) {
        if self.process.is_this() {
            self.loggers.iter().for_each(Logger::wake);
        }
    }

    /// Fails in a process that was forked from the one that opened the log (I4).
    pub(crate) fn check_process(&self) -> Result<(), DurabilityError> {
        if self.process.is_this() { Ok(()) } else { Err(DurabilityError::Forked) }
    }

    /// The process that opened the log.
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Writes the hint of D if the last one is a second old, and looks how far E is from its end: for the heartbeat. Waits for
    /// no sync.
    pub fn hint_step(&self) {
        if !self.process.is_this() {
            return;
        }
        self.look_at_end();
        // A closed log has written its last one.
        if !self.refuses() {
            self.lock_hint().step(self.clock.nanos(), self.marks.synced_by_all());
        }
    }

    /// Reserves more epochs in the manifest when half of them are used (L6): for a thread that nobody waits for, since the
    /// manifest is synced.
    pub fn reserved_epochs_step(&self) {
        if !self.process.is_this() || self.waiters.has_ended() {
            return;
        }
        let now = self.clock.nanos();
        let Some(due) = self.lock_reserved_epochs().due(now, self.epochs.now()) else { return };
        match self.write_reserved(due) {
            Ok(false) => {}
            Ok(true) => {
                let mut reserved_epochs = self.lock_reserved_epochs();
                reserved_epochs.renewed(due);
                self.epochs.set_limit(reserved_epochs.limit());
                drop(reserved_epochs);
                self.look_at_end();
            }
            // Whichever of the two stands, E stays below what was reserved before.
            Err(error) => self.lock_reserved_epochs().failed(now, &error.to_string()),
        }
    }

    /// Puts this bound into the manifest. False in a log that has ended: nothing was written, and E's limit stays (L6).
    fn write_reserved(&self, due: Epoch) -> Result<bool, DiskError> {
        // The keeper holds a manifest that stood on disk.
        let mut keeper = self.manifest.lock();
        // Under this lock, for which a close waits: afterwards the manifest may be another's.
        if self.waiters.has_ended() {
            return Ok(false);
        }
        let next = Manifest { reserved: due, ..keeper.manifest().clone() };
        let replaced = keeper.replace(next);
        replaced.map(|()| true).map_err(|(NotReplaced::OldStands(error) | NotReplaced::Unknown(error))| error)
    }

    /// Reserves the few epochs that a close needs, where even those that are kept for it are used (L6). What stands in
    /// the way, if anything.
    fn reserve_for_close(&self) -> Option<String> {
        let Some(due) = self.lock_reserved_epochs().for_close(self.epochs.now()) else {
            return Some("the epochs are used up".to_owned());
        };
        let mut written = self.write_reserved(due);
        if written.as_ref().is_err_and(DiskError::is_full) && self.give_up_reserve() {
            written = self.write_reserved(due);
        }
        match written {
            Ok(true) => {
                self.lock_reserved_epochs().renewed(due);
                self.epochs.set_limit(due);
                None
            }
            // The close finds how it has ended.
            Ok(false) => None,
            Err(error) => Some(error.to_string()),
        }
    }

    /// Refuses commits while E is near the end of what is reserved.
    pub(crate) fn look_at_end(&self) {
        let ended = self.lock_reserved_epochs().ended(self.epochs.now());
        if ended.is_some() != self.lock_refusal().epochs_ended.is_some() {
            let now = self.clock.nanos();
            self.refuse(|refusal| {
                if refusal.full.is_empty() {
                    refusal.full_since_nanos = now;
                }
                refusal.epochs_ended = ended;
            });
            self.loggers.iter().for_each(Logger::wake_workers);
        }
        self.expire_waiters();
    }

    /// Lets E use what is kept at the end of the reserved epochs: for a close, which needs a few epochs more. Commits
    /// are refused by then.
    pub fn use_kept_epochs(&self) {
        self.epochs.set_limit(self.lock_reserved_epochs().end());
    }

    fn lock_reserved_epochs(&self) -> MutexGuard<'_, ReservedEpochs> {
        // Nothing under this lock leaves it half changed.
        self.reserved_epochs.lock()
    }

    fn lock_hint(&self) -> MutexGuard<'_, HintWriter> {
        // A hint that a panic cut says nothing.
        self.hint.lock()
    }

    /// The durable epoch D: everything of epochs up to this survives a crash.
    #[inline]
    #[must_use]
    pub fn durable_epoch(&self) -> Epoch {
        self.waiters.durable()
    }

    /// Asks for synced marks of `epoch` in every log, entries or not: a recovery is to find at least this D (K1). True once
    /// they stand.
    pub(crate) fn has_marks_of(&self, epoch: Epoch) -> bool {
        if self.marks.synced_by_all() >= epoch {
            return true;
        }
        self.marks.ask(epoch);
        self.wake_loggers();
        false
    }

    /// Blocks until `epoch` is durable. A caller that waits alone takes the loggers' steps itself. Not for a thread that is
    /// inside a step.
    ///
    /// # Errors
    /// [`DurabilityError::OutcomeUnknown`] when the log was poisoned before that; [`DurabilityError::NotDurableYet`] when
    /// the disk was full for [`LogConfig::full_wait`] meanwhile.
    pub fn wait_durable(&self, epoch: Epoch) -> Result<(), DurabilityError> {
        self.check_process()?;
        let begin = |alone: bool| {
            if !alone || !self.step_as_waiter(epoch) {
                self.wake_loggers();
                self.step_for_those_away(epoch);
            }
        };
        self.waiters.wait(epoch, || self.clock.nanos(), begin)
    }

    /// As [`Log::wait_durable`], as a future.
    pub fn durable(self: &StdArc<Self>, epoch: Epoch) -> Durable {
        Durable { log: StdArc::clone(self), epoch, slot: None }
    }

    /// What the log has done since it started, and its files on disk now; in a forked child the former only.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        if !self.process.is_this() {
            return self.counters.read();
        }
        let (mut files, mut file_bytes) = {
            let older = self.lock_older();
            (older.len() as u64, older.iter().map(|file| file.bytes).sum::<u64>())
        };
        for logger in &self.loggers {
            let closed = logger.closed_files();
            files += closed.len() as u64 + 1;
            file_bytes += closed.iter().map(|file| file.bytes).sum::<u64>() + logger.open_bytes();
        }
        let buffer_bytes = self.loggers.iter().map(|logger| logger.queue.bytes() as u64).sum();
        let (removals_put_off, leases_overrun) = (self.leases.put_off.read(), self.leases.overrun.read());
        let counted = self.counters.read();
        LogStats { files, file_bytes, buffer_bytes, removals_put_off, leases_overrun, ..counted }
    }

    /// Asks every logger to begin a new file soon, so that what it wrote so far stands in closed ones. A logger whose file is
    /// empty does not.
    pub fn request_roll(&self) {
        if self.process.is_this() {
            self.loggers.iter().for_each(Logger::ask_roll);
        }
    }

    fn lock_older(&self) -> MutexGuard<'_, VecDeque<ClosedFile>> {
        // Only whole elements are removed under this lock.
        self.older.lock()
    }

    /// One failed write or sync stops the log for good: what the disk holds is not known any more.
    pub(crate) fn poison(&self, reason: &str) -> DurabilityError {
        self.end(LogEnd::Poisoned(reason.into()));
        DurabilityError::OutcomeUnknown(
            self.waiters.how_ended().map_or_else(|| reason.into(), |end| end.reason()),
        )
    }

    /// Stops the log for good as a failed write does, for a thread without which nothing becomes durable.
    pub fn stop(&self, reason: &str) {
        if !self.process.is_this() {
            return;
        }
        self.poison(reason);
    }

    /// Stops the log for good; a close does it once everything is durable.
    fn end(&self, end: LogEnd) {
        let woken = self.waiters.end(end);
        self.refuse(|refusal| refusal.stopped = true);
        self.loggers.iter().for_each(Logger::wake_all);
        wake_all(woken);
    }
}
