//! The database: what all its transactions share, and the handle that applications hold.
//!
//! Neighbours: `builder` opens it, `threads` drives it, `run` and `snapshot` work on it, `catalog` knows its tables.

pub(crate) mod health;

// `Log` and `Memory` take `self` by std's, which no other door's can be.
use std::sync::Arc as StdArc;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::{Arc, AtomicBool, AtomicU64, Mutex, OnceLock, Ordering, fence, note, sleep};
use ensile_disk::{Process, ProcessMarks};
use ensile_durability::{
    CheckpointHandle, Checkpoints, DurabilityError, Locks, Log, ReadOnly, RecoveryReport,
};
use ensile_epoch::{Advance, EpochConfig, Epochs, PinHandle, ReclaimLimits};
use ensile_memory::Memory;

use crate::error::{Error, Result};
use crate::open::builder::Builder;
use crate::open::catalogue::Catalog;
use crate::open::threads::{Signal, Threads};
use crate::open::walk::LoggedTrees;
use crate::reading::snapshot::Snapshot;
use crate::record::blocks;
use crate::session::{self, Pool};
use crate::tables::{Directory, TableCore, TableSpec};
use crate::transaction::Transaction;
use crate::transaction::receipt::Durability;
use crate::variants::Switches;
use crate::worker::Counters;
use crate::worker::cores::Cores;

/// What all transactions of one database share.
pub(crate) struct Core {
    /// Tells databases of one process apart.
    pub(crate) id: u64,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) log: Option<StdArc<Log>>,
    /// Why nothing is written, where the disk was too full to begin a log.
    pub(crate) read_only: Option<StdArc<str>>,
    /// D of a database without a log.
    durable_without_log: Epoch,
    /// Of a database without a log that has a folder: keeps others out.
    folder_lock: Mutex<Option<Locks>>,
    pub(crate) memory: StdArc<Memory>,
    pub(crate) checkpoints: Option<StdArc<Checkpoints>>,
    pub(crate) tables: Directory,
    /// What a checkpoint walks.
    pub(crate) logged_trees: LoggedTrees,
    pub(crate) pool: Arc<Pool>,
    pub(crate) catalog: Mutex<Catalog>,
    pub(crate) clock: Clock,
    pub(crate) durability: Durability,
    pub(crate) snapshots: bool,
    /// Log entries carry the values that they replace.
    pub(crate) before_images: bool,
    pub(crate) garbage_bytes_max: u64,
    pub(crate) epoch_interval: Duration,
    /// Threads that rebuild indexes.
    pub(crate) recovery_threads: usize,
    /// Where worker threads are kept, if they are to be.
    pub(crate) cores: Option<Cores>,
    pub(crate) switches: Switches,
    pub(crate) signal: Signal,
    pub(crate) report: Option<RecoveryReport>,
    /// Transactions ended because too much garbage waited for them.
    pub(crate) expired: AtomicU64,
    counters: Mutex<Vec<Arc<CachePadded<Counters>>>>,
    closed: AtomicBool,
    /// Cleared in a forked child: see [`OPEN`] and [`DATABASE`].
    marks: ProcessMarks,
    heart_stopped: AtomicBool,
}

/// The mark that is 1 while the database is open, in the process that opened it (I4).
const OPEN: usize = 0;
/// The mark that is the database's id, in the process that opened it (I4).
const DATABASE: usize = 1;

/// What `Builder::open` puts a core together from.
pub(crate) struct CoreParts {
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) log: Option<StdArc<Log>>,
    pub(crate) read_only: Option<ReadOnly>,
    pub(crate) checkpoints: Option<StdArc<Checkpoints>>,
    pub(crate) memory: StdArc<Memory>,
    pub(crate) catalog: Catalog,
    pub(crate) clock: Clock,
    pub(crate) report: Option<RecoveryReport>,
    pub(crate) cores: Option<Cores>,
    /// The process that opens the database.
    pub(crate) process: Process,
}

