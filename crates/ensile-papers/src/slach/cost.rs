//! `slach cost`: the cost of the log of an operation: instructions by cachegrind, and nanoseconds.
//!
//! Each run is a process of its own: the process makes objects and calls the objects, on one thread. The instructions
//! of a call are the difference between N and 2N calls, the log's threads included. Epochs take ten seconds there:
//! under valgrind the speed of the machine would decide the number of calls of an epoch. Nanoseconds are the calling
//! thread's own time for N calls, without valgrind; the runs take turns.
//!
//! Rounds of times come first, and each round prints its results. So a run with little time has the nanoseconds, and
//! counts as many kinds of call as time allows.
//!
//! ```text
//! collection    update, whole value, get     beside a hash map of locks, made once, whose objects nobody logs
//! own objects   update, logged first         beside the same in a slice of locks, without the log (the paper's form)
//!               both kinds of update relaxed and process-safe
//! replay        operations of 100 bytes, by an open on one thread
//! ```
//! Neighbours: [`run`] is the process, [`cachegrind`] runs the process.

pub(crate) mod run;

use std::path::Path;

use clap::ValueEnum as _;
use ensile_base::clock::Clock;
use ensile_bench::figure::{Figure, Place, Row};
use ensile_bench::number::{grouped, median};
use ensile_bench::progress::Progress;
use ensile_bench::system::fresh_folder;
use ensile_bench::{Failure, Result};

use super::arguments::SlachArguments;
use crate::cachegrind::{self, Counted, LAST_LEVEL};
use run::Called;

/// The folder of cachegrind's files, within the folder of all data.
const FOLDER: &str = "slach-cost";
/// Ratio of timed calls to counted calls.
const FEWER: u64 = 10;
/// Threshold: operations a second and core.
const REPLAY_RATE_MIN: f64 = 1.5e6;

const INSTRUCTIONS: (&str, &str) = ("instructions", "a call");
const MISSES: (&str, &str) = ("last-level misses", "a call");
const NANOS: (&str, &str) = ("time", "ns a call");
const MORE: (&str, &str) = ("instructions, more than unlogged", "a call");
const MORE_NANOS: (&str, &str) = ("time, more than unlogged", "ns a call");
const REPLAY_RATE: (&str, &str) = ("replayed operations", "a second");

/// The cost of one kind of call.
struct Cost {
    called: Called,
    /// Counts of one call; `None` if no time was left to count.
    counted: Option<Counted>,
    /// Nanoseconds of a call, by round.
    nanos: Vec<f64>,
}

impl Cost {
    /// The cost of the unlogged counterpart.
    fn unlogged<'c>(&self, costs: &'c [Self]) -> Option<&'c Self> {
        let unlogged = self.called.unlogged()?;
        costs.iter().find(|cost| cost.called == unlogged)
    }
}

/// Times, then counts. False if a threshold is missed.
pub(super) fn cost(arguments: &SlachArguments) -> Result<(Figure, bool, String)> {
    let folder = fresh_folder(&arguments.data, FOLDER)?;
    let called = Called::value_variants().iter().filter(|called| !called.is_preparation());
    let mut costs: Vec<_> = called.map(|&called| Cost { called, counted: None, nanos: Vec::new() }).collect();
    let (clock, mut progress) = (Clock::machine(), Progress::new(arguments.rounds));
    let begin = clock.nanos();
    // The next step may take as long as the longest step before.
    let has_time = |longest: u64| {
        arguments.cost_seconds.is_none_or(|most| (clock.nanos() - begin + longest) as f64 / 1e9 <= most)
    };
    let mut longest = 0;
    for round in 0..arguments.rounds {
        if round > 0 && !has_time(longest) {
            progress.line(&format!("{round} rounds: there is no time for another one"));
            break;
        }
        let round_began = clock.nanos();
        for cost in &mut costs {
            progress.update(&format!("round {} of {}: {}", round + 1, arguments.rounds, cost.called.name()));
            cost.nanos.push(timed(arguments, cost.called)?);
        }
        longest = longest.max(clock.nanos() - round_began);
        progress.line(&format!("round {} of {}: {}", round + 1, arguments.rounds, said_of_round(&costs)));
    }
    longest = 0;
    for at in 0..costs.len() {
        if !has_time(longest) {
            progress.line(&format!("{at} of {} counted: there is no time for more", costs.len()));
            break;
        }
        let count_began = clock.nanos();
        let cost = &mut costs[at];
        progress.update(&format!("counting: {}", cost.called.name()));
        let counted = counted(arguments, cost.called, &folder)?;
        cost.counted = Some(counted);
        progress.line(&format!("counted: {}, {:.1} instructions", cost.called.name(), counted.instructions));
        longest = longest.max(clock.nanos() - count_began);
    }
    progress.clear();
    remove(&folder)?;
    remove(&run::folder(&arguments.data))?;
    Ok(figure(arguments, &costs))
}

