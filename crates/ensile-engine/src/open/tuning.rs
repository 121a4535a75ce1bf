//! Settings that few programs change, and when checkpoints begin.
//!
//! Neighbours: `builder` takes both; `opening` makes the configuration of the log and of checkpoints from them.

use std::time::Duration;

use ensile_durability::{AdaptiveThreshold, Archiving, CheckpointConfig, LogConfig, Opening, Strategy};

use super::builder::Builder;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::shared::Durability;

/// As many as the machine lets this process use at once.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How much checkpointers give way by default: commits wait for loggers and workers, and never for a checkpointer.
const CHECKPOINT_NICENESS: u8 = if cfg!(target_os = "linux") { 5 } else { 0 };

/// Settings for experts: the defaults fit most programs. Give a changed one to
/// [`Builder::tuning`](crate::Builder::tuning).
///
/// ```
/// # extern crate ensile_engine as ensile;
/// use ensile::{Database, Tuning};
/// # fn main() -> ensile::Result<()> {
/// let tuning = Tuning { pin_workers: true, prefault_bytes: 1 << 20, ..Tuning::default() };
/// let db = Database::builder_in_memory().tuning(tuning).open()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Logger threads, each with log files of its own. `None`, the default: one for each of
    /// [`Builder::log_folders`](crate::Builder::log_folders), and 1 without such folders. A number that differs from
    /// the number of folders is refused.
    pub loggers: Option<usize>,
    /// Bytes after which a log begins a new file. 64 MiB by default. Checkpoints discard whole files.
    pub log_file_bytes: u64,
    /// Age at which a log begins a new file, if the current one was written to. 4 s by default.
    pub log_file_interval: Duration,
    /// Bytes that all log buffers together may take. A transaction that would need more waits before it commits until
    /// the disk has taken some. 64 MiB by default. Every thread that writes has half a MiB in any case, and an entry
    /// that is larger has its own.
    pub log_buffer_bytes_max: usize,
    /// How long a strict result waits for space on a full disk. Then the caller gets
    /// [`DurabilityError::NotDurableYet`](ensile_durability::DurabilityError::NotDurableYet): what was committed stays,
    /// and becomes durable once there is space, so it must not be run again. 30 s by default; [`Duration::MAX`] waits
    /// for ever.
    pub full_disk_wait: Duration,
    /// Threads that write a checkpoint. `None`, the default: one for each of
    /// [`Builder::checkpoint_folders`](crate::Builder::checkpoint_folders), and 1 without such folders. A number that
    /// differs from the number of folders is refused.
    pub checkpointers: Option<usize>,
    /// Files that each checkpointer writes, so that as many threads can load them. As many as there are cores by
    /// default.
    pub checkpoint_files: usize,
    /// Most bytes a second that checkpoints write, not 0. `None`, the default: no limit.
    pub checkpoint_bandwidth: Option<u64>,
    /// By how much checkpointers give way to the application's threads, 0 to 19: it is added to the niceness of the
    /// thread that opens the database, up to 19. 5 by default, about a third of the weight of a thread with 0; and 0
    /// on systems other than Linux, which have no niceness of a single thread.
    ///
    /// A larger one is for results that must not be late beside a checkpoint while the cores are not fully busy. Where
    /// they are, it costs: with 10 a checkpointer beside twenty busy threads on two cores gets 1 % of a core, so a
    /// checkpoint may take minutes. Meanwhile the log grows, and so do the versions that a picture waits for
    /// ([`Tuning::displaced_bytes_max`]), recovery takes longer, and an archive gets its files later.
    /// [`CheckpointStats::niceness_refused`](ensile_durability::CheckpointStats::niceness_refused) says if the system
    /// refused it.
    pub checkpoint_niceness: u8,
    /// Bytes after which a checkpointer syncs what it has written. 32 MiB by default.
    pub checkpoint_sync_bytes: u64,
    /// What a checkpoint shows: [`Strategy::Fuzzy`], [`Strategy::Cycling`] or [`Strategy::Pictures`]. `None`, the
    /// default: fuzzy with a log, and pictures [without](crate::Builder::without_log), where the others are refused. It
    /// may change from one open to the next. A database in memory makes no checkpoints.
    pub checkpoint_strategy: Option<Strategy>,
    /// Of [`Strategy::Cycling`]: into how many ranges of about equal bytes the tables are cut, 1 to 1024, 16 by
    /// default. Turns of more ranges keep the log shorter: what is replayed comes to (n + 1) / n of what is written
    /// while a round of n turns goes on. Each turn waits for two epochs and some syncs, and has files of its own. It
    /// may change from one open to the next.
    pub checkpoint_ranges: usize,
    /// About how many bytes of rows a picture takes at a time: 4 KiB to 1 MiB, 64 KiB by default. With smaller pages
    /// rows that are displaced wait for a shorter time, and there are more pages to look among.
    pub checkpoint_page_bytes: usize,
    /// Whether consistent checkpoints are semi-fuzzy (SIREN §3.3): what commits displace meanwhile is written at once,
    /// in blocks of its own, and freed. On by default. Else it stays in memory until its page is written, and a
    /// checkpoint has each row once.
    pub semi_fuzzy: bool,
    /// Bytes of memory that versions may take which commits displace while a consistent checkpoint is under way, until
    /// that has taken them ([`Stats::displaced_bytes`](crate::stats::Stats::displaced_bytes)): 1 MiB at least, 4 GiB by
    /// default. A checkpoint that cannot keep up gives way: the attempt fails, says so, and its versions are freed. No
    /// commit waits for it, and none fails. The next attempt begins as after any that failed.
    ///
    /// A row counts once, when it is changed for the first time since the checkpoint's freeze, with its key, its value
    /// and 32 bytes in a block of the next size: 352 bytes for a row of 300. Not counted are the checkpoint's own
    /// buffers, and what a transaction that is about to commit has copied. It is looked at as epochs end and between
    /// pages, so what commits displace in that time comes on top.
    pub displaced_bytes_max: u64,
    /// Threads that load a checkpoint and replay the log at open, and that rebuild indexes when a table is opened, one
    /// at least. As many as there are cores by default.
    pub recovery_threads: usize,
    /// Time between snapshot boundaries (Silo §4.9). 250 ms by default: what a snapshot shows is at most about that
    /// much older than the last epoch, and a quarter more while the heartbeat is late or if its ticks are further
    /// apart. A longer interval keeps old versions for longer. A shorter one copies rows that change all the time more
    /// often.
    pub snapshot_interval: Duration,
    /// Bytes of memory to map and to touch when the database opens, so that no request meets a page fault. 0 by
    /// default.
    pub prefault_bytes: usize,
    /// Whether a thread stays on one core from its first commit on, so that its caches stay its own. The threads take
    /// in turn the cores that the opening thread may run on. Off by default, since the threads are the application's.
    pub pin_workers: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        let LogConfig { segment_bytes, segment_interval, buffer_bytes_max, full_wait, .. } =
            LogConfig::default();
        let CheckpointConfig { ranges, page_bytes, bandwidth, sync_bytes, .. } = CheckpointConfig::default();
        Self {
            loggers: None,
            log_file_bytes: segment_bytes,
            log_file_interval: segment_interval,
            log_buffer_bytes_max: buffer_bytes_max,
            full_disk_wait: full_wait,
            checkpointers: None,
            checkpoint_files: cores(),
            checkpoint_bandwidth: bandwidth,
            checkpoint_niceness: CHECKPOINT_NICENESS,
            checkpoint_sync_bytes: sync_bytes,
            checkpoint_strategy: None,
            checkpoint_ranges: ranges,
            checkpoint_page_bytes: page_bytes,
            semi_fuzzy: true,
            displaced_bytes_max: 4 << 30,
            recovery_threads: cores(),
            // The paper has a second (§4.9). A quarter of it keeps fewer versions, which are in the caches when they
            // are read, and costs writers no more that could be measured.
            snapshot_interval: Duration::from_millis(250),
            prefault_bytes: 0,
            pin_workers: false,
        }
    }
}

