//! When and how checkpoints are made: what an application sets, and what is refused.
//!
//! Neighbours: read by `manager`, `life` and `files::write`; filled in by the database's builder.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ensile_base::limits::{NICENESS_MAX, VALUE_BYTES_MAX};

use super::block::{BLOCK_BYTES_MAX, LARGE_BYTES_MAX};
use crate::DurabilityError;
use crate::block::HEADER_BYTES;
use crate::control::adaptive::AdaptiveThreshold;
use crate::control::trigger::{Policy, Trigger};
use crate::number::{CHECKPOINTERS_MAX, FILES_MAX, RANGES_MAX};
use crate::store::folders::check_links;

/// Memory that all checkpointers of a database take together while a checkpoint runs, at most: a block each,
/// and one large block, whose value the recoverable may hold in twice its size.
const MEMORY_BYTES_MAX: usize = 64 << 20;
const _: () = {
    let usual = CHECKPOINTERS_MAX as usize * (HEADER_BYTES + BLOCK_BYTES_MAX);
    assert!(usual + LARGE_BYTES_MAX + 2 * VALUE_BYTES_MAX <= MEMORY_BYTES_MAX - (4 << 20));
};

/// Once this much of a file was written, the medium is asked to begin with it. Or the next sync would find all of it,
/// and the log's syncs would wait behind that one.
pub(super) const GIVEN_AT_ONCE: u64 = 1 << 20;
/// The same while a commit waits for a sync of the log. A sync waits behind all that the medium was given at once; but
/// each end of a write interrupts a core, with a commit or two on it, so where none waits it is more
/// (docs/results/siren.md, "How much is written at once").
pub(super) const GIVEN_WHILE_AWAITED: u64 = 256 << 10;

/// How long a page may be set to be. Under shuttle a row may fill one.
const PAGE_BYTES: RangeInclusive<usize> = if cfg!(shuttle) { 1 } else { 4 << 10 }..=1 << 20;

/// What a checkpoint shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The state together with the log of the epochs in which it was written (SiloR §4): a *fuzzy* checkpoint. It asks
    /// nothing of commits.
    #[default]
    Fuzzy,
    /// The same, by ranges of keys (SiloR §8): the checkpoint goes round, and a turn takes one range. Each turn cuts
    /// the log. So a recovery replays less log than behind whole checkpoints that write as many bytes a second.
    Cycling,
    /// The state at the end of one epoch (SIREN §3.1): a *picture*. While one is taken, a commit that changes a row for
    /// the first time copies the version that it displaces.
    Pictures,
}

/// When and how checkpoints are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// What a checkpoint shows. It may change from one open to the next.
    pub strategy: Strategy,
    /// How many ranges a cycling checkpoint has, at most: 1 to 1024. It may change from one open to the next.
    pub ranges: usize,
    /// About how many bytes of rows a picture takes at a time: 4 KiB to 1 MiB.
    pub page_bytes: usize,
    /// How many checkpointers walk and write in parallel, each in a folder of its own.
    pub checkpointers: usize,
    /// Folders for the checkpointers' files, one each, in this order; none: plain folders in the database's own. They
    /// are made links at the first open with them, and remembered by the file system from then on.
    pub folders: Vec<PathBuf>,
    /// Into how many files each writes, so that recovery can load them in parallel.
    pub files: usize,
    /// Time after the last one ended, put off while the log hardly grows; `None`: not by time. A cycling checkpoint of
    /// n ranges begins a turn after an n-th of it.
    pub interval: Option<Duration>,
    /// Begin a checkpoint once this many bytes of log were written since the last one began, or, without a log,
    /// changed; `None`: not by bytes. A cycling checkpoint of n ranges begins a turn after an n-th of it.
    pub log_bytes: Option<u64>,
    /// Begin a checkpoint once this many entries were written since the last one began, or since the open; `None`: not
    /// by entries. A cycling checkpoint of n ranges begins a turn after an n-th of it. Without a log there are none.
    pub log_records: Option<u64>,
    /// As by bytes, by entries or by time, with a number that follows the load (SLACH §4); `None`: not so.
    pub adaptive: Option<AdaptiveThreshold>,
    /// Begin a checkpoint in time for no recovery to take longer than this, as far as that is known; `None`: not so.
    pub recovery_time: Option<Duration>,
    /// How many threads the next recovery will have: the prediction counts with them. 0: as many as the last one.
    pub recovery_threads: usize,
    /// Most bytes a second that all checkpointers write together, not 0; `None`: as fast as they can.
    pub bandwidth: Option<u64>,
    /// By how much the checkpointers' threads give way to others, 0 to 19: it is added to the niceness of the thread
    /// that opens.
    pub niceness: u8,
    /// Bytes after which each checkpointer syncs what it wrote.
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
    /// Checkpoints only on demand.
    #[must_use]
    pub fn on_demand() -> Self {
        Self { interval: None, log_bytes: None, recovery_time: None, ..Self::default() }
    }

    /// Checks that it can work. An open asks before it recovers, so that no caller waits for a recovery in vain.
    ///
    /// # Errors
    /// [`DurabilityError::Config`] says what cannot.
    pub fn check(&self) -> Result<(), DurabilityError> {
        if self.checkpointers == 0 || self.checkpointers > CHECKPOINTERS_MAX as usize {
            let why = format!("checkpoints need between 1 and {CHECKPOINTERS_MAX} checkpointers");
            return Err(DurabilityError::config(why));
        }
        check_links(&self.folders, self.checkpointers, "checkpoint", "checkpointer")?;
        if self.files == 0 || self.files > FILES_MAX as usize {
            let why = format!("a checkpointer needs between 1 and {FILES_MAX} files");
            return Err(DurabilityError::config(why));
        }
        if self.ranges == 0 || self.ranges > RANGES_MAX as usize {
            let why = format!("a cycling checkpoint needs between 1 and {RANGES_MAX} ranges");
            return Err(DurabilityError::config(why));
        }
        if !PAGE_BYTES.contains(&self.page_bytes) {
            let (least, most) = (PAGE_BYTES.start(), PAGE_BYTES.end());
            let why = format!("checkpoint_page_bytes is not between {least} and {most}");
            return Err(DurabilityError::config(why));
        }
        if let Some(why) = self.adaptive.as_ref().and_then(AdaptiveThreshold::problem) {
            return Err(DurabilityError::config(format!("the adaptive threshold cannot work: {why}")));
        }
        if self.bandwidth == Some(0) {
            let why = "a checkpoint_bandwidth of 0 would let no checkpoint end: leave it out for no limit";
            return Err(DurabilityError::config(why));
        }
        if self.niceness > NICENESS_MAX {
            let why = format!(
                "a checkpoint_niceness is between 0, which gives way to no thread, and {NICENESS_MAX}, which gives way \
                 to all: {} is not",
                self.niceness
            );
            return Err(DurabilityError::config(why));
        }
        Ok(())
    }

    /// What asks for a checkpoint by these settings. Without a log no recovery replays anything, so its time asks for
    /// none.
    pub(super) fn policy(&self, is_without_log: bool) -> Box<dyn Policy> {
        let Self { interval, log_bytes, log_records, adaptive, recovery_time, .. } = *self;
        let recovery_time = recovery_time.filter(|_| !is_without_log);
        Box::new(Trigger { interval, log_bytes, log_records, adaptive, recovery_time, is_without_log })
    }
}