static NEXT_ID: OnceLock<AtomicU64> = OnceLock::new();

impl Core {
    pub(crate) fn new(builder: &Builder, parts: CoreParts) -> Self {
        // Relaxed: only uniqueness matters.
        let id = NEXT_ID.get_or_init(|| AtomicU64::new(1)).fetch_add(1, Ordering::Relaxed);
        let before_images = builder.before_images && parts.log.is_some();
        let durable_without_log = parts.read_only.as_ref().map_or(Epoch::MAX, |closed| closed.durable);
        let (read_only, folder_lock) = parts.read_only.map(|closed| (closed.reason, closed.locks)).unzip();
        let marks = parts.process.marks();
        marks.set(OPEN, 1);
        marks.set(DATABASE, id);
        Self {
            id,
            epochs: parts.epochs,
            log: parts.log,
            read_only,
            durable_without_log,
            folder_lock: Mutex::new(folder_lock),
            memory: parts.memory,
            checkpoints: parts.checkpoints,
            tables: Directory::new(),
            logged_trees: LoggedTrees::new(parts.catalog.trees()),
            pool: Arc::new(Pool::new(parts.process)),
            catalog: Mutex::new(parts.catalog),
            clock: parts.clock,
            durability: builder.durability,
            snapshots: builder.snapshots,
            before_images,
            garbage_bytes_max: builder.garbage_bytes_max,
            epoch_interval: builder.epoch_interval,
            recovery_threads: builder.recovery_threads,
            cores: parts.cores,
            switches: builder.switches.clone(),
            signal: Signal::default(),
            report: parts.report,
            expired: AtomicU64::new(0),
            counters: Mutex::new(Vec::new()),
            closed: AtomicBool::new(false),
            marks,
            heart_stopped: AtomicBool::new(false),
        }
    }

    /// The table of a write-set entry.
    #[inline]
    pub(crate) fn table(&self, id: u32) -> &TableCore {
        let Some(table) = self.tables.get(id) else { unreachable!("entries name tables that were checked") };
        note::load(table);
        table
    }

    /// Refuses a table of another database, and any in a forked child.
    #[inline]
    pub(crate) fn check_table(&self, table: &TableCore) -> Result<()> {
        note::load(table);
        if table.database == self.marks.get(DATABASE) { Ok(()) } else { self.check_table_again(table) }
    }

    #[cold]
    fn check_table_again(&self, table: &TableCore) -> Result<()> {
        self.check_process()?;
        if table.database == self.id { Ok(()) } else { Err(foreign_table(table)) }
    }

