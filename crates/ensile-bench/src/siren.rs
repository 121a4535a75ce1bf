//! `ensile-bench siren`: the experiments of SIREN's evaluation (ICDE'06, §4 and §5), each by its name.
//!
//! ```text
//! formulas     §4.1  table 3 and figure 8 by formulas (1) and (2), at any rates       `formulas`
//! device       -     what the slow device comes to on this machine                    `device`
//! ```
//!
//! Neighbours: [`crate::figure`] writes what was measured; [`slow_disk`] is the device that the paper had.

pub(crate) mod arguments;
mod device;
mod formulas;
mod slow_disk;
mod table3;

use clap::ValueEnum;

use crate::failure::Result;
use crate::figure::{self, Figure};
use crate::machine::{self, Machine};
use crate::siren::arguments::SirenArguments;
use crate::system::MadeFolders;

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// Every experiment, one after the other.
    All,
    /// Extra memory by the paper's formulas: table 3 (§4.1).
    Formulas,
    /// How many bytes a second the slow device takes on this machine.
    Device,
}

/// What an experiment has made: rows, whether everything is as it was asked for, and what to say of it.
struct Made(Figure, bool, String);

/// An experiment: its name, and how it is run.
struct Experiment {
    name: Name,
    run: fn(&SirenArguments) -> Result<Made>,
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment { name: Name::Formulas, run: table3::by_formulas },
    Experiment { name: Name::Device, run: device::run },
];

/// Runs what was asked for, prints it and writes its files. False if something was not as it was asked for.
pub(crate) fn run(arguments: &SirenArguments) -> Result<bool> {
    let command = machine::command();
    figure::prepare(&arguments.out)?;
    let _made = MadeFolders::new([&arguments.data]);
    // Before anything runs: the load is to be the others'.
    let machine = Machine::look();
    let asked = arguments.figure;
    let mut held = true;
    for experiment in EXPERIMENTS.iter().filter(|experiment| asked == Name::All || experiment.name == asked) {
        let Made(figure, is_as_asked, said) = (experiment.run)(arguments)?;
        held &= is_as_asked;
        // Printed first: what was measured is not lost if a file cannot be written.
        if arguments.json {
            print!("{}", figure.json(&machine, &command));
            eprint!("{said}");
        } else {
            print!("{}{said}", figure.table());
        }
        figure.write(&arguments.out, &machine, &command)?;
        if !arguments.json {
            println!("  in {}", arguments.out.join(format!("{}.{{csv,json,svg}}", figure.name)).display());
        }
    }
    Ok(held)
}
