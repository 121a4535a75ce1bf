//! The settings of a database about to be opened.
//!
//! Neighbours: `opening` opens what is set here.

use std::path::{Path, PathBuf};
use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_disk::Disk;
use ensile_durability::{CheckpointConfig, LogConfig, Opening, Progress};

use crate::database::Database;
use crate::error::Result;
use crate::shared::{Durability, Settings};
use crate::variants::Switches;

/// Called from time to time while recovery loads a checkpoint and replays the log.
type ProgressFn = StdArc<dyn Fn(Progress) + Send + Sync>;

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Settings of a database about to be opened.
///
/// ```no_run
/// # extern crate ensile_engine as ensile;
/// use std::time::Duration;
/// use ensile::{Database, Durability};
/// # fn main() -> ensile::Result<()> {
/// let db = Database::builder("data")
///     .durability(Durability::Relaxed) // results at commit; a crash may lose the last epochs
///     .epoch_interval(Duration::from_millis(10)) // and they are short
///     .log_folders(["/mnt/a/log", "/mnt/b/log"]) // a logger each
///     .checkpoint_folders(["/mnt/c/checkpoints"])
///     .checkpoint_interval(Duration::from_secs(60))
///     .garbage_bytes_max(1 << 30) // more room for transactions that stay open
///     .recovery_threads(8)
///     .on_recovery_progress(|progress| println!("{progress:?}"))
///     .open()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "open it"]
pub struct Builder {
    pub(super) path: Option<PathBuf>,
    pub(crate) disk: Option<StdArc<dyn Disk>>,
    pub(crate) clock: Clock,
    pub(super) log: LogConfig,
    pub(super) checkpoints: CheckpointConfig,
    pub(super) prefault_bytes: usize,
    pub(super) pin_workers: bool,
    pub(super) snapshot_interval: Duration,
    pub(super) progress: Option<ProgressFn>,
    pub(crate) own_threads: bool,
    pub(super) settings: Settings,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("path", &self.path).field("log", &self.log).finish_non_exhaustive()
    }
}

/// The paper has a second (§4.9). A quarter of it keeps fewer versions, which are in the caches when they are read, and
/// costs writers no more that could be measured.
const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(250);

impl Builder {
    pub(crate) fn in_memory() -> Self {
        Self {
            path: None,
            disk: None,
            clock: Clock::machine(),
            log: LogConfig::default(),
            checkpoints: CheckpointConfig { files: cores(), ..CheckpointConfig::default() },
            prefault_bytes: 0,
            pin_workers: false,
            snapshot_interval: SNAPSHOT_INTERVAL,
            progress: None,
            own_threads: true,
            settings: Settings {
                durability: Durability::Strict,
                snapshots: true,
                before_images: false,
                garbage_bytes_max: 256 << 20,
                epoch_interval: Duration::from_millis(40),
                switches: Switches::default(),
                recovery_threads: cores(),
            },
        }
    }

    pub(crate) fn at(path: &Path) -> Self {
        Self { path: Some(path.to_owned()), ..Self::in_memory() }
    }

