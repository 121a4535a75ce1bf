//! `ensile-papers silo`: the experiments of Silo's evaluation (SOSP'13, §5), each by the name of its figure.
//!
//! ```text
//! fig4               §5.2  key-value, memsilo, memsilo with a global TID
//! fig5, fig6, fig7   §5.3  TPC-C over workers: throughput, per core, latency (measured together)      `workers`
//! fig8               §5.4  a partitioned store against memsilo, over what crosses partitions       `cross_partition`
//! fig9               §5.4  more workers than the one partition can use                                `skew`
//! table10            §5.5  snapshots for a read-only transaction                                      `snapshot_reads`
//! space              §5.6  memory of old versions
//! shared-writes      -     what would hurt on 32 cores, counted on few             [`crate::shared_writes`]
//! fig11              §5.7  factor analysis                                                            `factors`
//! ```
//! Every experiment runs its systems in turns in one process, round by round; figures are medians over the rounds.
//! The key-value store, the partitioned store and variants of the engine are in builds with the feature `laboratory`
//! only; another build measures the rest and reports the omitted systems.
//!
//! Neighbours: [`ensile_bench::driver`] runs the systems, [`ensile_bench::figure`] writes the measurements.

pub(crate) mod arguments;
mod cross_partition;
mod factors;
mod fig4;
mod lab;
#[cfg(feature = "laboratory")]
mod partitioned;
mod skew;
mod snapshot_reads;
mod space;
mod workers;

use ensile_bench::Result;
use ensile_bench::figure::{self, Figure};
use ensile_bench::machine::{self, Machine};
use ensile_bench::system::MadeFolders;

use crate::shared_writes;
use crate::silo::arguments::{Name, SiloArguments};
use lab::Lab;

/// An experiment: its names, and its functions.
struct Experiment {
    names: &'static [Name],
    /// Refuses an impossible measurement before any measurement begins.
    check: fn(&SiloArguments) -> Result<()>,
    run: fn(&mut Lab<'_>) -> Result<Vec<Figure>>,
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment { names: &[Name::Fig4], check: fig4::check, run: fig4::run },
    Experiment { names: &[Name::Fig5, Name::Fig6, Name::Fig7], check: workers::check, run: workers::run },
    Experiment { names: &[Name::Fig8], check: anywhere, run: cross_partition::run },
    Experiment { names: &[Name::Fig9], check: anywhere, run: skew::run },
    Experiment { names: &[Name::Table10], check: anywhere, run: snapshot_reads::run },
    Experiment { names: &[Name::Space], check: space::check, run: space::run },
    Experiment { names: &[Name::Fig11], check: anywhere, run: factors::run },
];

/// The check of an experiment without requirements.
fn anywhere(_: &SiloArguments) -> Result<()> {
    Ok(())
}

/// Runs the chosen experiments, prints the tables and writes the files. False if a counted value is not as it must be.
pub(crate) fn run(arguments: &SiloArguments) -> Result<bool> {
    let command = machine::command();
    let wanted = |experiment: &&Experiment| {
        arguments.figure == Name::All || experiment.names.contains(&arguments.figure)
    };
    // The counting build is no measure of speed, so no other experiment runs with shared-writes, and `all` excludes it.
    if arguments.figure == Name::SharedWrites {
        return shared_writes::run(&arguments.common.data, &arguments.out);
    }
    EXPERIMENTS.iter().filter(wanted).try_for_each(|experiment| (experiment.check)(arguments))?;
    figure::prepare(&arguments.out)?;
    let _made = MadeFolders::new([&arguments.common.data, &arguments.tmpfs]);
    // Before any run: the load shown is the load of other processes.
    let machine = Machine::look();
    for experiment in EXPERIMENTS.iter().filter(wanted) {
        let mut lab = Lab::new(arguments);
        let figures = (experiment.run)(&mut lab)?;
        lab.finish();
        // Printed first: the measurements are not lost if a file cannot be written.
        figures.iter().for_each(|figure| print!("{}", figure.table()));
        for figure in figures {
            figure.write(&arguments.out, &machine, &command)?;
            println!("  in {}", arguments.out.join(format!("{}.{{csv,json,svg}}", figure.name)).display());
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