    /// Refuses work after `close`, and any in a forked child. No lock has been taken when this is asked (I4).
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.marks.get(OPEN) != 0 { Ok(()) } else { self.check_open_again() }
    }

    #[cold]
    fn check_open_again(&self) -> Result<()> {
        self.check_process()?;
        self.check_not_closed()
    }

    /// Refuses work after `close`: for a commit that holds its locks, so that `close` knows which it waits for.
    #[inline]
    pub(crate) fn check_not_closed(&self) -> Result<()> {
        // Acquire: partner is the Release in `mark_closed`.
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Is this the process that opened the database, and not one forked from it?
    pub(crate) fn is_own_process(&self) -> bool {
        self.marks.process().is_this()
    }

    /// Refuses work in a forked child (I4).
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.is_own_process() { Ok(()) } else { Err(Error::Forked) }
    }

    /// A pin for a thread or an open transaction. In a forked child it is one that nobody scans: the parent's list may have been
    /// locked at the fork, and whoever gets this pin is refused before it is used (I4).
    pub(crate) fn register_pin(&self) -> PinHandle {
        if self.is_own_process() {
            self.epochs.register_pin()
        } else {
            let config = EpochConfig { first: Epoch::FIRST, snapshot_interval: Duration::from_secs(1) };
            Epochs::new(&config).register_pin()
        }
    }

    /// Marks the database closed.
    pub(crate) fn mark_closed(&self) {
        // Release: partner is the Acquire in `check_not_closed`.
        self.closed.store(true, Ordering::Release);
        self.marks.set(OPEN, 0);
    }

    /// Why a database that was opened on a full disk writes nothing.
    #[cold]
    pub(crate) fn refusal_to_write(&self) -> Error {
        let reason = self.read_only.as_deref().unwrap_or_default();
        Error::DiskFull(format!(
            "it was full at open, so the database only reads: {reason}; open it again then"
        ))
    }

    /// No epoch is closed by time any more. Nothing becomes durable then unless somebody waits for it, so the log stops and
    /// tells everybody.
    #[cold]
    pub(crate) fn note_heartbeat_panic(&self) {
        // Release: partner is the Acquire in `heartbeat_has_panicked`.
        self.heart_stopped.store(true, Ordering::Release);
        if let Some(log) = &self.log {
            log.stop("the heartbeat panicked");
        }
    }

    pub(crate) fn heartbeat_has_panicked(&self) -> bool {
        // Acquire: partner is the Release in `note_heartbeat_panic`.
        self.heart_stopped.load(Ordering::Acquire)
    }

    /// After `mark_closed`: waits until every commit that has not seen the mark is installed and appended (E2), so that
    /// what is committed is made durable by the log's end.
    fn wait_for_commits(&self) {
        // SeqCst: the mark comes before the look at E and at bindings; partner: the fence between a commit's locks and
        // its look at the mark. A commit that missed the mark is bound to this E or an earlier one.
        fence(Ordering::SeqCst);
        if let Some(log) = &self.log {
            log.use_kept_epochs();
        }
        let over = self.epochs.now().plus(2);
        let is_over = self.advance_until(|| self.epochs.now() >= over, Epochs::try_advance);
        debug_assert!(is_over, "epochs are kept for a close (L6)");
    }

    /// Takes this step towards new epochs, each as soon as it can close, until that is reached; false if E came to its end
    /// before (L6).
    fn advance_until(&self, is_reached: impl Fn() -> bool, step: impl Fn(&Epochs, u64) -> Advance) -> bool {
        while !is_reached() {
            // A clock that stands still would never let the epoch close; the machine's ignores this.
            self.clock.advance(Duration::from_micros(EPOCH_MICROS_MIN));
            match step(&self.epochs, self.clock.nanos()) {
                Advance::Advanced(_) => {}
                Advance::AtLimit => return false,
                _ => sleep(Duration::from_micros(EPOCH_MICROS_MIN / 2)),
            }
        }
        true
    }

    /// The boundary that decides whether a commit at `epoch` keeps an old version (S1); zero keeps none.
    #[inline]
    pub(crate) fn snapshot_boundary(&self, epoch: Epoch) -> Epoch {
        if self.snapshots { self.epochs.boundary_at(epoch) } else { Epoch::ZERO }
    }

    /// The durable epoch D; in memory nothing is ever lost but with the process, so nothing waits for it.
    #[inline]
    pub(crate) fn durable_epoch(&self) -> Epoch {
        self.log.as_ref().map_or(self.durable_without_log, |log| log.durable_epoch())
    }

    /// The answer for a result of a database without a log, whose D stands still.
    pub(crate) fn settled(&self, epoch: Epoch) -> Result<()> {
        let durable = self.durable_without_log;
        if epoch <= durable {
            return Ok(());
        }
        let reason = self.read_only.as_deref().unwrap_or_default().into();
        Err(Error::Durability(DurabilityError::NotProven { durable, reason }))
    }

    pub(crate) fn wait_durable(&self, epoch: Epoch) -> Result<()> {
        match &self.log {
            Some(log) => Ok(log.wait_durable(epoch)?),
            None => self.settled(epoch),
        }
    }

    pub(crate) fn register_counters(&self, counters: &Arc<CachePadded<Counters>>) {
        self.counters.lock().push(Arc::clone(counters));
    }

    /// Bytes of garbage that somebody's pin or snapshot really holds back at these limits. What an idle thread's worker
    /// could free and has not is nobody's fault.
    pub(crate) fn held_bytes(&self, limits: ReclaimLimits) -> u64 {
        let counters = self.counters.lock();
        // Relaxed: figures, each a little old.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let held = |worker: &Counters| {
            let pinned = read(&worker.held_at_pins) == limits.pins.number();
            let versions = read(&worker.held_at_snapshots) == limits.snapshots.number();
            u64::from(pinned) * read(&worker.garbage_pinned_bytes)
                + u64::from(versions) * read(&worker.garbage_version_bytes)
        };
        counters.iter().map(|worker| held(worker)).sum()
    }

    /// Sums one counter over all workers there ever were; 0 in a forked child, where the list may be locked for ever (I4).
    pub(crate) fn sum(&self, counter: impl Fn(&Counters) -> &AtomicU64) -> u64 {
        if !self.is_own_process() {
            return 0;
        }
        let counters = self.counters.lock();
        // Relaxed: figures, each a little old.
        counters.iter().map(|worker| counter(worker).load(Ordering::Relaxed)).sum()
    }
}

