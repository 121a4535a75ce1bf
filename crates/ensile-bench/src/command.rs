//! The command line of `ensile-bench`: the benchmarks and the entry points.
//!
//! Neighbours: the binary parses [`Bench`]; every benchmark takes its own options.

use std::process::ExitCode;

use clap::Subcommand;
use ensile_services::command::ServeArguments;

use crate::arguments::RunArguments;
use crate::crash::{self, arguments::VictimArguments};
use crate::failure::Result;
use crate::latency::{self, arguments::LatencyArguments};
use crate::limits::{self, arguments::LimitsArguments};
use crate::machine;
use crate::open_transaction::{self, arguments::OpenTransactionArguments};
use crate::recovery::{
    self,
    arguments::{RecoveryArguments, RecoveryVictimArguments},
};
use crate::report;
use crate::silo::{self, arguments::SiloArguments};
use crate::silor::{self, arguments::SilorArguments};
use crate::siren::{
    self, arguments::SirenArguments, backup_kills::copier::CopierArguments, cost::run::CostRunArguments,
};
use crate::slach::berkeley::table::BerkeleyTableArguments;
use crate::slach::replay::run::ReplayRunArguments;
use crate::slach::target::victim::TargetVictimArguments;
use crate::slach::{self, arguments::SlachArguments, cost::run::SlachRunArguments};
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
    /// The experiments of Silo's paper, each by the name of its figure: CSV, JSON and SVG files.
    #[command(after_help = SILO_EXAMPLES)]
    Silo(SiloArguments),
    /// The experiments of SiloR's paper over time: log, checkpoints, and their cost; CSV, JSON and SVG files.
    #[command(after_help = SILOR_EXAMPLES)]
    Silor(SilorArguments),
    /// The experiments of SIREN's paper: the cost of consistent checkpoints; CSV, JSON and SVG files.
    #[command(after_help = SIREN_EXAMPLES)]
    Siren(SirenArguments),
    /// The experiments of SLACH's paper: the cost of a log of an object's operations; CSV, JSON and SVG files.
    #[command(after_help = SLACH_EXAMPLES)]
    Slach(Box<SlachArguments>),
    /// Recovery time of a killed database: checkpoint and log apart, beside the device's own rate; CSV, JSON and SVG
    /// files.
    #[command(after_help = RECOVERY_EXAMPLES)]
    Recovery(RecoveryArguments),
    /// The process that `recovery` kills.
    #[command(hide = true)]
    RecoveryVictim(RecoveryVictimArguments),
    /// The process that `siren backup-kills` kills.
    #[command(hide = true)]
    SirenBackupCopier(CopierArguments),
    /// The process that `siren cost` runs under valgrind.
    #[command(hide = true)]
    SirenCostRun(CostRunArguments),
    /// The process that `slach cost` runs, alone or under valgrind.
    #[command(hide = true)]
    SlachCostRun(SlachRunArguments),
    /// The service that `slach load` loads and `slach kills` kills.
    #[command(hide = true)]
    SlachService(ServeArguments),
    /// The process of `slach berkeley` with the hash table.
    #[command(hide = true)]
    SlachBerkeleyTable(BerkeleyTableArguments),
    /// A process of `slach replay`.
    #[command(hide = true)]
    SlachReplayRun(ReplayRunArguments),
    /// The process that `slach target` kills.
    #[command(hide = true)]
    SlachTargetVictim(TargetVictimArguments),
    /// The process that `tpcc --crash-after` kills.
    #[command(hide = true)]
    TpccVictim(VictimArguments),
}

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

const SILO_EXAMPLES: &str = "Examples:
  ensile-bench silo                                   every experiment, into ./silo-results
  ensile-bench silo fig4 --records 20000000           key-value, memsilo, memsilo with a global TID
  ensile-bench silo table10 --rounds 7 --out docs/results/silo

The key-value store, the partitioned store and variants of the engine (global TIDs, no overwrites, ..) are in binaries
built by
  cargo build --release -p ensile-bench --features laboratory";

