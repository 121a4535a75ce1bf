//! State shared by all transactions of a database.
//!
//! Neighbours: below are the epochs, the log, the memory, tables and workers. `open` builds the state, `database` owns
//! the state, and every module above uses it.

#[cfg(feature = "audit")]
mod audit;
mod durability;
mod garbage_collector;
mod garbage_limit;
mod stop_signal;

// `Log` and `Memory` take `self` by std's `Arc`. The `Arc` of `ensile_base::sync` is no receiver type.
use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_base::sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, OnceLock, Ordering, plain_access};
use ensile_disk::{Process, ProcessMarks};
use ensile_durability::{Checkpoints, Locks, Log, ReadOnly, RecoveryReport, Shipper, UserCode};
use ensile_epoch::{EpochConfig, Epochs, PinHandle};
use ensile_memory::Memory;

use crate::commit_gate::Gate;
use crate::error::{Error, Result};
use crate::garbage::UnhookedEpoch;
use crate::pictures::loaded_pages::LoadedMaps;
use crate::pictures::picture_state::Pictures;
use crate::record::blocks::OwnedMemory;
use crate::tables::catalog::Catalog;
use crate::tables::logged_tables::LoggedTables;
use crate::tables::{Directory, TableCore};
use crate::variants::Switches;
use crate::worker::WorkerShared;
use crate::worker::idle_workers::IdleWorkers;
use crate::worker::pinning::Cores;

pub use durability::Durability;
pub(crate) use garbage_collector::Collector;
use stop_signal::StopSignal;

/// State shared by all transactions of a database.
pub(crate) struct SharedState {
    /// Number that distinguishes the databases of a process.
    pub(crate) id: u64,
    pub(crate) epochs: Arc<Epochs>,
    /// The log. A database with pictures and no log has a `Log` without loggers.
    pub(crate) log: Option<StdArc<Log>>,
    /// Reason for read-only operation, if the disk was too full to begin a log.
    pub(crate) read_only: Option<StdArc<str>>,
    /// D of a database without a running `Log`: the largest epoch in memory, and the recovered D in read-only
    /// operation.
    fixed_durable_epoch: Epoch,
    /// Lock of the folder of a database without a log, against other processes.
    pub(crate) folder_lock: Mutex<Option<Locks>>,
    pub(crate) memory: OwnedMemory,
    pub(crate) checkpoints: Option<StdArc<Checkpoints>>,
    /// Shipper of finished files.
    pub(crate) shipping: Option<StdArc<Shipper>>,
    pub(crate) tables: Directory,
    /// Tables that a checkpoint walks.
    pub(crate) logged_tables: LoggedTables,
    /// State of a database with pictures.
    pub(crate) pictures: Option<Pictures>,
    /// Workers without a thread.
    pub(crate) idle_workers: Arc<IdleWorkers>,
    pub(crate) catalog: Mutex<Catalog>,
    /// Signal at the end of filling a table's indexes, after a success or a failure.
    pub(crate) table_filled: Condvar,
    pub(crate) clock: Clock,
    /// Settings. Without a log no entry has before-images, whatever the request.
    pub(crate) settings: Settings,
    /// Cores for worker threads, if the threads are pinned.
    pub(crate) cores: Option<Cores>,
    pub(crate) stop: StopSignal,
    pub(crate) report: Option<RecoveryReport>,
    /// All workers since the open.
    workers: Mutex<Vec<Arc<WorkerShared>>>,
    /// In a database without a log: the epoch of the newest delete with a removed record (N19).
    pub(crate) unhooked: UnhookedEpoch,
    /// Garbage collector of the heartbeat.
    pub(crate) collector: Mutex<Collector>,
    /// Gate of commits: the closed state, and the turn of a closure.
    pub(crate) gate: Gate,
    /// Marks that a fork clears in the child: see [`OPEN`] and [`DATABASE`].
    marks: ProcessMarks,
    heart_stopped: AtomicBool,
}

/// Mark with value 1 while the database is open, in the process of the open (I4).
const OPEN: usize = 0;
/// Mark with the database's id, in the process of the open (I4).
const DATABASE: usize = 1;

