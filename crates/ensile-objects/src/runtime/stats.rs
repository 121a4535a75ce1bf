//! Figures of open objects.
//!
//! Neighbours: `open_folder` fills the figures; applications read them.

use ensile_base::Epoch;
use ensile_durability::{CheckpointStats, Health, LogStats, ShippingStats};

use super::watchdog::WaitingCallBack;

/// Figures of open objects.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ObjectsStats {
    /// Number of objects, and of removed objects that are remembered since the last checkpoint.
    pub objects: u64,
    /// Number of poisoned objects: an operation on the object has panicked, or a change has failed.
    pub poisoned: u64,
    /// E.
    pub epoch: Epoch,
    /// D: all operations of epochs up to D survive a crash.
    pub durable_epoch: Epoch,
    /// Figures of the log.
    pub log: LogStats,
    /// Health of the log, with the reason if the log takes no operations.
    pub log_health: Health,
    /// Figures of checkpoints, with the load, the threshold that follows the load, the predicted recovery, the reason
    /// why the last checkpoint began, and the reason why none begins.
    pub checkpoints: CheckpointStats,
    /// Figures of shipping, if finished files go to a shared store.
    pub shipping: Option<ShippingStats>,
    /// An application's call-back of a checkpoint that waits, perhaps for the guard of an object.
    pub waiting_call_back: Option<WaitingCallBack>,
}
