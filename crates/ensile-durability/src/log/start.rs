//! A log begins with what a recovery hands over.
//!
//! Invariant: L4, L6: E begins above D of the life before, and below the end of the reserved epochs.
//!
//! Neighbours: made from a finished recovery; `super` has the log.

use std::sync::Arc as StdArc;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_base::sync::{Arc, AtomicBool, AtomicUsize, Mutex};
use ensile_disk::Disk;
use ensile_epoch::Epochs;

use super::Log;
use super::config::LogConfig;
use super::logger::Logger;
use super::marks::{Frontier, MarkTable};
use super::refusing::Refusal;
use super::segments::{ClosedFile, Segments};
use super::stats::LogCounters;
use super::waiters::Waiters;
use crate::DurabilityError;
use crate::store::Locks;
use crate::store::hint::HintWriter;
use crate::store::leases::Leases;
use crate::store::manifest::ManifestKeeper;
use crate::store::reserve::Reserve;
use crate::store::reserved_epochs::ReservedEpochs;

/// What a log starts from: the files of the generation that a recovery has begun, and all that guards them.
#[derive(Debug)]
pub struct LogStart {
    /// E begins here.
    pub(crate) first_epoch: Epoch,
    pub(crate) config: LogConfig,
    pub(crate) disk: StdArc<dyn Disk>,
    /// One for each logger.
    pub(crate) segments: Vec<Segments>,
    pub(crate) keeper: ManifestKeeper,
    pub(crate) hint: HintWriter,
    /// Files that closed generations keep.
    pub(crate) older: Vec<ClosedFile>,
    pub(crate) locks: Locks,
    pub(crate) reserve: Reserve,
    /// Bytes of log that the recovery replayed, and that the next one would replay again.
    pub(crate) replayed_bytes: u64,
}

impl Log {
    /// Starts the log of the generation that recovery has begun. `epochs` must have been made with
    /// `first = recovered.report.first_epoch` (L4).
    pub fn start(
        recovered: impl Into<LogStart>,
        epochs: Arc<Epochs>,
        clock: Clock,
    ) -> Result<StdArc<Self>, DurabilityError> {
        let recovered = recovered.into();
        let durable = recovered.first_epoch.previous();
        if epochs.now() <= durable {
            return Err(DurabilityError::config(
                "epochs must begin at the first epoch of the recovery's report (L4)",
            ));
        }
        let loggers: Box<[Logger]> = recovered
            .segments
            .into_iter()
            .enumerate()
            .map(|(index, segments)| Logger::new(index, segments.started(clock.nanos())))
            .collect();
        assert_eq!(loggers.len(), recovered.config.loggers, "a file for each logger");
        let reserved = recovered.keeper.manifest().reserved;
        assert!(durable < reserved, "E begins within what is reserved (L6)");
        let interval = recovered.config.epoch_interval;
        let reserved_epochs = ReservedEpochs::new(reserved, interval, clock.nanos(), epochs.now());
        epochs.set_limit(reserved_epochs.limit());
        Ok(StdArc::new(Self {
            epochs,
            clock,
            marks: MarkTable::new(loggers.len(), durable),
            loggers,
            waiters: Waiters::new(Frontier::Synced, durable),
            counters: LogCounters::default(),
            buffer_bytes_max: recovered.config.buffer_bytes_max / recovered.config.loggers,
            full_wait_nanos: u64::try_from(recovered.config.full_wait.as_nanos()).unwrap_or(u64::MAX),
            next_logger: AtomicUsize::new(0),
            refuses: AtomicBool::new(false),
            refusal: Mutex::new(Refusal::default()),
            process: recovered.disk.process(),
            disk: recovered.disk,
            older: Mutex::new(recovered.older.into()),
            removing: Mutex::new(()),
            leases: Leases::default(),
            hint: Mutex::new(recovered.hint),
            reserved_epochs: Mutex::new(reserved_epochs),
            manifest: Mutex::new(recovered.keeper),
            replayed_bytes: recovered.replayed_bytes,
            locks: Mutex::new(Some(recovered.locks)),
            reserve: recovered.reserve,
        }))
    }
}
