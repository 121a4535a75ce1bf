//! `ensile bench silor`: the experiments of SiloR's evaluation (OSDI'14, §6), each by the name of its figure.
//!
//! ```text
//! fig1         §6.2  YCSB 70/30 over time: memsilo, logsilo, silor                    `figures`
//! fig2         §6.2  memsilo with a worker for each core, and with a core to spare    `figures`
//! fig5         §6.3  TPC-C over time: memsilo, logsilo, silor                         `figures`
//! fig6, fig7   -     figures 1 and 5 again                                            `figures`
//! ```
//! memsilo has no log, logsilo a log and no checkpoints, silor both. With a log a transaction counts, and its latency
//! ends, when it is durable. Each run has a fresh database of its own; nothing else is in memory meanwhile.
//!
//! Neighbours: [`crate::driver::over_time`] runs the load, [`crate::timeline`] is what it notes, [`crate::figure`]
//! writes what was measured.

mod bench;
mod figures;

use clap::ValueEnum;

use crate::arguments::SilorArguments;
use crate::failure::Result;
use crate::figure::OverTime;
use crate::machine::Machine;
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
    /// TPC-C over time: memsilo, logsilo, silor (§6.3).
    Fig5,
    /// Figure 1 again, as often as there are rounds.
    Fig6,
    /// Figure 5 again, as often as there are rounds, and with a worker for each core.
    Fig7,
}

/// An experiment over time: its name, and how it is run.
struct Experiment {
    name: Name,
    run: fn(&mut Bench<'_>) -> Result<OverTime>,
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment { name: Name::Fig1, run: figures::ycsb },
    Experiment { name: Name::Fig2, run: figures::fewer_workers },
    Experiment { name: Name::Fig5, run: figures::tpcc },
    Experiment { name: Name::Fig6, run: figures::ycsb_again },
    Experiment { name: Name::Fig7, run: figures::tpcc_again },
];

/// Runs what was asked for; writes its files and prints its averages. False if something is not as it must be.
pub(crate) fn run(arguments: &SilorArguments) -> Result<bool> {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let command = format!("ensile {}", command.join(" "));
    let asked = arguments.figure;
    for experiment in EXPERIMENTS.iter().filter(|experiment| asked == Name::All || experiment.name == asked) {
        let mut bench = Bench::new(arguments);
        let figure = (experiment.run)(&mut bench)?;
        let machine = Machine::look();
        bench.finish();
        figure.write(&arguments.out, &machine, &command)?;
        print!("{}", figure.table());
        println!("  in {}", arguments.out.join(format!("{}.{{csv,json,svg}}", figure.name)).display());
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
