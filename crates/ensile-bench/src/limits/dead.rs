//! `limits dead`: the time of each reading operation behind many deleted rows, against a table without deleted rows.
//!
//! The live rows lie between two halves of deleted rows, so both directions of a scan begin at deleted rows. The rows
//! are deleted by earlier transactions, by earlier transactions beside an open snapshot, or by the reading transaction.
//! The last result of a scene is a transaction that takes 500 rows, one by one.
//!
//! Neighbours: [`super::rows`] prints.

use std::ops::ControlFlow;

use ensile::{Database, Error, Index, Readable, Table, Transaction};
use ensile_base::clock::Clock;

use super::arguments::LimitsArguments;
use super::databases::{builder, fill, open};
use super::rows::Row;
use crate::failure::{Failure, Result};
use crate::number::median;
use crate::progress::Progress;

/// Number of deleted rows.
const DEAD: u64 = 100_000;
/// Number of live rows.
const LIVE: u64 = 1_000;
/// Number of rows taken in one transaction.
const TAKEN: u64 = 500;
/// Number of transactions of an operation.
const TRANSACTIONS: u64 = 301;
/// Number of transactions that take rows.
const TAKING: u64 = 5;

/// Origin of the deleted rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    Alone,
    OwnDeletes,
    BesideSnapshot,
}

impl Scene {
    const ALL: [Self; 3] = [Self::Alone, Self::OwnDeletes, Self::BesideSnapshot];

    fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::OwnDeletes => "after own deletes",
            Self::BesideSnapshot => "beside a snapshot",
        }
    }
}

/// The reading operations.
const OPERATIONS: [&str; 13] = [
    "get",
    "get, deleted row",
    "get_many of 16",
    "first",
    "last",
    "scan",
    "scan_reverse",
    "scan_keys",
    "range",
    "range, reverse",
    "first of an index",
    "last of an index",
    "find in an index",
];

/// A table with deleted rows on both sides of the live rows, and with an index in the order of the keys.
struct Bench {
    db: Database,
    rows: Table<u64, u64>,
    by_value: Index<u64, u64, u64>,
    /// Number of deleted rows on either side.
    dead: u64,
    clock: Clock,
}

impl Bench {
    /// The table before its deletes.
    fn filled(arguments: &LimitsArguments, dead: u64) -> Result<Self> {
        let db = open(builder(arguments))?;
        let define = || {
            let rows = db.define::<u64, u64>("rows").index("by_value", 1, |_key, value| *value).open()?;
            let by_value = rows.index::<u64>("by_value")?;
            Ok::<_, Error>((rows, by_value))
        };
        let (rows, by_value) = define().map_err(Failure::Database)?;
        let bench = Self { db, rows, by_value, dead: dead / 2, clock: Clock::machine() };
        fill(&bench.db, &bench.rows, 2 * bench.dead + LIVE, |key| (key, key))?;
        Ok(bench)
    }

    /// Deletes the rows on both sides, a thousand in a transaction.
    fn delete(&self) -> Result<(), Error> {
        let keys: Vec<u64> = self.dead_keys().collect();
        keys.chunks(1_000).try_for_each(|keys| self.db.run(|tx| self.delete_keys(tx, keys.iter().copied())))
    }

    fn dead_keys(&self) -> impl Iterator<Item = u64> {
        (0..self.dead).chain(self.dead + LIVE..2 * self.dead + LIVE)
    }

    fn delete_keys(
        &self,
        tx: &mut Transaction<'_>,
        mut keys: impl Iterator<Item = u64>,
    ) -> Result<(), Error> {
        keys.try_for_each(|key| tx.delete(&self.rows, &key).map(drop))
    }

    /// Runs an operation once. `at` selects a live row.
    fn read(&self, tx: &mut Transaction<'_>, operation: &str, at: u64) -> Result<(), Error> {
        let live = self.dead + at % LIVE;
        match operation {
            "get" => tx.get(&self.rows, &live).map(drop),
            "get, deleted row" => tx.get(&self.rows, &(self.dead / 2)).map(drop),
            "get_many of 16" => {
                let keys: Vec<u64> = (0..16).map(|key| self.dead + (at + key) % LIVE).collect();
                tx.get_many(&self.rows, &keys).map(drop)
            }
            "first" => tx.first(&self.rows, ..).map(drop),
            "last" => tx.last(&self.rows, ..).map(drop),
            "scan" => tx.scan(&self.rows, .., |_, _| ControlFlow::Break(())),
            "scan_reverse" => tx.scan_reverse(&self.rows, .., |_, _| ControlFlow::Break(())),
            "scan_keys" => tx.scan_keys(&self.rows, .., |_| ControlFlow::Break(())),
            "range" => tx.range(&self.rows, ..).next().transpose().map(drop),
            "range, reverse" => tx.range(&self.rows, ..).next_back().transpose().map(drop),
            "first of an index" => tx.first(&self.by_value, ..).map(drop),
            "last of an index" => tx.last(&self.by_value, ..).map(drop),
            "find in an index" => tx.find(&self.by_value, &live).next().transpose().map(drop),
            other => unreachable!("{other} is in no table"),
        }
    }

