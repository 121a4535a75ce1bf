//! `ensile-papers silor`: the experiments of SiloR's evaluation (OSDI'14, §6), named after figures.
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
//! memsilo has no log. logsilo has a log and no checkpoints. silor has a log and checkpoints. With a log a transaction
//! counts, and its latency ends, when the transaction is durable. Every run has a fresh database; memory has no second
//! database meanwhile.
//!
//! Neighbours: [`ensile_bench::driver::over_time`] runs the load, [`ensile_bench::timeline`] records the run,
//! [`ensile_bench::figure`] writes the figures.

pub(crate) mod arguments;
mod bench;
mod course;
mod figures;
mod idle;
mod results;
mod savings;
mod setup;
mod table;

use ensile_bench::Result;
use ensile_bench::figure;
use ensile_bench::machine::{self, Machine};
use ensile_bench::system::MadeFolders;

use crate::silor::arguments::{Name, SilorArguments};
use bench::Bench;
use results::Made;

/// An experiment: name and function.
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

/// Runs the requested experiments, writes the files and prints the averages. False if a limit is missed.
pub(crate) fn run(arguments: &SilorArguments) -> Result<bool> {
    let command = machine::command();
    let (asked, out) = (arguments.figure, &arguments.out);
    figure::prepare(out)?;
    let _made = MadeFolders::new([&arguments.common.data]);
    // The machine is examined before the load of this process, so the load average is the load of other processes.
    let machine = Machine::look();
    let mut held = true;
    for experiment in EXPERIMENTS.iter().filter(|experiment| asked == Name::All || experiment.name == asked) {
        let mut bench = Bench::new(arguments);
        let made = (experiment.run)(&mut bench)?;
        bench.finish();
        // The table is printed before the files are written: a failed write does not lose the measurements.
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