#[cold]
fn foreign_table(table: &TableCore) -> Error {
    Error::Misuse(format!("table {} belongs to another database: open it in this one", table.name()))
}

/// A core and its threads; the last handle that goes closes it.
pub(crate) struct Inner {
    pub(crate) core: Arc<Core>,
    pub(crate) threads: Threads,
    /// What closing came to, once it was done.
    pub(crate) closed: Mutex<Option<std::result::Result<(), DurabilityError>>>,
}

impl Inner {
    pub(crate) fn close(&self) -> Result<()> {
        self.core.check_process()?;
        // Whoever comes second waits for the first, and is told what came of it.
        let mut closed = self.closed.lock();
        let result = closed.get_or_insert_with(|| {
            self.core.mark_closed();
            // Before the log gives the folder free.
            if let Some(checkpoints) = &self.core.checkpoints {
                checkpoints.close();
            }
            let result = self.core.log.as_ref().map_or(Ok(()), |log| {
                self.core.wait_for_commits();
                log.close()
            });
            self.core.signal.stop();
            self.threads.join();
            self.core.folder_lock.lock().take();
            result
        });
        Ok(result.clone()?)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.core.is_own_process() {
            // I4: a child closes, frees, joins and waits for nothing. Its copy of the memory goes with it.
            std::mem::forget(Arc::clone(&self.core));
            std::mem::forget(std::mem::replace(&mut self.threads, Threads::none()));
            return;
        }
        // An error has nowhere to go here: strict results were awaited by whoever wanted them, and `close` tells.
        let _ = self.close();
        self.core.pool.close();
        session::forget_closed();
        if self.threads.have_ended() {
            blocks::release(&self.core.memory);
        }
    }
}

/// A core that is lent, or held.
pub(crate) enum CoreRef<'db> {
    Lent(&'db Core),
    Held(Arc<Inner>),
}

impl CoreRef<'_> {
    /// Another reference of the same kind.
    #[inline]
    pub(crate) fn another(&self) -> Self {
        match self {
            Self::Lent(core) => Self::Lent(core),
            Self::Held(inner) => Self::Held(Arc::clone(inner)),
        }
    }
}

impl std::ops::Deref for CoreRef<'_> {
    type Target = Core;

    #[inline]
    fn deref(&self) -> &Core {
        match self {
            Self::Lent(core) => core,
            Self::Held(inner) => &inner.core,
        }
    }
}

/// An open database. Clones are handles to the same one; the last one that is dropped closes it, and gives its memory
/// back. Transactions and snapshots that hold the database, and their receipts, count as handles.
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use ensile::{Database, Readable};
/// # fn main() -> ensile::Result<()> {
/// let db = Database::in_memory()?;
/// let accounts = db.table::<u64, u64>("accounts")?;
/// db.run(|tx| tx.put(&accounts, &1, &100))?;
/// assert_eq!(db.run(|tx| tx.get(&accounts, &1))?, Some(100));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Database {
    pub(crate) inner: Arc<Inner>,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("epoch", &self.core().epochs.now()).finish_non_exhaustive()
    }
}

