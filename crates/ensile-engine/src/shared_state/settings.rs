//! Settings of a database for its transactions and threads.
//!
//! Neighbours: `open::builder` fills the settings; [`Settings::settle`] adapts the settings to the parts of the open
//! database.

use std::time::Duration;

use super::durability_level::Durability;
use crate::variants::Switches;

/// Settings of a database for its transactions and threads.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) durability: Durability,
    /// True if the folder has pictures and no log.
    pub(crate) is_without_log: bool,
    pub(crate) snapshots: bool,
    /// True if log entries carry the replaced values.
    pub(crate) before_images: bool,
    /// True if the operating system has a commit before the release of the commit's first lock (B1).
    pub(crate) process_safe: bool,
    /// True without before-images, pictures, process safety and a limit of the memory: a commit tests all four at once.
    pub(crate) commits_plainly: bool,
    pub(crate) garbage_bytes_max: u64,
    /// True if the memory in use has a limit (M4).
    pub(crate) is_memory_limited: bool,
    /// True if consistent pictures can be taken: commits then leave displaced versions.
    pub(crate) pictures: bool,
    /// True if commits leave displaced versions in lists beside the pages.
    pub(crate) semi_fuzzy: bool,
    /// Limit of displaced versions that wait, in bytes.
    pub(crate) displaced_bytes_max: u64,
    pub(crate) epoch_interval: Duration,
    /// Number of threads for recovery and for the rebuild of indexes.
    pub(crate) recovery_threads: usize,
    pub(crate) switches: Switches,
}

impl Settings {
    /// The settings for a database with loggers, or without.
    pub(super) fn settle(self, has_loggers: bool) -> Self {
        assert!(!(has_loggers && self.is_without_log), "nothing is logged in a database without a log");
        let before_images = self.before_images && has_loggers;
        let process_safe = has_loggers && self.durability == Durability::Process;
        let commits_plainly = !before_images && !self.pictures && !process_safe && !self.is_memory_limited;
        Self { before_images, process_safe, commits_plainly, ..self }
    }
}
