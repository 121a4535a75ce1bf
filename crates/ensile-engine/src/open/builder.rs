//! Settings of a database before its open.
//!
//! Neighbours: `startup` opens a database with these settings.

use std::path::{Path, PathBuf};
use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_disk::Disk;
use ensile_durability::{Archiving, Opening, Progress, Shipping, ShippingConfig, ShippingOpen};

use super::tuning::Tuning;
use crate::checkpoint::Schedule;
use crate::database::Database;
use crate::error::Result;
use crate::shared_state::{Durability, Settings};
use crate::variants::Switches;

/// Callback during recovery, while a checkpoint loads and the log replays.
type ProgressFn = StdArc<dyn Fn(Progress) + Send + Sync>;

/// Settings of a database before its open.
///
/// ```no_run
/// # extern crate ensile_engine as ensile;
/// use std::time::Duration;
/// use ensile::checkpoint::Schedule;
/// use ensile::{Database, Durability, Tuning};
/// # fn main() -> ensile::Result<()> {
/// let db = Database::builder("data")
///     .durability(Durability::Relaxed) // results at commit; a crash may lose the last epochs
///     .epoch_interval(Duration::from_millis(10)) // and they are short
///     .log_folders(["/mnt/a/log", "/mnt/b/log"]) // a logger each
///     .checkpoint_folders(["/mnt/c/checkpoints"])
///     .checkpoints(Schedule::default().interval(Duration::from_secs(60)))
///     .garbage_bytes_max(1 << 30) // more room for transactions that stay open
///     .tuning(Tuning { log_file_bytes: 256 << 20, recovery_threads: 8, ..Tuning::default() })
///     .open()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "open it"]
pub struct Builder {
    pub(super) path: Option<PathBuf>,
    pub(crate) disk: Option<StdArc<dyn Disk>>,
    pub(crate) clock: Clock,
    /// The requested level. The default is strict with a log, and relaxed without a log.
    pub(super) durability: Option<Durability>,
    /// Limit of the memory in use, in bytes; `None` for no limit.
    pub(super) memory_bytes_max: Option<u64>,
    pub(super) is_without_log: bool,
    pub(super) log_folders: Option<Vec<PathBuf>>,
    pub(super) checkpoint_folders: Option<Vec<PathBuf>>,
    pub(super) archiving: Archiving,
    pub(super) shipping: Option<ShippingConfig>,
    pub(super) shipping_open: ShippingOpen,
    pub(super) schedule: Schedule,
    pub(super) tuning: Tuning,
    pub(super) progress: Option<ProgressFn>,
    pub(crate) own_threads: bool,
    pub(crate) settings: Settings,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("path", &self.path)
            .field("tuning", &self.tuning)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// Default settings of a database without a folder.
    pub(crate) fn in_memory() -> Self {
        Self {
            path: None,
            disk: None,
            clock: Clock::machine(),
            durability: None,
            memory_bytes_max: None,
            is_without_log: false,
            log_folders: None,
            checkpoint_folders: None,
            archiving: Archiving::AsBefore,
            shipping: None,
            shipping_open: ShippingOpen::default(),
            schedule: Schedule::default(),
            tuning: Tuning::default(),
            progress: None,
            own_threads: true,
            settings: Settings {
                durability: Durability::Strict,
                snapshots: true,
                before_images: false,
                process_safe: false,
                commits_plainly: true,
                garbage_bytes_max: 256 << 20,
                is_memory_limited: false,
                pictures: false,
                semi_fuzzy: Tuning::default().semi_fuzzy,
                displaced_bytes_max: Tuning::default().displaced_bytes_max,
                epoch_interval: Duration::from_millis(40),
                switches: Switches::default(),
                is_without_log: false,
                recovery_threads: Tuning::default().recovery_threads,
            },
        }
    }

