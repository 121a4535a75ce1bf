//! Expert settings of a database.
//!
//! Neighbours: `builder` stores the settings. `startup` makes the configurations of the log and of checkpoints.

use std::time::Duration;

use ensile_durability::{Archiving, CheckpointConfig, LogConfig, Opening, Strategy};

use super::builder::Builder;
use crate::error::{Error, Result};
use crate::shared_state::Durability;

/// Number of threads that the process may run at the same time.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Default niceness of checkpointers. Commits wait for loggers and workers, and never for a checkpointer.
const CHECKPOINT_NICENESS: u8 = if cfg!(target_os = "linux") { 5 } else { 0 };

/// Settings for experts: the defaults fit most programs. [`Builder::tuning`](crate::Builder::tuning) takes a changed
/// value.
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
    /// Number of logger threads; each logger has its own log files. `None`, the default, means a logger for each of
    /// [`Builder::log_folders`](crate::Builder::log_folders), and 1 without log folders. A number different from the
    /// number of folders is refused.
    pub loggers: Option<usize>,
    /// Size in bytes after which a log begins a new file; 64 MiB by default. Checkpoints discard whole files.
    pub log_file_bytes: u64,
    /// Age at which a log begins a new file, if the current file is not empty; 4 s by default.
    pub log_file_interval: Duration,
    /// Limit of all log buffers together, in bytes; 64 MiB by default. At the limit a transaction waits before its
    /// commit until the disk has taken some bytes; [`try_commit`](crate::Transaction::try_commit) returns
    /// [`Error::Busy`](crate::Error::Busy) instead. Every writing thread always has half a MiB, and a larger entry has
    /// its own buffer.
    pub log_buffer_bytes_max: usize,
    /// Time for which a strict result waits for space on a full disk; 30 s by default. [`Duration::MAX`] waits for
    /// ever. After this time the caller gets an [`Error::Storage`](crate::Error::Storage) of the kind
    /// [`FreeSpace`](crate::ErrorKind::FreeSpace). The commit stays and becomes durable once the disk has space, so do
    /// not run the transaction again.
    pub full_disk_wait: Duration,
    /// Number of threads that write a checkpoint. `None`, the default, means a thread for each of
    /// [`Builder::checkpoint_folders`](crate::Builder::checkpoint_folders), and 1 without checkpoint folders. A number
    /// different from the number of folders is refused.
    pub checkpointers: Option<usize>,
    /// Number of files that each checkpointer writes; the number of cores by default. The same number of threads can
    /// load the files.
    pub checkpoint_files: usize,
    /// Limit of checkpoint writes in bytes a second, not 0. `None`, the default, means no limit.
    pub checkpoint_bandwidth: Option<u64>,
    /// Niceness of checkpointers, 0 to 19. The value is added to the niceness of the thread that opens the database, up
    /// to 19. The default is 5, about a third of the weight of a thread with 0. The default is 0 on systems other than
    /// Linux, because these systems have no niceness of a single thread.
    ///
    /// A larger value is for results that must not be late beside a checkpoint while the cores are not fully busy. On
    /// fully busy cores a larger value slows checkpoints. With 10, a checkpointer beside twenty busy threads on two
    /// cores gets 1 % of a core, and a checkpoint may take minutes. During this time the log and the versions for a
    /// picture grow ([`Tuning::displaced_bytes_max`]). Recovery takes longer, and an archive gets its files later.
    /// [`CheckpointStats::niceness_refused`](ensile_durability::CheckpointStats::niceness_refused) reports a refusal by
    /// the system.
    pub checkpoint_niceness: u8,
    /// Bytes after which a checkpointer syncs its writes; 32 MiB by default.
    pub checkpoint_sync_bytes: u64,
    /// Strategy of checkpoints: [`Strategy::Fuzzy`], [`Strategy::Cycling`] or [`Strategy::Pictures`]. `None`, the
    /// default, means fuzzy with a log. [Without a log](crate::Builder::without_log) the default is pictures, and other
    /// strategies are refused. The strategy may change from open to open. A database in memory makes no checkpoints.
    pub checkpoint_strategy: Option<Strategy>,
    /// Number of ranges of about equal bytes for [`Strategy::Cycling`], 1 to 1024, 16 by default. More ranges keep the
    /// log shorter: the replay covers (n + 1) / n of the bytes written during a round of n turns. Each turn waits for
    /// two epochs and some syncs, and has its own files. The number may change from open to open.
    pub checkpoint_ranges: usize,
    /// Approximate size of a picture's page, in bytes of rows; 4 KiB to 1 MiB, 64 KiB by default. With smaller pages
    /// displaced rows wait for a shorter time, and a commit searches among more pages.
    pub checkpoint_page_bytes: usize,
    /// True for semi-fuzzy consistent checkpoints (SIREN §3.3), the default. Displaced versions are written at once, in
    /// their own blocks, and freed. With false, a displaced version stays in memory until its page is written, and a
    /// checkpoint has each row once.
    pub semi_fuzzy: bool,
    /// Memory limit of the versions that commits displace during a consistent checkpoint, in bytes; at least 1 MiB, 4
    /// GiB by default. [`Stats::displaced_bytes`](crate::stats::Stats::displaced_bytes) shows the current size. A
    /// checkpoint that cannot keep up gives way: the attempt fails with a report, and its versions are freed. No commit
    /// waits for the checkpoint, and no commit fails. The next attempt begins as after any failed attempt.
    ///
    /// A row counts once, at its first change after the checkpoint's freeze. A row counts with its key, its value and
    /// 32 bytes, in a block of the next size: 352 bytes for a row of 300. The checkpoint's own buffers do not count,
    /// nor do copies made by a transaction before its commit. The limit is checked at the end of epochs and between
    /// pages, so commits may exceed the limit between two checks.
    pub displaced_bytes_max: u64,
    /// Number of threads that load a checkpoint and replay the log at open, at least 1; the number of cores by default.
    /// The threads also rebuild indexes when a table is opened.
    pub recovery_threads: usize,
    /// Time between snapshot boundaries (Silo §4.9); 250 ms by default. A snapshot is older than the last epoch by at
    /// most about this time, and by a quarter more if the heartbeat is late or has longer ticks. A longer interval
    /// keeps old versions for longer. A shorter interval copies frequently changed rows more often.
    pub snapshot_interval: Duration,
    /// Bytes of memory to map and to touch at open, so that no request meets a page fault; 0 by default.
    pub prefault_bytes: usize,
    /// True if a thread stays on a core from its first commit, for warm caches. The threads take turns with the cores
    /// of the opening thread. False by default, because the threads belong to the application.
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
            // The paper has a second (§4.9). A quarter of a second keeps fewer versions, and readers find these
            // versions in the caches. Writers have no measurable extra cost.
            snapshot_interval: Duration::from_millis(250),
            prefault_bytes: 0,
            pin_workers: false,
        }
    }
}

impl Builder {
    /// The configuration of the log.
    pub(super) fn log_config(&self, opening: Opening) -> LogConfig {
        let checkpoints = self.checkpoint_config();
        let folders = self.log_folders.as_ref();
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

    fn loggers(&self) -> usize {
        let folders = self.log_folders.as_ref().map(Vec::len);
        if self.is_without_log { 0 } else { self.tuning.loggers.or(folders).unwrap_or(1) }
    }

    /// Strategy of checkpoints.
    pub(super) fn strategy(&self) -> Strategy {
        let usual = if self.is_without_log { Strategy::Pictures } else { Strategy::Fuzzy };
        self.tuning.checkpoint_strategy.unwrap_or(usual)
    }

    /// Refuses settings that contradict the presence or the absence of a log, such as an archive in memory or no
    /// logger.
    pub(super) fn check_log_settings(&self) -> Result<()> {
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
        self.schedule.clone().apply_to(config)
    }
}
