//! `ensile-bench open-transaction`: disturbance of transactions by one transaction that stays open.
//!
//! All-RMW load runs in turns without and with an open transaction. The transaction has read a row and then idles, as
//! with an interactive client. The benchmark compares throughput, memory and the regularity of epochs. At the end the
//! transaction makes one more read and its commit. Read and commit either work or return a retryable error.
//!
//! Neighbours: [`crate::ycsb::engine`] under the all-RMW mix; [`crate::watch`] samples memory and epochs.

pub(crate) mod arguments;

use ensile::{Error, Readable};
use serde::Serialize;

use crate::driver::{self, Pace, Plan, Round};
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::number::{grouped, median};
use crate::open_transaction::arguments::OpenTransactionArguments;
use crate::progress::Progress;
use crate::system::SystemKind;
use crate::watch::{self, Seen};
use crate::ycsb::engine::Engine;
use crate::ycsb::load::LoadPlan;
use crate::ycsb::mix::{Requests, Workload};

/// Threshold: ratio of throughput with an open transaction to throughput without.
const RATIO_MIN: f64 = 0.98;
/// Limit of an epoch on time, in multiples of the epoch's interval.
const LATE_INTERVALS: u64 = 5;

#[derive(Debug, Serialize)]
struct Document {
    machine: Machine,
    seconds_open: f64,
    txn_per_s_without: f64,
    txn_per_s_with: f64,
    ratio: f64,
    pinned_garbage_bytes_max: u64,
    resident_bytes_max_without: u64,
    resident_bytes_max_with: u64,
    epochs_per_s: f64,
    epoch_gap_ms_max: f64,
    epochs_on_time: bool,
    /// Outcomes of the open transactions.
    ended: Vec<String>,
}

/// Measures and prints. True if the open transaction did not disturb the load.
pub(crate) fn run(arguments: &OpenTransactionArguments) -> Result<bool> {
    let machine = Machine::look();
    let mut progress = Progress::new(arguments.run.rounds);
    progress.say("loading");
    let records = arguments.records;
    let engine = Engine::<100>::load(
        SystemKind::Memsilo,
        &arguments.run.options(),
        Requests::new(Workload::Rmw, records, None),
        &LoadPlan::in_order(records, arguments.run.threads),
    )?;
    let mut sides = Sides::default();
    let mut ended = Vec::new();
    // Each round: half of the time without, then the whole time with, then half without: slow drift of the machine
    // cancels.
    let half = Plan { pace: Pace::Timed(arguments.run.seconds / 2.0), rounds: 1, ..arguments.run.plan() };
    let whole = Plan { pace: Pace::Timed(arguments.run.seconds), ..half.clone() };
    for round in 0..arguments.run.rounds {
        progress.say(&format!("round {} of {}: without", round + 1, arguments.run.rounds));
        let (first, seen) = slice(&engine, &half)?;
        sides.without_seen.push(seen);
        progress.say(&format!("round {} of {}: one transaction open", round + 1, arguments.run.rounds));
        let mut open = engine.database().begin();
        open.get(engine.table(), &0)?;
        let (with, seen) = slice(&engine, &whole)?;
        sides.with_seen.push(seen);
        ended.push(match open.get(engine.table(), &(records - 1)).and_then(|_| open.commit()) {
            Ok(_) => "committed".to_owned(),
            Err(error @ (Error::Conflict | Error::Expired)) => format!("retryable: {error}"),
            Err(error) => return Err(Failure::Database(error)),
        });
        progress.say(&format!("round {} of {}: without again", round + 1, arguments.run.rounds));
        let (second, seen) = slice(&engine, &half)?;
        sides.without_seen.push(seen);
        sides.without.push(f64::midpoint(first.rate(), second.rate()));
        sides.with.push(with.rate());
    }
    progress.clear();
    let document = sides.document(machine, arguments, ended);
    print(&document, arguments.run.json);
    Ok(document.ratio >= RATIO_MIN && document.epochs_on_time)
}

fn slice(engine: &Engine<100>, plan: &Plan) -> Result<(Round, Seen)> {
    let (rounds, seen) = watch::during(engine.database(), || driver::run(&[engine], plan, |_, _, _| {}));
    Ok((rounds?.swap_remove(0).swap_remove(0), seen))
}

/// Measurements, round by round.
#[derive(Debug, Default)]
struct Sides {
    without: Vec<f64>,
    with: Vec<f64>,
    without_seen: Vec<Seen>,
    with_seen: Vec<Seen>,
}

impl Sides {
    fn document(
        self,
        machine: Machine,
        arguments: &OpenTransactionArguments,
        ended: Vec<String>,
    ) -> Document {
        let most = |seen: &[Seen], what: fn(&Seen) -> u64| seen.iter().map(what).max().unwrap_or(0);
        let ratios = self.with.iter().zip(&self.without).map(|(with, without)| with / without).collect();
        let gap_nanos = most(&self.with_seen, |seen| seen.epoch_gap_nanos_max);
        Document {
            machine,
            seconds_open: arguments.run.seconds,
            txn_per_s_without: median(self.without),
            txn_per_s_with: median(self.with),
            ratio: median(ratios),
            pinned_garbage_bytes_max: most(&self.with_seen, |seen| seen.pinned_bytes_max),
            resident_bytes_max_without: most(&self.without_seen, |seen| seen.resident_bytes_max),
            resident_bytes_max_with: most(&self.with_seen, |seen| seen.resident_bytes_max),
            epochs_per_s: median(self.with_seen.iter().map(Seen::epochs_per_s).collect()),
            epoch_gap_ms_max: gap_nanos as f64 / 1e6,
            epochs_on_time: gap_nanos <= LATE_INTERVALS * arguments.run.epoch_ms * 1_000_000,
            ended,
        }
    }
}

fn print(document: &Document, json: bool) {
    if json {
        println!("{}", serde_json::to_string_pretty(document).expect("plain numbers serialize"));
        return;
    }
    println!("one transaction left open for {} s under all-RMW load", document.seconds_open);
    println!(
        "throughput: {} txn/s with, {} without; ratio {:.3} (0.98 asked for)",
        grouped(document.txn_per_s_with),
        grouped(document.txn_per_s_without),
        document.ratio,
    );
    println!(
        "garbage that it held back: {:.1} MB at most; resident memory {:.1} MB with, {:.1} MB without",
        document.pinned_garbage_bytes_max as f64 / 1e6,
        document.resident_bytes_max_with as f64 / 1e6,
        document.resident_bytes_max_without as f64 / 1e6,
    );
    println!(
        "epochs: {}, {:.1} per second, at most {:.1} ms apart",
        if document.epochs_on_time { "on time" } else { "LATE" },
        document.epochs_per_s,
        document.epoch_gap_ms_max,
    );
    for (round, ended) in document.ended.iter().enumerate() {
        println!("round {}: the transaction ended: {ended}", round + 1);
    }
}
