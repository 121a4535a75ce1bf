//! Checkpoints begin with what a recovery hands over: the picture that it has loaded, if it was one, and what it took.
//!
//! Neighbours: made from a finished recovery; `manager` goes on from it.

use super::config::{CheckpointConfig, Strategy};
use super::picture::base::ReopenedPicture;
use super::picture::loaded::LoadedPicture;
use crate::DurabilityError;
use crate::control::recovery_time::MeasuredRecovery;
use crate::identity::Identity;
use crate::store::handle::OpenStore;
use crate::store::leases;

/// What [`crate::Checkpoints::start`] goes on from: places of all pages, if a picture was loaded.
#[derive(Debug, Default)]
pub struct CheckpointStart {
    pub(crate) picture: Option<LoadedPicture>,
    /// What the recovery took, if the caller has measured it.
    pub(crate) measured: MeasuredRecovery,
}

impl CheckpointStart {
    /// The picture that recovery has loaded, with its files opened to write, if the next one can go on from it.
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
        ReopenedPicture::open(disk, loaded, (database, config.checkpointers), is_leased)
    }
}
