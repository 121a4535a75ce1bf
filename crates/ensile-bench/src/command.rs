//! The command line of `ensile-bench`: the benchmarks and the entry points.
//!
//! Neighbours: the binary parses [`Bench`]; every benchmark takes its own options.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::arguments::RunArguments;
use crate::crash::{self, arguments::VictimArguments};
use crate::failure::{Failure, Result};
use crate::latency::{self, arguments::LatencyArguments};
use crate::limits::{self, arguments::LimitsArguments};
use crate::machine;
use crate::open_transaction::{self, arguments::OpenTransactionArguments};
use crate::recovery::{
    self,
    arguments::{RecoveryArguments, RecoveryVictimArguments},
};
use crate::report;
use crate::snapshots::{self, arguments::SnapshotsArguments};
use crate::tpcc::{self, arguments::TpccArguments};
use crate::ycsb::{self, arguments::YcsbArguments};

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Single-key transactions (YCSB), compared between systems.
    #[command(after_help = YCSB_EXAMPLES)]
    Ycsb(YcsbArguments),
    /// An order-entry business (TPC-C); with --crash-after the business is killed, recovered and checked.
    #[command(after_help = TPCC_EXAMPLES)]
    Tpcc(TpccArguments),
    /// Waiting time of one client for a strict commit, beside the time of the disk alone.
    Latency(LatencyArguments),
    /// Extra memory of old versions under load that only writes.
    Snapshots(SnapshotsArguments),
    /// Disturbance of transactions by one transaction left open.
    OpenTransaction(OpenTransactionArguments),
    /// Bounds of memory, waiting and starvation: each experiment is a table of figures.
    #[command(after_help = LIMITS_EXAMPLES)]
    Limits(LimitsArguments),
    /// Recovery time of a killed database: checkpoint and log apart, beside the device's own rate; CSV, JSON and SVG
    /// files.
    #[command(after_help = RECOVERY_EXAMPLES)]
    Recovery(RecoveryArguments),
    /// The process that `recovery` kills.
    #[command(hide = true)]
    RecoveryVictim(RecoveryVictimArguments),
    /// The process that `tpcc --crash-after` kills.
    #[command(hide = true)]
    TpccVictim(VictimArguments),
    /// The experiments of the papers, which are commands of `ensile-papers`.
    #[command(hide = true, name = "silo", aliases = ["silor", "siren", "slach"], disable_help_flag = true)]
    Papers(PapersArguments),
}

/// The words behind the name of a paper.
#[derive(Clone, Debug, Args)]
pub struct PapersArguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

const PAPERS: &str = "the experiments of the papers are commands of another program: cargo run --release -p ensile-papers -- \
                      silo (or silor, siren, slach), with the same options";

const YCSB_EXAMPLES: &str = "Examples:
  ensile-bench ycsb --systems memsilo,btreemap --records 10000000 --threads 1 --rounds 5
  ensile-bench ycsb --systems memsilo,btreemap --batch 16
  ensile-bench ycsb --systems memsilo,memsilo-processes --threads 2
  ensile-bench ycsb --workload a --distribution zipfian --threads 2 --json";

const TPCC_EXAMPLES: &str = "Examples:
  ensile-bench tpcc --systems memsilo,silo --warehouses 1 --threads 1 --check
  ensile-bench tpcc --systems memsilo,memsilo-processes --warehouses 2 --threads 2
  ensile-bench tpcc --crash-after 3
  ensile-bench tpcc --crash-after 0.5 --repeat 100 --items 1000 --customers 100
  ensile-bench tpcc --crash-after 0.2 --repeat 100 --lives 5 --kill-in-recovery 2 --checkpoint-ms 50 --items 200";

const LIMITS_EXAMPLES: &str = "Examples:
  ensile-bench limits held --limit-mib 16 --seconds 10
  ensile-bench limits held --culprits idle,parked --loads deletes
  ensile-bench limits versions --seconds 60
  ensile-bench limits turns
  ensile-bench limits contended --threads 2,4,8 --seconds 10
  ensile-bench limits ends
  ensile-bench limits prefixes";

const RECOVERY_EXAMPLES: &str = "Examples:
  ensile-bench recovery                               every scene, into ./recovery-results
  ensile-bench recovery log --records 10000000 --writes 20000000
  ensile-bench recovery queue --records 3000000        rows put and deleted: the memory that it takes
  ensile-bench recovery tpcc --warehouses 2 --threads 2 --seconds 60 --out docs/results/recovery";

/// Prepares this process for the benchmark, before further actions. `BTreeMap` is compared on huge pages, as the
/// database is. May start the program again in this process.
///
/// # Errors
/// [`Failure`](crate::Failure): the program cannot be started again.
pub fn prepare(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Ycsb(arguments) if ycsb::compares_btreemap(arguments)? => machine::restart_on_huge_pages(),
        _ => Ok(()),
    }
}

/// Runs one benchmark and prints its figures. The exit code is 0 if the benchmark's checks hold, else 1.
///
/// # Errors
/// `Failure`: the arguments are invalid, or the database or the system failed.
pub fn run(bench: &Bench) -> Result<ExitCode> {
    let held = match bench {
        Bench::Ycsb(arguments) => {
            let report = ycsb::run(arguments)?;
            print(&report, &arguments.run, &ycsb::title(arguments));
            true
        }
        Bench::Tpcc(arguments) => match arguments.crash_after {
            Some(seconds) => crash::run(arguments, seconds)?,
            None => {
                let (report, consistent) = tpcc::run(arguments)?;
                print(&report, &arguments.run, &tpcc::title(&arguments.run, &arguments.business));
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
        Bench::Limits(arguments) => limits::run(arguments).map(|()| true)?,
        Bench::Recovery(arguments) => recovery::run(arguments)?,
        Bench::RecoveryVictim(arguments) => recovery::victim::run(arguments).map(|()| true)?,
        Bench::TpccVictim(arguments) => crash::victim::run(arguments).map(|()| true)?,
        Bench::Papers(_) => return Err(Failure::Usage(PAPERS.to_owned())),
    };
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(report: &report::Report, run: &RunArguments, title: &str) {
    // The conductor of this process has read the counts and prints the report.
    if run.conducted {
        return;
    }
    if run.json {
        println!("{}", report.json());
    } else {
        print!("{}", report.table(title));
    }
}

#[cfg(test)]
mod tests;
