//! `ensile-bench limits`: bounds of memory, waiting and starvation, each by a repeatable experiment.
//!
//! ```text
//! held       memory that one culprit holds back under load, against the limit on garbage
//! versions   bytes of old versions while snapshots are held, against the bytes of the latest rows
//! turns      a closure that reads a whole table and writes, beside many small transactions
//! dead       reading operations behind many deleted rows
//! contended  small transactions that all want the same few rows
//! ends       how long epochs get while many threads end that have deleted much
//! prefixes   memory of long keys that differ in their last byte only
//! ```
//! All databases are in memory. The figures report measurements: the experiments assert nothing.
//!
//! Neighbours: [`crate::command`] has the command line; [`databases`] opens and fills; [`rows`] prints.

pub(crate) mod arguments;
mod contended;
mod databases;
mod dead;
mod ends;
mod held;
mod prefixes;
mod rows;
mod sampled;
mod turns;
mod versions;

use serde::Serialize;

use crate::failure::Result;
use crate::machine::{self, Machine};
use crate::progress::Progress;
use arguments::{Experiment, LimitsArguments};
use rows::Row;

#[derive(Debug, Serialize)]
struct Document {
    machine: Machine,
    command: String,
    rows: Vec<Row>,
}

/// Measures and prints.
pub(crate) fn run(arguments: &LimitsArguments) -> Result<()> {
    let machine = Machine::look();
    let mut progress = Progress::new(1);
    let rows = match arguments.experiment {
        Experiment::Held => held::run(arguments, &mut progress),
        Experiment::Versions => versions::run(arguments, &mut progress),
        Experiment::Turns => turns::run(arguments, &mut progress),
        Experiment::Contended => contended::run(arguments, &mut progress),
        Experiment::Ends => ends::run(arguments, &mut progress),
        Experiment::Dead => dead::run(arguments, &mut progress),
        Experiment::Prefixes => prefixes::run(arguments),
    }?;
    progress.clear();
    if arguments.json {
        let document = Document { machine, command: machine::command(), rows };
        println!("{}", serde_json::to_string_pretty(&document).expect("plain numbers serialize"));
    } else {
        print!("{}\n{}\n\n{}", machine::command(), machine.line(), rows::table(&rows));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
