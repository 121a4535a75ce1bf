//! Single-key transactions: YCSB's and the rest of the interface, on a table of 100-byte values.
//!
//! Loaded keys are a hundred apart, so inserts have room between loaded keys. Deletes take earlier inserts of the same
//! side, so the table keeps its size.
//!
//! Neighbours: [`super::alternation`] runs the transactions; [`Keys`] chooses the keys.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use ensile::{Database, Durability, KeyValue, Readable, Receipt, Table, Transaction};
use ensile_base::random::Random;
use ensile_bench::Result;
use ensile_bench::ycsb::payload::Payload;

use super::alternation::{Does, Kind, Side, Stage, recorded};
use super::choices::Keys;
use super::manual_database::Driven;

/// Bytes of a value.
const VALUE_BYTES: usize = 100;
/// Loaded rows.
const ROWS: u64 = 40_000;
/// Rows of both sides for equal draws: few, so the sides meet.
const SAME_ROWS: u64 = 8;
/// Distance of loaded keys.
const STEP: u64 = 100;
/// Unused rows on either side of the middle for keys apart: no scan, leaf or line reaches across.
const MARGIN: u64 = 2_000;
/// Rows of one loading transaction.
const ROWS_PER_TRANSACTION: u64 = 64;
/// Keys of a multi-get.
const KEYS_PER_GET: usize = 16;
/// Rows of a scan.
const ROWS_PER_SCAN: u64 = 50;

type Value = Payload<VALUE_BYTES>;

#[derive(Clone, Copy)]
enum Operation {
    Get,
    GetMany,
    Scan,
    Range,
    SnapshotGet,
    SnapshotScan,
    Open,
    OpenOwned,
    StrictGet,
    StrictScan,
    StrictOpen,
    DurableSnapshot,
    BareGet,
    BareModify,
    Modify,
    Put,
    Insert,
    Delete,
}

impl Operation {
    fn is_bare(self) -> bool {
        matches!(self, Self::BareGet | Self::BareModify)
    }
}

/// The operations of each round, in order: operation, name, and effect.
const OPERATIONS: [(Operation, &str, Does); 18] = [
    (Operation::Get, "get", Does::Reads),
    (Operation::GetMany, "get-many of 16", Does::Reads),
    (Operation::Scan, "scan of 50", Does::Reads),
    (Operation::Range, "range of 50", Does::Reads),
    (Operation::SnapshotGet, "snapshot get", Does::Reads),
    (Operation::SnapshotScan, "snapshot scan of 50", Does::Reads),
    (Operation::Open, "open, 2 gets", Does::Reads),
    (Operation::OpenOwned, "open and owned, 2 gets", Does::ReadsOwned),
    (Operation::StrictGet, "strict get, durable already", Does::Reads),
    (Operation::StrictScan, "strict scan of 50, durable already", Does::Reads),
    (Operation::StrictOpen, "strict open, 2 gets, durable already", Does::Reads),
    (Operation::DurableSnapshot, "snapshot get, durable already", Does::Reads),
    (Operation::BareGet, "key-value get", Does::Reads),
    (Operation::BareModify, "key-value modify", Does::Writes),
    (Operation::Modify, "read-modify-write", Does::Writes),
    (Operation::Put, "put", Does::Writes),
    (Operation::Insert, "insert", Does::Writes),
    (Operation::Delete, "delete", Does::Writes),
];

/// A loaded database.
pub(super) struct SingleKeys<'d> {
    driven: &'d Driven,
    table: Table<u64, Value>,
    /// A table without writes after the load: strict results read from the table are durable.
    settled: Table<u64, Value>,
    /// The table of key-value operations; transactions must not use the table. `None` with a log: a database with a log
    /// refuses key-value operations.
    bare: Option<Table<u64, Value>>,
    keys: Keys,
}

impl<'d> SingleKeys<'d> {
    pub(super) fn load(driven: &'d Driven, keys: Keys) -> Result<Self> {
        let db = &driven.db;
        let (table, settled) = (db.table("rows")?, db.table("settled")?);
        let bare = if driven.has_log { None } else { Some(db.table("bare")?) };
        for table in [&table, &settled] {
            for first in (0..ROWS).step_by(ROWS_PER_TRANSACTION as usize) {
                let mut rows = first..ROWS.min(first + ROWS_PER_TRANSACTION);
                db.run(|tx| rows.try_for_each(|row| tx.put(table, &(row * STEP), &Payload::of(row))))?;
                driven.beat();
            }
        }
        if let Some(bare) = &bare {
            let mut access = db.key_value(bare)?;
            (0..ROWS).try_for_each(|row| access.put(&(row * STEP), &Payload::of(row)))?;
        }
        driven.settle();
        Ok(Self { driven, table, settled, bare, keys })
    }

    /// The operations that this database takes.
    fn operations(&self) -> impl Iterator<Item = (Operation, &'static str, Does)> {
        let has_bare = self.bare.is_some();
        OPERATIONS.into_iter().filter(move |(operation, ..)| has_bare || !operation.is_bare())
    }
}

