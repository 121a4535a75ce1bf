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
mod bell;
pub(crate) mod buffer;
mod logger;
mod lone;
mod look;
#[cfg(all(test, loom))]
mod loom_tests;
mod marks;
pub(crate) mod next;
mod queue;
pub(crate) mod segments;
mod slot;
mod stats;
mod waiters;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc as StdArc;
use std::task::{Context, Poll};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::{Arc, AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, sleep};
use ensile_base::{Epoch, limits::LOG_BUFFER_BYTES};
use ensile_disk::{Disk, DiskError, Process};
use ensile_epoch::{Advance, CommitSlot, Epochs};

pub use appender::Appender;
pub(crate) use bell::Bell;
pub(crate) use stats::Counter;
pub use stats::LogStats;

use crate::recoverable::EntryKind;
use crate::store::hint::HintWriter;
use crate::store::leases::{Clearance, Leases};
use crate::store::manifest::{Manifest, ManifestKeeper, NotReplaced};
use crate::store::names::log_folder;
use crate::store::reservation::Reservation;
use crate::store::reserve::Reserve;
use crate::store::{self, Locks, Opening};
use crate::{DurabilityError, Recovered};
use logger::Logger;
use marks::MarkTable;
use segments::ClosedFile;
use stats::Counters;
use waiters::{End, Fullness, Waiters, wake_all};

/// The shortest log file before the next is begun: a few blocks.
const SEGMENT_BYTES_MIN: u64 = 4096;

/// How the log is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// How many loggers write in parallel, each its own files; workers are dealt out among them.
    pub loggers: usize,
    /// Folders for the loggers' files, one each, in this order; none: plain folders in the database's own. They are made
    /// links at the first open with them, and remembered by the file system from then on.
    pub folders: Vec<PathBuf>,
    /// Whether there must be a database, or must be none.
    pub opening: Opening,
    /// How many checkpointers the database is going to have, and their folders as in [`crate::CheckpointConfig`]: so they are looked at
    /// before anything is changed. 0 if that is not known yet.
    pub checkpointers: usize,
    /// See `checkpointers`.
    pub checkpoint_folders: Vec<PathBuf>,
    /// A log begins a new file once its current one is this long.
    pub segment_bytes: u64,
    /// A log begins a new file once its current one is this old, if anything was written to it.
    pub segment_interval: Duration,
    /// Bytes that all log buffers together may take: those that workers fill, that wait to be written, and spare ones. A worker
    /// that needs one beyond this waits in [`Appender::reserve`]. Each worker may have one in any case, and one entry that
    /// is larger than a buffer gets one of its own for each logger.
    pub buffer_bytes_max: usize,
    /// What the entries of this state are: each generation has one kind.
    pub entries: EntryKind,
    /// Whether loggers compress the entries of each block (LZ4). It takes the loggers' time to save the disk's.
    pub compress: bool,
    /// The usual time between two epochs: so many are reserved at open that they last for a day (L6).
    pub epoch_interval: Duration,
    /// Recovery takes the newest pieces of the log while the state keeps fewer bytes for older ones, to measure what the order is
    /// worth: 0 is oldest first, [`u64::MAX`] SiloR's order (§5.2).
    #[cfg(feature = "experiments")]
    pub replay_waiting_bytes_max: u64,
    /// How long a result waits for space on a full disk before it is told [`DurabilityError::NotDurableYet`].
    pub full_wait: Duration,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            loggers: 1,
            folders: Vec::new(),
            opening: Opening::default(),
            checkpointers: 0,
            checkpoint_folders: Vec::new(),
            segment_bytes: 64 << 20,
            segment_interval: Duration::from_secs(4),
            buffer_bytes_max: 64 << 20,
            entries: EntryKind::Values,
            compress: false,
            epoch_interval: Duration::from_millis(40),
            #[cfg(feature = "experiments")]
            replay_waiting_bytes_max: ensile_base::limits::REPLAY_WAITING_BYTES_MAX,
            full_wait: Duration::from_secs(30),
        }
    }
}

