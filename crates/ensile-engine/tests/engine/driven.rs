//! A database in memory whose epochs and garbage move when a test says so, and at no other point of its run.

use crate::prelude::*;

/// Without threads; its clock stands still between ticks.
pub(crate) struct Driven {
    /// The database.
    pub(crate) db: Database,
    clock: Clock,
}

impl Driven {
    /// Opens it with these settings besides.
    pub(crate) fn open(settings: impl FnOnce(Builder) -> Builder) -> Self {
        let clock = Clock::manual();
        let builder = Database::builder_in_memory().manual_clock(clock.clone()).without_threads();
        Self { db: settings(builder).open().expect("opens"), clock }
    }

    /// Lets this many ticks of the heartbeat pass.
    pub(crate) fn pass_ticks(&self, ticks: u32) {
        for _ in 0..ticks {
            self.tick();
            self.serve_boundary();
        }
    }

    /// A new epoch.
    pub(crate) fn tick(&self) {
        self.clock.advance(Duration::from_millis(40));
        self.db.heartbeat_step();
    }

    /// Serves the boundary, if the last tick began one.
    pub(crate) fn serve_boundary(&self) {
        self.clock.advance(Duration::from_millis(1));
        self.db.boundary_step();
    }
}