impl Stage for SingleKeys<'_> {
    fn kinds(&self) -> Vec<Kind> {
        self.operations().map(|(_, name, does)| Kind { name, does, times: 1 }).collect()
    }

    fn side(&self, side: usize) -> Side<'_> {
        let db = &self.driven.db;
        let operations: Vec<Operation> = self.operations().map(|(operation, ..)| operation).collect();
        let bare = self.bare.as_ref().map(|bare| db.key_value(bare).expect("this database has no log"));
        let mut client = Client {
            db,
            table: &self.table,
            settled: &self.settled,
            bare,
            draw: Draw {
                keys: self.keys,
                side: side as u64,
                random: Random::from_seed(side as u64 + 1),
                inserted: VecDeque::new(),
            },
        };
        Box::new(move |kind| recorded(|| client.run(operations[kind])))
    }

    fn beat(&self) {
        self.driven.beat();
    }
}

/// One side's draws.
struct Draw {
    keys: Keys,
    side: u64,
    random: Random,
    inserted: VecDeque<u64>,
}

impl Draw {
    /// A loaded key of this side, followed by at least a scan's rows.
    fn key(&mut self) -> u64 {
        let rows = ROWS - 2 * ROWS_PER_SCAN;
        let row = match self.keys {
            Keys::Apart => self.side * (rows / 2 + MARGIN) + self.random.next_below(rows / 2 - MARGIN),
            Keys::Neighbouring => 2 * self.random.next_below(rows / 2) + self.side,
            Keys::Same => self.random.next_below(SAME_ROWS),
        };
        row * STEP
    }

    /// An absent key after a loaded key; the other side never draws the key.
    fn free(&mut self) -> u64 {
        loop {
            let key = self.key() + 1 + self.side + 2 * self.random.next_below(STEP / 2 - 1);
            if !self.inserted.contains(&key) {
                self.inserted.push_back(key);
                return key;
            }
        }
    }
}

/// One side at work.
struct Client<'s> {
    db: &'s Database,
    table: &'s Table<u64, Value>,
    settled: &'s Table<u64, Value>,
    bare: Option<KeyValue<'s, u64, Value>>,
    draw: Draw,
}

impl Client<'_> {
    fn run(&mut self, operation: Operation) -> ensile::Result<()> {
        let Self { db, table, settled, bare, draw } = self;
        let key = draw.key();
        match operation {
            Operation::Get => db.run(|tx| look(tx, table, key)),
            Operation::GetMany => {
                let keys: [u64; KEYS_PER_GET] = std::array::from_fn(|_| draw.key());
                db.run(|tx| {
                    tx.get_many_with(*table, &keys, |_, value| value.into_iter().for_each(Payload::look))
                })
            }
            Operation::Scan => db.run(|tx| scan(tx, table, key)),
            Operation::Range => db.run(|tx| {
                let mut rows = tx.range(*table, key..).take(ROWS_PER_SCAN as usize);
                rows.try_for_each(|row| row.map(|(_, value)| value.look()))
            }),
            Operation::SnapshotGet => look(&mut db.snapshot()?, table, key),
            Operation::SnapshotScan => scan(&mut db.snapshot()?, table, key),
            Operation::Open => twice(db.begin(), table, [key, draw.key()]).map(drop),
            Operation::OpenOwned => twice(db.begin_owned(), table, [key, draw.key()]).map(drop),
            Operation::StrictGet => strict(db, |tx| look(tx, settled, key)),
            Operation::StrictScan => strict(db, |tx| scan(tx, settled, key)),
            Operation::StrictOpen => twice(db.begin(), settled, [key, draw.key()])?.durable(),
            Operation::DurableSnapshot => {
                let mut snapshot = db.snapshot()?;
                look(&mut snapshot, settled, key)?;
                snapshot.durable()
            }
            Operation::BareGet => bare_of(bare).get_with(&key, Payload::look).map(drop),
            Operation::BareModify => bare_of(bare).modify(&key, Payload::bump).map(drop),
            Operation::Modify => db.run(|tx| tx.update(table, &key, Payload::bump).map(drop)),
            Operation::Put => db.run(|tx| tx.put(table, &key, &Payload::of(!key))),
            Operation::Insert => {
                let key = draw.free();
                db.run(|tx| tx.insert(table, &key, &Payload::of(key)))
            }
            Operation::Delete => {
                let key = draw.inserted.pop_front().expect("each round inserts before it deletes");
                db.run(|tx| tx.delete(table, &key).map(drop))
            }
        }
    }
}

fn bare_of<'b, 's>(bare: &'b mut Option<KeyValue<'s, u64, Value>>) -> &'b mut KeyValue<'s, u64, Value> {
    bare.as_mut().expect("its operations are run only where it is")
}

/// Runs `read` and waits until the result is durable.
fn strict(
    db: &Database,
    mut read: impl FnMut(&mut Transaction<'_>) -> ensile::Result<()>,
) -> ensile::Result<()> {
    db.run(|tx| {
        tx.set_durability(Durability::Strict);
        read(tx)
    })
}

fn look(reader: &mut impl Readable, table: &Table<u64, Value>, key: u64) -> ensile::Result<()> {
    let found = reader.get_with(table, &key, Payload::look)?;
    assert!(found.is_some(), "every loaded key is there");
    Ok(())
}

fn scan(reader: &mut impl Readable, table: &Table<u64, Value>, from: u64) -> ensile::Result<()> {
    let mut left = ROWS_PER_SCAN;
    reader.scan(table, from.., |_, value: &Value| {
        value.look();
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
}

/// A transaction that stays open between its two reads.
fn twice<'db>(
    mut tx: Transaction<'db>,
    table: &Table<u64, Value>,
    keys: [u64; 2],
) -> ensile::Result<Receipt<'db>> {
    keys.into_iter().try_for_each(|key| look(&mut tx, table, key))?;
    tx.commit()
}