impl Database {
    /// A database in the folder `path`, which is made if it is not there.
    pub fn builder(path: impl AsRef<std::path::Path>) -> Builder {
        Builder::at(path.as_ref())
    }

    /// Settings of a database without a folder: [`Database::in_memory`] with more to choose.
    pub fn builder_in_memory() -> Builder {
        Builder::in_memory()
    }

    /// A database without a log: it lives as long as its handles.
    ///
    /// # Errors
    /// None today; opening is fallible for all databases alike.
    pub fn in_memory() -> Result<Self> {
        Builder::in_memory().open()
    }

    /// Opens the database in the folder `path` with default settings, recovering what its log holds.
    ///
    /// # Errors
    /// See [`Builder::open`].
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::builder(path).open()
    }

    /// Opens the database that must be in the folder `path`, with default settings: none is made.
    ///
    /// # Errors
    /// See [`Builder::open_existing`].
    pub fn open_existing(path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::builder(path).open_existing()
    }

    /// Makes a new database in the folder `path`, which is empty or not there, with default settings.
    ///
    /// # Errors
    /// See [`Builder::create_new`].
    pub fn create_new(path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::builder(path).create_new()
    }

    #[inline]
    pub(crate) fn core(&self) -> &Core {
        note::load(&*self.inner.core);
        &self.inner.core
    }

    /// Begins a transaction that stays open until it is committed, rolled back or dropped. See [`Transaction`].
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Readable};
    /// # fn main() -> ensile::Result<()> {
    /// let db = Database::in_memory()?;
    /// let seats = db.table::<u32, String>("seats")?;
    ///
    /// let mut tx = db.begin();
    /// assert!(!tx.contains(&seats, &12)?);
    /// // Its client makes up its mind. Nothing is locked meanwhile.
    /// tx.put(&seats, &12, "Ada")?;
    /// match tx.commit() {
    ///     Ok(_receipt) => println!("taken, and durable"),
    ///     Err(error) if error.is_retryable() => println!("somebody was faster: begin again"),
    ///     Err(error) => return Err(error),
    /// }
    /// # assert!(db.run(|tx| tx.contains(&seats, &12))?);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn begin(&self) -> Transaction<'_> {
        Transaction::begin(CoreRef::Lent(self.core()), self.core().durability)
    }

    /// As [`Database::begin`], and the transaction keeps the database open: it counts as an owner of it, in a line that
    /// all cores share, which [`Database::begin`] does not touch.
    #[must_use]
    pub fn begin_owned(&self) -> Transaction<'static> {
        let core = CoreRef::Held(Arc::clone(&self.inner));
        Transaction::begin(core, self.core().durability)
    }

    /// A snapshot transaction: read-only, as of the newest boundary, at most about one snapshot interval old, never
    /// in conflict (Silo §4.9).
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Readable, Result};
    /// # fn main() -> Result<()> {
    /// let db = Database::in_memory()?;
    /// let accounts = db.table::<u64, u64>("accounts")?;
    /// db.run(|tx| {
    ///     tx.put(&accounts, &1, &70)?;
    ///     tx.put(&accounts, &2, &30)
    /// })?;
    /// let mut snapshot = db.snapshot()?;
    /// let total = snapshot.range(&accounts, ..).map(|row| row.map(|row| row.1)).sum::<Result<u64>>()?;
    /// assert!(total == 0 || total == 100, "a moment ago there were no accounts, or both");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] if snapshots were switched off, [`Error::Closed`].
    pub fn snapshot(&self) -> Result<Snapshot<'_>> {
        self.core().check_open()?;
        if !self.core().snapshots {
            return Err(Error::Misuse("snapshots are switched off: see Builder::snapshots".to_owned()));
        }
        Ok(Snapshot::open(CoreRef::Lent(self.core())))
    }

    /// A snapshot transaction that shows everything committed before this call: makes a boundary now and waits until
    /// it is served, two epochs later at most, closed early.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Readable};
    /// # fn main() -> ensile::Result<()> {
    /// let db = Database::in_memory()?;
    /// let accounts = db.table::<u64, u64>("accounts")?;
    /// db.run(|tx| tx.put(&accounts, &1, &100))?;
    /// let mut snapshot = db.snapshot_latest()?;
    /// db.run(|tx| tx.put(&accounts, &1, &0))?;
    /// assert_eq!(snapshot.get(&accounts, &1)?, Some(100), "what is written later is not in it");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Database::snapshot`].
    pub fn snapshot_latest(&self) -> Result<Snapshot<'_>> {
        self.core().check_open()?;
        let core = self.core();
        let seen = core.epochs.now();
        let is_served = || !core.snapshots || core.epochs.served_snapshot() > seen;
        if core.advance_until(is_served, Epochs::try_advance_to_boundary) {
            return self.snapshot();
        }
        // E stands still: another thread has closed the database, or no more epochs are reserved.
        core.check_open()?;
        let reason = "no snapshot of what was committed last can be served".into();
        Err(Error::Durability(DurabilityError::EpochsEnded(reason)))
    }

    pub(crate) fn open_table(&self, spec: TableSpec) -> Result<Arc<TableCore>> {
        self.core().check_open()?;
        crate::open::catalogue::open_table(self, spec)
    }

    /// The durable epoch D: every transaction of an epoch up to it survives a crash.
    #[must_use]
    pub fn durable_epoch(&self) -> Epoch {
        self.core().durable_epoch()
    }

    /// The global epoch E.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.core().epochs.now()
    }

    /// What recovery found when this database was opened; `None` without a log.
    #[must_use]
    pub fn recovery_report(&self) -> Option<&RecoveryReport> {
        self.core().report.as_ref()
    }

    /// Asks for a checkpoint that begins now; one that is under way ends first. It holds everything that is committed, so that
    /// the log before it can go and the next open is shorter.
    ///
    /// ```no_run
    /// # extern crate ensile_engine as ensile;
    /// # fn main() -> ensile::Result<()> {
    /// let db = ensile::Database::open("data")?;
    /// let report = db.checkpoint()?.wait()?;
    /// println!("{} entries, {} bytes", report.entries, report.bytes);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] for a database without a folder, [`Error::Closed`].
    pub fn checkpoint(&self) -> Result<CheckpointHandle> {
        self.core().check_open()?;
        match &self.core().checkpoints {
            Some(checkpoints) => Ok(checkpoints.demand()),
            None if self.core().read_only.is_some() => Err(self.core().refusal_to_write()),
            None => Err(Error::Misuse("a database without a folder has no checkpoints".to_owned())),
        }
    }

    /// Makes everything committed durable, stops the threads and gives the folder free. From then on every run, commit,
    /// new transaction or snapshot and opening of a table returns [`Error::Closed`]. Reads of transactions and snapshots
    /// that are open go on, so the memory is given back when the last handle goes. A second call waits for the first and
    /// returns what it returned. The last handle that is dropped closes too, but cannot tell of an error.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Durability, Error};
    /// # fn main() -> ensile::Result<()> {
    /// # let data = std::env::temp_dir().join(format!("ensile-close-{}", std::process::id()));
    /// let db = Database::builder(&data).durability(Durability::Relaxed).open()?;
    /// let table = db.table::<u64, u64>("table")?;
    /// db.run(|tx| tx.put(&table, &1, &1))?;
    /// db.close()?; // What was written is on disk now.
    /// assert!(matches!(db.run(|tx| tx.put(&table, &1, &2)), Err(Error::Closed)));
    /// # std::fs::remove_dir_all(&data).expect("it was there");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Durability`] if the log was stopped by a failure, or is now.
    pub fn close(&self) -> Result<()> {
        self.inner.close()
    }
}