impl LogConfig {
    pub(crate) fn check(&self) -> Result<(), DurabilityError> {
        if self.loggers == 0 || self.loggers > 1024 {
            return Err(DurabilityError::config("a log needs between 1 and 1024 loggers"));
        }
        store::check_links(&self.folders, self.loggers, "log", "logger")?;
        // By the names that the database's builder gives them.
        if self.segment_bytes < SEGMENT_BYTES_MIN {
            let why = format!("log_file_bytes must be at least {SEGMENT_BYTES_MIN}");
            return Err(DurabilityError::config(why));
        }
        if self.buffer_bytes_max < LOG_BUFFER_BYTES {
            let why = format!("log_buffer_bytes_max must be at least {LOG_BUFFER_BYTES}, one log buffer");
            return Err(DurabilityError::config(why));
        }
        Ok(())
    }
}

/// What a removal of log files did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What one logger step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
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

/// Does the log work?
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// It does.
    Running,
    /// The disk is full, and why: commits are refused, who waits for D waits on. It goes on by itself once there is space.
    Full(String),
    /// Epochs cannot be reserved any more, and why: E comes to its end, and commits are refused. It goes on by itself once
    /// they can.
    EpochsEnded(String),
    /// It was closed.
    Closed,
    /// A write or sync failed: nothing will become durable any more. Open the database again.
    Poisoned(String),
    /// This process was forked from the one that opened it, where it goes on: open it anew once it is closed there.
    Forked,
}

impl Health {
    /// Will it never write again?
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        matches!(self, Self::Closed | Self::Poisoned(_) | Self::Forked)
    }
}

/// Why no reserve succeeds.
#[derive(Debug, Default)]
struct Refusal {
    /// For good: poisoned, closing or closed.
    stopped: bool,
    /// The loggers that hold what the disk has no space for, and what it said.
    full: BTreeMap<usize, StdArc<str>>,
    /// E is near the end of what is reserved (L6), and why no more is.
    epochs_ended: Option<StdArc<str>>,
    /// When the first of them began to hold, and how often one has tried.
    full_since_nanos: u64,
    tries: u64,
}