    /// Default settings of a database in the folder `path`.
    pub(crate) fn for_path(path: &Path) -> Self {
        Self { path: Some(path.to_owned()), ..Self::in_memory() }
    }

    /// Sets the time at which results are released, unless a transaction chooses its own. The default is strict; a
    /// database without a log is relaxed. [`Durability::Process`] applies to all transactions of a database.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Removes the log: only consistent checkpoints, [pictures](crate::checkpoint::Strategy::Pictures), make the
    /// database durable (SIREN §5). Meant for a cache that survives a crash, or for a replicated state machine with a
    /// log elsewhere.
    ///
    /// Results are released at commit. After a crash, or an end of the process without a close, commits newer than the
    /// last picture are lost: whole epochs, the newest first. [`Receipt::durable`](crate::Receipt::durable) requests a
    /// picture and waits for the picture; receipts that wait at the same time share a picture. Otherwise the schedule
    /// of [`Builder::checkpoints`] begins pictures, and [`Database::close`](crate::Database::close) takes a last
    /// picture after any change. A failed picture is tried again, and commits continue. A transaction with
    /// [`Durability::Strict`] is refused.
    ///
    /// Each open decides between a log and no log. No change between the two loses durable data.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// # fn main() -> ensile::Result<()> {
    /// # let data = std::env::temp_dir().join(format!("ensile-without-log-{}", std::process::id()));
    /// let db = ensile::Database::builder(&data).without_log().open()?;
    /// let table = db.table::<u64, u64>("table")?;
    /// let ((), receipt) = db.submit(|tx| tx.put(&table, &1, &1))?;
    /// let picture = receipt.durable_in()?.expect("it was committed in this life");
    /// assert!(picture.picture_epoch() >= Some(receipt.epoch()));
    /// # db.close()?;
    /// # std::fs::remove_dir_all(&data).expect("it was there");
    /// # Ok(()) }
    /// ```
    pub fn without_log(mut self) -> Self {
        self.is_without_log = true;
        self
    }

