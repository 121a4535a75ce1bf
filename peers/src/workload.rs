//! The workloads, in the order of measurement, with their units.
//!
//! A figure is a rate, a time or a number of bytes: [`Workload::better`] names the better direction.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The better direction of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Higher,
    Lower,
}

impl Better {
    /// Name in the tables.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
        }
    }
}

/// A workload, or a fact measured beside the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    /// Load of the rows into an empty database, until the rows are durable.
    Load,
    /// Bytes of the files after the load and a clean close.
    Files,
    /// Resident memory of the process after the load.
    MemoryLoad,
    /// Time from the open of a cleanly closed database to its first read.
    Reopen,
    /// Transactions of one read.
    PointReads,
    /// Transactions of a hundred reads.
    ReadMany,
    /// Visits of a hundred rows from a random key on.
    Scan,
    /// The same visits, each by a call for the next row.
    Lend,
    /// Copies of a hundred rows from a random key on, out of an iterator.
    Range,
    /// Resident memory of the process after the reads. Caches are full then.
    MemoryReads,
    /// Process-safe transactions that read, change and write one row.
    Update,
    /// The same transactions, durable at the return, by one client.
    Strict1,
    /// The same by sixteen clients.
    Strict16,
    /// The same by sixty-four clients.
    Strict64,
}

impl Workload {
    /// All workloads, in the order of measurement.
    pub(crate) const ALL: [Self; 14] = [
        Self::Load,
        Self::Files,
        Self::MemoryLoad,
        Self::Reopen,
        Self::PointReads,
        Self::ReadMany,
        Self::Scan,
        Self::Lend,
        Self::Range,
        Self::MemoryReads,
        Self::Update,
        Self::Strict1,
        Self::Strict16,
        Self::Strict64,
    ];

    /// Name in the tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Load => "load of all rows",
            Self::Files => "files after the load",
            Self::MemoryLoad => "memory after the load",
            Self::Reopen => "reopening, until a first read",
            Self::PointReads => "point reads, one a transaction",
            Self::ReadMany => "100 reads in one transaction",
            Self::Scan => "scan of 100 rows",
            Self::Lend => "range of 100 rows, by reference",
            Self::Range => "range of 100 rows",
            Self::MemoryReads => "memory after the reads",
            Self::Update => "read-modify-write, process-safe",
            Self::Strict1 => "strict commits, 1 client",
            Self::Strict16 => "strict commits, 16 clients",
            Self::Strict64 => "strict commits, 64 clients",
        }
    }

    /// The unit of the figure.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Load | Self::Scan | Self::Lend | Self::Range => "rows/s",
            Self::Files | Self::MemoryLoad | Self::MemoryReads => "MiB",
            Self::Reopen => "ms",
            Self::PointReads | Self::ReadMany => "reads/s",
            Self::Update => "transactions/s",
            Self::Strict1 | Self::Strict16 | Self::Strict64 => "commits/s",
        }
    }

    /// The better direction of the figure.
    pub(crate) fn better(self) -> Better {
        match self.unit() {
            "MiB" | "ms" => Better::Lower,
            _ => Better::Higher,
        }
    }

    /// Number of client threads.
    pub(crate) fn clients(self) -> u64 {
        match self {
            Self::Strict16 => 16,
            Self::Strict64 => 64,
            _ => 1,
        }
    }

    /// The name on the command line, in CSV and in JSON.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().expect("no workload is hidden").get_name().to_owned()
    }
}
