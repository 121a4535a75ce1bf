//! `slach cost`: what it costs to log an operation: instructions by cachegrind, and nanoseconds.
//!
//! Each run is a process of its own: it makes objects and calls them, on one thread. What a call costs in instructions
//! is the difference between N and 2N of them, the log's threads included. Epochs take ten seconds there: under
//! valgrind the speed of the machine would decide how many calls an epoch has. Nanoseconds are the calling thread's own
//! time for N calls, without valgrind; the runs take turns.
//!
//! ```text
//! collection    update, whole value, get     beside a hash map of locks, made once, whose objects nobody logs
//! own objects   update, logged first         beside the same in a slice of locks, without the log (the paper's form)
//!               both kinds of update relaxed and process-safe
//! replay        operations of 100 bytes, by an open on one thread
//! ```
//! Neighbours: [`run`] is the process, [`cachegrind`] runs it.

pub(crate) mod run;

use std::path::Path;

use clap::ValueEnum as _;

use super::arguments::SlachArguments;
use crate::cachegrind::{self, LAST_LEVEL};
use crate::failure::{Failure, Result};
use crate::figure::{Figure, Place, Row};
use crate::number::{grouped, median};
use crate::progress::Progress;
use crate::system::fresh_folder;
use run::Called;

/// Where cachegrind writes, in the folder of all data.
const FOLDER: &str = "slach-cost";
/// Of the calls that are timed so many are counted.
const FEWER: u64 = 10;
/// What is asked for: operations a second and core.
const REPLAY_RATE_MIN: f64 = 1.5e6;

const INSTRUCTIONS: (&str, &str) = ("instructions", "a call");
const MISSES: (&str, &str) = ("last-level misses", "a call");
const NANOS: (&str, &str) = ("time", "ns a call");
const MORE: (&str, &str) = ("instructions, more than unlogged", "a call");
const MORE_NANOS: (&str, &str) = ("time, more than unlogged", "ns a call");
const REPLAY_RATE: (&str, &str) = ("replayed operations", "a second");

/// What one kind of call takes.
struct Cost {
    called: Called,
    instructions: f64,
    misses: f64,
    /// One for each round.
    nanos: Vec<f64>,
}

/// Counts, then times. False if something is not as it was asked for.
pub(super) fn cost(arguments: &SlachArguments) -> Result<(Figure, bool, String)> {
    let folder = fresh_folder(&arguments.data, FOLDER)?;
    let mut progress = Progress::new(arguments.rounds);
    let mut costs = Vec::new();
    for &called in Called::value_variants().iter().filter(|called| !called.is_preparation()) {
        progress.say(&format!("counting: {}", called.name()));
        let [once, twice] = [1, 2].map(|times| {
            prepared(arguments, called, times * arguments.calls / FEWER)
                .and_then(|words| cachegrind::count(&words, &folder))
        });
        let (once, twice, calls) = (once?, twice?, (arguments.calls / FEWER) as f64);
        let instructions = (twice.instructions - once.instructions) / calls;
        let misses = (twice.misses - once.misses) / calls;
        costs.push(Cost { called, instructions, misses, nanos: Vec::new() });
    }
    for round in 0..arguments.rounds {
        for cost in &mut costs {
            progress.say(&format!("round {} of {}: {}", round + 1, arguments.rounds, cost.called.name()));
            cost.nanos.push(timed(arguments, cost.called)?);
        }
    }
    progress.clear();
    remove(&folder)?;
    remove(&run::folder(&arguments.data))?;
    Ok(figure(arguments, &costs))
}

/// The words for so many calls; what they need is made before.
fn prepared(arguments: &SlachArguments, called: Called, calls: u64) -> Result<Vec<String>> {
    if let Some(preparation) = called.preparation() {
        cachegrind::said_alone(&run::words(preparation, calls, arguments))?;
    }
    Ok(run::words(called, calls, arguments))
}

/// Nanoseconds of a call. A replay takes as long as an open does; what that takes with no operation is taken off, by
/// the difference between N and 2N.
fn timed(arguments: &SlachArguments, called: Called) -> Result<f64> {
    let time = |calls| prepared(arguments, called, calls).and_then(|words| cachegrind::said_alone(&words));
    let calls = arguments.calls;
    let nanos = if called == Called::Replay { time(2 * calls)? - time(calls)? } else { time(calls)? };
    Ok(nanos / calls as f64)
}

fn remove(folder: &Path) -> Result<()> {
    std::fs::remove_dir_all(folder).map_err(Failure::io(format!("removing {}", folder.display())))
}

fn figure(arguments: &SlachArguments, costs: &[Cost]) -> (Figure, bool, String) {
    let (mut rows, mut said, mut is_as_asked) = (Vec::new(), String::new(), true);
    let of = |called| costs.iter().find(|cost| cost.called == called);
    for cost in costs {
        let name = cost.called.name();
        let row = |metric, values| Row::new(name, Place::Bar(name.to_owned()), metric, values);
        rows.push(row(INSTRUCTIONS, vec![cost.instructions]));
        rows.push(row(MISSES, vec![cost.misses]));
        rows.push(row(NANOS, cost.nanos.clone()));
        if let Some(unlogged) = cost.called.unlogged().and_then(of) {
            let more = cost.instructions - unlogged.instructions;
            let nanos = cost.nanos.iter().zip(&unlogged.nanos).map(|(logged, not)| logged - not).collect();
            rows.push(row(MORE, vec![more]));
            rows.push(row(MORE_NANOS, nanos));
            let nanos = rows.last().map_or(0.0, |row| row.median);
            said += &format!("  {name}: {more:+.1} instructions, {nanos:+.1} ns more than unlogged");
            if let Some(nanos_max) = cost.called.nanos_max() {
                said += &format!(", asked <= +{nanos_max} ns");
                is_as_asked &= nanos <= nanos_max;
            }
            said.push('\n');
        }
        if cost.called == Called::Replay {
            let rate = 1e9 / median(cost.nanos.clone());
            let rates = cost.nanos.iter().map(|nanos| 1e9 / nanos).collect();
            rows.push(row(REPLAY_RATE, rates));
            let (rate_is, asked) = (grouped(rate), grouped(REPLAY_RATE_MIN));
            said += &format!("  {name}: {rate_is} operations a second and core, asked >= {asked}\n");
            is_as_asked &= rate >= REPLAY_RATE_MIN;
        }
    }
    let title = format!("What a call costs, {} objects, no checkpoint", grouped(arguments.objects as f64));
    let notes = vec![format!("last level: {LAST_LEVEL}")];
    let drawn = INSTRUCTIONS;
    (Figure { name: "cost", title, drawn, dashed: None, notes, rows, horizontal: "" }, is_as_asked, said)
}
