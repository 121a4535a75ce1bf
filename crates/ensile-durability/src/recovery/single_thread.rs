//! Recovery on the calling thread alone.
//!
//! Neighbours: `scan`, `replay_state` and `install_generation` have the parts, for callers with more threads.

use std::sync::Arc;

use ensile_disk::Disk;

use super::install_generation::Recovered;
use super::replay_state::Recovery;
use super::scan::LogScan;
use crate::log::LogConfig;
use crate::{DurabilityError, Recoverable};

impl Recovery {
    /// Runs the whole scan on the calling thread: see [`LogScan`].
    ///
    /// # Errors
    /// As for [`LogScan`]'s parts.
    pub fn open(disk: Arc<dyn Disk>, config: LogConfig) -> Result<Self, DurabilityError> {
        let scan = LogScan::begin(disk, config)?;
        while scan.step()? {}
        scan.finish()
    }
}

/// Recovers on the calling thread alone: scan, replay into `target`, and finish.
///
/// # Errors
/// As [`Recovery::open`], [`Recovery::replay_step`] and [`Recovery::finish`].
pub fn recover(
    disk: Arc<dyn Disk>,
    config: LogConfig,
    target: &dyn Recoverable,
) -> Result<Recovered, DurabilityError> {
    let recovery = Recovery::open(disk, config)?;
    while recovery.replay_step(target)? {}
    recovery.finish(target)
}
