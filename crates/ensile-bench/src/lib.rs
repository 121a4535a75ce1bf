//! The workloads of Ensile, what they are compared with, and the tests that kill.
//!
//! ```text
//! arguments -> workload::{ycsb, tpcc} -> system::{engine, key_value, btreemap} -> driver -> tally -> report
//!           -> crash       kill TPC-C, recover, prove that nothing acknowledged is lost
//!           -> latency     a strict commit beside the device's own sync
//!           -> silo        the experiments of Silo's paper -> figure; shared_writes
//!           -> silor       the experiments of SiloR's paper: driver -> timeline -> figure
//!           -> recovery    how fast a killed database is back
//!           -> snapshots, open_transaction       what versions and idle transactions cost
//! ```
//!
//! Every comparison runs its systems in turns in one process, with the same driver around the same requests; figures
//! are medians over rounds. See `driver` for how a window is timed and what counts in it.
//!
//! Neighbours: the `ensile-bench` binary hands the command line to [`run`]; the database is used through the crate `ensile`
//! only, as an application would.
#![forbid(unsafe_code)]

mod arguments;
mod crash;
mod driver;
mod failure;
mod figure;
mod latency;
mod machine;
mod open_transaction;
mod progress;
mod recovery;
mod report;
mod shared_writes;
mod silo;
mod silor;
mod snapshots;
mod system;
mod tally;
mod timeline;
mod watch;
mod workload;

use std::process::ExitCode;

pub use arguments::{
    Bench, BusinessArguments, ExperimentArguments, LatencyArguments, Mix, OpenTransactionArguments,
    RecoveryArguments, RecoveryVictimArguments, RunArguments, SiloArguments, SilorArguments,
    SnapshotsArguments, TpccArguments, VictimArguments, YcsbArguments,
};
pub use failure::{Failure, Result};

/// Runs one benchmark and prints its figures. The exit code is 0 if what it checks holds, else 1.
///
/// # Errors
/// [`Failure`]: the arguments ask for something that cannot be, or the database or the system failed.
pub fn run(bench: &Bench) -> Result<ExitCode> {
    let held = match bench {
        Bench::Ycsb(arguments) => {
            let report = workload::ycsb::run(arguments)?;
            print(&report, &arguments.run, &workload::ycsb::title(arguments));
            true
        }
        Bench::Tpcc(arguments) => match arguments.crash_after {
            Some(seconds) => crash::run(arguments, seconds)?,
            None => {
                let (report, consistent) = workload::tpcc::run(arguments)?;
                print(&report, &arguments.run, &workload::tpcc::title(&arguments.run, &arguments.business));
                if arguments.check && !arguments.run.json {
                    println!(
                        "consistency conditions 1 to 12: {}",
                        if consistent { "hold" } else { "VIOLATED" }
                    );
                }
                consistent
            }
        },
        Bench::Latency(arguments) => latency::run(arguments)?,
        Bench::Snapshots(arguments) => snapshots::run(arguments)?,
        Bench::OpenTransaction(arguments) => open_transaction::run(arguments)?,
        Bench::Silo(arguments) => silo::run(arguments)?,
        Bench::Silor(arguments) => silor::run(arguments)?,
        Bench::Recovery(arguments) => recovery::run(arguments)?,
        Bench::RecoveryVictim(arguments) => {
            recovery::victim::run(arguments)?;
            true
        }
        Bench::TpccVictim(arguments) => {
            crash::victim::run(arguments)?;
            true
        }
    };
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(report: &report::Report, run: &RunArguments, title: &str) {
    // Whoever conducts this process has heard its counts and prints the report.
    if run.conducted {
        return;
    }
    if run.json {
        println!("{}", report.json());
    } else {
        print!("{}", report.table(title));
    }
}