/// Settings of a database for its transactions and threads.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) durability: Durability,
    /// True if the folder has pictures and no log.
    pub(crate) is_without_log: bool,
    pub(crate) snapshots: bool,
    /// True if log entries carry the replaced values.
    pub(crate) before_images: bool,
    /// True if the operating system has a commit before the release of the commit's first lock (B1).
    pub(crate) process_safe: bool,
    /// True without before-images, pictures and process safety: a commit tests all three at once.
    pub(crate) commits_plainly: bool,
    pub(crate) garbage_bytes_max: u64,
    /// True if consistent pictures can be taken: commits then leave displaced versions.
    pub(crate) pictures: bool,
    /// True if commits leave displaced versions in lists beside the pages.
    pub(crate) semi_fuzzy: bool,
    /// Limit of displaced versions that wait, in bytes.
    pub(crate) displaced_bytes_max: u64,
    pub(crate) epoch_interval: Duration,
    /// Number of threads for recovery and for the rebuild of indexes.
    pub(crate) recovery_threads: usize,
    pub(crate) switches: Switches,
}

/// Parts from which an open builds the [`SharedState`].
pub(crate) struct SharedParts {
    pub(crate) settings: Settings,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) log: Option<StdArc<Log>>,
    pub(crate) read_only: Option<ReadOnly>,
    pub(crate) checkpoints: Option<StdArc<Checkpoints>>,
    pub(crate) shipping: Option<StdArc<Shipper>>,
    pub(crate) memory: StdArc<Memory>,
    pub(crate) catalog: Catalog,
    /// Pages of the loaded picture, in a database with pictures.
    pub(crate) loaded_pages: Option<LoadedMaps>,
    pub(crate) clock: Clock,
    pub(crate) report: Option<RecoveryReport>,
    pub(crate) cores: Option<Cores>,
    /// The process that opens the database.
    pub(crate) process: Process,
}

static NEXT_ID: OnceLock<AtomicU64> = OnceLock::new();

impl SharedState {
    pub(crate) fn new(parts: SharedParts) -> Self {
        // Relaxed: only uniqueness matters.
        let id = NEXT_ID.get_or_init(|| AtomicU64::new(1)).fetch_add(1, Ordering::Relaxed);
        let mut settings = parts.settings;
        let has_loggers = parts.log.as_ref().is_some_and(|log| log.has_loggers());
        assert!(!(has_loggers && settings.is_without_log), "nothing is logged in a database without a log");
        settings.before_images &= has_loggers;
        settings.process_safe = has_loggers && settings.durability == Durability::Process;
        settings.commits_plainly = !settings.before_images && !settings.pictures && !settings.process_safe;
        let loaded_pages = parts.loaded_pages.filter(|_| settings.pictures);
        let since = parts.epochs.newest_freeze();
        let pictures = settings.pictures.then(|| {
            Pictures::new(settings.semi_fuzzy, settings.displaced_bytes_max, loaded_pages.is_some())
        });
        let collector = Collector::new(settings.garbage_bytes_max);
        let fixed_durable_epoch = parts.read_only.as_ref().map_or(Epoch::MAX, |closed| closed.durable);
        let (read_only, folder_lock) = parts.read_only.map(|closed| (closed.reason, closed.locks)).unzip();
        let (marks, gate) = (parts.process.marks(), Gate::new(parts.process.clone()));
        marks.set(OPEN, 1);
        marks.set(DATABASE, id);
        Self {
            id,
            epochs: parts.epochs,
            log: parts.log,
            read_only,
            fixed_durable_epoch,
            folder_lock: Mutex::new(folder_lock),
            memory: OwnedMemory::new(parts.memory),
            checkpoints: parts.checkpoints,
            shipping: parts.shipping,
            tables: Directory::new(),
            logged_tables: LoggedTables::new(&parts.catalog.trees, loaded_pages, since),
            pictures,
            idle_workers: Arc::new(IdleWorkers::new(parts.process)),
            catalog: Mutex::new(parts.catalog),
            table_filled: Condvar::new(),
            clock: parts.clock,
            settings,
            cores: parts.cores,
            stop: StopSignal::default(),
            report: parts.report,
            workers: Mutex::new(Vec::new()),
            unhooked: UnhookedEpoch::default(),
            collector: Mutex::new(collector),
            gate,
            marks,
            heart_stopped: AtomicBool::new(false),
        }
    }

    /// The table of a write-set entry.
    #[inline]
    pub(crate) fn table(&self, id: u32) -> &TableCore {
        let Some(table) = self.tables.get(id) else { unreachable!("entries name tables that were checked") };
        plain_access::load(table);
        table
    }

    /// The table of a write-set entry; `None` for an index.
    #[inline(always)]
    pub(crate) fn logged_table(&self, id: u32) -> Option<&TableCore> {
        let table = self.tables.logged_table(id)?;
        plain_access::load(&**table);
        Some(table)
    }

