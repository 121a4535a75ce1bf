//! Choices of a case: keys, workload and setup of the database.
//!
//! Neighbours: [`super::counting`] lists the cases; [`super::account`] names them in the results.

use serde::Serialize;

/// Keys drawn by the two workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Keys {
    Apart,
    Neighbouring,
    Same,
}

impl Keys {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Apart => "apart",
            Self::Neighbouring => "neighbouring",
            Self::Same => "same",
        }
    }
}

/// Workload of the two workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    SingleKeys,
    Tpcc,
    /// Strict results before durability.
    Waits,
}

impl Workload {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::SingleKeys => "Single keys",
            Self::Tpcc => "TPC-C",
            Self::Waits => "Strict results that wait",
        }
    }
}

/// Setup of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Setup {
    NoLog,
    Logged,
    /// No log, and TIDs from one counter: Silo's variant (§5.2).
    GlobalTid,
}

impl Setup {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::NoLog => "no log",
            Self::Logged => "with the log",
            Self::GlobalTid => "no log, a global TID",
        }
    }
}