/// When checkpoints begin by themselves. The default: 10 s after the last one, or after 4 GiB of log. Without a log
/// bytes that transactions have changed count in place of the log's.
///
/// Times and bytes are those of checkpoints that write all rows. A turn of a
/// [cycling](crate::checkpoint::Strategy::Cycling) checkpoint that writes one of n ranges begins after an n-th of them:
/// a round takes about as long as a whole checkpoint with the time before it, and as many bytes are written a second.
///
/// ```no_run
/// # extern crate ensile_engine as ensile;
/// use std::time::Duration;
/// use ensile::{Database, checkpoint::Schedule};
/// # fn main() -> ensile::Result<()> {
/// let schedule = Schedule::default().interval(Duration::from_secs(60)).recovery_time(Duration::from_secs(5));
/// let db = Database::builder("data").checkpoints(schedule).open()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "give it to Builder::checkpoints"]
pub struct Schedule {
    interval: Option<Duration>,
    log_bytes: Option<u64>,
    log_records: Option<u64>,
    adaptive: Option<AdaptiveThreshold>,
    recovery_time: Option<Duration>,
}

impl Schedule {
    /// Only when [`Database::checkpoint`](crate::Database::checkpoint) asks for one. The log grows until then.
    pub const fn on_demand() -> Self {
        Self { interval: None, log_bytes: None, log_records: None, adaptive: None, recovery_time: None }
    }

