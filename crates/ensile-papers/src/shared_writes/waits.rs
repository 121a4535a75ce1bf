//! Strict results before durability: the writes of the wait, beside the writes of the transaction.
//!
//! During a wait, the conductor permits logger steps but no heartbeat. So an epoch closes only for a waiter, and no
//! transaction finds its epoch durable before the registration as a waiter.
//!
//! Neighbours: run by [`super::alternation`]; durable results are in [`super::keys`].

use ensile::{Database, Durability, Readable, Table};
use ensile_base::random::Random;
use ensile_base::sync::access_trace::Touched;
use ensile_bench::Result;
use ensile_bench::ycsb::payload::Payload;

use super::alternation::{Does, Kind, Side, Stage, recorded};
use super::manual_database::Driven;

type Value = Payload<100>;

/// Rows of one side, including the margin towards the other side.
const ROWS_PER_SIDE: u64 = 4_000;
/// Rows that a side draws from.
const DRAWN_ROWS: u64 = 2_000;
/// Rows of one loading transaction.
const ROWS_PER_TRANSACTION: u64 = 50;

#[derive(Clone, Copy)]
enum Operation {
    /// The wait for a receipt alone.
    Receipt,
    /// Reads a row that was written a moment before.
    Get,
    Put,
}

const OPERATIONS: [(Operation, &str, Does); 3] = [
    (Operation::Receipt, "a receipt's wait alone", Does::Waits),
    (Operation::Get, "strict get, waits", Does::Waits),
    (Operation::Put, "strict put, waits", Does::Writes),
];

/// A loaded database.
pub(super) struct Waits<'d> {
    driven: &'d Driven,
    table: Table<u64, Value>,
}

impl<'d> Waits<'d> {
    pub(super) fn load(driven: &'d Driven) -> Result<Self> {
        let db = &driven.db;
        let table = db.table("rows")?;
        for first in (0..2 * ROWS_PER_SIDE).step_by(ROWS_PER_TRANSACTION as usize) {
            let mut rows = first..first + ROWS_PER_TRANSACTION;
            db.run(|tx| rows.try_for_each(|row| tx.put(&table, &row, &Payload::of(row))))?;
            driven.beat();
        }
        driven.settle();
        Ok(Self { driven, table })
    }
}

impl Stage for Waits<'_> {
    fn kinds(&self) -> Vec<Kind> {
        OPERATIONS.iter().map(|&(_, name, does)| Kind { name, does, times: 1 }).collect()
    }

    fn side(&self, side: usize) -> Side<'_> {
        let mut random = Random::from_seed(side as u64 + 1);
        Box::new(move |kind| {
            // The margin lies between the sides.
            let margin = (ROWS_PER_SIDE - DRAWN_ROWS) * side as u64;
            let key = side as u64 * ROWS_PER_SIDE + margin + random.next_below(DRAWN_ROWS);
            run(&self.driven.db, &self.table, OPERATIONS[kind].0, key)
        })
    }

    fn beat(&self) {
        self.driven.beat();
    }

    fn nudge(&self) {
        self.driven.log();
    }
}

/// One transaction. The rows to find are written before the recording.
fn run(db: &Database, table: &Table<u64, Value>, operation: Operation, key: u64) -> Result<Vec<Touched>> {
    let put = |tx: &mut ensile::Transaction<'_>| tx.put(table, &key, &Payload::of(!key));
    if let Operation::Put = operation {
        return recorded(|| {
            db.run(|tx| {
                tx.set_durability(Durability::Strict);
                put(tx)
            })
        });
    }
    let ((), receipt) = db.submit(put)?;
    assert!(!receipt.is_durable(), "no epoch closes by itself");
    match operation {
        Operation::Receipt => recorded(|| receipt.durable()),
        _ => recorded(|| {
            db.run(|tx| {
                tx.set_durability(Durability::Strict);
                tx.get_with(table, &key, Payload::look).map(|_| ())
            })
        }),
    }
}
