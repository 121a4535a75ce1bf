//! Test control over a database: the disk, the clock, and the steps of the database's threads.
//!
//! In builds with the feature `simulation` only: the types belong to crates that applications do not have.
//!
//! Neighbours: `builder` opens; `threads` takes the same steps on its own threads.

use std::sync::Arc as StdArc;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_disk::Disk;
use ensile_durability::{CheckpointStep, LoggerStep, Pages, Walk, WantedPages};

use crate::database::Database;
use crate::open::builder::Builder;
use crate::open::threads::{boundary_step, heartbeat_tick};

impl Builder {
    /// Replaces the machine's disk.
    pub fn disk(mut self, disk: StdArc<dyn Disk>) -> Self {
        self.disk = Some(disk);
        self
    }

    /// Replaces the machine's clock.
    pub fn manual_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Starts no threads: the caller drives [`Database::heartbeat_step`] and [`Database::logger_step`]. A wait for a
    /// strict result on the driving thread may last for ever.
    pub fn without_threads(mut self) -> Self {
        self.own_threads = false;
        self
    }

    /// Opens the database for pictures. The caller takes the pictures by [`Database::pages`].
    pub fn pictures(mut self) -> Self {
        self.settings.pictures = true;
        self
    }
}

/// Steps of a database opened [`without_threads`](Builder::without_threads).
impl Database {
    /// Runs a tick of the heartbeat.
    pub fn heartbeat_step(&self) {
        if self.shared().life.is_own_process() {
            heartbeat_tick(self.shared(), &mut drop);
        }
    }

    /// Runs the heartbeat's step between two ticks, if the last tick began a snapshot boundary.
    pub fn boundary_step(&self) {
        if self.shared().life.is_own_process() && self.shared().epochs.has_boundary_ahead() {
            let _ = boundary_step(self.shared());
        }
    }

    /// Runs a step of a checkpointer. `None` without a folder.
    pub fn checkpoint_step(&self, checkpointer: usize) -> Option<CheckpointStep> {
        let shared = self.shared();
        shared.storage.checkpoints.as_ref().map(|checkpoints| checkpoints.step(checkpointer, shared))
    }

    /// The database's side of a picture. `None` if the database was not opened for [`pictures`](Builder::pictures).
    pub fn pages(&self) -> Option<&dyn Pages> {
        self.shared().pages()
    }

    /// Announces the freeze of the current picture. `None` if E is not yet above the newest freeze.
    pub fn announce_freeze(&self) -> Option<Epoch> {
        self.shared().epochs.announce_freeze()
    }

    /// Runs a picture of all pages without any writes: each key's next change is then its first change since a freeze.
    /// `wait` returns after some time. The database was opened for [`pictures`](Builder::pictures), and no other caller
    /// takes pictures.
    pub fn pass_a_picture(&self, page_bytes: usize, mut wait: impl FnMut()) {
        let Some(pages) = self.pages() else { return };
        let mut reach = |epoch| {
            while self.epoch() < epoch {
                wait();
            }
        };
        let published = pages.publish_pages(page_bytes, WantedPages::All);
        reach(published.epoch.plus(2));
        if let (Ok(()), Some(freeze)) = (pages.carry_marks(published.attempt), self.announce_freeze()) {
            reach(freeze.next());
        }
        pages.end_pages(published.attempt);
        pages.picture_installed(published.attempt);
    }

    /// Runs a step of a logger, and prepares the next file as the logger's thread does. True if the step wrote or
    /// synced.
    pub fn logger_step(&self, logger: usize) -> bool {
        let Some(log) = &self.shared().storage.log else { return false };
        let step = log.logger_step(logger);
        log.logger_prepare(logger);
        matches!(step, LoggerStep::Wrote | LoggerStep::Synced)
    }
}