    /// When results are released unless a transaction says otherwise. Strict by default.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.settings.durability = durability;
        self
    }

    /// Logger threads, each with log files of its own. 1 by default; [`Builder::log_folders`] sets it too.
    pub fn loggers(mut self, loggers: usize) -> Self {
        self.log.loggers = loggers;
        self
    }

    /// Folders for the logs, one logger each, on different devices if there are several. They are remembered by links in the
    /// database's folder, `log0` and so on, so later opens need not say so again; a folder is made if only its last part is
    /// missing. By default the logs are in the database's folder.
    ///
    /// ```no_run
    /// # extern crate ensile_engine as ensile;
    /// # fn main() -> ensile::Result<()> {
    /// let db = ensile::Database::builder("data").log_folders(["/mnt/a/log", "/mnt/b/log"]).open()?;
    /// # Ok(()) }
    /// ```
    pub fn log_folders<P: Into<PathBuf>>(mut self, folders: impl IntoIterator<Item = P>) -> Self {
        self.log.folders = folders.into_iter().map(Into::into).collect();
        self.log.loggers = self.log.folders.len();
        self
    }

    /// A log begins a new file once its current one is this long. 64 MiB by default. Checkpoints make whole files void.
    pub fn log_file_bytes(mut self, bytes: u64) -> Self {
        self.log.segment_bytes = bytes;
        self
    }

    /// A log begins a new file once its current one is this old, if it was written to. 4 s by default.
    pub fn log_file_interval(mut self, interval: Duration) -> Self {
        self.log.segment_interval = interval;
        self
    }

    /// Bytes that all log buffers together may take; a transaction that would need more waits before it commits until the disk
    /// has taken some. 64 MiB by default; every thread that writes has half a MiB in any case, and an entry that is larger
    /// has its own.
    pub fn log_buffer_bytes_max(mut self, bytes: usize) -> Self {
        self.log.buffer_bytes_max = bytes;
        self
    }

    /// How long a strict result waits for space on a full disk. Then it is told
    /// [`DurabilityError::NotDurableYet`](ensile_durability::DurabilityError::NotDurableYet): what was committed stays, and becomes
    /// durable once there is space, so it must not be run again. 30 s by default; [`Duration::MAX`] waits for ever.
    pub fn full_disk_wait(mut self, wait: Duration) -> Self {
        self.log.full_wait = wait;
        self
    }

    /// Whether the log tells for each write also what it replaced, the value or that the key was absent: for change capture
    /// (`ensile inspect DIR --changes`, [`folder::changes`](crate::folder::changes)). Off by default. Recovery does not need it.
    ///
    /// It costs the log of each write 4 bytes and the old value, copied while the record is locked, so an overwrite logs about
    /// twice as much. Old values count as part of a transaction's log entry: one that replaces or deletes more than 256 MiB
    /// is refused ([`Error::TooLarge`]). A log may be written partly with and partly without; versions of Ensile that do not
    /// know before-images refuse to open a log that has any.
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

    /// All settings of checkpoints at once. A database with a folder makes checkpoints by default, so that its log stays
    /// short: see [`CheckpointConfig`].
    pub fn checkpoints(mut self, config: CheckpointConfig) -> Self {
        self.checkpoints = config;
        self
    }

    /// Makes checkpoints only when [`Database::checkpoint`] asks for one: the log grows until then.
    pub fn checkpoints_on_demand(mut self) -> Self {
        let CheckpointConfig { interval, log_bytes, recovery_time, .. } = CheckpointConfig::on_demand();
        self.checkpoints = CheckpointConfig { interval, log_bytes, recovery_time, ..self.checkpoints };
        self
    }

    /// Time from the end of a checkpoint to the next, longer while the log hardly grows. 10 s by default.
    pub fn checkpoint_interval(mut self, interval: Duration) -> Self {
        self.checkpoints.interval = Some(interval);
        self
    }

    /// A checkpoint begins once so much log was written since the last one began. 4 GiB by default.
    pub fn checkpoint_log_bytes(mut self, bytes: u64) -> Self {
        self.checkpoints.log_bytes = Some(bytes);
        self
    }

    /// A checkpoint begins when the next open would take longer than this, at the rates that the last one had. Not by
    /// default.
    pub fn checkpoint_recovery_time(mut self, target: Duration) -> Self {
        self.checkpoints.recovery_time = Some(target);
        self
    }

    /// Threads that write a checkpoint. 1 by default; [`Builder::checkpoint_folders`] sets it too.
    pub fn checkpointers(mut self, checkpointers: usize) -> Self {
        self.checkpoints.checkpointers = checkpointers;
        self
    }

    /// Folders for checkpoints, one checkpointer each, on different devices if there are several; remembered as
    /// [`Builder::log_folders`] are. By default they are in the database's folder.
    pub fn checkpoint_folders<P: Into<PathBuf>>(mut self, folders: impl IntoIterator<Item = P>) -> Self {
        self.checkpoints.folders = folders.into_iter().map(Into::into).collect();
        self.checkpoints.checkpointers = self.checkpoints.folders.len();
        self
    }

    /// Files that each checkpointer writes, so that as many threads can load them. As many as there are cores by default.
    pub fn checkpoint_files(mut self, files: usize) -> Self {
        self.checkpoints.files = files;
        self
    }

    /// Most bytes a second that checkpoints write, not 0. No limit by default.
    pub fn checkpoint_bandwidth(mut self, bytes_per_second: u64) -> Self {
        self.checkpoints.bandwidth = Some(bytes_per_second);
        self
    }

    /// Time between epochs: the most that group commit waits when no strict result is waited for. 40 ms by default,
    /// 1 ms at least.
    pub fn epoch_interval(mut self, interval: Duration) -> Self {
        self.settings.epoch_interval = interval;
        self
    }

    /// Time between snapshot boundaries (§4.9). 250 ms by default: what a snapshot shows is at most about that much older
    /// than the last epoch. A longer interval keeps old versions for longer, a shorter one copies rows that are changed
    /// all the time more often.
    pub fn snapshot_interval(mut self, interval: Duration) -> Self {
        self.snapshot_interval = interval;
        self
    }

    /// Whether old versions are kept for snapshot transactions. On by default.
    pub fn snapshots(mut self, keep: bool) -> Self {
        self.settings.snapshots = keep;
        self
    }

    /// Most bytes of garbage that open transactions and snapshots may hold back; above it the oldest one that is idle
    /// between two calls is ended, and told so by [`Error::Expired`]. 256 MiB by default.
    pub fn garbage_bytes_max(mut self, bytes: u64) -> Self {
        self.settings.garbage_bytes_max = bytes;
        self
    }

    /// Memory to map and touch at once, so that no page fault falls into requests. None by default.
    pub fn prefault_bytes(mut self, bytes: usize) -> Self {
        self.prefault_bytes = bytes;
        self
    }

    /// Whether a thread stays on one core from its first commit on, so that its caches stay its own: threads take the
    /// cores that the opening thread may run on in turn. Off by default, since the threads are the application's.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// # fn main() -> ensile::Result<()> {
    /// let db = ensile::Database::builder_in_memory().pin_workers(true).prefault_bytes(1 << 20).open()?;
    /// # Ok(()) }
    /// ```
    pub fn pin_workers(mut self, pin: bool) -> Self {
        self.pin_workers = pin;
        self
    }

    /// Threads that load a checkpoint and replay the log at open, and that rebuild indexes when a table is opened. As many
    /// as there are cores by default.
    pub fn recovery_threads(mut self, threads: usize) -> Self {
        self.settings.recovery_threads = threads.max(1);
        self
    }

    /// Called from time to time while a checkpoint is loaded and the log is replayed.
    pub fn on_recovery_progress(mut self, progress: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.progress = Some(StdArc::new(progress));
        self
    }

    /// Runs parts of the engine otherwise than they ship, to measure what they are worth.
    #[cfg(feature = "experiments")]
    pub fn variants(mut self, variants: crate::variants::Variants) -> Self {
        self.settings.switches.variants = variants;
        self
    }

    /// Opens the database: locks the folder, recovers what the log holds, starts the threads. If the folder is empty or not there, a new
    /// database is made; only the last folder of the path is.
    ///
    /// An empty folder may be one whose device is not mounted: where there must be a database, use [`Builder::open_existing`].
    ///
    /// # Errors
    /// [`Error::Misuse`] for settings that cannot work, log folders that are elsewhere already among them. [`Error::Durability`] with a
    /// [`DurabilityError`](ensile_durability::DurabilityError) that says what to do: `InUse` if another process has the folder, `Damaged` if a file is damaged
    /// or missing, `Copied` if the folder was copied, restored or moved, `NotMounted` or `FolderMissing` if the device of a log's folder is not
    /// there, `ForeignFolder` if such a folder is another database's, `NotADatabase` if the folder holds something else, `Disk` if the disk refuses.
    /// [`Error::NoThread`]. Nothing on disk is lost by a failed open, and the folder is free again.
    pub fn open(self) -> Result<Database> {
        self.open_as(Opening::OpenOrCreate)
    }

    /// As [`Builder::open`], but there must be a database: none is made.
    ///
    /// # Errors
    /// As for [`Builder::open`]; [`DurabilityError::NoDatabase`](ensile_durability::DurabilityError::NoDatabase) if there is none.
    pub fn open_existing(self) -> Result<Database> {
        self.open_as(Opening::Existing)
    }

    /// As [`Builder::open`], but there must be no database yet: the folder is empty, or not there.
    ///
    /// # Errors
    /// As for [`Builder::open`]; [`DurabilityError::DatabaseExists`](ensile_durability::DurabilityError::DatabaseExists) if there is one.
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