/// The last round's nanoseconds of each kind of call.
fn said_of_round(costs: &[Cost]) -> String {
    let last = |cost: &Cost| cost.nanos.last().copied().unwrap_or_default();
    let said = costs.iter().map(|cost| {
        let more = cost.unlogged(costs).map(|unlogged| last(cost) - last(unlogged));
        let more = more.map_or_else(String::new, |more| format!(" ({more:+.1})"));
        format!("{} {:.1}{more}", cost.called.name(), last(cost))
    });
    format!("ns a call: {}", said.collect::<Vec<_>>().join("; "))
}

/// Counts of one call by cachegrind.
fn counted(arguments: &SlachArguments, called: Called, folder: &Path) -> Result<Counted> {
    let [once, twice] = [1, 2].map(|times| {
        prepared(arguments, called, times * arguments.calls / FEWER)
            .and_then(|words| cachegrind::count(&words, folder))
    });
    let (once, twice, calls) = (once?, twice?, (arguments.calls / FEWER) as f64);
    let instructions = (twice.instructions - once.instructions) / calls;
    Ok(Counted { instructions, misses: (twice.misses - once.misses) / calls })
}

/// The words for `calls` calls; makes their preparation first.
fn prepared(arguments: &SlachArguments, called: Called, calls: u64) -> Result<Vec<String>> {
    if let Some(preparation) = called.preparation() {
        cachegrind::said_alone(&run::words(preparation, calls, arguments))?;
    }
    Ok(run::words(called, calls, arguments))
}

/// Nanoseconds of a call. The time of a replay includes the time of an open; the difference between N and 2N operations
/// removes the time of the open without operations.
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
    for cost in costs {
        let name = cost.called.name();
        let row = |metric, values| Row::new(name, Place::Bar(name.to_owned()), metric, values);
        if let Some(Counted { instructions, misses }) = cost.counted {
            rows.push(row(INSTRUCTIONS, vec![instructions]));
            rows.push(row(MISSES, vec![misses]));
        }
        rows.push(row(NANOS, cost.nanos.clone()));
        if let Some(unlogged) = cost.unlogged(costs) {
            said += &format!("  {name}: ");
            if let (Some(logged), Some(unlogged)) = (cost.counted, unlogged.counted) {
                let more = logged.instructions - unlogged.instructions;
                rows.push(row(MORE, vec![more]));
                said += &format!("{more:+.1} instructions, ");
            }
            let nanos = cost.nanos.iter().zip(&unlogged.nanos).map(|(logged, not)| logged - not).collect();
            rows.push(row(MORE_NANOS, nanos));
            let nanos = rows.last().map_or(0.0, |row| row.median);
            said += &format!("{nanos:+.1} ns more than unlogged");
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
    // One colour of bars: instructions if every cost has counts, else nanoseconds.
    let drawn = if costs.iter().all(|cost| cost.counted.is_some()) { INSTRUCTIONS } else { NANOS };
    (Figure { name: "cost", title, drawn, notes, rows, ..Figure::default() }, is_as_asked, said)
}
