//! `limits held`: the memory that a database holds beyond its limit on garbage because of one culprit.
//!
//! A thread puts load on a fresh database, first alone, then beside the culprit. The culprit's additions to peak
//! garbage, memory and resident bytes are compared with the limit. Garbage is the figure of `Stats`; memory is the
//! database's share of system memory. So garbage and memory can be compared.
//!
//! Neighbours: [`super::sampled`] samples the memory.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use clap::ValueEnum;
use ensile::{Database, Error, Readable, Table};
use ensile_base::clock::Clock;
use ensile_base::random::Random;

use super::arguments::{Culprit, LimitsArguments, Load, or_all};
use super::databases::{builder, fill, mib, open};
use super::rows::Row;
use super::sampled;
use crate::failure::Result;
use crate::progress::Progress;

/// Rows that are put again and again, and bytes of the longest row; large rows are a load of their own.
const ROWS: u64 = 1_000;
const ROW_BYTES: u64 = 4_000;
const LARGE_ROWS: u64 = 64;
const LARGE_BYTES: u64 = 64 << 10;
/// First key of the parked thread.
const OTHER_KEYS: u64 = 1 << 40;
/// Limit of held memory above the memory of the load alone, in multiples of the limit on garbage.
const LIMITS: f64 = 1.25;

/// A database under load.
struct Loaded {
    db: Database,
    rows: Table<u64, Vec<u8>>,
    queue: Table<u64, Vec<u8>>,
    load: Load,
}

impl Loaded {
    fn open(load: Load, arguments: &LimitsArguments) -> Result<Self> {
        let db = open(builder(arguments).garbage_bytes_max(arguments.limit_mib << 20))?;
        let (rows, queue) = (db.table("rows")?, db.table("queue")?);
        let bytes = if load == Load::LargeValues { LARGE_BYTES } else { 100 };
        let count = if load == Load::LargeValues { LARGE_ROWS } else { ROWS };
        fill(&db, &rows, count, |key| (key, vec![1; bytes as usize]))?;
        Ok(Self { db, rows, queue, load })
    }

    /// One step; `number` is new for every step.
    fn step(&self, number: u64, random: &mut Random) -> Result<(), Error> {
        let Self { db, rows, queue, .. } = self;
        match self.load {
            Load::Puts => {
                let row = vec![2; random.next_between(1, ROW_BYTES) as usize];
                db.run(|tx| tx.put(rows, &(number % ROWS), &row))
            }
            Load::LargeValues => {
                let row = vec![2; random.next_between(LARGE_BYTES / 2, LARGE_BYTES) as usize];
                db.run(|tx| tx.put(rows, &(number % LARGE_ROWS), &row))
            }
            Load::Deletes => {
                db.run(|tx| tx.put(queue, &number, &vec![3; 16]))?;
                db.run(|tx| tx.delete(queue, &number).map(drop))
            }
            Load::AbortedInserts => {
                let mut losing = db.begin();
                let outcome = losing.get(rows, &0).and_then(|_| losing.insert(queue, &number, &vec![4; 16]));
                db.run(|tx| tx.put(rows, &0, &vec![5; 100]))?;
                match outcome.and_then(|()| losing.commit().map(drop)) {
                    Err(error) if !error.is_retryable() => Err(error),
                    _ => Ok(()),
                }
            }
        }
    }

    /// Steps for `seconds` seconds, and at least once. Returns the number of steps.
    fn run(&self, seconds: f64, first: u64, seed: u64) -> Result<u64, Error> {
        let (clock, mut random) = (Clock::machine(), Random::from_seed(seed));
        let end = clock.nanos() + Duration::from_secs_f64(seconds).as_nanos() as u64;
        let mut number = first;
        loop {
            self.step(number, &mut random)?;
            number += 1;
            if clock.nanos() >= end {
                return Ok(number - first);
            }
        }
    }
}