    /// Sets folders for the logs, with a logger for each folder. Several folders belong on different devices. Links in
    /// the database's folder, `log0` and so on, remember the folders, so later opens need not repeat them. A folder is
    /// made if only the last part of its path is missing. By default the logs are in the database's folder.
    ///
    /// ```no_run
    /// # extern crate ensile_engine as ensile;
    /// # fn main() -> ensile::Result<()> {
    /// let db = ensile::Database::builder("data").log_folders(["/mnt/a/log", "/mnt/b/log"]).open()?;
    /// # Ok(()) }
    /// ```
    pub fn log_folders<P: Into<PathBuf>>(mut self, folders: impl IntoIterator<Item = P>) -> Self {
        self.log_folders = Some(folders.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the folder of an archive. Each closed log file is copied to the archive before its removal, so the database
    /// can be restored to the end of any durable epoch. [`restore_to_epoch`](crate::folder::restore_to_epoch) restores
    /// from the archive and an earlier [backup](crate::Database::backup), with any strategy of checkpoints.
    /// [`restore_from_archive`](crate::folder::restore_from_archive) restores without a backup. Give an empty folder,
    /// best on another device; the folder is made if only the last part of its path is missing. A link in the
    /// database's folder remembers the archive, so later opens archive without this setting. [`Archiving::Ended`] ends
    /// the archive: its files stay, no file is added, and the folder may be absent.
    ///
    /// A checkpointer copies files soon after their close: a log with new entries begins a file every four seconds
    /// ([`Tuning::log_file_interval`]). A close archives the last files. No commit waits for the archive. If the
    /// archive cannot be written, the log is kept for as long as necessary, and the copy is tried again every second.
    /// [`Stats::archive_error`](crate::stats::Stats::archive_error) and the log's figures report the state. In this
    /// state no checkpoint frees any log, so watch the log's size. An open requires the archive's folder, as for the
    /// log's folders.
    ///
    /// An archive that begins with the database is complete and needs no backup; the archive grows for ever. A later
    /// archive begins behind the checkpoint of that time, and needs a backup made since. The open log file of a running
    /// database is not in the archive yet.
    ///
    /// ```no_run
    /// # extern crate ensile_engine as ensile;
    /// # fn main() -> ensile::Result<()> {
    /// let db = ensile::Database::builder("data").archive("/mnt/archive/data").open()?;
    /// # Ok(()) }
    /// ```
    pub fn archive(mut self, folder: impl Into<Archiving>) -> Self {
        self.archiving = folder.into();
        self
    }

    /// Records in the log also the value replaced by each write: the old value, or the absence of the key. Change
    /// capture uses these values (`ensile inspect DIR --changes`, [`folder::changes`](crate::folder::changes)). Off by
    /// default. Recovery does not need before-images.
    ///
    /// Each write logs 4 more bytes and the old value. The old value is copied while the record is locked. So an
    /// overwrite logs about twice the bytes. Old values count as part of a transaction's log entry: a transaction that
    /// replaces or deletes more than 256 MiB is refused (`Error::TooLarge`). A log may have entries with and entries
    /// without before-images. Versions of Ensile without before-images refuse to open a log with before-images.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, folder, folder::Before};
    /// # fn main() -> ensile::Result<()> {
    /// # let data = std::env::temp_dir().join(format!("ensile-before-images-{}", std::process::id()));
    /// let db = Database::builder(&data).before_images(true).open()?;
    /// let stock = db.table::<String, u32>("stock")?;
    /// db.run(|tx| tx.put(&stock, "apples", &5))?;
    /// db.run(|tx| tx.put(&stock, "apples", &3))?;
    /// db.close()?;
    /// let mut last = None;
    /// folder::changes(&data, &mut |change| {
    ///     let Before::Value(before) = change.before else { return std::ops::ControlFlow::Continue(()) };
    ///     last = Some((before.to_vec(), change.after.map(<[u8]>::to_vec)));
    ///     std::ops::ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(last, Some((vec![5, 0, 0, 0], Some(vec![3, 0, 0, 0]))));
    /// # std::fs::remove_dir_all(&data).expect("it was there");
    /// # Ok(()) }
    /// ```
    pub fn before_images(mut self, record: bool) -> Self {
        self.settings.before_images = record;
        self
    }

    /// Ships finished checkpoints and closed log files to a shared store, on a separate thread. Another machine can
    /// then take over ([`folder::take_over`](crate::folder::take_over)). No commit waits for the shipping. A commit
    /// reaches the store a few seconds later. [`Stats::shipping`](crate::stats::Stats::shipping) has the last epoch
    /// that is complete in the store, and [`Database::ship`] ships all commits at once.
    ///
    /// After a take-over by another machine, shipping ends, and by default the log stops
    /// ([`WhenFenced`](crate::folder::WhenFenced)). Pictures cannot be shipped: use backups.
    ///
    /// ```no_run
    /// # extern crate ensile_engine as ensile;
    /// use ensile::folder::{SharedFolder, ShippingConfig};
    /// # fn main() -> ensile::Result<()> {
    /// let store = SharedFolder::open("/mnt/shared/shop".as_ref())?; // a folder that both machines see
    /// let db = ensile::Database::builder("data").ship_to(ShippingConfig::new(std::sync::Arc::new(store))).open()?;
    /// # drop(db);
    /// # Ok(()) }
    /// ```
    pub fn ship_to(mut self, shipping: ShippingConfig) -> Self {
        self.shipping = Some(shipping);
        self.shipping_open.shipping = Shipping::On;
        self
    }

    /// Ends the shipping of a folder: from this open on, the folder remembers no shared store. An open of a shipping
    /// folder with neither this call nor [`ship_to`](Self::ship_to) is refused: another machine may have taken over,
    /// and only the store has this information.
    ///
    /// A folder that remembers a fence stays fenced, until `ensile adopt` makes the folder an independent database.
    pub fn stop_shipping(mut self) -> Self {
        self.shipping = None;
        self.shipping_open.shipping = Shipping::Stopped;
        self
    }

    /// Opens also a fenced folder: another machine has taken over the database of the folder. Without this call such a
    /// folder is refused.
    ///
    /// Data that only this folder has can be read. No write is acknowledged: each writing transaction gets an error.
    /// The exception is an open with [`ship_to`](Self::ship_to) and
    /// [`WhenFenced::GoOn`](crate::folder::WhenFenced::GoOn). To continue with the folder, make the folder an
    /// independent database by `ensile adopt`.
    pub fn open_fenced(mut self) -> Self {
        self.shipping_open.opens_fenced = true;
        self
    }

    /// Sets the schedule of automatic checkpoints. By default a database with a folder makes checkpoints, to keep its
    /// log short: see [`Schedule`].
    pub fn checkpoints(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// Sets folders for checkpoints, with a checkpointer for each folder. Several folders belong on different devices.
    /// Links remember the folders as for [`Builder::log_folders`]. By default checkpoints are in the database's folder.
    pub fn checkpoint_folders<P: Into<PathBuf>>(mut self, folders: impl IntoIterator<Item = P>) -> Self {
        self.checkpoint_folders = Some(folders.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the time between epochs: the longest wait of a group commit while no thread waits for a strict result. 40
    /// ms by default, 1 ms at least.
    pub fn epoch_interval(mut self, interval: Duration) -> Self {
        self.settings.epoch_interval = interval;
        self
    }

    /// Keeps old versions for snapshot transactions, or not. On by default.
    pub fn snapshots(mut self, keep: bool) -> Self {
        self.settings.snapshots = keep;
        self
    }

    /// Sets the limit of garbage that open transactions and snapshots may hold back, in bytes. Above the limit,
    /// transactions and snapshots that hold back more than half of the limit are ended: their next call returns
    /// `Error::Expired`. 256 MiB by default.
    pub fn garbage_bytes_max(mut self, bytes: u64) -> Self {
        self.settings.garbage_bytes_max = bytes;
        self
    }

    /// Sets the limit of the memory of rows, old versions and indexes together, in bytes; 1 MiB at least. No limit by
    /// default.
    ///
    /// At the limit a write gets [`Error::MemoryFull`](crate::Error::MemoryFull) before anything is changed. Reads,
    /// deletes, checkpoints and the opening of tables go on. The memory of deleted rows is free for writes within a
    /// second, unless a transaction or a snapshot stays open; half of the limit bounds
    /// [`Builder::garbage_bytes_max`], too. A transaction that deletes and writes is refused as a write. An open is
    /// refused if the rows of the folder exceed the limit.
    ///
    /// The memory in use exceeds the limit by 64 MiB at most (`MEMORY_EXCESS_BYTES_MAX`), whatever the number of
    /// threads. The limit does not count free memory that the database keeps
    /// ([`MemoryStats`](crate::stats::MemoryStats) has the figures), log buffers, checkpoints, and the write-sets of
    /// open transactions. If the system refuses memory, the process aborts: set the limit well below the machine's
    /// memory.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Error};
    /// # fn main() -> ensile::Result<()> {
    /// let db = Database::builder_in_memory().memory_bytes_max(1 << 20).open()?;
    /// let notes = db.table::<u64, Vec<u8>>("notes")?;
    /// let full = (0..100).try_for_each(|key| db.run(|tx| tx.put(&notes, &key, &vec![0; 100_000])));
    /// assert!(matches!(full, Err(Error::MemoryFull { bytes_max: 1_048_576, .. })));
    /// db.run(|tx| tx.delete(&notes, &0))?; // deletes go on
    /// # Ok(()) }
    /// ```
    pub fn memory_bytes_max(mut self, bytes: u64) -> Self {
        self.memory_bytes_max = Some(bytes);
        self.settings.is_memory_limited = true;
        self
    }

    /// Sets the settings for experts: see [`Tuning`].
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.settings.semi_fuzzy = tuning.semi_fuzzy;
        self.settings.displaced_bytes_max = tuning.displaced_bytes_max;
        self.settings.recovery_threads = tuning.recovery_threads.max(1);
        self.tuning = tuning;
        self
    }

    /// Opens the database: locks the folder, recovers the log, and starts the threads. For an empty or missing folder
    /// the call makes a new database. Of a missing path, only the last folder is made.
    ///
    /// An empty folder may belong to a device that is not mounted. Use [`Builder::open_existing`] if the database must
    /// exist.
    ///
    /// # Errors
    /// `Error::Misuse` for impossible settings, such as log folders that differ from the database's.
    /// `Error::Storage` with a text that gives the remedy, and a [kind](crate::Error::kind): `Retry` if another process
    /// has the folder, if the disk refuses, or if the system refuses a thread; `Restore` if a file is damaged or
    /// missing; `FreeSpace` on a full disk; `FixCall` if the rows exceed [`Builder::memory_bytes_max`]; `WrongFolder`
    /// if the folder was copied, restored or moved, holds other files, or is another program's, if the device of a
    /// log's folder is not there, or if that folder is another database's. A failed open loses no data on disk and
    /// frees the folder.
    pub fn open(self) -> Result<Database> {
        self.open_as(Opening::OpenOrCreate)
    }

    /// As [`Builder::open`], but the database must exist: no database is made.
    ///
    /// # Errors
    /// As for [`Builder::open`]; the kind `WrongFolder` if no database exists.
    pub fn open_existing(self) -> Result<Database> {
        self.open_as(Opening::Existing)
    }

    /// As [`Builder::open_existing`], with calls of `progress` while a checkpoint loads and the log replays.
    ///
    /// ```no_run
    /// # extern crate ensile_engine as ensile;
    /// # fn main() -> ensile::Result<()> {
    /// let db = ensile::Database::builder("data").recover(|progress| println!("{progress:?}"))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Builder::open_existing`].
    pub fn recover(self, progress: impl Fn(Progress) + Send + Sync + 'static) -> Result<Database> {
        Self { progress: Some(StdArc::new(progress)), ..self }.open_existing()
    }

    /// As [`Builder::open`], but the database must not exist: the folder is empty or missing.
    ///
    /// # Errors
    /// As for [`Builder::open`]; the kind `WrongFolder` if a database exists.
    pub fn create_new(self) -> Result<Database> {
        self.open_as(Opening::New)
    }
}

impl Database {
    /// Settings of a database in the folder `path`. A missing folder is made.
    pub fn builder(path: impl AsRef<std::path::Path>) -> Builder {
        Builder::for_path(path.as_ref())
    }

    /// Settings of a database without a folder: [`Database::in_memory`] with more settings.
    pub fn builder_in_memory() -> Builder {
        Builder::in_memory()
    }

    /// Opens a database without a folder, which lives as long as its handles.
    ///
    /// # Errors
    /// None today; every way to open a database is fallible.
    pub fn in_memory() -> Result<Self> {
        Builder::in_memory().open()
    }

    /// Opens the database in the folder `path` with default settings, and recovers its log.
    ///
    /// # Errors
    /// See [`Builder::open`].
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::builder(path).open()
    }

    /// Opens the existing database in the folder `path` with default settings: no database is made.
    ///
    /// # Errors
    /// See [`Builder::open_existing`].
    pub fn open_existing(path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::builder(path).open_existing()
    }

    /// Makes a new database in the empty or missing folder `path`, with default settings.
    ///
    /// # Errors
    /// See [`Builder::create_new`].
    pub fn create_new(path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::builder(path).create_new()
    }
}