/// The log of an open database, behind std's `Arc` also under a model checker, whose own cannot be a method's `self`.
#[derive(Debug)]
pub struct Log {
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) clock: Clock,
    loggers: Box<[Logger]>,
    marks: MarkTable,
    waiters: Waiters,
    counters: Counters,
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
    reservation: Mutex<Reservation>,
    /// The manifest, for whoever installs a checkpoint.
    pub(crate) manifest: Mutex<ManifestKeeper>,
    /// Bytes of log that recovery replayed, and would again.
    pub(crate) replayed_bytes: u64,
    /// Keeps other processes out until this log is closed.
    pub(crate) reserve: Reserve,
    locks: Mutex<Option<Locks>>,
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
            return Err(DurabilityError::config("epochs must begin at the recovered next_first_epoch (L4)"));
        }
        let loggers: Box<[Logger]> = recovered
            .segments
            .into_iter()
            .enumerate()
            .map(|(index, segments)| Logger::new(index, segments.started(clock.nanos())))
            .collect();
        let reserved = recovered.keeper.manifest().reserved;
        let interval = recovered.config.epoch_interval;
        let reservation = Reservation::new(reserved, interval, clock.nanos(), epochs.now());
        epochs.set_limit(reservation.limit());
        Ok(StdArc::new(Self {
            epochs,
            clock,
            marks: MarkTable::new(loggers.len(), durable),
            loggers,
            waiters: Waiters::new(durable),
            counters: Counters::default(),
            buffer_bytes_max: recovered.config.buffer_bytes_max / recovered.config.loggers,
            full_wait_nanos: u64::try_from(recovered.config.full_wait.as_nanos()).unwrap_or(u64::MAX),
            next_logger: AtomicUsize::new(0),
            refuses: AtomicBool::new(false),
            refusal: Mutex::new(Refusal::default()),
            process: recovered.disk.process(),
            disk: recovered.disk,
            older: Mutex::new(recovered.older.into()),
            removing: Mutex::new(()),
            leases: Leases::default(),
            hint: Mutex::new(recovered.hint),
            reservation: Mutex::new(reservation),
            manifest: Mutex::new(recovered.keeper),
            replayed_bytes: recovered.report.bytes,
            locks: Mutex::new(Some(recovered.locks)),
            reserve: recovered.reserve,
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
        if !self.process.is_this() {
            return Step::Stopped;
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
            self.loggers.iter().for_each(Logger::ring);
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
    pub fn reservation_step(&self) {
        if !self.process.is_this() || self.waiters.has_ended() {
            return;
        }
        let now = self.clock.nanos();
        let Some(due) = self.lock_reservation().due(now, self.epochs.now()) else { return };
        match self.write_reserved(due) {
            Ok(()) => {
                let mut reservation = self.lock_reservation();
                reservation.renewed(due);
                self.epochs.set_limit(reservation.limit());
                drop(reservation);
                self.look_at_end();
            }
            // Whichever of the two stands, E stays below what was reserved before.
            Err(error) => self.lock_reservation().failed(now, &error.to_string()),
        }
    }

    /// Puts this bound into the manifest. Does nothing in a log that has ended.
    fn write_reserved(&self, due: Epoch) -> Result<(), DiskError> {
        // The keeper holds a manifest that stood on disk.
        let mut keeper = self.manifest.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Under this lock, for which a close waits: afterwards the manifest may be another's.
        if self.waiters.has_ended() {
            return Ok(());
        }
        let next = Manifest { reserved: due, ..keeper.manifest().clone() };
        let replaced = keeper.replace(next);
        replaced.map_err(|(NotReplaced::OldStands(error) | NotReplaced::Unknown(error))| error)
    }

    /// Reserves the few epochs that a close needs, where even those that are kept for it are used (L6). What stands in the way, if
    /// anything.
    fn reserve_for_close(&self) -> Option<String> {
        let Some(due) = self.lock_reservation().for_close(self.epochs.now()) else {
            return Some("the epochs are used up".to_owned());
        };
        let mut written = self.write_reserved(due);
        if written.as_ref().is_err_and(DiskError::is_full) && self.give_up_reserve() {
            written = self.write_reserved(due);
        }
        if let Err(error) = written {
            return Some(error.to_string());
        }
        self.lock_reservation().renewed(due);
        self.epochs.set_limit(due);
        None
    }

    /// Refuses commits while E is near the end of what is reserved.
    pub(crate) fn look_at_end(&self) {
        let ended = self.lock_reservation().ended(self.epochs.now());
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

    /// Lets E use what is kept at the end of the reservation: for a close, which needs a few epochs more. Commits are refused by
    /// then.
    pub fn use_kept_epochs(&self) {
        self.epochs.set_limit(self.lock_reservation().end());
    }

    fn lock_reservation(&self) -> MutexGuard<'_, Reservation> {
        // Nothing under this lock leaves it half changed.
        self.reservation.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn lock_hint(&self) -> MutexGuard<'_, HintWriter> {
        // A hint that a panic cut says nothing.
        self.hint.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
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

    /// Does the log work?
    #[must_use]
    pub fn health(&self) -> Health {
        if !self.process.is_this() {
            return Health::Forked;
        }
        match self.waiters.how_ended() {
            Some(End::Closed) => Health::Closed,
            Some(End::Poisoned(reason)) => Health::Poisoned(reason.to_string()),
            None => {
                let refusal = self.lock_refusal();
                let full = refusal.full.values().next().map(|reason| Health::Full(reason.to_string()));
                let ended = || refusal.epochs_ended.as_ref();
                let or_ended = || ended().map(|reason| Health::EpochsEnded(reason.to_string()));
                full.or_else(or_ended).unwrap_or(Health::Running)
            }
        }
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
        self.older.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Removes every closed file whose entries all have epochs below `covered`, oldest first, in all logs: for who has made
    /// a checkpoint durable that holds what entries below `covered` left, and a manifest that does not list the generations
    /// before this one. While a reader holds a lease nothing is removed, and a later call tries again (I3).
    ///
    /// # Errors
    /// The disk's, when a file cannot be removed: it and those behind it stay, and a later call tries again.
    pub fn remove_files_below(&self, covered: Epoch) -> Result<Removed, DurabilityError> {
        self.check_process()?;
        match self.ask_leases()? {
            Some(clearance) => self.remove_cleared_below(covered, &clearance),
            None => Ok(Removed::default()),
        }
    }

    /// May void files be removed now (I3)? `None`: not before a lease has ended.
    pub(crate) fn ask_leases(&self) -> Result<Option<Clearance>, DiskError> {
        self.leases.ask(&*self.disk, self.clock.nanos())
    }

    /// As [`Log::remove_files_below`], for a caller that has asked already.
    pub(crate) fn remove_cleared_below(
        &self,
        covered: Epoch,
        _clearance: &Clearance,
    ) -> Result<Removed, DurabilityError> {
        self.check_process()?;
        // Guards no data that a panic could leave half changed.
        let _one = self.removing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut removed = Removed::default();
        let result = self.remove_files(covered, &mut removed);
        if removed.files > 0 {
            // There is space now.
            self.wake_loggers();
        }
        result.map(|()| removed)
    }

    fn remove_files(&self, covered: Epoch, removed: &mut Removed) -> Result<(), DurabilityError> {
        self.remove_older_files(covered, removed)?;
        for (index, logger) in self.loggers.iter().enumerate() {
            let before = removed.files;
            let result = self.remove_files_of(logger, covered, removed);
            if removed.files > before {
                self.disk.sync_folder(&log_folder(index as u32))?;
            }
            result?;
        }
        Ok(())
    }

    /// Files of closed generations have no order to keep: their logs are off the manifest's list.
    fn remove_older_files(&self, covered: Epoch, removed: &mut Removed) -> Result<(), DurabilityError> {
        let mut folders = BTreeSet::new();
        loop {
            let oldest = self.lock_older().front().filter(|file| file.largest < covered).cloned();
            let Some(oldest) = oldest else { break };
            self.remove_file(&oldest)?;
            self.lock_older().pop_front();
            folders.insert(oldest.file.name.logger);
            self.note_removed(&oldest, removed);
        }
        folders.into_iter().try_for_each(|logger| Ok(self.disk.sync_folder(&log_folder(logger))?))
    }

    /// Removes a file. One that is gone already was removed by a call that reported a failure.
    fn remove_file(&self, file: &ClosedFile) -> Result<(), DiskError> {
        match self.disk.remove(&file.file.to_string()) {
            Err(error) if error.is_not_found() => Ok(()),
            removed => removed,
        }
    }

    fn note_removed(&self, file: &ClosedFile, removed: &mut Removed) {
        removed.files += 1;
        removed.bytes += file.bytes;
        self.counters.files_removed.add(1);
        self.counters.bytes_removed.add(file.bytes);
    }

    fn remove_files_of(
        &self,
        logger: &Logger,
        covered: Epoch,
        removed: &mut Removed,
    ) -> Result<(), DurabilityError> {
        loop {
            // The lock is let go of while the disk works: a logger that begins a new file takes it too.
            let oldest = logger.closed_files().front().filter(|file| file.largest < covered).cloned();
            let Some(oldest) = oldest else { return Ok(()) };
            self.remove_file(&oldest)?;
            logger.closed_files().pop_front();
            self.note_removed(&oldest, removed);
        }
    }

    /// Refuses further entries, makes everything appended durable, and gives unused space back. The caller has ended
    /// its workers' commits before; logger threads may still run, and find [`Step::Stopped`] afterwards. A second call
    /// does nothing.
    ///
    /// # Errors
    /// [`DurabilityError::OutcomeUnknown`] when the log was, or is now, poisoned.
    pub fn close(&self) -> Result<(), DurabilityError> {
        self.check_process()?;
        let closed = self.make_durable_and_stop();
        // A logger that was writing when another one poisoned the log still is.
        self.loggers.iter().for_each(Logger::wait_for_step);
        // So is a step that reserves epochs.
        drop(self.manifest.lock());
        // Whoever still has an appender keeps this log, but nothing writes any more: the folder is free.
        self.locks.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        closed
    }

    /// Keeps these locks until the log is closed.
    pub(crate) fn keep_locks(&self, more: Locks) {
        // Locks are only added and taken as a whole.
        let mut locks = self.locks.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(locks) = &mut *locks {
            locks.extend(more);
        }
    }

    fn make_durable_and_stop(&self) -> Result<(), DurabilityError> {
        self.refuse(|refusal| refusal.stopped = true);
        self.use_kept_epochs();
        let target = self.epochs.now();
        while self.durable_epoch() < target {
            match self.waiters.how_ended() {
                Some(End::Closed) => return Ok(()),
                Some(End::Poisoned(reason)) => return Err(DurabilityError::OutcomeUnknown(reason)),
                None => {
                    let advanced = self.step_towards_close();
                    let is_stuck = advanced == Advance::AtLimit && self.epochs.now() <= target;
                    if let Some(why) = is_stuck.then(|| self.reserve_for_close()).flatten() {
                        let durable = self.durable_epoch();
                        return Err(self.poison(&format!(
                            "closed without epochs to reserve, durable up to epoch {durable} and not beyond: {why}"
                        )));
                    }
                }
            }
            if let Some(reason) = self.full_reason() {
                // What is kept for such a moment may do.
                if self.give_up_reserve() {
                    continue;
                }
                let durable = self.durable_epoch();
                let reason =
                    format!("closed on a full disk, durable up to epoch {durable} and not beyond: {reason}");
                return Err(self.poison(&reason));
            }
        }
        self.loggers.iter().for_each(|logger| logger.end_next(self));
        // Two rounds: the second carries the D that the first one made, so that later damage to it is seen (L5).
        self.loggers.iter().for_each(|logger| {
            logger.write_last_mark(self, false);
        });
        let unsealed = self.loggers.iter().filter(|logger| !logger.write_last_mark(self, true)).count();
        match self.waiters.how_ended() {
            Some(End::Poisoned(reason)) => Err(DurabilityError::OutcomeUnknown(reason)),
            Some(End::Closed) => Ok(()),
            None => {
                // The seal counts blocks, so it is not for logs that lack one.
                if unsealed == 0 {
                    let blocks = self.loggers.iter().map(Logger::blocks).collect();
                    let ended = self.epochs.stop();
                    self.lock_hint().close(self.marks.synced_by_all(), blocks, ended);
                }
                self.end(End::Closed);
                // The next open may need it; without it that one begins as well as it can.
                let _ = self.reserve.make();
                Ok(())
            }
        }
    }

    fn step_towards_close(&self) -> Advance {
        // A clock that stands still would never let the epoch close; the machine's ignores this.
        self.clock.advance(Duration::from_micros(EPOCH_MICROS_MIN));
        let advanced = self.epochs.try_advance(self.clock.nanos());
        self.loggers.iter().for_each(|logger| {
            logger.step(self);
        });
        if !matches!(advanced, Advance::Advanced(_)) {
            sleep(Duration::from_micros(EPOCH_MICROS_MIN / 2));
        }
        advanced
    }

    /// Does no reserve succeed now?
    #[inline]
    pub(crate) fn refuses(&self) -> bool {
        // Acquire: who sees it finds its reason (partner: `refuse`).
        self.refuses.load(Ordering::Acquire)
    }

    fn lock_refusal(&self) -> MutexGuard<'_, Refusal> {
        // Nothing under this lock leaves it half changed.
        self.refusal.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn refuse(&self, change: impl FnOnce(&mut Refusal)) {
        let mut refusal = self.lock_refusal();
        change(&mut refusal);
        let refuses = refusal.stopped || !refusal.full.is_empty() || refusal.epochs_ended.is_some();
        // Release: partner is the Acquire in `refuses`.
        self.refuses.store(refuses, Ordering::Release);
    }

    /// This logger holds what the disk has no space for.
    fn hold(&self, logger: usize, error: &DiskError) {
        let mut is_news = false;
        let now = self.clock.nanos();
        self.refuse(|refusal| {
            if refusal.full.is_empty() {
                refusal.full_since_nanos = now;
            }
            refusal.tries += 1;
            is_news = refusal.full.insert(logger, error.to_string().into()).is_none();
        });
        if is_news {
            self.counters.holds.add(1);
            // Workers that wait for a buffer are told.
            self.loggers.iter().for_each(Logger::wake_workers);
        }
    }

    /// Sends away who has waited for space for long enough. Wakes wakers: not under a lock.
    fn expire_waiters(&self) {
        let refusal = self.lock_refusal();
        let reason = refusal.full.values().next().or(refusal.epochs_ended.as_ref()).cloned();
        let Some(reason) = reason else { return };
        let since_nanos = refusal.full_since_nanos;
        drop(refusal);
        let (now_nanos, wait_nanos) = (self.clock.nanos(), self.full_wait_nanos);
        wake_all(self.waiters.expire(&Fullness { now_nanos, since_nanos, wait_nanos, reason }));
    }

    /// What this logger held is written.
    fn resume(&self, logger: usize) {
        self.refuse(|refusal| {
            refusal.full.remove(&logger);
        });
    }

    /// Gives the reserve up, for a caller that frees more than it takes. Returns whether that made any space.
    pub(crate) fn give_up_reserve(&self) -> bool {
        // What cannot be removed gives no space.
        let has_freed = self.reserve.give_up().unwrap_or(false);
        if has_freed {
            self.wake_loggers();
        }
        has_freed
    }

    /// How often a logger has found the disk full, since the first did.
    pub(crate) fn full_tries(&self) -> u64 {
        self.lock_refusal().tries
    }

    fn full_reason(&self) -> Option<StdArc<str>> {
        self.lock_refusal().full.values().next().cloned()
    }

    /// Why nothing can be reserved; `None` if it can by now.
    fn refusal(&self) -> Option<DurabilityError> {
        let refusal = self.lock_refusal();
        if refusal.stopped {
            let end = self.waiters.how_ended().unwrap_or(End::Closed);
            return Some(DurabilityError::Stopped(end.reason()));
        }
        let ended = || refusal.epochs_ended.clone().map(DurabilityError::EpochsEnded);
        refusal.full.values().next().cloned().map(DurabilityError::DiskFull).or_else(ended)
    }

    /// One failed write or sync stops the log for good: what the disk holds is not known any more.
    pub(crate) fn poison(&self, reason: &str) -> DurabilityError {
        self.end(End::Poisoned(reason.into()));
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
    fn end(&self, end: End) {
        let woken = self.waiters.end(end);
        self.refuse(|refusal| refusal.stopped = true);
        self.loggers.iter().for_each(Logger::wake_all);
        wake_all(woken);
    }
}

/// Ready once an epoch is durable, or has no answer: see [`Log::wait_durable`]. It holds one slot among the log's waiters,
/// with the waker of its last poll, and gives it back when it is dropped.
#[derive(Debug)]
#[must_use = "a future waits when it is awaited"]
pub struct Durable {
    log: StdArc<Log>,
    epoch: Epoch,
    slot: Option<u64>,
}

impl Future for Durable {
    type Output = Result<(), DurabilityError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { log, epoch, slot } = &mut *self;
        if let Err(forked) = log.check_process() {
            return Poll::Ready(Err(forked));
        }
        let (answer, tell) = log.waiters.poll(*epoch, slot, context.waker(), log.clock.nanos());
        if tell {
            log.wake_loggers();
        }
        answer.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        // I4: in a forked child the list may be locked for ever.
        if let Some(slot) = self.slot
            && self.log.process.is_this()
        {
            self.log.waiters.give_back(self.epoch, slot);
        }
    }
}
