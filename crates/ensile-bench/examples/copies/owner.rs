//! The process that owns the copied folder, and the process that reads a restored one.
//!
//! The owner adds the next number, and prints the number and its epoch once the number is durable. Therefore an
//! existing state has the numbers from 1 to a last number without a gap.

use std::io::{Write as _, stdout};
use std::sync::Arc;
use std::time::Duration;

use ensile::checkpoint::{Schedule, Strategy};
use ensile::folder::{SharedFolder, ShippingConfig};
use ensile::{Database, Durability, Readable, Table, Tuning};
use ensile_objects::{CheckpointPolicy, ObjectsBuilder, Persistent, serde_codec};
use serde::{Deserialize, Serialize};

/// Result of a process or of a trial.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Time between two checkpoints.
const CHECKPOINTS: Duration = Duration::from_millis(150);
/// Time until a log file is closed.
const LOG_FILES: Duration = Duration::from_millis(100);
/// Length of a log file of objects, in bytes.
const LOG_FILE_BYTES: u64 = 64 << 10;
/// Bytes of the row or object of a number.
const BYTES: usize = 300;

/// Kind of the copied folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Fuzzy,
    Cycling,
    Pictures,
    NoLog,
    Objects,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Fuzzy, Self::Cycling, Self::Pictures, Self::NoLog, Self::Objects];

    pub(crate) fn named(name: &str) -> Result<Self> {
        let named = Self::ALL.into_iter().find(|kind| kind.name() == name);
        named.ok_or_else(|| format!("{name} is no kind of folder").into())
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fuzzy => "fuzzy",
            Self::Cycling => "cycling",
            Self::Pictures => "pictures",
            Self::NoLog => "no-log",
            Self::Objects => "objects",
        }
    }
}

/// Object of a number.
#[derive(Serialize, Deserialize)]
struct Number(Vec<u8>);

/// Operation that adds the object of a number with the given bytes.
#[derive(Serialize, Deserialize)]
struct Add(Vec<u8>);

impl Persistent for Number {
    type Operation = Add;
    type Output = ();
    serde_codec! { object 1, operation 1 }

    fn apply(number: &mut Option<Self>, add: &Add) {
        *number = Some(Self(add.0.clone()));
    }
}

fn tell(number: u64, epoch: u64) -> Result<()> {
    Ok(writeln!(stdout().lock(), "{number} {epoch}")?)
}

/// Opens the database. Without a place, a shipping folder stops shipping.
fn database(kind: Kind, folder: &str, place: Option<&str>) -> Result<(Database, Table<u64, Vec<u8>>)> {
    let strategy = match kind {
        Kind::Cycling => Strategy::Cycling,
        Kind::Pictures | Kind::NoLog => Strategy::Pictures,
        Kind::Fuzzy | Kind::Objects => Strategy::Fuzzy,
    };
    let tuning =
        Tuning { checkpoint_strategy: Some(strategy), log_file_interval: LOG_FILES, ..Tuning::default() };
    let mut builder =
        Database::builder(folder).tuning(tuning).checkpoints(Schedule::default().interval(CHECKPOINTS));
    builder =
        if kind == Kind::NoLog { builder.without_log() } else { builder.durability(Durability::Relaxed) };
    builder = match place {
        Some(place) if place.ends_with("archive") => builder.archive(place),
        Some(place) => builder.ship_to(ShippingConfig::new(Arc::new(SharedFolder::open(place.as_ref())?))),
        None => builder.stop_shipping(),
    };
    let db = builder.open()?;
    let table = db.table("numbers")?;
    Ok((db, table))
}

/// Adds numbers until the process is killed, or the log ends.
pub(crate) fn own(kind: Kind, folder: &str, place: Option<&str>) -> Result<()> {
    if kind == Kind::Objects {
        return own_objects(folder, place);
    }
    let (db, table) = database(kind, folder, place)?;
    let mut next = db.run(|tx| tx.last(&table, ..))?.map_or(1, |(last, _)| last + 1);
    loop {
        let ((), receipt) = db.submit(|tx| tx.insert(&table, &next, &vec![7; BYTES]))?;
        receipt.durable()?;
        tell(next, receipt.epoch().number())?;
        next += 1;
    }
}

fn objects(folder: &str, place: Option<&str>) -> Result<ensile_objects::Objects<u64, Number>> {
    let policy = CheckpointPolicy { interval: Some(CHECKPOINTS), ..CheckpointPolicy::default() };
    let builder = ObjectsBuilder::new(folder).policy(&policy).log_file_bytes(LOG_FILE_BYTES);
    let builder = match place {
        Some(place) => builder.ship_to(ShippingConfig::new(Arc::new(SharedFolder::open(place.as_ref())?))),
        None => builder.stop_shipping(),
    };
    Ok(builder.open()?)
}

fn own_objects(folder: &str, place: Option<&str>) -> Result<()> {
    let numbers = objects(folder, place)?;
    let mut next = 1;
    numbers.for_each(|number, _| next = next.max(number + 1))?;
    loop {
        let ((), receipt) = numbers.submit(next, &Add(vec![7; BYTES]))?;
        receipt.durable()?;
        tell(next, receipt.epoch().number())?;
        next += 1;
    }
}

/// Prints the last number of the folder. True if the folder has every earlier number.
pub(crate) fn read(kind: Kind, folder: &str) -> Result<bool> {
    let mut numbers: Vec<u64> = Vec::new();
    let mut is_whole = true;
    if kind == Kind::Objects {
        let found = objects(folder, None)?;
        found.for_each(|number, object| {
            numbers.push(*number);
            is_whole &= object.0.len() == BYTES;
        })?;
        numbers.sort_unstable();
    } else {
        let (db, table) = database(kind, folder, None)?;
        numbers = db.run(|tx| {
            tx.range(&table, ..).map(|row| row.map(|(number, _)| number)).collect::<ensile::Result<_>>()
        })?;
        db.close()?;
    }
    println!("{}", numbers.len());
    Ok(is_whole && numbers.iter().copied().eq(1..=numbers.len() as u64))
}
