//! `ensile-bench slach`: the experiments of SLACH's evaluation, each by its name, as far as they are built.
//!
//! ```text
//! cost      §6.5  what a logged operation costs beside an unlogged one; replay       `cost`
//! load      §6.1  losses and responses of a service under an open load               `services::load`
//! kills     §5    the services are killed under load: nothing lost, nothing twice    `services::kills`
//! target    -     processes with a target for the recovery time are killed           `target`
//! adaptive  §6.4  fixed thresholds against one that follows the load, figures 8, 9   `adaptive`
//! ```
//! Exit code 1 says that something is not as it was asked for.
//!
//! Neighbours: [`crate::figure`] writes what was measured.

pub(crate) mod adaptive;
pub(crate) mod arguments;
pub(crate) mod cost;
mod held;
pub(crate) mod services;
pub(crate) mod target;

use clap::ValueEnum;

use crate::cachegrind;
use crate::failure::{Failure, Result};
use crate::figure;
use crate::machine::{self, Machine};
use crate::slach::arguments::SlachArguments;
use crate::system::MadeFolders;

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// Instructions and nanoseconds of updates, logged and not, of reads, whole values and replay; needs valgrind.
    Cost,
    /// A service of §5 under an open load: losses and response times by rate and share of writes.
    Load,
    /// A service of §5 is killed under load, again and again: what it replied is there, once and in order.
    Kills,
    /// Processes that have a target for the recovery time are killed at random: how long the next open takes, and how
    /// many checkpoints that took.
    Target,
    /// Fixed thresholds for checkpoints against one that follows the load: replay time, lost requests, response time.
    Adaptive,
}

/// Runs what was asked for, prints it and writes its files. False if something was not as it was asked for.
pub(crate) fn run(arguments: &SlachArguments) -> Result<bool> {
    let command = machine::command();
    figure::prepare(&arguments.out)?;
    let _made = MadeFolders::new([&arguments.data]);
    // Before anything runs: the load is to be the others'.
    let machine = Machine::look();
    let (figure, is_as_asked, said) = match arguments.figure {
        Name::Cost if !cachegrind::is_there() => {
            let lacking = "cost: it counts by valgrind, which is not to be found";
            return Err(Failure::Usage(lacking.to_owned()));
        }
        Name::Cost => cost::cost(arguments)?,
        Name::Load => services::load::load(arguments)?,
        Name::Kills => services::kills::kills(arguments)?,
        Name::Target => target::target(arguments)?,
        Name::Adaptive => adaptive::adaptive(arguments, &machine)?,
    };
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
    Ok(is_as_asked)
}
