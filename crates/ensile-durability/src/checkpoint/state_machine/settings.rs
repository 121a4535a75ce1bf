//! Settings of the decisions: terms that are fixed while the database is open, and rules that begin checkpoints.
//!
//! Neighbours: `manager` makes the settings; `schedule` asks the rules; `strategy` and `machine` read the terms.

use std::time::Duration;

use crate::checkpoint::config::Strategy;
use crate::control::adaptive::AdaptiveThreshold;
use crate::control::trigger::Policy;
use crate::identity::Identity;

/// Settings that begin checkpoints. An application may change the rules of an open database.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) policy: Box<dyn Policy>,
    /// Settings of the adaptive threshold, if the policy uses the load.
    pub(crate) adaptive: Option<AdaptiveThreshold>,
    pub(crate) recovery_time: Option<Duration>,
}

/// Settings that are fixed while the database is open.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) strategy: Strategy,
    /// Wanted number of ranges of a cycling checkpoint.
    pub(crate) ranges: u32,
    pub(crate) bandwidth: Option<u64>,
    pub(crate) checkpointers: usize,
    /// Number of files of each checkpointer.
    pub(crate) files: u32,
    /// Number of loggers; 0 without a log.
    pub(crate) loggers: u64,
    pub(crate) database: Identity,
    pub(crate) generation: u64,
    /// True if the first picture keeps pages of the installed picture.
    pub(crate) goes_on: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenFigures {
    /// Time of the open, in nanoseconds.
    pub(crate) now_nanos: u64,
    /// Bytes of log that the open has replayed.
    pub(crate) replayed_bytes: u64,
}
