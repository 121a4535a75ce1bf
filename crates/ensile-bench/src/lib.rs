//! The workloads of Ensile, the compared systems, and the crash tests.
//!
//! ```text
//! command -> ycsb        on a database, on its index and records alone, on std's BTreeMap
//!         -> tpcc
//!         -> crash       kill TPC-C, recover, prove that nothing acknowledged is lost
//!         -> latency     a strict commit beside the device's own sync
//!         -> silo        the experiments of Silo's paper -> figure; shared_writes
//!         -> silor       the experiments of SiloR's paper: driver -> timeline -> figure
//!         -> siren       the experiments of SIREN's paper: slow_disk, formulas -> figure
//!         -> slach       what logging an object's operations costs, and its checkpoints -> cachegrind, figure
//!         -> recovery    how fast a killed database is back
//!         -> snapshots, open_transaction       what versions and idle transactions cost
//!         -> limits      memory held back, versions kept, turns, contention, threads that end
//! each of them -> arguments -> system -> driver -> tally; report
//! ```
//!
//! A comparison runs the systems in turns in one process, with the same driver around the same requests. Figures are
//! medians over rounds. `driver` describes the timing of a window and the counted transactions.
//!
//! Neighbours: the `ensile-bench` binary passes the command line to [`run`]. The benchmarks use the database only
//! through the crate `ensile`, as an application would. `siren` puts a simulated disk below the database, and `slach`
//! uses `ensile-objects`.
#![forbid(unsafe_code)]

mod arguments;
mod cachegrind;
mod command;
mod crash;
mod driver;
mod failure;
mod figure;
mod latency;
mod limits;
mod machine;
mod number;
mod open_transaction;
mod progress;
mod recovery;
mod report;
mod shared_writes;
mod silo;
mod silor;
mod siren;
mod slach;
mod snapshots;
mod system;
mod tally;
mod timeline;
mod tpcc;
mod verdict;
mod watch;
mod ycsb;

pub use arguments::{ExperimentArguments, RunArguments};
pub use command::{Bench, prepare, run};
pub use crash::arguments::VictimArguments;
pub use failure::{Failure, Result};
pub use latency::arguments::LatencyArguments;
pub use limits::arguments::LimitsArguments;
pub use open_transaction::arguments::OpenTransactionArguments;
pub use recovery::arguments::{RecoveryArguments, RecoveryVictimArguments};
pub use silo::arguments::SiloArguments;
pub use silor::arguments::SilorArguments;
pub use siren::arguments::SirenArguments;
pub use siren::cost::run::CostRunArguments;
pub use slach::arguments::SlachArguments;
pub use slach::berkeley::table::BerkeleyTableArguments;
pub use slach::cost::run::SlachRunArguments;
pub use slach::replay::run::ReplayRunArguments;
pub use slach::target::victim::TargetVictimArguments;
pub use snapshots::arguments::SnapshotsArguments;
pub use tpcc::arguments::{BusinessArguments, Mix, TpccArguments};
pub use ycsb::arguments::YcsbArguments;
