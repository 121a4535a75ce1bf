//! Wait of a client for the disk.
//!
//! Neighbours: `admin` waits; a client keeps its wait ([`crate::served_database`]).

use ensile::checkpoint::CheckpointHandle;
use ensile_serving::DurableEpoch;

/// Wait of a client for the disk.
pub(crate) enum DiskWait {
    /// For a checkpoint.
    Checkpoint {
        handle: CheckpointHandle,
        /// True if the checkpoint may have begun before the request: another one follows.
        is_earlier: bool,
    },
    /// For an epoch.
    Epoch {
        durable: DurableEpoch,
        /// End of the wait in nanoseconds of the loops' clock; `u64::MAX` is never.
        until_nanos: u64,
    },
}

impl std::fmt::Debug for DiskWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Checkpoint { .. } => "Checkpoint",
            Self::Epoch { .. } => "Epoch",
        })
    }
}
