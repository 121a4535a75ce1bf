//! The epochs that replies rest on, and the state of the log that makes them durable.
//!
//! Neighbours: a [`ServedProgram`](crate::ServedProgram) has them; `deferred_replies` waits, `log_notices` tells.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use ensile_base::Epoch;

/// Future of a durable epoch. The error is the text of the reply `NOTDURABLE`.
pub type DurableEpoch = Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// "Durable up to an epoch": the promise that waiting replies rest on.
pub trait DurableEpochs {
    /// True if everything of this epoch and of earlier epochs is durable by now.
    fn is_durable(&self, epoch: Epoch) -> bool;

    /// Waits until this epoch is durable. The future's waker may be called on any thread.
    fn durable(&self, epoch: Epoch) -> DurableEpoch;

    /// An epoch that no change of the past is newer than.
    fn newest_epoch(&self) -> Epoch;

    /// State of the log.
    fn log_state(&self) -> LogState;

    /// A call-back of a checkpoint that waits at an object, if the service has such call-backs.
    fn checkpoint_wait(&self) -> Option<CheckpointWait> {
        None
    }

    /// Makes everything durable, and ends the service's use of its folder.
    ///
    /// # Errors
    /// Text of the reason: not everything could be made durable.
    fn close(&self) -> Result<(), String>;
}

/// State of a log, for notices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogState {
    /// The log takes entries, or the service has no log.
    Running,
    /// The disk is full, with the reason. The log goes on by itself once the disk has space.
    Full(String),
    /// Epochs cannot be reserved, with the reason. The log goes on by itself once epochs can be reserved.
    EpochsEnded(String),
    /// A write or a sync failed, or another machine has taken over, with the reason. The log takes nothing any more.
    Poisoned(String),
    /// A file or a folder is gone, with the reason. The log takes nothing any more.
    Removed(String),
    /// The log was closed, or this process is a fork.
    Closed,
}

impl LogState {
    /// True if the log never takes entries again.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        matches!(self, Self::Poisoned(_) | Self::Removed(_) | Self::Closed)
    }
}

/// A call-back of a checkpoint that makes no progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointWait {
    /// Number of the object that the call-back waits at.
    pub object: u64,
    /// Time without progress.
    pub waited: Duration,
}
