//! `ensile bench latency`: how long one client waits for a strict commit, beside what the disk needs for a synced
//! append of the same size, measured in turns in the same run.
//!
//! The goal is stated as a ratio to the device, because devices differ by orders of magnitude: at most twice its
//! median and one millisecond.
//!
//! Neighbours: the database with its default durability; a plain file beside it.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use ensile::{Database, Durability, Table};
use ensile_base::clock::Clock;
use ensile_base::random::Random;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::arguments::LatencyArguments;
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::progress::Progress;
use crate::report::median;
use crate::system::engine::load_table;
use crate::tally::new_histogram;
use crate::workload::ycsb::load::LoadPlan;
use crate::workload::ycsb::payload::Payload;

/// The value that a commit writes.
pub(crate) type Row = Payload<100>;

/// What was measured, in microseconds.
#[derive(Debug, Serialize)]
struct Document {
    machine: Machine,
    commits: u64,
    /// Bytes that one commit writes to the log.
    commit_bytes: u64,
    strict_p50_us: f64,
    strict_p99_us: f64,
    device_p50_us: f64,
    device_p99_us: f64,
    /// Twice the device's median and one millisecond.
    limit_us: f64,
    within_limit: bool,
}

/// Measures, prints, and answers whether the median is within its limit.
pub(crate) fn run(arguments: &LatencyArguments) -> Result<bool> {
    let machine = Machine::look();
    let mut progress = Progress::new(arguments.run.rounds);
    let options = arguments.run.options();
    let folder = options.fresh_folder("latency")?;
    let device_folder = options.fresh_folder("latency-device")?;
    let db = options.open_at(&folder, Durability::Strict)?;
    let table: Table<u64, Row> = db.table("usertable")?;
    progress.say("loading");
    load_table(&db, &table, &LoadPlan::in_order(arguments.records, 1))?;
    let mut random = Random::seeded(arguments.run.seed);
    let nanos = (arguments.run.seconds * 1e9) as u64;
    let (mut strict, mut device) = (Vec::new(), Vec::new());
    let mut commit_bytes = 0;
    for round in 0..arguments.run.rounds {
        progress.say(&format!("round {} of {}", round + 1, arguments.run.rounds));
        let written = log_bytes(&db);
        let commits = strict_commits(&db, &table, arguments.records, nanos, &mut random)?;
        commit_bytes = (log_bytes(&db) - written) / commits.len().max(1);
        strict.push(commits);
        device.push(synced_appends(&device_folder.join("appends"), commit_bytes as usize, nanos)?);
    }
    progress.clear();
    db.close()?;
    let of = |rounds: &[Histogram<u64>], quantile| {
        median(rounds.iter().map(|round| round.value_at_quantile(quantile) as f64 / 1e3).collect())
    };
    let (strict_p50_us, device_p50_us) = (of(&strict, 0.5), of(&device, 0.5));
    let limit_us = 2.0 * device_p50_us + 1_000.0;
    let document = Document {
        machine,
        commits: strict.iter().map(Histogram::len).sum(),
        commit_bytes,
        strict_p50_us,
        strict_p99_us: of(&strict, 0.99),
        device_p50_us,
        device_p99_us: of(&device, 0.99),
        limit_us,
        within_limit: strict_p50_us <= limit_us,
    };
    print(&document, arguments.run.json);
    Ok(document.within_limit)
}

fn print(document: &Document, json: bool) {
    if json {
        println!("{}", serde_json::to_string_pretty(document).expect("plain numbers serialize"));
        return;
    }
    println!("strict commits of one client: {} of {} bytes of log", document.commits, document.commit_bytes);
    println!("{:34}  {:>10}  {:>10}", "", "p50 us", "p99 us");
    println!("{:34}  {:>10.0}  {:>10.0}", "strict commit", document.strict_p50_us, document.strict_p99_us);
    println!(
        "{:34}  {:>10.0}  {:>10.0}",
        "append + fdatasync of the same size", document.device_p50_us, document.device_p99_us
    );
    println!(
        "p50 / device p50: {:.2}; limit 2 x device + 1 ms = {:.0} us: {}",
        document.strict_p50_us / document.device_p50_us,
        document.limit_us,
        if document.within_limit { "held" } else { "NOT HELD" },
    );
}

fn log_bytes(db: &Database) -> u64 {
    db.stats().log.map_or(0, |log| log.bytes)
}

/// Commits one row at a time, each waited for.
pub(crate) fn strict_commits(
    db: &Database,
    table: &Table<u64, Row>,
    records: u64,
    nanos: u64,
    random: &mut Random,
) -> Result<Histogram<u64>> {
    let clock = Clock::machine();
    let mut latencies = new_histogram();
    loop {
        let started = clock.nanos();
        if started >= nanos {
            return Ok(latencies);
        }
        let key = random.below(records);
        db.run(|tx| tx.put(table, &key, &Row::of(started)))?;
        latencies.saturating_record(clock.nanos() - started);
    }
}

/// Appends blocks of `bytes` to a file, each synced.
fn synced_appends(path: &Path, bytes: usize, nanos: u64) -> Result<Histogram<u64>> {
    let what = || format!("writing {}", path.display());
    let mut file = File::create(path).map_err(Failure::io(what()))?;
    let block = vec![0x5a; bytes.max(1)];
    let clock = Clock::machine();
    let mut latencies = new_histogram();
    loop {
        let started = clock.nanos();
        if started >= nanos {
            return Ok(latencies);
        }
        file.write_all(&block).and_then(|()| file.sync_data()).map_err(Failure::io(what()))?;
        latencies.saturating_record(clock.nanos() - started);
    }
}
