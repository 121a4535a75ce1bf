//! What a test drives itself: the disk, the clock, and the steps that a database's threads would take.
//!
//! In builds with the feature `simulation` only: the types are those of crates that applications do not have.
//!
//! Neighbours: `builder` opens; `threads` takes the same steps on threads of its own.

use std::sync::Arc as StdArc;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_disk::Disk;
use ensile_durability::{CheckpointStep, LoggerStep, Pages, Walk, WantedPages};

use crate::database::Database;
use crate::open::builder::Builder;
use crate::open::threads::{boundary_step, step};

impl Builder {
    /// Another disk than the machine's.
    pub fn disk(mut self, disk: StdArc<dyn Disk>) -> Self {
        self.disk = Some(disk);
        self
    }

    /// Another clock than the machine's.
    pub fn manual_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// No threads of its own: the caller drives [`Database::heartbeat_step`] and [`Database::logger_step`]. Strict
    /// results that are waited for on the driving thread may wait for ever.
    pub fn without_threads(mut self) -> Self {
        self.own_threads = false;
        self
    }

    /// Pictures can be taken of it by [`Database::pages`].
    pub fn pictures(mut self) -> Self {
        self.settings.pictures = true;
        self
    }
}

/// Steps of a database that was opened [`without_threads`](Builder::without_threads).
impl Database {
    /// One tick of the heartbeat.
    pub fn heartbeat_step(&self) {
        if self.shared().is_own_process() {
            step(self.shared(), &mut drop);
        }
    }

    /// What the heartbeat does between two ticks if the first of them began a snapshot boundary.
    pub fn boundary_step(&self) {
        if self.shared().is_own_process() && self.shared().epochs.has_boundary_ahead() {
            let _ = boundary_step(self.shared());
        }
    }

    /// One step of a checkpointer. `None` without a folder.
    pub fn checkpoint_step(&self, checkpointer: usize) -> Option<CheckpointStep> {
        let shared = self.shared();
        shared.checkpoints.as_ref().map(|checkpoints| checkpoints.step(checkpointer, shared))
    }

    /// What a picture asks of the database. `None` if it was not opened for [`pictures`](Builder::pictures).
    pub fn pages(&self) -> Option<&dyn Pages> {
        self.shared().pages()
    }

    /// Announces the freeze of the picture that was begun. `None` if E is not yet above the newest one.
    pub fn announce_freeze(&self) -> Option<Epoch> {
        self.shared().epochs.announce_freeze()
    }

    /// Passes a picture of all pages, of which nothing is written: each key's next change is its first one since a
    /// freeze then. `wait` returns when some time has passed. The database was opened for
    /// [`pictures`](Builder::pictures), and nobody else takes any.
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

    /// One step of a logger, and the file that its thread makes ready after it. True if the step wrote something.
    pub fn logger_step(&self, logger: usize) -> bool {
        let Some(log) = &self.shared().log else { return false };
        let step = log.logger_step(logger);
        log.logger_prepare(logger);
        matches!(step, LoggerStep::Wrote | LoggerStep::Synced)
    }
}
