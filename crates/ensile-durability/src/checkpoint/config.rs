//! Settings of checkpoints: the times and the way of making checkpoints, and the check of the settings.
//!
//! Neighbours: `manager` and `state_machine` read the settings; the opens of the engine and of the objects fill them
//! in.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ensile_base::limits::{NICENESS_MAX, VALUE_BYTES_MAX};

use crate::control::adaptive::AdaptiveThreshold;
use crate::control::trigger::Trigger;
use crate::files::block::HEADER_BYTES;
use crate::files::checkpoint::block::{BLOCK_BYTES_MAX, LARGE_BYTES_MAX};
use crate::number::{CHECKPOINTERS_MAX, FILES_MAX, RANGES_MAX};
use crate::store::folders::check_links;
use crate::{DurabilityError, Result};

/// Most bytes of memory of a database's checkpointers together, while a checkpoint runs: a block for each checkpointer,
/// and one large block. The recoverable may hold the large block's value in twice its size.
const MEMORY_BYTES_MAX: usize = 64 << 20;
const _: () = {
    let usual = CHECKPOINTERS_MAX as usize * (HEADER_BYTES + BLOCK_BYTES_MAX);
    assert!(usual + LARGE_BYTES_MAX + 2 * VALUE_BYTES_MAX <= MEMORY_BYTES_MAX - (4 << 20));
};

/// Limit of a file's unwritten bytes while a commit waits for a sync of the log. At the limit, the medium is asked to
/// begin writing. Without a waiting commit, `GIVEN_AT_ONCE` is the limit. A sync waits behind the bytes that the medium
/// was given at once. The end of each write interrupts a core, with a commit or two on the core. The limit is therefore
/// larger while no commit waits (docs/results/siren.md, "How much is written at once").
pub(super) const GIVEN_WHILE_AWAITED: u64 = 256 << 10;

/// Permitted page sizes, in bytes. Under shuttle a row may fill a page.
const PAGE_BYTES: RangeInclusive<usize> = if cfg!(shuttle) { 1 } else { 4 << 10 }..=1 << 20;

/// Kind of checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The state together with the log of the epochs in which the checkpoint is written (SiloR §4): a *fuzzy*
    /// checkpoint. A fuzzy checkpoint costs commits nothing.
    #[default]
    Fuzzy,
    /// A *cycling* checkpoint (SiloR §8): a fuzzy checkpoint by ranges of keys. A turn takes the next range. Every turn
    /// cuts the log, so a recovery replays less log than after whole checkpoints that write as many bytes a second.
    Cycling,
    /// The state at the end of one epoch (SIREN §3.1): a *picture*. During a picture, a commit that changes a row for
    /// the first time copies the version that the commit displaces.
    Pictures,
}