    /// Refuses a table of another database, and every table in a forked child.
    #[inline]
    pub(crate) fn check_table(&self, table: &TableCore) -> Result<()> {
        plain_access::load(table);
        if table.database == self.marks.get(DATABASE) { Ok(()) } else { self.check_table_again(table) }
    }

    /// Slow path of [`Self::check_table`], with the exact error. Also entered if a fork has cleared the marks.
    #[cold]
    fn check_table_again(&self, table: &TableCore) -> Result<()> {
        self.check_process()?;
        if table.database == self.id { Ok(()) } else { Err(foreign_table(table)) }
    }

    /// Refuses work after `close`, all work in a forked child, and all work in user code of objects (O8). The caller
    /// holds no lock yet (I4).
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.marks.get(OPEN) != 0 && !UserCode::is_running() { Ok(()) } else { self.check_open_again() }
    }

    /// As [`Self::check_open`], for a caller that was found outside user code before.
    #[inline]
    pub(crate) fn check_still_open(&self) -> Result<()> {
        if self.marks.get(OPEN) != 0 { Ok(()) } else { self.check_open_again() }
    }

    /// Slow path of [`Self::check_open`], with the exact error.
    #[cold]
    fn check_open_again(&self) -> Result<()> {
        UserCode::check_outside()?;
        self.check_process()?;
        if self.gate.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }

    /// True if the calling process opened the database, and is no fork of that process.
    pub(crate) fn is_own_process(&self) -> bool {
        self.marks.process().is_this()
    }

    /// Refuses work in a forked child (I4).
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.is_own_process() { Ok(()) } else { Err(Error::forked()) }
    }

    /// A pin for a thread or an open transaction. In a forked child no scan finds the pin. The parent's list may have
    /// been locked at the fork, and the child's call is refused before the pin is used (I4).
    pub(crate) fn register_pin(&self) -> PinHandle {
        if self.is_own_process() {
            self.epochs.register_pin()
        } else {
            let config = EpochConfig { first: Epoch::FIRST, snapshot_interval: Duration::from_secs(1) };
            Epochs::new(&config).register_pin()
        }
    }

    /// Marks the database closed: from now on [`Self::check_open`] fails, and the gate refuses commits.
    pub(crate) fn mark_closed(&self) {
        self.gate.close();
        self.marks.set(OPEN, 0);
    }

    /// Refuses a commit without log entries if the database cannot write.
    #[inline]
    pub(crate) fn check_unlogged(&self) -> Result<()> {
        match &self.log {
            Some(log) => Ok(log.check()?),
            None if self.read_only.is_some() => Err(self.refusal_to_write()),
            None => Ok(()),
        }
    }

    /// Error of a write to a database opened on a full disk.
    #[cold]
    pub(crate) fn refusal_to_write(&self) -> Error {
        let reason = self.read_only.as_deref().unwrap_or_default();
        Error::DiskFull(format!(
            "it was full at open, so the database only reads: {reason}; open it again then"
        ))
    }

    /// Notes a panic of the heartbeat. No epoch is closed by time any more, so a result becomes durable only if a
    /// thread waits for it. The log stops, and every waiting thread gets an error.
    #[cold]
    pub(crate) fn note_heartbeat_panic(&self) {
        // Release: partner is the Acquire in `heartbeat_has_panicked`.
        self.heart_stopped.store(true, Ordering::Release);
        if let Some(log) = &self.log {
            log.stop("the heartbeat panicked");
        }
    }

    /// True if the heartbeat has panicked: no epoch is closed by time any more.
    pub(crate) fn heartbeat_has_panicked(&self) -> bool {
        // Acquire: partner is the Release in `note_heartbeat_panic`.
        self.heart_stopped.load(Ordering::Acquire)
    }

    /// True if a picture is under way. A commit uses this hint before it binds.
    #[inline]
    pub(crate) fn has_picture_under_way(&self) -> bool {
        self.pictures.as_ref().is_some_and(Pictures::is_under_way)
    }

    /// True if commits leave displaced versions to the lists of their workers.
    #[inline]
    pub(crate) fn has_semi_fuzzy_pictures(&self) -> bool {
        self.pictures.as_ref().is_some_and(Pictures::is_semi_fuzzy)
    }

    /// Boundary that decides if a commit at `epoch` keeps an old version (S1); zero keeps none.
    #[inline]
    pub(crate) fn snapshot_boundary(&self, epoch: Epoch) -> Epoch {
        if self.settings.snapshots { self.epochs.boundary_at(epoch) } else { Epoch::ZERO }
    }
}

#[cold]
fn foreign_table(table: &TableCore) -> Error {
    Error::Misuse(format!("table {} belongs to another database: open it in this one", table.name()))
}
