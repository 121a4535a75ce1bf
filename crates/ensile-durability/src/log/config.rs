//! Configuration of a log: the application's settings, and their checks.
//!
//! Neighbours: the builders of databases and objects fill the configuration; recovery and the loggers read the
//! configuration.

use std::path::PathBuf;
use std::time::Duration;

use ensile_base::limits::LOG_BUFFER_BYTES;
use ensile_disk::{BootId, Disk};

use crate::DurabilityError;
use crate::files::block::origin::OPENING_BYTES;
use crate::files::manifest::types::StatedTypes;
use crate::number::LOGGERS_MAX;
use crate::store::folders::check_links;
use crate::store::{Archiving, Naming, Opening, ShippingOpen};

/// Smallest size of a log file before the next file begins, in bytes: a few blocks.
const SEGMENT_BYTES_MIN: u64 = 4096;
const _: () = assert!(SEGMENT_BYTES_MIN >= 4 * OPENING_BYTES as u64, "a file holds further blocks");

/// Configuration of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Number of loggers that write in parallel, each to its own files; workers are distributed among the loggers. 0:
    /// nothing is logged, and installed pictures make epochs durable.
    pub loggers: usize,
    /// Folders for the loggers' files, one each, in this order; empty for plain folders in the database's own folder.
    /// The first open with these folders makes links, and the file system remembers the links from then on.
    pub folders: Vec<PathBuf>,
    /// Requirement that the folder has a database, or has none.
    pub opening: Opening,
    /// Expected owner of the folder, by name (I5).
    pub naming: Naming,
    /// Types of the entries that the program writes (I6).
    pub types: StatedTypes,
    /// Archive to which closed files are copied before their removal.
    pub archiving: Archiving,
    /// Expected shared store of the folder.
    pub shipping: ShippingOpen,
    /// Number of the database's checkpointers, with folders as in [`crate::CheckpointConfig`]: the folders are checked
    /// before any change. 0 if the number is not known yet.
    pub checkpointers: usize,
    /// See `checkpointers`.
    pub checkpoint_folders: Vec<PathBuf>,
    /// Size of a file at which a log begins a new file, in bytes.
    pub segment_bytes: u64,
    /// Age of a file at which a log begins a new file, if the file has entries.
    pub segment_interval: Duration,
    /// Largest memory of all log buffers together, in bytes: buffers in use by workers, waiting for the write, and
    /// free. A worker that needs more waits in [`Appender::reserve`](super::Appender::reserve). Each worker may have
    /// one buffer in any case. Each logger may have one extra buffer for an entry larger than a buffer.
    pub buffer_bytes_max: usize,
    /// True for process-safe durability: the operating system has an entry before its append returns. The entry
    /// survives the death of the process, as long as the system lives (docs/internals/protocols/process.md). Each
    /// buffer then has a mapped file in its log's folder.
    pub process_safe: bool,
    /// Usual time between two epochs. The epochs reserved at open last for a day at this rate (L6).
    pub epoch_interval: Duration,
    /// Time for which a result waits for space on a full disk before its waiter gets
    /// [`DurabilityError::NotDurableYet`].
    pub full_wait: Duration,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            loggers: 1,
            folders: Vec::new(),
            opening: Opening::default(),
            naming: Naming::default(),
            types: StatedTypes::default(),
            archiving: Archiving::default(),
            shipping: ShippingOpen::default(),
            checkpointers: 0,
            checkpoint_folders: Vec::new(),
            segment_bytes: 64 << 20,
            segment_interval: Duration::from_secs(4),
            buffer_bytes_max: 64 << 20,
            process_safe: false,
            epoch_interval: Duration::from_millis(40),
            full_wait: Duration::from_secs(30),
        }
    }
}

impl LogConfig {
    /// Checks the configuration. A recovery checks too; a caller that makes the folder calls this function first.
    ///
    /// # Errors
    /// [`DurabilityError::Config`], with the necessary change.
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
        // Error texts use the setting names of the database's builder.
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

    /// The boot of the operating system in which a process-safe life begins (B4); `None` for any other life. A boot
    /// that cannot be read is an error of the configuration.
    pub(crate) fn boot(&self, disk: &dyn Disk) -> Result<Option<BootId>, DurabilityError> {
        if !self.process_safe {
            return Ok(None);
        }
        let why = "this system does not tell its boot, so nothing can be process-safe: choose strict or relaxed durability";
        disk.boot().map(Some).ok_or_else(|| DurabilityError::config(why))
    }
}