/// Settings of checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// Kind of checkpoint. The kind may change from one open to the next.
    pub strategy: Strategy,
    /// Most ranges of a cycling checkpoint: 1 to 1024. The number may change from one open to the next.
    pub ranges: usize,
    /// Approximate bytes of rows that a picture takes at a time: 4 KiB to 1 MiB.
    pub page_bytes: usize,
    /// Number of checkpointers, which walk and write in parallel, into separate folders.
    pub checkpointers: usize,
    /// Folders for the checkpointers' files, one for each checkpointer, in this order; empty: plain folders in the
    /// database's own folder. The first open with these folders makes links, which the file system remembers.
    pub folders: Vec<PathBuf>,
    /// Number of files of a checkpointer, so that recovery can load the files in parallel.
    pub files: usize,
    /// Time from the end of the last checkpoint to the next, put off while the log hardly grows; `None`: not by time. A
    /// cycling checkpoint of n ranges begins a turn after an n-th of the interval.
    pub interval: Option<Duration>,
    /// Bytes of log since the last checkpoint's begin, at which the next begins; without a log, bytes of changes;
    /// `None`: not by bytes. A cycling checkpoint of n ranges begins a turn after an n-th of the bytes.
    pub log_bytes: Option<u64>,
    /// Number of log entries since the last checkpoint's begin or the open, at which the next begins; `None`, or
    /// without a log: not by entries. A cycling checkpoint of n ranges begins a turn after an n-th of the entries.
    pub log_records: Option<u64>,
    /// Threshold in bytes, entries or time that follows the load (SLACH §4); `None`: not adaptive.
    pub adaptive: Option<AdaptiveThreshold>,
    /// Longest recovery that checkpoints aim at, as far as recovery is predictable; `None`: no limit.
    pub recovery_time: Option<Duration>,
    /// Number of threads of the next recovery, for the prediction. 0: as many as the last recovery had.
    pub recovery_threads: usize,
    /// Most bytes a second of the checkpointers together, not 0; `None`: no limit.
    pub bandwidth: Option<u64>,
    /// Niceness that the checkpointers' threads add to the niceness of the opening thread, 0 to 19.
    pub niceness: u8,
    /// Bytes after which a checkpointer syncs the written bytes.
    pub sync_bytes: u64,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            ranges: 16,
            page_bytes: 64 << 10,
            checkpointers: 1,
            folders: Vec::new(),
            files: 1,
            interval: Some(Duration::from_secs(10)),
            log_bytes: Some(4 << 30),
            log_records: None,
            adaptive: None,
            recovery_time: None,
            recovery_threads: 0,
            bandwidth: None,
            niceness: 0,
            sync_bytes: 32 << 20,
        }
    }
}

impl CheckpointConfig {
    /// Settings with checkpoints only on demand.
    #[must_use]
    pub fn on_demand() -> Self {
        Self { interval: None, log_bytes: None, recovery_time: None, ..Self::default() }
    }

    /// Checks that the settings can work. An open checks before the recovery, so that no caller waits in vain.
    ///
    /// # Errors
    /// [`DurabilityError::Config`] names the setting that cannot work.
    pub fn check(&self) -> Result<()> {
        let check_count = |owner: &str, count: usize, most: u64, what: &str| match count {
            1.. if count as u64 <= most => Ok(()),
            _ => Err(DurabilityError::config(format!("{owner} between 1 and {most} {what}"))),
        };
        check_count("checkpoints need", self.checkpointers, CHECKPOINTERS_MAX.into(), "checkpointers")?;
        check_links(&self.folders, self.checkpointers, "checkpoint", "checkpointer")?;
        check_count("a checkpointer needs", self.files, FILES_MAX.into(), "files")?;
        check_count("a cycling checkpoint needs", self.ranges, RANGES_MAX.into(), "ranges")?;
        let problem = if !PAGE_BYTES.contains(&self.page_bytes) {
            let (least, most) = (PAGE_BYTES.start(), PAGE_BYTES.end());
            format!("checkpoint_page_bytes is not between {least} and {most}")
        } else if let Some(why) = self.adaptive.as_ref().and_then(AdaptiveThreshold::problem) {
            format!("the adaptive threshold cannot work: {why}")
        } else if self.bandwidth == Some(0) {
            "a checkpoint_bandwidth of 0 would let no checkpoint end: leave it out for no limit".to_owned()
        } else if self.niceness > NICENESS_MAX {
            format!(
                "a checkpoint_niceness is between 0, which gives way to no thread, and {NICENESS_MAX}, which gives way \
                 to all: {} is not",
                self.niceness
            )
        } else {
            return Ok(());
        };
        Err(DurabilityError::config(problem))
    }

    /// The policy that begins checkpoints by these settings. Without a log no recovery replays anything.
    pub(super) fn policy(&self, is_without_log: bool) -> Trigger {
        let Self { interval, log_bytes, log_records, adaptive, recovery_time, .. } = *self;
        let recovery_time = recovery_time.filter(|_| !is_without_log);
        Trigger { interval, log_bytes, log_records, adaptive, recovery_time, is_without_log }
    }
}