const SILOR_EXAMPLES: &str = "Examples:
  ensile-bench silor                                  every experiment, into ./silor-results
  ensile-bench silor fig1 --seconds 60                YCSB over time: memsilo, logsilo, silor
  ensile-bench silor fig6 --rounds 2 --out docs/results/silor";

const SIREN_EXAMPLES: &str = "Examples:
  ensile-bench siren formulas                         table 3 of the paper, worked out again
  ensile-bench siren device --disk-mb 30              what a device of 30 MB/s comes to on this machine
  ensile-bench siren table3                           extra memory of pictures of 300 MB, some minutes
  ensile-bench siren table3 --rows 6666667 --out docs/results/siren     of 2 GB, as in the paper
  ensile-bench siren skew --ways lists --updates 50000
  ensile-bench siren against-fuzzy --rows 1000000 --seconds 30
  ensile-bench siren fig9 --clients 1,2,20            at the device's full speed
  ensile-bench siren fig9-one-disk --clients 2,20     log and checkpoints on one disk of 30 MB/s
  ensile-bench siren increments --rounds 3            1 % and 10 % of pages, then 1,000 increments of 1 %
  ensile-bench siren backup --rows 10000000           a backup of 1 GB under load, an increment, a restore
  ensile-bench siren backup-kills --rows 100000       200 copiers are killed, each target is looked at
  ensile-bench siren cost                             instructions and cache misses, by valgrind";

const SLACH_EXAMPLES: &str = "Examples:
  ensile-bench slach all                              every experiment, into ./slach-results: many hours
  ensile-bench slach cost                             instructions, by valgrind, and nanoseconds
  ensile-bench slach cost --objects 1000000 --rounds 5 --out docs/results/slach
  ensile-bench slach load --service ups --rate 2000,5000,10000 --writes 20,50,80
  ensile-bench slach load --address 127.0.0.1:6379 --rate 1000              a service that runs already
  ensile-bench slach kills --service his --kills 1000 a service is killed under load, and looked at
  ensile-bench slach target                           20 kills each at targets of 2, 5 and 10 s: half an hour
  ensile-bench slach target --seconds-of-target 2 --kills-of-target 5
  ensile-bench slach adaptive --objects 200000        thresholds of a tenth of the paper's: an hour
  ensile-bench slach adaptive --of-services ups --loads 10,50,90 --rounds 1
  ensile-bench slach berkeley                         needs libdb5.3-dev; four sizes of values: two hours
  ensile-bench slach berkeley --sizes 100 --keys 2000000 --run-seconds 5    about three minutes
  ensile-bench slach checkpoint-loss                  a checkpoint of 1.9 GB beside full load: two minutes
  ensile-bench slach response --data-mb 500           responses beside checkpoints at 60 and 80 % of the capacity
  ensile-bench slach figure6 --objects 1000000 --load-seconds 1
  ensile-bench slach logging --objects 1000000 --slice-seconds 1
  ensile-bench slach replay";

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
        Bench::Silo(arguments) => silo::run(arguments)?,
        Bench::Silor(arguments) => silor::run(arguments)?,
        Bench::Siren(arguments) => siren::run(arguments)?,
        Bench::Slach(arguments) => slach::run(arguments)?,
        Bench::Recovery(arguments) => recovery::run(arguments)?,
        Bench::RecoveryVictim(arguments) => recovery::victim::run(arguments).map(|()| true)?,
        Bench::SirenBackupCopier(arguments) => siren::backup_kills::copier::copy(arguments).map(|()| true)?,
        Bench::SirenCostRun(arguments) => siren::cost::one_run(arguments).map(|()| true)?,
        Bench::SlachCostRun(arguments) => slach::cost::run::one_run(arguments).map(|()| true)?,
        Bench::SlachService(arguments) => slach::services::serve(arguments).map(|()| true)?,
        Bench::SlachBerkeleyTable(arguments) => slach::berkeley::table::run(arguments).map(|()| true)?,
        Bench::SlachReplayRun(arguments) => slach::replay::run::one_run(arguments).map(|()| true)?,
        Bench::SlachTargetVictim(arguments) => slach::target::victim::run(arguments).map(|()| true)?,
        Bench::TpccVictim(arguments) => crash::victim::run(arguments).map(|()| true)?,
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