    /// A checkpoint begins this long after the last one ended, later while the log hardly grows, or, without a log,
    /// while nothing changes.
    pub const fn interval(self, interval: Duration) -> Self {
        Self { interval: Some(interval), ..self }
    }

    /// A checkpoint begins once this many bytes of log were written since the last one began, or, without a log, once
    /// this many bytes of keys and rows were changed.
    pub const fn log_bytes(self, bytes: u64) -> Self {
        Self { log_bytes: Some(bytes), ..self }
    }

    /// A checkpoint begins once this many transactions were logged since the last one began, or since the open. Without
    /// a log there are none to count, so this asks for none.
    pub const fn log_records(self, records: u64) -> Self {
        Self { log_records: Some(records), ..self }
    }

    /// A checkpoint begins once the log is as long as it may be at the load of the moment (SLACH §4): while little is
    /// written the log is kept short, while much is written checkpoints are put off. Or once as much time has passed as
    /// may, by the load ([`AdaptiveThreshold::of_time`]). In place of the interval, of [`Schedule::log_bytes`] and of
    /// [`Schedule::log_records`], which may be set again behind this.
    ///
    /// ```no_run
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, checkpoint::{AdaptiveThreshold, Schedule}};
    /// # fn main() -> ensile::Result<()> {
    /// let adaptive = AdaptiveThreshold::of_capacity(200 << 20); // 200 MiB of log a second
    /// let db = Database::builder("data").checkpoints(Schedule::default().adaptive(adaptive)).open()?;
    /// println!("{:?}", db.stats().checkpoints.map(|checkpoints| checkpoints.load));
    /// # Ok(()) }
    /// ```
    pub const fn adaptive(self, adaptive: AdaptiveThreshold) -> Self {
        Self { interval: None, log_bytes: None, log_records: None, adaptive: Some(adaptive), ..self }
    }

    /// Checkpoints begin in time for no open to take longer than this, as far as that is known: at what opens of this
    /// folder have cost, for what there is to load and to replay, and with what will be logged until the checkpoint is
    /// installed. [`CheckpointStats::recovery`](ensile_durability::CheckpointStats::recovery) shows the prediction and
    /// its rates. An open lasts until [`Builder::open`](crate::Builder::open) returns: indexes are rebuilt behind it.
    ///
    /// A target that is below what loading alone takes is refused by
    /// [`Database::reschedule_checkpoints`](crate::Database::reschedule_checkpoints), with the figure. An open is never
    /// refused for it, nor does a database stop that has grown beyond it:
    /// [`CheckpointStats::unreachable`](ensile_durability::CheckpointStats::unreachable) says so, and the log is kept
    /// as short as an eighth of the target allows. Without a log this asks for none: an open replays nothing.
    pub const fn recovery_time(self, target: Duration) -> Self {
        Self { recovery_time: Some(target), ..self }
    }
}

impl Default for Schedule {
    fn default() -> Self {
        let CheckpointConfig { interval, log_bytes, log_records, adaptive, recovery_time, .. } =
            CheckpointConfig::default();
        Self { interval, log_bytes, log_records, adaptive, recovery_time }
    }
}

impl Schedule {
    /// The configuration with this schedule.
    pub(crate) fn of(self, config: CheckpointConfig) -> CheckpointConfig {
        let Self { interval, log_bytes, log_records, adaptive, recovery_time } = self;
        CheckpointConfig { interval, log_bytes, log_records, adaptive, recovery_time, ..config }
    }
}

impl Database {
    /// Changes when checkpoints begin by themselves. One that is under way goes on. The next open has what
    /// [`Builder::checkpoints`](crate::Builder::checkpoints) says again.
    ///
    /// ```no_run
    /// # extern crate ensile_engine as ensile;
    /// use ensile::checkpoint::Schedule;
    /// # fn main() -> ensile::Result<()> {
    /// let db = ensile::Database::open("data")?;
    /// db.reschedule_checkpoints(Schedule::on_demand())?; // While much is loaded,
    /// db.reschedule_checkpoints(Schedule::default())?; // and as before.
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] for a database without a folder and for a schedule that cannot work, such as a recovery time
    /// below what loading alone takes; [`Error::Closed`].
    pub fn reschedule_checkpoints(&self, schedule: Schedule) -> Result<()> {
        Ok(self.own_checkpoints()?.reschedule(&schedule.of(CheckpointConfig::default()))?)
    }

    /// The application has served so many requests since it said so last, and lost so many for want of capacity. From
    /// then on the load of an [`AdaptiveThreshold`] is the rate of requests, whatever they write; where that
    /// [is probed](AdaptiveThreshold::is_probed), the capacity is the rate at which 5 % of them are lost. To be called
    /// about once a second.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a database without a folder, [`Error::Closed`].
    pub fn report_requests(&self, served: u64, lost: u64) -> Result<()> {
        self.own_checkpoints()?.report_requests(served, lost);
        Ok(())
    }
}

