//! A log begins with what a recovery hands over.
//!
//! Invariant: L4, L6: E begins above D of the life before, and below the end of the reserved epochs.
//!
//! Neighbours: made from a finished recovery; `super` has the log.

use std::sync::Arc as StdArc;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_base::sync::{Arc, AtomicBool, AtomicUsize, Mutex};
use ensile_epoch::Epochs;

use super::Log;
use super::config::LogConfig;
use super::logger::Logger;
use super::marks::{Frontier, MarkTable};
use super::refusing::Refusal;
use super::segments::Segments;
use super::stats::LogCounters;
use super::waiters::Waiters;
use crate::DurabilityError;
use crate::store::handle::{OpenStore, StoreStart};

/// What a log starts from: the files of the generation that a recovery has begun, and the store with all that guards
/// them.
#[derive(Debug)]
pub struct LogStart {
    /// E begins here.
    pub(crate) first_epoch: Epoch,
    pub(crate) config: LogConfig,
    /// One for each logger.
    pub(crate) segments: Vec<Segments>,
    pub(crate) store: StoreStart,
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
        let interval = recovered.config.epoch_interval;
        let store = OpenStore::start(recovered.store, interval, &epochs, clock.nanos());
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
            store,
            replayed_bytes: recovered.replayed_bytes,
        }))
    }
}
