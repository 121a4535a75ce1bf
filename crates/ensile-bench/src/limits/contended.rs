//! `limits contended`: transactions of 16 operations on rows from a zipfian draw (theta 0.99). An operation is a read
//! or an update with even chances. A time runs from the begin of a closure to the commit and includes the aborted runs.
//!
//! Neighbours: [`crate::ycsb::distribution`] draws the rows.

use std::time::Duration;

use ensile::{Database, Error, Readable, Table};
use ensile_base::clock::Clock;
use ensile_base::random::Random;
use hdrhistogram::Histogram;

use super::arguments::{LimitsArguments, or_all};
use super::databases::{builder, fill, open};
use super::rows::Row;
use crate::failure::Result;
use crate::progress::Progress;
use crate::tally::new_histogram;
use crate::ycsb::distribution::{Distribution, KeyChooser};
use crate::ycsb::payload::Payload;

const VALUE_BYTES: usize = 100;
const RECORDS: u64 = 1_000_000;
const OPERATIONS: usize = 16;

type Rows = Table<u64, Payload<VALUE_BYTES>>;

/// Measures every number of threads.
pub(super) fn run(arguments: &LimitsArguments, progress: &mut Progress) -> Result<Vec<Row>> {
    let records = arguments.records.unwrap_or(RECORDS);
    let db = open(builder(arguments))?;
    let rows: Rows = db.table("rows")?;
    progress.say("loading");
    fill(&db, &rows, records, |key| (key, Payload::of(key)))?;
    let keys = KeyChooser::new(records, Distribution::Zipfian);
    let mut lines = Vec::new();
    for threads in or_all(&arguments.threads, &[2, 4, 8]) {
        progress.say(&format!("{threads} threads"));
        let before = db.stats();
        let times = all(&db, &rows, &keys, threads, arguments)?;
        let after = db.stats();
        let quantile = |q: f64| times.value_at_quantile(q) as f64 / 1e3;
        lines.push(
            Row::default()
                .with("threads", threads as u64)
                .with("rows", records)
                .with("txn_s", times.len() as f64 / arguments.seconds)
                .with("p50_us", quantile(0.5))
                .with("p99_us", quantile(0.99))
                .with("p99.9_us", quantile(0.999))
                .with("longest_us", times.max() as f64 / 1e3)
                .with("lost_per_commit", (after.retries - before.retries) as f64 / times.len().max(1) as f64)
                .with("turns", after.turns - before.turns),
        );
    }
    Ok(lines)
}

fn all(
    db: &Database,
    rows: &Rows,
    keys: &KeyChooser,
    threads: usize,
    arguments: &LimitsArguments,
) -> Result<Histogram<u64>, Error> {
    let one = |thread: usize| one(db, rows, keys, arguments.seconds, arguments.seed + thread as u64);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
        let mut times = new_histogram();
        for thread in running {
            times += thread.join().expect("no panic")?;
        }
        Ok(times)
    })
}

/// Runs the transactions of one thread and returns the times in nanoseconds.
fn one(
    db: &Database,
    rows: &Rows,
    keys: &KeyChooser,
    seconds: f64,
    seed: u64,
) -> Result<Histogram<u64>, Error> {
    let (clock, mut random) = (Clock::machine(), Random::from_seed(seed));
    let mut times = new_histogram();
    let mut now = clock.nanos();
    let end = now + Duration::from_secs_f64(seconds).as_nanos() as u64;
    while now < end {
        let operations: [(u64, bool); OPERATIONS] =
            std::array::from_fn(|_| (keys.draw(&mut random, 0), random.percent(50)));
        let begun = clock.nanos();
        let seen = db.run(|tx| {
            let mut seen = 0u64;
            for (key, is_update) in operations {
                if is_update {
                    tx.update(rows, &key, Payload::bump)?;
                } else {
                    seen ^= tx.get(rows, &key)?.map_or(0, |row| row.word());
                }
            }
            Ok(seen)
        })?;
        std::hint::black_box(seen);
        now = clock.nanos();
        times.saturating_record(now - begun);
    }
    Ok(times)
}