impl Builder {
    /// The configuration of the log.
    pub(super) fn log_config(&self, opening: Opening) -> LogConfig {
        let checkpoints = self.checkpoint_config();
        let folders = self.log_folders.as_ref();
        // Set by itself: in a build for experiments a log has a setting more, which keeps its default here.
        let full_wait = self.tuning.full_disk_wait;
        let config = LogConfig {
            loggers: self.loggers(),
            folders: folders.cloned().unwrap_or_default(),
            opening,
            archiving: self.archiving.clone(),
            shipping: self.shipping_open,
            checkpointers: checkpoints.checkpointers,
            checkpoint_folders: checkpoints.folders,
            segment_bytes: self.tuning.log_file_bytes,
            segment_interval: self.tuning.log_file_interval,
            buffer_bytes_max: self.tuning.log_buffer_bytes_max,
            epoch_interval: self.settings.epoch_interval,
            process_safe: self.durability == Some(Durability::Process),
            ..LogConfig::default()
        };
        LogConfig { full_wait, ..config }
    }

    /// How many logs there are to be.
    fn loggers(&self) -> usize {
        let folders = self.log_folders.as_ref().map(Vec::len);
        if self.is_without_log { 0 } else { self.tuning.loggers.or(folders).unwrap_or(1) }
    }

    /// What checkpoints show.
    pub(super) fn strategy(&self) -> Strategy {
        let usual = if self.is_without_log { Strategy::Pictures } else { Strategy::Fuzzy };
        self.tuning.checkpoint_strategy.unwrap_or(usual)
    }

    /// Refuses settings that contradict a database without a log.
    pub(super) fn check_level(&self) -> Result<()> {
        let is_archived = matches!(self.archiving, Archiving::To(_));
        if is_archived && self.path.is_none() && self.disk.is_none() {
            return Err(Error::Misuse(
                "a database in memory has no log, so there is nothing to archive: leave Builder::archive out"
                    .to_owned(),
            ));
        }
        if !self.is_without_log {
            let no_logger = self.tuning.loggers == Some(0);
            let why = "loggers is 0, and a log needs one: for a database without a log there is Builder::without_log";
            return if no_logger { Err(Error::Misuse(why.to_owned())) } else { Ok(()) };
        }
        let why = if self.path.is_none() && self.disk.is_none() {
            "a database in memory has no log anyway, and no pictures: leave Builder::without_log out"
        } else if self.strategy() != Strategy::Pictures {
            "fuzzy and cycling checkpoints need a log, and without one checkpoints are pictures: leave \
             Tuning::checkpoint_strategy out, or Builder::without_log"
        } else if self.durability == Some(Durability::Strict) {
            "strict transactions need a log: leave Durability::Strict out and ask receipts for pictures, or leave \
             Builder::without_log out"
        } else if self.durability == Some(Durability::Process) {
            "without a log nothing survives the process but its pictures: leave Durability::Process out, or \
             Builder::without_log"
        } else if self.log_folders.is_some() || self.tuning.loggers.is_some() {
            "without a log there are no loggers, and no folders for them: leave Tuning::loggers and \
             Builder::log_folders out, or Builder::without_log"
        } else if is_archived {
            "without a log there is nothing to archive: leave Builder::archive out, or Builder::without_log"
        } else if self.settings.before_images {
            "before-images stand in a log: leave Builder::before_images out, or Builder::without_log"
        } else {
            return Ok(());
        };
        Err(Error::Misuse(why.to_owned()))
    }

    /// The configuration of checkpoints.
    pub(super) fn checkpoint_config(&self) -> CheckpointConfig {
        let folders = self.checkpoint_folders.as_ref();
        let config = CheckpointConfig {
            strategy: self.strategy(),
            ranges: self.tuning.checkpoint_ranges,
            page_bytes: self.tuning.checkpoint_page_bytes,
            checkpointers: self.tuning.checkpointers.or(folders.map(Vec::len)).unwrap_or(1),
            folders: folders.cloned().unwrap_or_default(),
            files: self.tuning.checkpoint_files,
            bandwidth: self.tuning.checkpoint_bandwidth,
            niceness: self.tuning.checkpoint_niceness,
            sync_bytes: self.tuning.checkpoint_sync_bytes,
            recovery_threads: self.tuning.recovery_threads,
            ..CheckpointConfig::default()
        };
        self.schedule.clone().of(config)
    }
}
