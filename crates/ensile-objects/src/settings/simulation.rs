//! Parts that a test drives itself: the disk, the clock, and the steps of the threads.
//!
//! Neighbours: `crate::runtime` takes the steps.

use std::sync::Arc;

use ensile_base::clock::Clock;
use ensile_disk::Disk;
use ensile_durability::{CheckpointStep, LoggerStep, ShipStep};

use super::builder::ObjectsBuilder;
use crate::application::ApplicationLog;
use crate::collection::Objects;
use crate::collection::persistent::{ObjectKey, Persistent};

impl ObjectsBuilder {
    /// Sets another disk than the machine's.
    #[must_use]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.settings.disk = Some(disk);
        self
    }

    /// Sets another clock than the machine's.
    #[must_use]
    pub fn manual_clock(mut self, clock: Clock) -> Self {
        self.settings.clock = clock;
        self
    }
}

/// Steps of an application opened [`without_threads`](ObjectsBuilder::without_threads).
impl ApplicationLog {
    /// One tick of the heartbeat.
    pub fn heartbeat_step(&self) {
        self.runtime.heartbeat_step();
    }

    /// One step of a logger.
    pub fn logger_step(&self, logger: usize) -> LoggerStep {
        self.runtime.logger_step(logger)
    }

    /// One step of a checkpointer.
    pub fn checkpoint_step(&self, checkpointer: usize) -> CheckpointStep {
        self.runtime.checkpoint_step(checkpointer)
    }

    /// One step of the shipper; `None` without a shipper.
    pub fn ship_step(&self) -> Option<ShipStep> {
        self.runtime.shipping.as_ref().map(|shipping| shipping.step())
    }
}

/// Steps of objects opened [`without_threads`](ObjectsBuilder::without_threads).
impl<K: ObjectKey, T: Persistent> Objects<K, T> {
    /// One tick of the heartbeat.
    pub fn heartbeat_step(&self) {
        self.runtime.heartbeat_step();
    }

    /// One step of a logger.
    pub fn logger_step(&self, logger: usize) -> LoggerStep {
        self.runtime.logger_step(logger)
    }

    /// One step of a checkpointer.
    pub fn checkpoint_step(&self, checkpointer: usize) -> CheckpointStep {
        self.runtime.checkpoint_step(checkpointer)
    }

    /// One step of the shipper; `None` without a shipper.
    pub fn ship_step(&self) -> Option<ShipStep> {
        self.runtime.shipping.as_ref().map(|shipping| shipping.step())
    }
}
