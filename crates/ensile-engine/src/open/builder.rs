//! The settings of a database about to be opened.
//!
//! Neighbours: `opening` opens what is set here.

use std::path::{Path, PathBuf};
use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_disk::Disk;
use ensile_durability::{Archiving, Opening, Progress, Shipping, ShippingConfig, ShippingOpen};

use super::tuning::{Schedule, Tuning};
use crate::database::Database;
use crate::error::Result;
use crate::shared::{Durability, Settings};
use crate::variants::Switches;

/// Called from time to time while recovery loads a checkpoint and replays the log.
type ProgressFn = StdArc<dyn Fn(Progress) + Send + Sync>;

/// Settings of a database about to be opened.
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
    /// As it was asked for; strict with a log, relaxed without one.
    pub(super) durability: Option<Durability>,
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
    pub(super) settings: Settings,
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
    pub(crate) fn in_memory() -> Self {
        Self {
            path: None,
            disk: None,
            clock: Clock::machine(),
            durability: None,
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

    pub(crate) fn at(path: &Path) -> Self {
        Self { path: Some(path.to_owned()), ..Self::in_memory() }
    }

    /// When results are released unless a transaction says otherwise. Strict by default; a database without a log is
    /// relaxed. [`Durability::Process`] is for all of its transactions.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// No log: consistent checkpoints alone, [pictures](crate::checkpoint::Strategy::Pictures), make the database
    /// durable (SIREN §5). For a cache that comes back after a crash, or a replicated state machine whose log is
    /// elsewhere.
    ///
    /// Results are released at commit. A crash, or the end of the process without a close, loses what is newer than the
    /// last picture: whole epochs, the newest first. [`Receipt::durable`](crate::Receipt::durable) asks for a picture
    /// and waits for it; all that wait at a time share one. Otherwise pictures begin as [`Builder::checkpoints`] says,
    /// and [`Database::close`](crate::Database::close) takes a last one if anything has changed. A picture that fails
    /// is tried again, and commits go on. A transaction that asks for [`Durability::Strict`] is refused.
    ///
    /// A database may have a log in one life and none in the next, as each open says. No change loses what was durable.
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

    /// Folders for the logs, one logger each, on different devices if there are several. They are remembered by links
    /// in the database's folder, `log0` and so on, so later opens need not say so again; a folder is made if only its
    /// last part is missing. By default the logs are in the database's folder.
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

    /// An archive: each closed log file is copied to this folder before it may be removed, so that the database can be
    /// had as it was at the end of any epoch that was durable: with a [backup](crate::Database::backup) of before, by
    /// [`restore_to_epoch`](crate::folder::restore_to_epoch), whichever the strategy of checkpoints, and without one by
    /// [`restore_from_archive`](crate::folder::restore_from_archive). Give an empty folder, best on another device; it
    /// is made if only its last part is missing. It is remembered by a link in the database's folder, so later opens
    /// archive without being told. [`Archiving::Ended`] ends it: what it has stays as it is, nothing more comes, and
    /// its folder need not be there.
    ///
    /// Files are copied by a checkpointer, soon after they are closed: a log that is written to begins a new file every
    /// four seconds ([`Tuning::log_file_interval`]). A close archives what is left. No commit waits for the archive. If
    /// it cannot be written, the log is kept for it, however long that takes:
    /// [`Stats::archive_error`](crate::stats::Stats::archive_error) and the log's figures say so, and it is tried again
    /// every second. Then no checkpoint frees any log, so watch its size. An open asks for the archive's folder, as for
    /// the log's own.
    ///
    /// An archive that is begun with the database has all of it, and needs no backup; it grows for ever. One that is
    /// begun later has what comes behind the checkpoint of that time, and needs a backup that was made since. What is
    /// in the open log file of a database that runs is not in it yet.
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

    /// Whether the log also records what each write replaced: the old value, or that the key was absent. This is for
    /// change capture (`ensile inspect DIR --changes`, [`folder::changes`](crate::folder::changes)). Off by default.
    /// Recovery does not need it.
    ///
    /// Each write logs 4 bytes more and the old value, which is copied while the record is locked. So an overwrite logs
    /// about twice as much. Old values count as part of a transaction's log entry: one that replaces or deletes more
    /// than 256 MiB is refused (`Error::TooLarge`). A log may be written partly with and partly without; versions of
    /// Ensile that do not know before-images refuse to open a log that has any.
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

    /// Finished checkpoints and closed log files also go to a shared store, on a thread of their own, so that another
    /// machine can take over ([`folder::take_over`](crate::folder::take_over)). Nothing waits for it. What is committed
    /// reaches the store a few seconds later; [`Stats::shipping`](crate::stats::Stats::shipping) says up to which epoch
    /// it is complete there, and [`Database::ship`] brings everything there now.
    ///
    /// Once another machine has taken over, nothing is shipped any more, and by default the log stops
    /// ([`WhenFenced`](crate::folder::WhenFenced)). Pictures cannot be shipped: they are backed up.
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

    /// Ends the shipping of a folder that ships: from this open on, it remembers no shared store. Without this, and
    /// without [`ship_to`](Self::ship_to), the open is refused: another machine may have taken over, and the folder
    /// learns of that from the store alone.
    ///
    /// A folder that remembers that it was fenced stays fenced, until `ensile adopt` makes it a database of its own.
    pub fn stop_shipping(mut self) -> Self {
        self.shipping = None;
        self.shipping_open.shipping = Shipping::Stopped;
        self
    }

    /// Opens a fenced folder too: one whose database another machine has taken over. Such a folder is refused
    /// otherwise.
    ///
    /// What only this folder has can be read, and nothing is acknowledged: each transaction that writes gets an error,
    /// unless the folder is opened with [`ship_to`](Self::ship_to) and
    /// [`WhenFenced::GoOn`](crate::folder::WhenFenced::GoOn). To go on with the folder, make it a database of its own
    /// by `ensile adopt`.
    pub fn open_fenced(mut self) -> Self {
        self.shipping_open.opens_fenced = true;
        self
    }

    /// When checkpoints begin by themselves. A database with a folder makes them by default, so that its log stays
    /// short: see [`Schedule`].
    pub fn checkpoints(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// Folders for checkpoints, one checkpointer each, on different devices if there are several; remembered as
    /// [`Builder::log_folders`] are. By default they are in the database's folder.
    pub fn checkpoint_folders<P: Into<PathBuf>>(mut self, folders: impl IntoIterator<Item = P>) -> Self {
        self.checkpoint_folders = Some(folders.into_iter().map(Into::into).collect());
        self
    }

    /// Time between epochs: the most that group commit waits when no strict result is waited for. 40 ms by default,
    /// 1 ms at least.
    pub fn epoch_interval(mut self, interval: Duration) -> Self {
        self.settings.epoch_interval = interval;
        self
    }

    /// Whether old versions are kept for snapshot transactions. On by default.
    pub fn snapshots(mut self, keep: bool) -> Self {
        self.settings.snapshots = keep;
        self
    }

    /// Most bytes of garbage that open transactions and snapshots may hold back. Above it those are ended that hold
    /// back more than half of it: their next call returns `Error::Expired`. 256 MiB by default.
    pub fn garbage_bytes_max(mut self, bytes: u64) -> Self {
        self.settings.garbage_bytes_max = bytes;
        self
    }

    /// Settings that few programs change: see [`Tuning`].
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.settings.semi_fuzzy = tuning.semi_fuzzy;
        self.settings.displaced_bytes_max = tuning.displaced_bytes_max;
        self.settings.recovery_threads = tuning.recovery_threads.max(1);
        self.tuning = tuning;
        self
    }

    /// Runs parts of the engine in another form than the one that ships, to measure what they are worth.
    #[cfg(feature = "experiments")]
    pub fn variants(mut self, variants: crate::variants::Variants) -> Self {
        self.settings.switches.variants = variants;
        self
    }

    /// Opens the database: locks the folder, recovers what the log holds, starts the threads. If the folder is empty or
    /// missing, a new database is made. Of a path that is missing, only the last folder is made.
    ///
    /// An empty folder may be one whose device is not mounted: where there must be a database, use
    /// [`Builder::open_existing`].
    ///
    /// # Errors
    /// `Error::Misuse` for settings that cannot work, such as other log folders than the database already has.
    /// `Error::Durability` with a [`DurabilityError`](ensile_durability::DurabilityError) that says what to do: `InUse`
    /// if another process has the folder, `Damaged` if a file is damaged or missing, `Copied` if the folder was copied,
    /// restored or moved, `NotMounted` or `FolderMissing` if the device of a log's folder is not there, `ForeignFolder`
    /// if such a folder is another database's, `NotADatabase` if the folder holds something else, `Disk` if the disk
    /// refuses. `Error::NoThread`. Nothing on disk is lost by a failed open, and the folder is free again.
    pub fn open(self) -> Result<Database> {
        self.open_as(Opening::OpenOrCreate)
    }

    /// As [`Builder::open`], but there must be a database: none is made.
    ///
    /// # Errors
    /// As for [`Builder::open`]; [`DurabilityError::NoDatabase`](ensile_durability::DurabilityError::NoDatabase) if
    /// there is none.
    pub fn open_existing(self) -> Result<Database> {
        self.open_as(Opening::Existing)
    }

    /// As [`Builder::open_existing`]; `progress` is called from time to time while a checkpoint is loaded and the log
    /// is replayed.
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

    /// As [`Builder::open`], but there must be no database yet: the folder is empty, or not there.
    ///
    /// # Errors
    /// As for [`Builder::open`];
    /// [`DurabilityError::DatabaseExists`](ensile_durability::DurabilityError::DatabaseExists) if there is one.
    pub fn create_new(self) -> Result<Database> {
        self.open_as(Opening::New)
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
}
