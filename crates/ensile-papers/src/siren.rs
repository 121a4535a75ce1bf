//! `ensile-papers siren`: the experiments of SIREN's evaluation (ICDE'06, §4 and §5), each by its name.
//!
//! ```text
//! formulas       §4.1  table 3 by formulas (1) and (2), at any rates                      `formulas`
//! device         -     what the slow device comes to on this machine                      `device`
//! table3         §4.1  table 3 and figure 8: extra memory of a full picture               `table3`, `run`
//! skew           §4.1  the same with 99 % of the updates on 1 % of the rows               `table3`, `run`
//! against-fuzzy  §5    throughput with pictures and with SiloR's fuzzy checkpoints        `against_fuzzy`
//! fig9           §5    throughput by clients: pictures and redo, fuzzy with undo and redo  `fig9`
//! fig9-one-disk  §5    the same with log and checkpoints on one slow disk                  `fig9`
//! cycling        -     log that a recovery replays, by ranges and with whole checkpoints     `cycling`
//! foreground     -     throughput of YCSB, and tails of relaxed and of strict commits, while a full picture is
//!                      written                                                            `foreground`
//! hang           -     the longest commit while each write of a picture hangs             `foreground`
//! increments     §2.1  what a picture costs of which few pages have changed               `increments`
//! backup         -     YCSB while a backup is made, its increments, and what is restored    `backup`
//! backup-kills   -     a process that backs up is killed, and what it leaves is looked at     `backup_kills`
//! cost           -     what a commit pays while no picture is written                     `cost`
//! ```
//! In place of the paper's disk of 30 MB/s, a run paces the writes of the walk, or has a slow device for its files. The
//! output has the asked rates and the measured rates. Exit code 1: a rate was not held.
//!
//! Neighbours: [`ensile_bench::figure`] writes the measurements; [`slow_disk`] is the device of the paper.

mod against_fuzzy;
pub(crate) mod arguments;
mod backup;
pub(crate) mod backup_kills;
pub(crate) mod cost;
mod cycling;
mod device;
mod expected;
mod fig9;
mod foreground;
mod formulas;
mod increments;
mod own_time;
mod results;
mod run;
mod slow_disk;
mod strategy;
mod table3;
mod updates;

use ensile_bench::figure;
use ensile_bench::machine::{self, Machine};
use ensile_bench::system::MadeFolders;
use ensile_bench::{Failure, Result};

use crate::cachegrind;
use crate::siren::arguments::{Name, SirenArguments};
use results::Made;

/// An experiment: its name, its function, and its expected time in seconds.
struct Experiment {
    name: Name,
    run: fn(&SirenArguments) -> Result<Made>,
    seconds: fn(&SirenArguments) -> f64,
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment { name: Name::Formulas, run: table3::by_formulas, seconds: |_| 0.0 },
    Experiment { name: Name::Device, run: device::run, seconds: expected::device },
    Experiment { name: Name::Table3, run: table3::uniform, seconds: expected::table3 },
    Experiment { name: Name::Skew, run: table3::skewed, seconds: expected::table3 },
    Experiment { name: Name::AgainstFuzzy, run: against_fuzzy::run, seconds: expected::against_fuzzy },
    Experiment { name: Name::Fig9, run: fig9::on_device, seconds: expected::fig9 },
    Experiment { name: Name::Fig9OneDisk, run: fig9::on_one_disk, seconds: expected::fig9_one_disk },
    Experiment { name: Name::Cycling, run: cycling::run, seconds: cycling::expected_seconds },
    Experiment { name: Name::Foreground, run: foreground::foreground, seconds: expected::foreground },
    Experiment { name: Name::Hang, run: foreground::hang, seconds: expected::hang },
    Experiment { name: Name::Increments, run: increments::run, seconds: expected::increments },
    Experiment { name: Name::Backup, run: backup::run, seconds: expected::backup },
    Experiment { name: Name::BackupKills, run: backup_kills::run, seconds: expected::backup_kills },
    Experiment { name: Name::Cost, run: cost::cost, seconds: expected::cost },
];

impl Experiment {
    /// The reason why this machine cannot run the experiment; `all` skips such an experiment.
    fn lacks(&self) -> Option<&'static str> {
        match self.name {
            Name::Cost if !cachegrind::is_there() => {
                Some("cost: it counts by valgrind, which is not to be found")
            }
            _ => None,
        }
    }
}

/// Runs the chosen experiments, prints the results and writes the files. False if a value is not as asked.
pub(crate) fn run(arguments: &SirenArguments) -> Result<bool> {
    let command = machine::command();
    figure::prepare(&arguments.out)?;
    let _made = MadeFolders::new([&arguments.data]);
    // Before any run: the load shown is the load of other processes.
    let machine = Machine::look();
    let asked = arguments.figure;
    let mut held = true;
    for experiment in EXPERIMENTS.iter().filter(|experiment| asked == Name::All || experiment.name == asked) {
        match experiment.lacks() {
            Some(lacking) if asked == Name::All => {
                eprintln!("left out: {lacking}");
                continue;
            }
            Some(lacking) => return Err(Failure::Usage(lacking.to_owned())),
            None => {}
        }
        eprintln!("{:?}: about {}", experiment.name, expected::words((experiment.seconds)(arguments)));
        let Made(figures, is_as_asked, said) = (experiment.run)(arguments)?;
        held &= is_as_asked;
        // Printed first: the measurements are not lost if a file cannot be written.
        for figure in &figures {
            if arguments.json {
                print!("{}", figure.json(&machine, &command));
            } else if figure.name != table3::FIG8 {
                print!("{}", figure.table());
            }
        }
        if arguments.json {
            eprint!("{said}")
        } else {
            print!("{said}")
        }
        for figure in &figures {
            figure.write(&arguments.out, &machine, &command)?;
            if !arguments.json {
                println!(
                    "  in {}",
                    arguments.out.join(format!("{}.{{csv,json,svg}}", figure.name)).display()
                );
            }
        }
    }
    Ok(held)
}
