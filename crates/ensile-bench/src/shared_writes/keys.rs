//! Single-key transactions: YCSB's and the rest of the interface, on a table of 100-byte values.
//!
//! Loaded keys stand a hundred apart, so that there is room between them for inserts. Deletes take what the same side
//! inserted before, so the table keeps its size.
//!
//! Neighbours: run by [`super::alternation`]; which keys are drawn is said by [`Keys`].

use std::collections::VecDeque;
use std::ops::ControlFlow;

use ensile::{Database, KeyValue, Readable, Table};
use ensile_base::random::Random;

use super::alternation::{Kind, Side, Stage};
use super::counting::{Driven, Keys};
use crate::failure::Result;
use crate::workload::ycsb::payload::Payload;

/// Bytes of a value.
const VALUE_BYTES: usize = 100;
/// Loaded rows.
const ROWS: u64 = 40_000;
/// Rows that both sides draw from where they draw the same: few, so that they meet.
const SAME_ROWS: u64 = 8;
/// Distance of loaded keys.
const STEP: u64 = 100;
/// Rows on either side of the middle that nobody draws where keys are apart: no scan, leaf or line reaches across.
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
    BareGet,
    BareModify,
    Modify,
    Put,
    Insert,
    Delete,
}

/// What is run in each round, in this order; name, and whether it only reads.
const OPERATIONS: [(Operation, &str, bool); 14] = [
    (Operation::Get, "get", true),
    (Operation::GetMany, "get-many of 16", true),
    (Operation::Scan, "scan of 50", true),
    (Operation::Range, "range of 50", true),
    (Operation::SnapshotGet, "snapshot get", true),
    (Operation::SnapshotScan, "snapshot scan of 50", true),
    (Operation::Open, "open, 2 gets", true),
    // It only reads, but holds a handle of its own: an owner more, counted in a line that all have.
    (Operation::OpenOwned, "open and owned, 2 gets", false),
    (Operation::BareGet, "key-value get", true),
    (Operation::BareModify, "key-value modify", false),
    (Operation::Modify, "read-modify-write", false),
    (Operation::Put, "put", false),
    (Operation::Insert, "insert", false),
    (Operation::Delete, "delete", false),
];

/// A loaded database.
pub(super) struct SingleKeys<'d> {
    driven: &'d Driven,
    table: Table<u64, Value>,
    /// A table of its own: what goes through key-value is not for transactions.
    bare: Table<u64, Value>,
    keys: Keys,
}

impl<'d> SingleKeys<'d> {
    pub(super) fn load(driven: &'d Driven, keys: Keys) -> Result<Self> {
        let db = &driven.db;
        let (table, bare) = (db.table("rows")?, db.table("bare")?);
        for first in (0..ROWS).step_by(ROWS_PER_TRANSACTION as usize) {
            let mut rows = first..ROWS.min(first + ROWS_PER_TRANSACTION);
            db.run(|tx| rows.try_for_each(|row| tx.put(&table, &(row * STEP), &Payload::of(row))))?;
            driven.beat();
        }
        let mut access = db.key_value(&bare);
        (0..ROWS).try_for_each(|row| access.put(&(row * STEP), &Payload::of(row)))?;
        drop(access);
        driven.settle();
        Ok(Self { driven, table, bare, keys })
    }
}

impl Stage for SingleKeys<'_> {
    fn kinds(&self) -> Vec<Kind> {
        OPERATIONS.iter().map(|&(_, name, reads)| Kind { name, reads, times: 1 }).collect()
    }

    fn side(&self, side: usize) -> Side<'_> {
        let db = &self.driven.db;
        let mut client = Client {
            db,
            table: &self.table,
            bare: db.key_value(&self.bare),
            draw: Draw {
                keys: self.keys,
                side: side as u64,
                random: Random::seeded(side as u64 + 1),
                inserted: VecDeque::new(),
            },
        };
        Box::new(move |kind| Ok(client.run(OPERATIONS[kind].0)?))
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
    /// A loaded key of this side's, with a scan's rows behind it.
    fn key(&mut self) -> u64 {
        let rows = ROWS - 2 * ROWS_PER_SCAN;
        let row = match self.keys {
            Keys::Apart => self.side * (rows / 2 + MARGIN) + self.random.below(rows / 2 - MARGIN),
            Keys::Neighbouring => 2 * self.random.below(rows / 2) + self.side,
            Keys::Same => self.random.below(SAME_ROWS),
        };
        row * STEP
    }

    /// A key that is not there and that the other side never draws, behind a loaded one.
    fn free(&mut self) -> u64 {
        loop {
            let key = self.key() + 1 + self.side + 2 * self.random.below(STEP / 2 - 1);
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
    bare: KeyValue<'s, u64, Value>,
    draw: Draw,
}

impl Client<'_> {
    fn run(&mut self, operation: Operation) -> ensile::Result<()> {
        let Self { db, table, bare, draw } = self;
        let key = draw.key();
        match operation {
            Operation::Get => db.run(|tx| look(tx, table, key)),
            Operation::GetMany => {
                let keys: [u64; KEYS_PER_GET] = std::array::from_fn(|_| draw.key());
                db.run(|tx| {
                    tx.get_many_with(table, &keys, |_, value| value.into_iter().for_each(Payload::look))
                })
            }
            Operation::Scan => db.run(|tx| scan(tx, table, key)),
            Operation::Range => db.run(|tx| {
                let mut rows = tx.range(table, key..).take(ROWS_PER_SCAN as usize);
                rows.try_for_each(|row| row.map(|(_, value)| value.look()))
            }),
            Operation::SnapshotGet => look(&mut db.snapshot()?, table, key),
            Operation::SnapshotScan => scan(&mut db.snapshot()?, table, key),
            Operation::Open => twice(db.begin(), table, [key, draw.key()]),
            Operation::OpenOwned => twice(db.begin_owned(), table, [key, draw.key()]),
            Operation::BareGet => bare.get_with(&key, Payload::look).map(drop),
            Operation::BareModify => bare.modify(&key, Payload::bump).map(drop),
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

fn look(reader: &mut impl Readable, table: &Table<u64, Value>, key: u64) -> ensile::Result<()> {
    let found = reader.get_with(table, &key, Payload::look)?;
    assert!(found.is_some(), "every loaded key is there");
    Ok(())
}

fn scan(reader: &mut impl Readable, table: &Table<u64, Value>, from: u64) -> ensile::Result<()> {
    let mut left = ROWS_PER_SCAN;
    reader.scan(table, from.., |_, value: Value| {
        value.look();
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
}

/// A transaction that stays open between its two reads.
fn twice(mut tx: ensile::Transaction<'_>, table: &Table<u64, Value>, keys: [u64; 2]) -> ensile::Result<()> {
    keys.into_iter().try_for_each(|key| look(&mut tx, table, key))?;
    tx.commit().map(drop)
}
