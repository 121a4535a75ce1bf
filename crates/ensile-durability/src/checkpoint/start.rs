//! Start of checkpoints behind a recovery: the loaded picture, if the recovery loaded a picture, and the recovery's
//! cost.
//!
//! Neighbours: a finished recovery makes the start; `manager` uses the start once, as checkpoints are started.

use super::config::{CheckpointConfig, Strategy};
use super::picture::base_picture::ReopenedPicture;
use crate::DurabilityError;
use crate::control::recovery_time::MeasuredRecovery;
use crate::files::picture::loaded_picture::LoadedPicture;
use crate::identity::Identity;
use crate::store::leases;
use crate::store::open_store::OpenStore;

/// Base of [`crate::Checkpoints::start`]: the places of all pages, if a picture was loaded.
#[derive(Debug, Default)]
pub struct CheckpointStart {
    pub(crate) picture: Option<LoadedPicture>,
    /// Measured cost of the recovery, if the caller has measured the recovery.
    pub(crate) measured: MeasuredRecovery,
}

impl CheckpointStart {
    /// The loaded picture with its files opened to write, if the next picture can go on from the loaded picture.
    pub(super) fn reopen(
        self,
        store: &OpenStore,
        database: Identity,
        config: &CheckpointConfig,
    ) -> Result<Option<ReopenedPicture>, DurabilityError> {
        let Some(loaded) = self.picture.filter(|_| config.strategy == Strategy::Pictures) else {
            return Ok(None);
        };
        assert!(config.checkpointers > 0, "somebody writes");
        let disk = &**store.disk();
        // The lock is let go of at once: a lease that begins from here on is of the installed picture.
        let is_leased = leases::try_lock(disk)?.is_none();
        ReopenedPicture::open(disk, loaded, database, config.checkpointers, is_leased)
    }
}
