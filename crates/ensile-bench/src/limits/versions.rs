//! `limits versions`: bytes of old versions that a database keeps under held snapshots and updates.
//!
//! Snapshots begin a tenth of the time apart, for different boundaries, and stay open to the end. The same updates run
//! without a snapshot before.
//!
//! Neighbours: [`super::sampled`] samples the memory; [`crate::ycsb::distribution`] chooses the rows.

use std::time::Duration;

use clap::ValueEnum as _;
use ensile::{Database, Error, Readable, Snapshot, Table};
use ensile_base::clock::Clock;
use ensile_base::random::Random;

use super::arguments::{LimitsArguments, or_all};
use super::databases::{builder, fill, mib, open, record_bytes};
use super::rows::Row;
use super::sampled;
use crate::failure::Result;
use crate::progress::Progress;
use crate::ycsb::distribution::{Distribution, KeyChooser};
use crate::ycsb::payload::Payload;

const VALUE_BYTES: usize = 100;
const RECORDS: u64 = 20_000;

type Rows = Table<u64, Payload<VALUE_BYTES>>;

/// Measures every choice of rows with every number of snapshots.
pub(super) fn run(arguments: &LimitsArguments, progress: &mut Progress) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for distribution in or_all(&arguments.distributions, Distribution::value_variants()) {
        for snapshots in or_all(&arguments.snapshots, &[1, 3]) {
            progress.say(&format!("{distribution:?} updates, {snapshots} held"));
            rows.push(held(distribution, snapshots, arguments)?);
        }
    }
    Ok(rows)
}

fn held(distribution: Distribution, count: usize, arguments: &LimitsArguments) -> Result<Row> {
    let records = arguments.records.unwrap_or(RECORDS);
    let db = open(builder(arguments))?;
    let rows: Rows = db.table("rows")?;
    fill(&db, &rows, records, |key| (key, Payload::of(key)))?;
    let keys = KeyChooser::new(records, distribution);
    let update = |seconds: f64, seed: u64| updates(&db, &rows, &keys, seconds, seed, arguments.threads_or(1));
    let (updated, without) = sampled::during(&db, u64::MAX, || update(arguments.seconds, arguments.seed));
    updated?;
    let mut snapshots = Vec::new();
    let apart = arguments.seconds / 10.0;
    let left = arguments.seconds - apart * count.saturating_sub(1).min(9) as f64;
    let (updated, with) = sampled::during(&db, u64::MAX, || -> Result<u64, Error> {
        let mut updated = 0;
        for number in 0..count {
            let mut snapshot = db.snapshot()?;
            snapshot.get(&rows, &0)?;
            snapshots.push(snapshot);
            let seconds = if number + 1 < count { apart } else { left };
            updated += update(seconds, arguments.seed + 1 + number as u64)?;
        }
        Ok(updated)
    });
    let latest = records * record_bytes(VALUE_BYTES);
    let expired = expired(&mut snapshots, &rows)?;
    Ok(Row::default()
        .with("updates", format!("{distribution:?}"))
        .with("snapshots", count as u64)
        .with("rows", records)
        .with("latest_mib", mib(latest))
        .with("versions_mib_without", mib(without.version_bytes))
        .with("versions_mib_with", mib(with.version_bytes))
        .with("versions_per_latest", with.version_bytes as f64 / latest as f64)
        .with("memory_mib_without", mib(without.taken_bytes))
        .with("memory_mib_with", mib(with.taken_bytes))
        .with("rss_mib_without", mib(without.resident_bytes))
        .with("rss_mib_with", mib(with.resident_bytes))
        .with("updates_s", updated? as f64 / (left + apart * (count - 1) as f64))
        .with("expired", expired))
}

/// Number of snapshots that the database ended to free memory.
fn expired(snapshots: &mut [Snapshot<'_>], rows: &Rows) -> Result<u64, Error> {
    let mut expired = 0;
    for snapshot in snapshots {
        match snapshot.get(rows, &1) {
            Ok(_) => {}
            Err(Error::Expired) => expired += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(expired)
}

/// Updates random rows for `seconds` seconds, at least once per thread. Returns the number of updates.
fn updates(
    db: &Database,
    rows: &Rows,
    keys: &KeyChooser,
    seconds: f64,
    seed: u64,
    threads: usize,
) -> Result<u64, Error> {
    let one = |thread: u64| -> Result<u64, Error> {
        let (clock, mut random) = (Clock::machine(), Random::from_seed(seed * 1_000 + thread));
        let end = clock.nanos() + Duration::from_secs_f64(seconds).as_nanos() as u64;
        let mut updated = 0;
        loop {
            let key = keys.draw(&mut random, 0);
            db.run(|tx| tx.update(rows, &key, Payload::bump).map(drop))?;
            updated += 1;
            if clock.nanos() >= end {
                return Ok(updated);
            }
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads as u64).map(|thread| scope.spawn(move || one(thread))).collect();
        running.into_iter().map(|thread| thread.join().expect("updates do not panic")).sum()
    })
}
