//! Strict commits of one client, with and without eight threads that committed once and went idle. The experiment tests
//! for a wait of the durable epoch for idle workers (L2).
//!
//! Neighbours: [`ensile_bench::latency`] has the client.

use std::sync::Barrier;

use ensile::{Database, Durability, Table};
use ensile_base::random::Random;
use ensile_bench::figure::{Place, Row};
use ensile_bench::latency::{self, strict_commits};
use ensile_bench::ycsb::engine::load_table;
use ensile_bench::ycsb::load::LoadPlan;
use ensile_bench::{Failure, Result};

use super::bench::Bench;

/// Threads that go idle.
const IDLE: u64 = 8;
/// Place of the rows on the horizontal axis.
pub(super) const PLACE: &str = "strict commits beside 8 idle threads";
/// Maximum number of keys: the clients wait for the log, not for memory.
const RECORDS_MAX: u64 = 100_000;
/// Maximum length of a side of a round, in seconds.
const SECONDS_MAX: f64 = 3.0;
/// Folder of the experiment in the data folder.
const FOLDER: &str = "idle-silo";

/// Median waits in milliseconds without and with the idle threads, and the ratio of the waits.
pub(super) fn rows(bench: &mut Bench<'_>) -> Result<Vec<Row>> {
    let options = bench.options();
    let path = options.fresh_folder(FOLDER)?;
    let db = options.open_at(&path, Durability::Strict)?;
    let table: Table<u64, latency::Row> = db.table("usertable")?;
    let records = bench.arguments.records.min(RECORDS_MAX);
    load_table(&db, &table, &LoadPlan::in_order(records, 1))?;
    let mut random = Random::from_seed(bench.arguments.common.seed);
    let nanos = (bench.arguments.seconds.min(SECONDS_MAX) * 1e9) as u64;
    let mut side = || strict_commits(&db, &table, records, nanos, &mut random).map(|waits| median_ms(&waits));
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..bench.arguments.rounds {
        bench.say(&format!("strict commits: round {} of {}", round + 1, bench.arguments.rounds));
        without.push(side()?);
        with.push(beside_idle_threads(&db, &table, &mut side)?);
    }
    db.close()?;
    options.fresh_folder(FOLDER)?;
    std::fs::remove_dir(&path).map_err(Failure::io(format!("removing {}", path.display())))?;
    let names = ("with idle threads", "without");
    let place = || Place::Bar(PLACE.to_owned());
    let metric = ("strict commit, p50", "ms");
    Ok(vec![
        Row::new(names.1, place(), metric, without.clone()),
        Row::new(names.0, place(), metric, with.clone()),
        Row::ratio((names.0, &with), (names.1, &without), place()),
    ])
}

fn median_ms(waits: &hdrhistogram::Histogram<u64>) -> f64 {
    waits.value_at_quantile(0.5) as f64 / 1e6
}

/// Runs `measured` beside idle threads that have committed once.
fn beside_idle_threads(
    db: &Database,
    table: &Table<u64, latency::Row>,
    measured: impl FnOnce() -> Result<f64>,
) -> Result<f64> {
    let (committed, over) = (Barrier::new(IDLE as usize + 1), Barrier::new(IDLE as usize + 1));
    std::thread::scope(|scope| {
        let (committed, over) = (&committed, &over);
        let idle: Vec<_> = (0..IDLE)
            .map(|key| {
                scope.spawn(move || {
                    let outcome = db.run(|tx| tx.put(table, &key, &latency::Row::of(key)));
                    committed.wait();
                    over.wait();
                    outcome
                })
            })
            .collect();
        committed.wait();
        let outcome = measured();
        over.wait();
        for thread in idle {
            thread.join().expect("it only commits and waits")?;
        }
        outcome
    })
}
