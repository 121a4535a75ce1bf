//! The command line of `ensile-papers`: the papers and the entry point.
//!
//! Neighbours: the binary parses [`Paper`]; every paper takes its own options.

use std::process::ExitCode;

use clap::Subcommand;
use ensile_bench::Result;
use ensile_services::command::ServeArguments;

use crate::silo::{self, arguments::SiloArguments};
use crate::silor::{self, arguments::SilorArguments};
use crate::siren::{
    self, arguments::SirenArguments, backup_kills::copier::CopierArguments, cost::run::CostRunArguments,
};
use crate::slach::berkeley::table::BerkeleyTableArguments;
use crate::slach::replay::run::ReplayRunArguments;
use crate::slach::target::victim::TargetVictimArguments;
use crate::slach::{self, arguments::SlachArguments, cost::run::SlachRunArguments};

/// The papers.
#[derive(Debug, Subcommand)]
pub enum Paper {
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
}

const SILO_EXAMPLES: &str = "Examples:
  ensile-papers silo                                   every experiment, into ./silo-results
  ensile-papers silo fig4 --records 20000000           key-value, memsilo, memsilo with a global TID
  ensile-papers silo table10 --rounds 7 --out docs/results/silo

The key-value store, the partitioned store and variants of the engine (global TIDs, no overwrites, ..) are in binaries
built by
  cargo build --release -p ensile-papers --features laboratory";

const SILOR_EXAMPLES: &str = "Examples:
  ensile-papers silor                                  every experiment, into ./silor-results
  ensile-papers silor fig1 --seconds 60                YCSB over time: memsilo, logsilo, silor
  ensile-papers silor fig6 --rounds 2 --out docs/results/silor";

const SIREN_EXAMPLES: &str = "Examples:
  ensile-papers siren formulas                         table 3 of the paper, worked out again
  ensile-papers siren device --disk-mb 30              what a device of 30 MB/s comes to on this machine
  ensile-papers siren table3                           extra memory of pictures of 300 MB, some minutes
  ensile-papers siren table3 --rows 6666667 --out docs/results/siren     of 2 GB, as in the paper
  ensile-papers siren skew --ways lists --updates 50000
  ensile-papers siren against-fuzzy --rows 1000000 --seconds 30
  ensile-papers siren fig9 --clients 1,2,20            at the device's full speed
  ensile-papers siren fig9-one-disk --clients 2,20     log and checkpoints on one disk of 30 MB/s
  ensile-papers siren increments --rounds 3            1 % and 10 % of pages, then 1,000 increments of 1 %
  ensile-papers siren backup --rows 10000000           a backup of 1 GB under load, an increment, a restore
  ensile-papers siren backup-kills --rows 100000       200 copiers are killed, each target is looked at
  ensile-papers siren cost                             instructions and cache misses, by valgrind";

const SLACH_EXAMPLES: &str = "Examples:
  ensile-papers slach all                              every experiment, into ./slach-results: many hours
  ensile-papers slach cost                             instructions, by valgrind, and nanoseconds
  ensile-papers slach cost --objects 1000000 --rounds 5 --out docs/results/slach
  ensile-papers slach load --service ups --rate 2000,5000,10000 --writes 20,50,80
  ensile-papers slach load --address 127.0.0.1:6379 --rate 1000              a service that runs already
  ensile-papers slach kills --service his --kills 1000 a service is killed under load, and looked at
  ensile-papers slach target                           20 kills each at targets of 2, 5 and 10 s: half an hour
  ensile-papers slach target --seconds-of-target 2 --kills-of-target 5
  ensile-papers slach adaptive --objects 200000        thresholds of a tenth of the paper's: an hour
  ensile-papers slach adaptive --of-services ups --loads 10,50,90 --rounds 1
  ensile-papers slach berkeley                         needs libdb5.3-dev; four sizes of values: two hours
  ensile-papers slach berkeley --sizes 100 --keys 2000000 --run-seconds 5    about three minutes
  ensile-papers slach checkpoint-loss                  a checkpoint of 1.9 GB beside full load: two minutes
  ensile-papers slach response --data-mb 500           responses beside checkpoints at 60 and 80 % of the capacity
  ensile-papers slach figure6 --objects 1000000 --load-seconds 1
  ensile-papers slach logging --objects 1000000 --slice-seconds 1
  ensile-papers slach replay";

/// Runs one command and prints its figures. The exit code is 0 if the values are as asked, else 1.
///
/// # Errors
/// `Failure`: the arguments are invalid, or the database or the system failed.
pub fn run(paper: &Paper) -> Result<ExitCode> {
    let held = match paper {
        Paper::Silo(arguments) => silo::run(arguments)?,
        Paper::Silor(arguments) => silor::run(arguments)?,
        Paper::Siren(arguments) => siren::run(arguments)?,
        Paper::Slach(arguments) => slach::run(arguments)?,
        Paper::SirenBackupCopier(arguments) => siren::backup_kills::copier::copy(arguments).map(|()| true)?,
        Paper::SirenCostRun(arguments) => siren::cost::one_run(arguments).map(|()| true)?,
        Paper::SlachCostRun(arguments) => slach::cost::run::one_run(arguments).map(|()| true)?,
        Paper::SlachService(arguments) => slach::services::serve(arguments).map(|()| true)?,
        Paper::SlachBerkeleyTable(arguments) => slach::berkeley::table::run(arguments).map(|()| true)?,
        Paper::SlachReplayRun(arguments) => slach::replay::run::one_run(arguments).map(|()| true)?,
        Paper::SlachTargetVictim(arguments) => slach::target::victim::run(arguments).map(|()| true)?,
    };
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
