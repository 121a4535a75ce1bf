//! The experiments of four papers, repeated on Ensile: each figure and table by its name.
//!
//! ```text
//! command -> silo        Silo's paper -> shared_writes, arguments
//!         -> silor       SiloR's paper -> arguments
//!         -> siren       SIREN's paper: slow_disk, formulas -> cachegrind, comparison
//!         -> slach       the cost of a log of an object's operations, and of its checkpoints -> cachegrind, comparison
//! ```
//!
//! Neighbours: the `ensile-papers` binary passes the command line to [`run`]. `ensile-bench` has the workloads, the
//! driver, the figures and the verdicts. `siren` puts a simulated disk below the database, and `slach` uses
//! `ensile-objects`.
#![forbid(unsafe_code)]

mod arguments;
mod cachegrind;
mod command;
mod comparison;
mod shared_writes;
mod silo;
mod silor;
mod siren;
mod slach;

pub use arguments::ExperimentArguments;
pub use command::{Paper, run};
pub use silo::arguments::SiloArguments;
pub use silor::arguments::SilorArguments;
pub use siren::arguments::SirenArguments;
pub use siren::cost::run::CostRunArguments;
pub use slach::arguments::SlachArguments;
pub use slach::berkeley::table::BerkeleyTableArguments;
pub use slach::cost::run::SlachRunArguments;
pub use slach::replay::run::ReplayRunArguments;
pub use slach::target::victim::TargetVictimArguments;
