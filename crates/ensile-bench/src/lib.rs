//! The workloads of Ensile, the compared systems, and the crash tests.
//!
//! ```text
//! command -> ycsb        on a database, on its index and records alone, on std's BTreeMap
//!         -> tpcc
//!         -> crash       kill TPC-C, recover, prove that nothing acknowledged is lost
//!         -> latency     a strict commit beside the device's own sync
//!         -> recovery    how fast a killed database is back -> figure
//!         -> snapshots, open_transaction       what versions and idle transactions cost
//!         -> limits      memory held back, versions kept, turns, contention, threads that end
//! each of them -> arguments -> system -> driver -> tally, timeline; report
//! ```
//!
//! A comparison runs the systems in turns in one process, with the same driver around the same requests. Figures are
//! medians over rounds. `driver` describes the timing of a window and the counted transactions.
//!
//! Neighbours: the `ensile-bench` binary passes the command line to [`run`]. The benchmarks use the database only
//! through the crate `ensile`, as an application would. `ensile-papers` repeats the experiments of papers with the
//! public modules.
#![forbid(unsafe_code)]

pub mod arguments;
mod command;
mod crash;
pub mod driver;
mod failure;
pub mod figure;
pub mod latency;
mod limits;
pub mod machine;
pub mod number;
mod open_transaction;
pub mod progress;
mod recovery;
mod report;
pub mod snapshots;
pub mod system;
pub mod tally;
pub mod timeline;
pub mod tpcc;
pub mod verdict;
mod watch;
pub mod ycsb;

pub use command::{Bench, PapersArguments, prepare, run};
pub use crash::arguments::VictimArguments;
pub use failure::{Failure, Result};
pub use latency::arguments::LatencyArguments;
pub use limits::arguments::LimitsArguments;
pub use open_transaction::arguments::OpenTransactionArguments;
pub use recovery::arguments::{RecoveryArguments, RecoveryVictimArguments};
pub use snapshots::arguments::SnapshotsArguments;
pub use tpcc::arguments::{BusinessArguments, Mix, TpccArguments};
pub use ycsb::arguments::YcsbArguments;
