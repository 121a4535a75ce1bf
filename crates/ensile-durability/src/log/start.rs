//! Start of a log from the result of a recovery.
//!
//! Neighbours: `recovery::install_generation` makes the start state; the store is started first; `open_log` has the
//! log.

use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex};
use ensile_disk::{Disk, DiskError};

use super::config::LogConfig;
use super::logger::Logger;
use super::marks::MarkTable;
use super::open_log::Log;
use super::refusal::Refusal;
use super::segments::Segments;
use super::stats::LogCounters;
use super::waiters::Waiters;
use crate::buffers::{Buffer, BufferQueue, MappedFiles as _};
use crate::store::mapped_buffers::{BufferFiles, BufferOwner};
use crate::store::open_store::OpenStore;
use crate::wake_up::WakeUp;

/// Start state of a log: the files of the generation that a recovery has begun.
#[derive(Debug)]
pub struct LogStart {
    /// First epoch E of the log.
    pub(crate) first_epoch: Epoch,
    pub(crate) config: LogConfig,
    /// Files of the loggers, one each.
    pub(crate) segments: Vec<Segments>,
    /// Buffer files of the loggers; empty unless the log is process-safe.
    pub(crate) mapped: Vec<MappedStart>,
}

/// Start state of the buffers of one log in a process-safe life.
#[derive(Debug)]
pub(crate) struct MappedStart {
    files: BufferFiles,
    /// First buffer; its file marks the life as process-safe before an append (B4).
    first: Box<Buffer>,
}

impl MappedStart {
    /// Makes the buffer list and the first buffer file of a log without such files.
    pub(crate) fn make(
        disk: &StdArc<dyn Disk>,
        owner: BufferOwner,
        epoch_interval: Duration,
    ) -> Result<Self, DiskError> {
        let files = BufferFiles::make(StdArc::clone(disk), owner, epoch_interval)?;
        let number = files.take_number().expect("it has none");
        let first = Buffer::usual().with_mapped(&files, number)?;
        assert_eq!(first.mapped_number(), Some(0), "it is the first");
        Ok(Self { files, first })
    }

    fn into_queue(self) -> BufferQueue {
        BufferQueue::with_mapped_files(Box::new(self.files), self.first)
    }
}

impl Log {
    /// Starts the log of the generation that recovery has begun, in the store of the same recovery.
    #[must_use]
    pub fn start(recovered: LogStart, store: &StdArc<OpenStore>) -> StdArc<Self> {
        let LogStart { first_epoch, config, segments, mapped } = recovered;
        let mapped_logs = if config.process_safe { config.loggers } else { 0 };
        assert_eq!(mapped.len(), mapped_logs, "B4: each log has its first buffer");
        let mut mapped = mapped.into_iter();
        let mut queue = || mapped.next().map_or_else(BufferQueue::new, MappedStart::into_queue);
        let (clock, durable) = (store.clock().clone(), first_epoch.previous());
        assert!(store.epochs().now() > durable, "L4: E begins above D of the life before");
        let loggers: Box<[Logger]> = segments
            .into_iter()
            .enumerate()
            .map(|(index, segments)| Logger::new(index, segments.with_start_time(clock.nanos()), queue()))
            .collect();
        assert_eq!(loggers.len(), config.loggers, "a file for each logger");
        StdArc::new(Self {
            epochs: Arc::clone(store.epochs()),
            clock,
            // A log without loggers has one row for its pictures.
            marks: MarkTable::new(loggers.len().max(1), durable),
            loggers,
            waiters: Waiters::new(durable),
            counters: LogCounters::default(),
            buffer_bytes_max: config.buffer_bytes_max / config.loggers.max(1),
            full_wait_nanos: u64::try_from(config.full_wait.as_nanos()).unwrap_or(u64::MAX),
            next_logger: AtomicUsize::new(0),
            refuses: AtomicBool::new(false),
            refusal: Mutex::new(Refusal::default()),
            picture_wanted: StdArc::new(WakeUp::new()),
            archive_not_before: AtomicU64::new(0),
            store: StdArc::clone(store),
        })
    }
}
