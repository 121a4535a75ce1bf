//! How a log is laid out: what an application sets, and what is refused.
//!
//! Neighbours: read by recovery and the loggers; filled in by the database's builder.

use std::path::PathBuf;
use std::time::Duration;

use ensile_base::limits::LOG_BUFFER_BYTES;
use ensile_disk::{BootId, Disk};

use crate::DurabilityError;
use crate::block::origin::OPENING_BYTES;
use crate::number::LOGGERS_MAX;
use crate::store::folders::check_links;
use crate::store::{Archiving, Naming, Opening, ShippingOpen};

/// The shortest log file before the next is begun: a few blocks.
const SEGMENT_BYTES_MIN: u64 = 4096;
const _: () =
    assert!(SEGMENT_BYTES_MIN >= 4 * OPENING_BYTES as u64, "a file holds more than its opening block");

/// How the log is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// How many loggers write in parallel, each its own files; workers are dealt out among them. 0: nothing is logged,
    /// and the pictures that are installed make epochs durable.
    pub loggers: usize,
    /// Folders for the loggers' files, one each, in this order; none: plain folders in the database's own. They are
    /// made links at the first open with them, and remembered by the file system from then on.
    pub folders: Vec<PathBuf>,
    /// Whether there must be a database, or must be none.
    pub opening: Opening,
    /// Whose folder it must be, by its name (I5).
    pub naming: Naming,
    /// Where closed files are copied before they are removed.
    pub archiving: Archiving,
    /// Expected shared store of the folder.
    pub shipping: ShippingOpen,
    /// How many checkpointers the database is going to have, and their folders as in [`crate::CheckpointConfig`]: so
    /// they are checked before anything is changed. 0 if that is not known yet.
    pub checkpointers: usize,
    /// See `checkpointers`.
    pub checkpoint_folders: Vec<PathBuf>,
    /// A log begins a new file once its current one is this long.
    pub segment_bytes: u64,
    /// A log begins a new file once its current one is this old, if anything was written to it.
    pub segment_interval: Duration,
    /// Bytes that all log buffers together may take: those that workers fill, that wait to be written, and free ones.
    /// A worker that needs one beyond this waits in [`Appender::reserve`](super::Appender::reserve). Each worker may
    /// have one in any case, and one entry that is larger than a buffer gets one of its own for each logger.
    pub buffer_bytes_max: usize,
    /// An entry is the operating system's before its append returns: it survives the death of the process, as long as
    /// the system lives (docs/protocols/process.md). Each buffer then has a mapped file in its log's folder.
    pub process_safe: bool,
    /// The usual time between two epochs. The epochs that are reserved at open last for a day at this rate (L6).
    pub epoch_interval: Duration,
    /// Recovery takes the newest parts of the log while the state keeps fewer bytes for older ones, to measure what
    /// the order is worth: 0 is oldest first, [`u64::MAX`] SiloR's order (§5.2).
    #[cfg(feature = "experiments")]
    pub replay_waiting_bytes_max: u64,
    /// How long a result waits for space on a full disk before its waiter gets [`DurabilityError::NotDurableYet`].
    pub full_wait: Duration,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            loggers: 1,
            folders: Vec::new(),
            opening: Opening::default(),
            naming: Naming::default(),
            archiving: Archiving::default(),
            shipping: ShippingOpen::default(),
            checkpointers: 0,
            checkpoint_folders: Vec::new(),
            segment_bytes: 64 << 20,
            segment_interval: Duration::from_secs(4),
            buffer_bytes_max: 64 << 20,
            process_safe: false,
            epoch_interval: Duration::from_millis(40),
            #[cfg(feature = "experiments")]
            replay_waiting_bytes_max: ensile_base::limits::REPLAY_WAITING_BYTES_MAX,
            full_wait: Duration::from_secs(30),
        }
    }
}

impl LogConfig {
    /// Can a log be laid out so? A recovery asks this too; a caller that makes the folder asks before it does.
    ///
    /// # Errors
    /// [`DurabilityError::Config`], with what is to be changed.
    pub fn check(&self) -> Result<(), DurabilityError> {
        if self.loggers > LOGGERS_MAX as usize {
            let why = format!("a log needs between 1 and {LOGGERS_MAX} loggers");
            return Err(DurabilityError::config(why));
        }
        if self.loggers == 0 && matches!(self.archiving, Archiving::To(_)) {
            return Err(DurabilityError::config("without a log there is nothing to archive"));
        }
        if self.loggers == 0 && self.process_safe {
            return Err(DurabilityError::config("without a log nothing is process-safe: give it a log"));
        }
        check_links(&self.folders, self.loggers, "log", "logger")?;
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

    /// The boot that a process-safe life begins in (B4); `None` of another life.
    ///
    /// # Errors
    /// [`DurabilityError::Config`] if it cannot be read.
    pub(crate) fn boot(&self, disk: &dyn Disk) -> Result<Option<BootId>, DurabilityError> {
        if !self.process_safe {
            return Ok(None);
        }
        let why = "this system does not tell its boot, so nothing can be process-safe: choose strict or relaxed durability";
        disk.boot().map(Some).ok_or_else(|| DurabilityError::config(why))
    }
}
