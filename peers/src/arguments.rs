//! The command line of `ensile-peers`.
//!
//! The driver starts the process of a system by the hidden `--child`: see [`crate::child`].

use std::path::PathBuf;

use clap::Parser;

use crate::store::Peer;
use crate::workload::Workload;

/// Compares Ensile with LMDB, redb, fjall, RocksDB and SQLite.
///
/// Every system runs in its own process. Within a round the systems take turns at every workload, and one process runs
/// at a time.
#[derive(Clone, Debug, Parser)]
#[command(name = "ensile-peers")]
pub(crate) struct Arguments {
    /// Rows: keys of 8 bytes, values of 100
    #[arg(long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    pub(crate) rows: u64,
    /// Rounds, with a fresh load each; a figure is the median of the rounds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rounds: u64,
    /// Seconds of a workload, for one system in one round
    #[arg(long, default_value_t = 5.0)]
    pub(crate) seconds: f64,
    /// Systems, separated by commas; Ensile always runs
    #[arg(long, value_delimiter = ',', default_values_t = Peer::ALL)]
    pub(crate) peers: Vec<Peer>,
    /// Workloads, separated by commas; by default all
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<Workload>,
    /// Smoke test of some seconds: 20,000 rows, one round; the figures mean nothing
    #[arg(long)]
    pub(crate) quick: bool,
    /// Folder for the databases, on the device to be measured
    #[arg(long, default_value = "ensile-data/peers")]
    pub(crate) data: PathBuf,
    /// Folder for the results: peers.md, peers.csv and peers.json
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Seed of the order of the load and of the keys that are drawn
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[arg(long, hide = true)]
    pub(crate) child: Option<Peer>,
}

impl Arguments {
    /// The complete command line: Ensile comes first, and a smoke test is small.
    pub(crate) fn complete() -> Self {
        let mut arguments = Self::parse();
        arguments.peers.retain(|peer| *peer != Peer::Ensile);
        arguments.peers.insert(0, Peer::Ensile);
        if arguments.quick {
            (arguments.rows, arguments.rounds, arguments.seconds) = (20_000, 1, 0.05);
        }
        arguments
    }

    /// True if the run reports this workload.
    pub(crate) fn has(&self, workload: Workload) -> bool {
        self.only.is_empty() || self.only.contains(&workload)
    }
}
