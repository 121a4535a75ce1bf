//! Configuration of a run: system, load, workers, and the deviation from the shipped behaviour.
//!
//! Neighbours: figures and tables choose setups; [`super::bench`] runs them.

use ensile_bench::system::SystemKind;

/// The running parts of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// No log.
    Memsilo,
    /// A log, no checkpoints.
    Logsilo,
    /// A log and checkpoints.
    Silor,
}

impl System {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Memsilo => "memsilo",
            Self::Logsilo => "logsilo",
            Self::Silor => "silor",
        }
    }

    /// True if the system has a log: then only durable transactions count.
    pub(super) fn is_durable(self) -> bool {
        self != Self::Memsilo
    }

    pub(super) fn kind(self) -> SystemKind {
        if self.is_durable() { SystemKind::Silo } else { SystemKind::Memsilo }
    }
}

/// The load of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// 70 % gets, 30 % puts of 100 bytes, uniform keys.
    Ycsb,
    /// The standard mix, a warehouse for each worker.
    Tpcc,
}

/// Deviation of a run from the shipped behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Otherwise {
    No,
    /// Checkpoints are synced once, at their end (SiloR figure 4 (a)).
    OneSync,
    /// One sync, and sleeps of checkpointers to hold the rate at this many bytes a second (figure 4 (b)).
    Sleeps(u64),
    /// The log has the replaced value of each write.
    BeforeImages,
}

impl std::fmt::Display for Otherwise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::No => "as it ships",
            Self::OneSync => "one sync at the end",
            Self::Sleeps(_) => "one sync and sleeps",
            Self::BeforeImages => "before-images",
        })
    }
}

/// Configuration of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) system: System,
    pub(super) load: Load,
    pub(super) workers: usize,
    pub(super) seed: u64,
    pub(super) otherwise: Otherwise,
}
