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
//! Neighbours: [`crate::command`] has the command line; [`rows`] prints.

pub(crate) mod arguments;
mod contended;
mod dead;
mod ends;
mod held;
mod prefixes;
mod rows;
mod sampled;
mod turns;
mod versions;

use std::time::Duration;

use clap::ValueEnum;
use ensile::stats::RECORD_HEADER_BYTES;
use ensile::{Builder, Database};
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::machine::{self, Machine};
use crate::progress::Progress;
use arguments::LimitsArguments;
use rows::Row;

/// The experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Experiment {
    /// Memory that an idle transaction, a leaked snapshot, a parked thread or a waiting call-back holds back.
    Held,
    /// Bytes of old versions while snapshots are held.
    Versions,
    /// A closure that reads a whole table and writes a row, beside many small transactions.
    Turns,
    /// Transactions of 16 operations, half of them writes, zipfian.
    Contended,
    /// The longest epoch while many threads end after many deletions.
    Ends,
    /// Each reading operation behind 100,000 deleted rows.
    Dead,
    /// Memory of keys of 4,001 bytes in pairs that differ only in the last byte.
    Prefixes,
}

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

/// A builder of a database in memory with the epochs of the options, as an application would open a database.
fn builder(arguments: &LimitsArguments) -> Builder {
    Database::builder_in_memory().epoch_interval(Duration::from_millis(arguments.epoch_ms))
}

fn open(builder: Builder) -> Result<Database> {
    builder.open().map_err(Failure::Database)
}

/// Puts the rows `0..count`, a thousand in a transaction.
fn fill<K: ensile::Key, V: ensile::Value>(
    db: &Database,
    table: &ensile::Table<K, V>,
    count: u64,
    row: impl Fn(u64) -> (K, V),
) -> Result<()> {
    /// Rows of one transaction.
    const ROWS: u64 = 1_000;
    for first in (0..count).step_by(ROWS as usize) {
        db.run(|tx| {
            (first..count.min(first + ROWS)).try_for_each(|number| {
                let (key, value) = row(number);
                tx.put(table, &key, &value)
            })
        })?;
    }
    Ok(())
}

/// Bytes of a row's record: its header and value, in whole words.
fn record_bytes(value_bytes: usize) -> u64 {
    (RECORD_HEADER_BYTES + value_bytes).next_multiple_of(8) as u64
}

/// Bytes as MiB.
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests;
