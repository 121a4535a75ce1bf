//! A life of a collection on a simulated disk, whose steps a test drives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_objects::{
    CheckpointPolicy, CheckpointReport, ObjectDurability, ObjectKey, Objects, ObjectsBuilder,
    ObjectsResult as Result, Persistent,
};
use ensile_sim::SimDisk;

use crate::tally::Tally;

pub(crate) type Tallies = Objects<u64, Tally>;
pub(crate) type Rows = BTreeMap<u64, Tally>;

pub(crate) const CHECKPOINTERS: usize = 2;

/// Settings of a life without threads.
pub(crate) fn builder(disk: &SimDisk, loggers: usize) -> ObjectsBuilder {
    ObjectsBuilder::new("/")
        .disk(Arc::new(disk.mounted()))
        .loggers(loggers)
        .checkpointers(CHECKPOINTERS)
        .policy(&CheckpointPolicy::on_demand())
        .durability(ObjectDurability::Relaxed)
        .log_file_bytes(16 << 10)
        .without_threads()
}

/// Drives a checkpoint of objects without threads, on the machine's clock, until it is installed.
pub(crate) fn checkpoint<K: ObjectKey, T: Persistent>(objects: &Objects<K, T>) {
    let asked = objects.checkpoint();
    while asked.outcome().is_none() {
        objects.heartbeat_step();
        objects.logger_step(0);
        (0..CHECKPOINTERS).for_each(|checkpointer| {
            objects.checkpoint_step(checkpointer);
        });
    }
    asked.wait().expect("is installed");
}

/// A life without threads.
#[derive(Clone)]
pub(crate) struct Life {
    pub(crate) objects: Tallies,
    pub(crate) clock: Clock,
    pub(crate) loggers: usize,
}

impl Life {
    pub(crate) fn try_open(disk: &SimDisk, loggers: usize) -> Result<Self> {
        Self::try_open_at(ObjectDurability::Relaxed, disk, loggers)
    }

    pub(crate) fn try_open_at(level: ObjectDurability, disk: &SimDisk, loggers: usize) -> Result<Self> {
        let clock = Clock::manual();
        let objects = builder(disk, loggers).durability(level).manual_clock(clock.clone()).open()?;
        Ok(Self { objects, clock, loggers })
    }

    pub(crate) fn open(disk: &SimDisk) -> Self {
        Self::try_open(disk, 1).expect("opens")
    }

    pub(crate) fn tick(&self) {
        self.clock.advance(Duration::from_millis(1));
        self.objects.heartbeat_step();
    }

    pub(crate) fn step_loggers(&self) {
        (0..self.loggers).for_each(|logger| {
            self.objects.logger_step(logger);
        });
    }

    pub(crate) fn step_checkpointers(&self) {
        (0..CHECKPOINTERS).for_each(|checkpointer| {
            self.objects.checkpoint_step(checkpointer);
        });
    }

    /// Closes the epoch and makes it durable.
    pub(crate) fn settle(&self) {
        for _ in 0..2 {
            self.tick();
            self.step_loggers();
            self.step_loggers();
        }
    }

    pub(crate) fn durable(&self) -> Epoch {
        self.objects.stats().durable_epoch
    }

    /// Takes a checkpoint from its beginning to its end.
    pub(crate) fn checkpoint(&self) -> Result<CheckpointReport> {
        let asked = self.objects.checkpoint();
        for _ in 0..10_000 {
            if let Some(outcome) = asked.outcome() {
                return outcome;
            }
            self.step_checkpointers();
            self.settle();
        }
        panic!("a checkpoint does not end");
    }

    pub(crate) fn rows(&self) -> Rows {
        let mut rows = Rows::new();
        let put = |key: &u64, tally: &Tally| drop(rows.insert(*key, tally.clone()));
        self.objects.for_each(put).expect("is this process");
        rows
    }
}
