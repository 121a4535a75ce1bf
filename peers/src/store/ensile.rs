//! Ensile, through its public crate.
//!
//! Rows have a fixed layout, so a read needs no copy of the row.

use std::ops::ControlFlow;
use std::path::Path;
use std::thread;

use ensile::codec::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use ensile::{Database, Durability, Readable as _, Table};

use super::{Facts, Level, Store, missing};
use crate::failure::Result;
use crate::machine::cores;
use crate::rows::{VALUE_BYTES, Value, value_of};

/// Rows of a transaction of the load.
const ROWS_PER_TRANSACTION: usize = 1_000;

/// A value: the layout of [`crate::rows`].
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[zerocopy(crate = "ensile::codec::zerocopy")]
#[repr(C)]
struct Row {
    bytes: [u8; VALUE_BYTES],
}
ensile::fixed_layout!(Row { bytes: [u8; VALUE_BYTES] }, "peers row v1");

impl Row {
    fn new(key: u64) -> Self {
        Self { bytes: value_of(key) }
    }

    #[inline]
    fn key(&self) -> u64 {
        crate::rows::key_in(&self.bytes)
    }
}

pub(super) struct EnsileStore {
    db: Database,
    table: Table<u64, Row>,
}

impl EnsileStore {
    pub(super) fn load(folder: &Path, mut keys: Vec<u64>) -> Result<Self> {
        let store = Self::with(Database::builder(folder).durability(Durability::Relaxed).open()?)?;
        keys.sort_unstable();
        let share = keys.len().div_ceil(cores());
        thread::scope(|scope| {
            let threads: Vec<_> =
                keys.chunks(share).map(|keys| scope.spawn(|| store.load_share(keys))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("a load fails by its result"))
        })?;
        Ok(store)
    }

    fn load_share(&self, keys: &[u64]) -> Result<()> {
        let mut last = None;
        for keys in keys.chunks(ROWS_PER_TRANSACTION) {
            let insert = |key: &u64| (*key, Row::new(*key));
            let rows: Vec<_> = keys.iter().map(insert).collect();
            let ((), receipt) =
                self.db.submit(|tx| rows.iter().try_for_each(|(key, row)| tx.put(&self.table, key, row)))?;
            last = Some(receipt);
        }
        // Epochs become durable in order, so the last receipt proves the earlier transactions too.
        last.map_or(Ok(()), |receipt| Ok(receipt.durable()?))
    }

    pub(super) fn open(folder: &Path, level: Level) -> Result<Self> {
        let durability = match level {
            Level::Process => Durability::Process,
            Level::Strict => Durability::Strict,
        };
        Self::with(Database::builder(folder).durability(durability).open()?)
    }

    fn with(db: Database) -> Result<Self> {
        let table = db.table("rows")?;
        Ok(Self { db, table })
    }
}

impl Store for EnsileStore {
    fn facts(&self) -> Result<Facts> {
        Ok(Facts {
            version: super::locked_version("ensile"),
            load: format!(
                "relaxed transactions of {ROWS_PER_TRANSACTION} sorted rows, a thread a core, then Receipt::durable"
            ),
            open: "defaults".to_owned(),
            process: "Durability::Process".to_owned(),
            strict: "Durability::Strict, the default".to_owned(),
            calls: "run with get_with, get_many_with, scan, range, update".to_owned(),
        })
    }

    #[inline]
    fn read(&self, key: u64) -> Result<u64> {
        self.db.run(|tx| tx.get_with(&self.table, &key, Row::key))?.ok_or_else(|| missing(key))
    }

    fn read_many(&self, keys: &[u64]) -> Result<u64> {
        Ok(self.db.run(|tx| {
            let mut sum = 0;
            tx.get_many_with(&self.table, keys, |_, row| sum += row.map_or(0, Row::key))?;
            Ok(sum)
        })?)
    }

    fn scan(&self, from: u64, rows: usize) -> Result<u64> {
        Ok(self.db.run(|tx| {
            let (mut sum, mut left) = (0, rows);
            tx.scan(&self.table, from.., |_key, row: &Row| {
                sum += row.key();
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            Ok(sum)
        })?)
    }

    fn lend(&self, from: u64, rows: usize) -> Result<u64> {
        Ok(self.db.run(|tx| {
            let (mut range, mut sum) = (tx.range(&self.table, from..), 0);
            for _ in 0..rows {
                let Some(key) = range.next_with(|_key, row| row.key())? else { break };
                sum += key;
            }
            Ok(sum)
        })?)
    }

    fn range(&self, from: u64, rows: usize, into: &mut Vec<(u64, Value)>) -> Result<()> {
        Ok(self.db.run(|tx| {
            into.clear();
            for row in tx.range(&self.table, from..).take(rows) {
                let (key, row) = row?;
                into.push((key, row.bytes));
            }
            Ok(())
        })?)
    }

    fn update(&self, key: u64) -> Result<()> {
        let is_there = self.db.run(|tx| {
            tx.update(&self.table, &key, |row: &mut Row| row.bytes = crate::rows::updated(&row.bytes))
        })?;
        if is_there { Ok(()) } else { Err(missing(key)) }
    }

    fn totals(&self) -> Result<(u64, u64)> {
        Ok(self.db.run(|tx| {
            let mut totals = (0, 0);
            tx.scan(&self.table, .., |_key, row: &Row| {
                totals = (totals.0 + 1, totals.1 + crate::rows::count_in(&row.bytes));
                ControlFlow::Continue(())
            })?;
            Ok(totals)
        })?)
    }

    fn settle(&self) -> Result<()> {
        self.db.checkpoint()?.wait()?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}
