//! `ensile-bench silor`: the experiments of SiloR's evaluation (OSDI'14, §6), each by the name of its figure.
//!
//! ```text
//! fig1         §6.2  YCSB 70/30 over time: memsilo, logsilo, silor                    `figures`
//! fig2         §6.2  memsilo with a worker for each core, and with a core to spare    `figures`
//! fig3         §6.2  silor with a worker for each core: oversubscription              `figures`
//! fig4         §6.2  checkpoints synced once, with sleeps, every 32 MB                `figures`
//! fig5         §6.3  TPC-C over time: memsilo, logsilo, silor                         `figures`
//! fig6, fig7   -     figures 1 and 5 again                                            `figures`
//! skip         §4.2  what leaving out records of epochs >= e_l saves                  `savings`
//! before-images -    the log with what each write replaced                            `savings`
//! table        -     the rows that are to be reached, with their limits               `table`, `idle`
//! ```
//! memsilo has no log, logsilo a log and no checkpoints, silor both. With a log a transaction counts, and its latency
//! ends, when it is durable. Each run has a fresh database of its own; nothing else is in memory meanwhile.
//!
//! Neighbours: [`crate::driver::over_time`] runs the load, [`crate::timeline`] is what it notes, [`crate::figure`]
//! writes what was measured.

pub(crate) mod arguments;
mod bench;
mod course;
mod figures;
mod idle;
mod savings;
mod table;

use clap::ValueEnum;

use crate::failure::Result;
use crate::figure::{self, Figure, OverTime};
use crate::machine::{self, Machine};
use crate::silor::arguments::SilorArguments;
use crate::system::MadeFolders;
use bench::Bench;

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// Every experiment, one after the other.
    All,
    /// YCSB over time: memsilo, logsilo, silor (§6.2).
    Fig1,
    /// Memsilo with a worker for each core, and with one core to spare.
    Fig2,
    /// Silor with a worker for each core: loggers and checkpointers have none of their own.
    Fig3,
    /// Three ways to sync checkpoints: once at the end, the same with sleeps, every 32 MB.
    Fig4,
    /// TPC-C over time: memsilo, logsilo, silor (§6.3).
    Fig5,
    /// Figure 1 again, as often as there are rounds.
    Fig6,
    /// Figure 5 again, as often as there are rounds, and with a worker for each core.
    Fig7,
    /// What leaving out records that the log has saves in a checkpoint (§4.2).
    Skip,
    /// The log as it is and with before-images.
    BeforeImages,
    /// The rows that are to be reached, each with its limit; exit code 1 if one is missed.
    Table,
}

/// What an experiment has made.
enum Made {
    OverTime(OverTime),
    /// Rows, whether all their limits are kept, and what to say of each.
    Rows(Figure, bool, String),
}

/// An experiment: its name, and how it is run.
struct Experiment {
    name: Name,
    run: fn(&mut Bench<'_>) -> Result<Made>,
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment { name: Name::Fig1, run: figures::ycsb },
    Experiment { name: Name::Fig2, run: figures::fewer_workers },
    Experiment { name: Name::Fig3, run: figures::oversubscribed },
    Experiment { name: Name::Fig4, run: figures::sync_strategies },
    Experiment { name: Name::Fig5, run: figures::tpcc },
    Experiment { name: Name::Fig6, run: figures::ycsb_again },
    Experiment { name: Name::Fig7, run: figures::tpcc_again },
    Experiment { name: Name::Skip, run: savings::skipped },
    Experiment { name: Name::BeforeImages, run: savings::before_images },
    Experiment { name: Name::Table, run: table::run },
];

/// Runs what was asked for; writes its files and prints its averages. False if a limit is missed.
pub(crate) fn run(arguments: &SilorArguments) -> Result<bool> {
    let command = machine::command();
    let (asked, out) = (arguments.figure, &arguments.out);
    figure::prepare(out)?;
    let _made = MadeFolders::new([&arguments.common.data]);
    // Before anything runs: the load is to be the others'.
    let machine = Machine::look();
    let mut held = true;
    for experiment in EXPERIMENTS.iter().filter(|experiment| asked == Name::All || experiment.name == asked) {
        let mut bench = Bench::new(arguments);
        let made = (experiment.run)(&mut bench)?;
        bench.finish();
        // Printed first: what was measured is not lost if a file cannot be written.
        let name = match made {
            Made::OverTime(figure) => {
                print!("{}", figure.table());
                figure.write(out, &machine, &command)?;
                figure.name
            }
            Made::Rows(figure, all, verdicts) => {
                print!("{}{verdicts}", figure.table());
                figure.write(out, &machine, &command)?;
                held &= all;
                figure.name
            }
        };
        println!("  in {}", out.join(format!("{name}.{{csv,json,svg}}")).display());
    }
    Ok(held)
}

#[cfg(test)]
mod tests;
