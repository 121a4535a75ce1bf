//! `limits turns`: commit of a closure that reads a whole table and writes a row, beside many small transactions, and
//! the cost of the closure for the small transactions (P1).
//!
//! The closure runs alone, then beside updates of single rows, then beside inserts and deletes among the read rows.
//! Then ten closures run at once beside updates. Each scene ends when all closures have committed.
//!
//! Neighbours: `Stats` counts turns and lost runs.

use std::sync::Barrier;
use std::time::Duration;

use ensile::{Database, Error, Readable, Table};
use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_base::sync::{AtomicBool, Ordering};

use super::arguments::LimitsArguments;
use super::databases::{builder, fill, open};
use super::rows::Row;
use crate::failure::Result;
use crate::number::median;
use crate::progress::Progress;

const RECORDS: u64 = 1_000_000;
/// Closures of the last scene.
const MANY: u64 = 10;
/// Number of runs alone; the median counts.
const ALONE: usize = 5;

/// The load of the other threads.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Updates,
    InsertsAndDeletes,
}

struct Bench {
    db: Database,
    /// Rows with even keys; rows with odd keys are inserted and deleted.
    rows: Table<u64, u64>,
    sums: Table<u64, u64>,
    records: u64,
    clock: Clock,
}

/// One closure, from its begin to its commit.
struct Ran {
    nanos: u64,
    runs: u64,
    longest_run_nanos: u64,
}

impl Bench {
    /// Reads all rows and writes one.
    fn closure(&self, number: u64) -> Result<Ran, Error> {
        let begun = self.clock.nanos();
        let (mut runs, mut longest, mut run_begun) = (0, 0, begun);
        self.db.run(|tx| {
            (runs, run_begun) = (runs + 1, self.clock.nanos());
            let mut sum = 0u64;
            tx.scan(&self.rows, .., |_, value| {
                sum = sum.wrapping_add(*value);
                std::ops::ControlFlow::Continue(())
            })?;
            let put = tx.put(&self.sums, &number, &sum);
            // The time excludes the wait for a turn, between two runs.
            longest = longest.max(self.clock.nanos() - run_begun);
            put
        })?;
        let now = self.clock.nanos();
        Ok(Ran { nanos: now - begun, runs, longest_run_nanos: longest.max(now - run_begun) })
    }

    /// One small transaction among the rows.
    fn small(&self, beside: Beside, random: &mut Random) -> Result<(), Error> {
        let key = 2 * random.next_below(self.records);
        match beside {
            Beside::Updates => self.db.run(|tx| tx.update(&self.rows, &key, |value| *value += 1).map(drop)),
            Beside::InsertsAndDeletes => {
                self.db.run(|tx| tx.put(&self.rows, &(key + 1), &1))?;
                self.db.run(|tx| tx.delete(&self.rows, &(key + 1)).map(drop))
            }
        }
    }

    /// Small transactions at a rate until `over` is set. Returns the number of transactions, and the longest in
    /// nanoseconds.
    fn others(&self, beside: Beside, rate: u64, over: &AtomicBool, seed: u64) -> Result<(u64, u64), Error> {
        let mut random = Random::from_seed(seed);
        let begun = self.clock.nanos();
        let (mut count, mut longest) = (0u64, 0);
        // Relaxed: the flag only ends a loop.
        while !over.load(Ordering::Relaxed) {
            let now = self.clock.nanos();
            let due = begun + (count * 1_000_000_000).checked_div(rate).unwrap_or(0);
            if now < due {
                std::thread::sleep(Duration::from_nanos(due - now));
                continue;
            }
            self.small(beside, &mut random)?;
            longest = longest.max(self.clock.nanos() - now);
            count += 1;
        }
        Ok((count, longest))
    }
}

/// All scenes.
pub(super) fn run(arguments: &LimitsArguments, progress: &mut Progress) -> Result<Vec<Row>> {
    let records = arguments.records.unwrap_or(RECORDS);
    let db = open(builder(arguments))?;
    let (rows, sums) = (db.table("rows")?, db.table("sums")?);
    progress.say("loading");
    fill(&db, &rows, records, |number| (2 * number, number))?;
    let bench = Bench { db, rows, sums, records, clock: Clock::machine() };
    let alone: Vec<f64> =
        (0..ALONE).map(|_| bench.closure(0).map(|ran| ran.nanos as f64)).collect::<Result<_, Error>>()?;
    let alone = median(alone);
    let scenes = [
        ("updates", Beside::Updates, 1),
        ("inserts and deletes", Beside::InsertsAndDeletes, 1),
        ("updates", Beside::Updates, MANY),
    ];
    let scene = |(name, beside, closures)| {
        progress.say(&format!("{closures} beside {name}"));
        let row = Row::default().with("beside", name).with("closures", closures);
        scene(&bench, row, beside, closures, alone, arguments)
    };
    scenes.into_iter().map(scene).collect()
}

fn scene(
    bench: &Bench,
    row: Row,
    beside: Beside,
    closures: u64,
    alone: f64,
    arguments: &LimitsArguments,
) -> Result<Row> {
    let (before, begun) = (bench.db.stats(), bench.clock.nanos());
    let (ran, others) = together(bench, beside, closures, arguments)?;
    let seconds = (bench.clock.nanos() - begun) as f64 / 1e9;
    let after = bench.db.stats();
    let most = |what: fn(&Ran) -> u64| ran.iter().map(what).max().unwrap_or(0);
    let longest_other = others.iter().map(|(_, longest)| *longest).max().unwrap_or(0);
    let count: u64 = others.iter().map(|(count, _)| count).sum();
    Ok(row
        .with("rows", bench.records)
        .with("alone_ms", alone / 1e6)
        .with("longest_ms", most(|ran| ran.nanos) as f64 / 1e6)
        .with("longest_per_alone", most(|ran| ran.nanos) as f64 / alone)
        .with("runs_most", most(|ran| ran.runs))
        .with("longest_run_ms", most(|ran| ran.longest_run_nanos) as f64 / 1e6)
        .with("longest_of_the_others_ms", longest_other as f64 / 1e6)
        .with("others_s", count as f64 / seconds)
        .with("turns", after.turns - before.turns)
        .with("runs_lost", after.retries - before.retries))
}

/// Runs the closures beside the other threads. The other threads go on until the last closure has committed.
#[expect(clippy::type_complexity, reason = "two lists, taken apart at once")]
fn together(
    bench: &Bench,
    beside: Beside,
    closures: u64,
    arguments: &LimitsArguments,
) -> Result<(Vec<Ran>, Vec<(u64, u64)>), Error> {
    let threads = arguments.threads_or(1);
    let over = AtomicBool::new(false);
    // No thread begins before all threads exist.
    let start = Barrier::new(threads + closures as usize);
    std::thread::scope(|scope| {
        let (over, start) = (&over, &start);
        let others: Vec<_> = (0..threads as u64)
            .map(|thread| {
                scope.spawn(move || {
                    start.wait();
                    bench.others(
                        beside,
                        arguments.rate.div_ceil(threads as u64),
                        over,
                        arguments.seed + thread,
                    )
                })
            })
            .collect();
        let running: Vec<_> = (0..closures)
            .map(|number| {
                scope.spawn(move || {
                    start.wait();
                    bench.closure(number)
                })
            })
            .collect();
        let ran = running.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        // Relaxed: see `others`.
        over.store(true, Ordering::Relaxed);
        let others = others.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        Ok((collected(ran)?, collected(others)?))
    })
}

fn collected<T>(outcomes: Vec<Result<T, Error>>) -> Result<Vec<T>, Error> {
    outcomes.into_iter().collect()
}
