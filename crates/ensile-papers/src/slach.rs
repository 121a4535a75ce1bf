//! `ensile-papers slach`: the experiments of SLACH's evaluation, each by its name, or all.
//!
//! ```text
//! cost             -     what a logged operation costs beside an unlogged one; replay     `cost`
//! table2           §6.1  what services hold, and the requests a second that they take     `services::capacity`
//! load             §6.1  losses and responses of a service under an open load             `services::load`
//! figure6          §6.2  the same over the load, with logging and without                 `services::figure6`
//! logging          §6.2  throughput with logging and without                              `logging`
//! figure7          §6.3  over time, at the capacity, while checkpoints are written        `services::beside_checkpoint`
//! response         §6.3  response times meanwhile, at 60 and 80 %                         the same
//! checkpoint-loss  §6.3  throughput meanwhile, in process                                 `checkpoint_loss`
//! adaptive         §6.4  fixed thresholds against one that follows the load, figures 8, 9 `adaptive`
//! replay           §6.4  how fast one core replays, and in what memory                    `replay`
//! berkeley         §6.5  a hash table beside Berkeley DB, figure 10                       `berkeley`
//! kills            §5    the services are killed under load: nothing lost, nothing twice  `services::kills`
//! target           -     processes with a target for the recovery time are killed         `target`
//! ```
//! Exit code 1: a value is not as asked.
//!
//! Neighbours: [`ensile_bench::figure`] writes the measurements.

pub(crate) mod adaptive;
pub(crate) mod arguments;
mod asked;
pub(crate) mod berkeley;
pub(crate) mod checkpoint_loss;
pub(crate) mod cost;
mod held;
pub(crate) mod logging;
mod lossy_rate;
pub(crate) mod replay;
pub(crate) mod services;
pub(crate) mod target;
mod urls;

use clap::ValueEnum;
use ensile_bench::figure;
use ensile_bench::machine::{self, Machine};
use ensile_bench::system::MadeFolders;
use ensile_bench::{Failure, Result};

use crate::cachegrind;
use crate::slach::arguments::{Name, SlachArguments};

/// Runs the chosen experiments, prints the results and writes the files. False if a value is not as asked.
pub(crate) fn run(arguments: &SlachArguments) -> Result<bool> {
    let command = machine::command();
    figure::prepare(&arguments.out)?;
    let _made = MadeFolders::new([&arguments.data]);
    // Before any run: the load shown is the load of other processes.
    let machine = Machine::look();
    let asked = arguments.figure;
    let mut is_as_asked = true;
    for &name in Name::value_variants().iter().filter(|&&name| name != Name::All) {
        if asked != Name::All && asked != name {
            continue;
        }
        match name.lacks() {
            Some(lacking) if asked == Name::All => eprintln!("left out: {lacking}"),
            Some(lacking) => return Err(Failure::Usage(lacking)),
            None => is_as_asked &= one(arguments, name, (&machine, &command))?,
        }
    }
    Ok(is_as_asked)
}

impl Name {
    /// The reason why this machine cannot run the experiment; `all` skips such an experiment.
    fn lacks(self) -> Option<String> {
        match self {
            Self::Cost if !cachegrind::is_there() => {
                Some("cost: it counts by valgrind, which is not to be found".to_owned())
            }
            Self::Berkeley => berkeley::lacks(),
            _ => None,
        }
    }
}

/// Runs one experiment, prints the results and writes the files.
fn one(arguments: &SlachArguments, name: Name, (machine, command): (&Machine, &str)) -> Result<bool> {
    let (figure, is_as_asked, said) = match name {
        Name::All => unreachable!("it is the others"),
        Name::Cost => cost::cost(arguments)?,
        Name::Load => services::load::load(arguments)?,
        Name::Kills => services::kills::kills(arguments)?,
        Name::Target => target::target(arguments)?,
        Name::Berkeley => berkeley::berkeley(arguments, machine)?,
        Name::CheckpointLoss => checkpoint_loss::checkpoint_loss(arguments, machine)?,
        Name::Table2 => services::capacity::table2(arguments)?,
        Name::Figure6 => services::figure6::figure6(arguments, machine)?,
        Name::Figure7 => services::beside_checkpoint::figure7(arguments, machine)?,
        Name::Response => services::beside_checkpoint::response(arguments, machine)?,
        Name::Logging => logging::logging(arguments)?,
        Name::Replay => replay::replay(arguments)?,
        Name::Adaptive => adaptive::adaptive(arguments, machine)?,
    };
    if arguments.json {
        print!("{}", figure.json(machine, command));
        eprint!("{said}");
    } else {
        print!("{}{said}", figure.table());
    }
    figure.write(&arguments.out, machine, command)?;
    if !arguments.json {
        println!("  in {}", arguments.out.join(format!("{}.{{csv,json,svg}}", figure.name)).display());
    }
    Ok(is_as_asked)
}
