//! `ensile-bench latency`: the wait of a client for a strict commit, with one client or several at once. Beside stands
//! the disk's time for a synced write of the same size: appended, and over zeros. All measurements take turns in the
//! same run.
//!
//! The goal is a ratio to the device, because devices differ by orders of magnitude: at most twice the device's median
//! and one millisecond.
//!
//! Neighbours: the database with its default durability; a plain file beside.

pub(crate) mod arguments;

use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;

use ensile::{Database, Durability, Table};
use ensile_base::clock::Clock;
use ensile_base::random::Random;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::latency::arguments::LatencyArguments;
use crate::machine::Machine;
use crate::number::median;
use crate::progress::Progress;
use crate::tally::new_histogram;
use crate::ycsb::engine::load_table;
use crate::ycsb::load::LoadPlan;
use crate::ycsb::payload::Payload;

/// The value that a commit writes.
pub type Row = Payload<100>;

/// Zeros in the file before synced writes over zeros are measured: more bytes than a slice of time fills.
const ZEROED_BYTES: usize = 32 << 20;

/// Measurements, in microseconds.
#[derive(Debug, Serialize)]
struct Document {
    machine: Machine,
    clients: usize,
    commits: u64,
    /// Bytes that one commit writes to the log.
    commit_bytes: u64,
    strict_p50_us: f64,
    strict_p99_us: f64,
    device_p50_us: f64,
    device_p99_us: f64,
    /// Latency over zeros that were written and synced before: no file grows, no block is allocated.
    zeroed_p50_us: f64,
    zeroed_p99_us: f64,
    /// Twice the device's median and one millisecond.
    limit_us: f64,
    within_limit: bool,
}

/// Measures and prints. True if the median is within the limit.
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
    let nanos = (arguments.run.seconds * 1e9) as u64;
    let (mut strict, mut device, mut zeroed) = (Vec::new(), Vec::new(), Vec::new());
    let mut commit_bytes = 0;
    for round in 0..arguments.run.rounds {
        progress.say(&format!("round {} of {}", round + 1, arguments.run.rounds));
        let written = log_bytes(&db);
        let commits = at_once(arguments.run.threads, |client| {
            let seed = arguments.run.seed ^ ((round as u64) << 32 | client as u64);
            strict_commits(&db, &table, arguments.records, nanos, &mut Random::from_seed(seed))
        })?;
        commit_bytes = (log_bytes(&db) - written) / commits.len().max(1);
        strict.push(commits);
        let (path, bytes) = (device_folder.join("blocks"), commit_bytes as usize);
        device.push(synced_writes(&path, bytes, nanos, 0)?);
        zeroed.push(synced_writes(&path, bytes, nanos, ZEROED_BYTES)?);
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
        clients: arguments.run.threads,
        commits: strict.iter().map(Histogram::len).sum(),
        commit_bytes,
        strict_p50_us,
        strict_p99_us: of(&strict, 0.99),
        device_p50_us,
        device_p99_us: of(&device, 0.99),
        zeroed_p50_us: of(&zeroed, 0.5),
        zeroed_p99_us: of(&zeroed, 0.99),
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
    let Document { clients, commits, commit_bytes, .. } = document;
    println!("strict commits, clients at once: {clients}; {commits} of {commit_bytes} bytes of log");
    println!("{:34}  {:>10}  {:>10}", "", "p50 us", "p99 us");
    println!("{:34}  {:>10.0}  {:>10.0}", "strict commit", document.strict_p50_us, document.strict_p99_us);
    println!(
        "{:34}  {:>10.0}  {:>10.0}",
        "append + fdatasync of the same size", document.device_p50_us, document.device_p99_us
    );
    println!(
        "{:34}  {:>10.0}  {:>10.0}",
        "the same over zeros", document.zeroed_p50_us, document.zeroed_p99_us
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

/// Commits one row at a time, and waits for each commit.
pub fn strict_commits(
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
        let key = random.next_below(records);
        db.run(|tx| tx.put(table, &key, &Row::of(started)))?;
        latencies.saturating_record(clock.nanos() - started);
    }
}

/// Lets `clients` clients work at once. Returns the merged measurements.
fn at_once(clients: usize, work: impl Fn(usize) -> Result<Histogram<u64>> + Sync) -> Result<Histogram<u64>> {
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..clients)
            .map(|client| {
                let work = &work;
                scope.spawn(move || work(client))
            })
            .collect();
        let mut all = work(0)?;
        for other in others {
            all += other.join().expect("a client fails by its result")?;
        }
        Ok(all)
    })
}

/// Writes blocks of `bytes` bytes in order to a file, and syncs each block. The file starts with `zeroed` bytes of
/// zeros.
fn synced_writes(path: &Path, bytes: usize, nanos: u64, zeroed: usize) -> Result<Histogram<u64>> {
    let what = || format!("writing {}", path.display());
    let mut file = File::create(path).map_err(Failure::io(what()))?;
    let start = file.write_all(&vec![0; zeroed]).and_then(|()| file.sync_all()).and_then(|()| file.rewind());
    start.map_err(Failure::io(what()))?;
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