/// Plays the culprit on a thread of its own: reports its start, waits for the end of the load, and returns its outcome.
fn misbehave(
    culprit: Culprit,
    loaded: &Loaded,
    seconds: f64,
    stands: &Sender<()>,
    over: &Receiver<()>,
) -> Result<String, Error> {
    let Loaded { db, rows, .. } = loaded;
    let wait = || {
        // A send or a receive fails once the experiment has failed: then the culprit's wait is over too.
        let _ = stands.send(());
        let _ = over.recv();
    };
    let ended = |outcome: Result<(), Error>| match outcome {
        Ok(()) => Ok("went on".to_owned()),
        Err(error) if error.is_retryable() => Ok("was ended".to_owned()),
        Err(error) => Err(error),
    };
    match culprit {
        Culprit::Idle => {
            let mut idle = db.begin();
            idle.get(rows, &0)?;
            wait();
            ended(idle.get(rows, &1).map(drop))
        }
        Culprit::Snapshot => {
            let mut snapshot = db.snapshot()?;
            snapshot.get(rows, &0)?;
            wait();
            ended(snapshot.get(rows, &1).map(drop))
        }
        Culprit::Parked => {
            let steps = loaded.run(seconds / 2.0, OTHER_KEYS, 7)?;
            wait();
            Ok(format!("had done {steps} steps"))
        }
        Culprit::Callback => {
            let mut tx = db.begin();
            let mut seen = 0;
            let outcome = tx.scan(rows, .., |_, _| {
                seen += 1;
                if seen == 1 {
                    wait();
                }
                ControlFlow::Continue(())
            });
            ended(outcome)
        }
    }
}

/// All loads beside all culprits, or the requested ones.
pub(super) fn run(arguments: &LimitsArguments, progress: &mut Progress) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for load in or_all(&arguments.loads, Load::value_variants()) {
        for culprit in or_all(&arguments.culprits, Culprit::value_variants()) {
            progress.say(&format!("{load:?} beside {culprit:?}"));
            rows.push(beside(load, culprit, arguments)?);
        }
    }
    Ok(rows)
}

fn beside(load: Load, culprit: Culprit, arguments: &LimitsArguments) -> Result<Row> {
    let (seconds, seed) = (arguments.seconds, arguments.seed);
    let loaded = Loaded::open(load, arguments)?;
    let (steps, without) = sampled::during(&loaded.db, u64::MAX, || loaded.run(seconds, 0, seed));
    let steps = steps?;
    let limit = arguments.limit_mib << 20;
    let bound = without.garbage_bytes + (LIMITS * limit as f64) as u64;
    let expired = loaded.db.stats().expired;
    let (stands, standing) = channel();
    let (ends, over) = channel();
    let (beside, ended, with) = std::thread::scope(|scope| {
        let loaded = &loaded;
        let misbehaving = scope.spawn(move || misbehave(culprit, loaded, seconds, &stands, &over));
        // If the culprit could not begin, the join reports the error.
        let _ = standing.recv();
        let (beside, with) =
            sampled::during(&loaded.db, bound, || loaded.run(seconds, OTHER_KEYS / 2, seed + 1));
        let _ = ends.send(());
        (beside, misbehaving.join().expect("the culprit does not panic"), with)
    });
    let above = |with: u64, without: u64| mib(with) - mib(without);
    Ok(Row::default()
        .with("load", format!("{load:?}"))
        .with("culprit", format!("{culprit:?}"))
        .with("limit_mib", arguments.limit_mib)
        .with("garbage_mib_without", mib(without.garbage_bytes))
        .with("garbage_mib_with", mib(with.garbage_bytes))
        .with("above_in_limits", (above(with.garbage_bytes, without.garbage_bytes)) / mib(limit))
        .with("memory_mib_without", mib(without.taken_bytes))
        .with("memory_mib_with", mib(with.taken_bytes))
        .with("memory_above_in_limits", above(with.taken_bytes, without.taken_bytes) / mib(limit))
        .with("rss_mib_without", mib(without.resident_bytes))
        .with("rss_mib_with", mib(with.resident_bytes))
        .with("s_until_below", with.last_above_nanos as f64 / 1e9)
        .with("expired", loaded.db.stats().expired - expired)
        .with("steps_without", steps)
        .with("steps_with", beside?)
        .with("the_culprit", ended?))
}
