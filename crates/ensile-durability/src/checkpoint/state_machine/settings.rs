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
pub(in crate::checkpoint) struct Rules {
    pub(in crate::checkpoint) policy: Box<dyn Policy>,
    /// Settings of the adaptive threshold, if the policy uses the load.
    pub(in crate::checkpoint) adaptive: Option<AdaptiveThreshold>,
    pub(in crate::checkpoint) recovery_time: Option<Duration>,
}

/// Settings that are fixed while the database is open.
#[derive(Debug)]
pub(in crate::checkpoint) struct Terms {
    pub(in crate::checkpoint) strategy: Strategy,
    /// Wanted number of ranges of a cycling checkpoint.
    pub(in crate::checkpoint) ranges: u32,
    pub(in crate::checkpoint) bandwidth: Option<u64>,
    pub(in crate::checkpoint) checkpointers: usize,
    /// Number of files of each checkpointer.
    pub(in crate::checkpoint) files: u32,
    /// Number of loggers; 0 without a log.
    pub(in crate::checkpoint) loggers: u64,
    pub(in crate::checkpoint) database: Identity,
    pub(in crate::checkpoint) generation: u64,
    /// True if the first picture keeps pages of the installed picture.
    pub(in crate::checkpoint) goes_on: bool,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::checkpoint) struct OpenFigures {
    /// Time of the open, in nanoseconds.
    pub(in crate::checkpoint) now_nanos: u64,
    /// Bytes of log that the open has replayed.
    pub(in crate::checkpoint) replayed_bytes: u64,
}