    /// Time of an operation in nanoseconds: the median of many transactions, or of many calls in one transaction that
    /// has deleted the dead rows.
    fn operation_nanos(&self, scene: Scene, operation: &str) -> Result<f64, Error> {
        let mut nanos = Vec::new();
        let mut timed = |tx: &mut Transaction<'_>, at: u64| {
            let begun = self.clock.nanos();
            self.read(tx, operation, at)?;
            nanos.push((self.clock.nanos() - begun) as f64);
            Ok::<_, Error>(())
        };
        if scene == Scene::OwnDeletes {
            let mut tx = self.db.begin();
            self.delete_keys(&mut tx, self.dead_keys())?;
            (0..TRANSACTIONS).try_for_each(|at| timed(&mut tx, at))?;
        } else {
            (0..TRANSACTIONS).try_for_each(|at| self.db.run(|tx| timed(tx, at)))?;
        }
        Ok(median(nanos))
    }
}

/// Time in nanoseconds to take rows one by one in one transaction, without its commit: the median of some tables.
fn taking_nanos(arguments: &LimitsArguments, scene: Scene, dead: u64) -> Result<f64> {
    let mut nanos = Vec::new();
    for _ in 0..TAKING {
        let bench = Bench::filled(arguments, dead)?;
        let _snapshot = prepare(&bench, scene)?;
        let mut begun = None;
        let ended = bench.db.run(|tx| {
            if scene == Scene::OwnDeletes {
                bench.delete_keys(tx, bench.dead_keys())?;
                begun = None;
            }
            // The time begins at the first run, and includes runs that lose.
            begun.get_or_insert_with(|| bench.clock.nanos());
            for _ in 0..TAKEN {
                tx.pop_first(&bench.rows, ..)?;
            }
            Ok(bench.clock.nanos())
        });
        let (begun, ended) = (begun.unwrap_or_default(), ended.map_err(Failure::Database)?);
        nanos.push((ended - begun) as f64);
    }
    Ok(median(nanos))
}

/// Deletes the rows of a scene, beside a snapshot if the scene has one.
fn prepare(bench: &Bench, scene: Scene) -> Result<Option<ensile::Snapshot<'_>>> {
    let snapshot = match scene {
        Scene::BesideSnapshot => Some(bench.db.snapshot_latest().map_err(Failure::Database)?),
        _ => None,
    };
    if scene != Scene::OwnDeletes {
        bench.delete().map_err(Failure::Database)?;
    }
    Ok(snapshot)
}

/// Each operation in each scene, with and without deleted rows.
pub(super) fn run(arguments: &LimitsArguments, progress: &mut Progress) -> Result<Vec<Row>> {
    let dead = arguments.records.unwrap_or(DEAD);
    let mut rows = Vec::new();
    for scene in Scene::ALL {
        let (none, some) = (Bench::filled(arguments, 0)?, Bench::filled(arguments, dead)?);
        let _snapshots = (prepare(&none, scene)?, prepare(&some, scene)?);
        for operation in OPERATIONS {
            progress.say(&format!("{operation}, {}", scene.name()));
            let nanos = |bench: &Bench| bench.operation_nanos(scene, operation).map_err(Failure::Database);
            rows.push(row(scene, operation, nanos(&none)?, nanos(&some)?));
        }
        progress.say(&format!("taking, {}", scene.name()));
        let taking = [taking_nanos(arguments, scene, 0)?, taking_nanos(arguments, scene, dead)?];
        rows.push(row(scene, "500 rows taken", taking[0], taking[1]));
    }
    Ok(rows)
}

fn row(scene: Scene, operation: &str, none: f64, some: f64) -> Row {
    Row::default()
        .with("scene", scene.name())
        .with("operation", operation)
        .with("none_us", none / 1e3)
        .with("dead_us", some / 1e3)
        .with("ratio", some / none)
}
