//! A database with transactions whose rows can be recomputed: the history gives the content at the end of any epoch.
//!
//! The keys are in [`STREAMS`] streams of one length. Transaction t changes row `t % length` of every stream. So the
//! rows of a transaction are in pages far from each other. Some rows are deleted, and put again when the streams have
//! come round.
//!
//! Neighbours: [`super`] compares restored databases with the history.

use std::ops::ControlFlow;
use std::time::Duration;

use ensile::receipt::Epoch;
use ensile::{Database, Readable, Table};
use ensile_base::sync::{AtomicBool, Mutex, Ordering, sleep};
use ensile_bench::Result;

pub(super) const VALUE_BYTES: usize = 100;
/// Rows of a transaction, each far from the next.
const STREAMS: u64 = 16;
/// One row in seven is deleted.
const DELETED: u64 = 7;
/// Pause between two transactions. The pause keeps some of the pages out of an increment.
const PAUSE: Duration = Duration::from_millis(1);
/// Rows of a comparing transaction.
const ROWS_PER_LOOK: usize = 1_024;
const TABLE: &str = "rows";

/// Number of rows of a database for `asked` requested rows.
pub(super) fn rows_of(asked: u64) -> u64 {
    asked / STREAMS * STREAMS
}

/// The committed transactions by epoch.
pub(super) struct History {
    /// Rows of a stream.
    length: u64,
    /// Epochs with commits, and the number of transactions up to the epoch's end.
    epochs: Mutex<Vec<(Epoch, u64)>>,
}

impl History {
    /// Puts every row once.
    pub(super) fn filled(db: &Database, rows: u64) -> Result<Self> {
        let history = Self { length: rows_of(rows) / STREAMS, epochs: Mutex::default() };
        let table = db.table(TABLE)?;
        (0..history.length).try_for_each(|at| history.write(db, &table, at))?;
        Ok(history)
    }

    /// Commits one transaction after the other.
    pub(super) fn go_on(&self, db: &Database, is_over: &AtomicBool) -> Result<()> {
        let table = db.table(TABLE)?;
        // Relaxed: the flag only ends a loop.
        for at in (self.length..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
            self.write(db, &table, at)?;
            sleep(PAUSE);
        }
        Ok(())
    }

    fn write(&self, db: &Database, table: &Table<u64, Vec<u8>>, at: u64) -> Result<()> {
        let ((), receipt) = db.submit(|tx| {
            for stream in 0..STREAMS {
                let key = stream * self.length + at % self.length;
                match self.row(at, stream) {
                    Some(row) => tx.put(table, &key, &row)?,
                    None => _ = tx.delete(table, &key)?,
                }
            }
            Ok(())
        })?;
        let mut epochs = self.epochs.lock();
        match epochs.last_mut() {
            Some(last) if last.0 == receipt.epoch() => last.1 = at + 1,
            _ => epochs.push((receipt.epoch(), at + 1)),
        }
        Ok(())
    }

    /// The row of a stream after transaction `at`.
    fn row(&self, at: u64, stream: u64) -> Option<Vec<u8>> {
        let (round, within) = (at / self.length, at % self.length);
        if round > 0 && (round + within + stream).is_multiple_of(DELETED) {
            return None;
        }
        let mut row = vec![at as u8; VALUE_BYTES];
        row[..8].copy_from_slice(&at.to_le_bytes());
        row[8] = stream as u8;
        Some(row)
    }

    /// Number of transactions up to the end of this epoch. The epoch must be over.
    fn transactions(&self, epoch: Epoch) -> u64 {
        loop {
            let epochs = self.epochs.lock();
            let known = epochs.partition_point(|(of, _)| *of <= epoch);
            // The writer may have committed in the epoch without a record in `epochs` yet.
            if known < epochs.len() {
                return known.checked_sub(1).map_or(0, |last| epochs[last].1);
            }
            drop(epochs);
            sleep(PAUSE);
        }
    }

    /// The row of a key after `transactions` transactions.
    fn expected(&self, key: u64, transactions: u64) -> Option<Vec<u8>> {
        let (stream, within) = (key / self.length, key % self.length);
        let newest = (transactions.checked_sub(within + 1)?) / self.length * self.length + within;
        self.row(newest, stream)
    }

    /// The first key whose row differs from the row at the end of this epoch, and the number of rows before the key.
    /// The database must have no concurrent changes.
    pub(super) fn differs_at(&self, db: &Database, epoch: Epoch) -> Result<(Option<u64>, u64)> {
        let (table, transactions) = (db.table::<u64, Vec<u8>>(TABLE)?, self.transactions(epoch));
        let (mut next, mut rows) = (0, 0);
        loop {
            let mut found = Vec::with_capacity(ROWS_PER_LOOK);
            db.run(|tx| {
                found.clear();
                tx.scan(&table, next.., |key, row: &Vec<u8>| {
                    found.push((key, row.clone()));
                    if found.len() == ROWS_PER_LOOK {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                })?;
                Ok(())
            })?;
            let end = if found.len() < ROWS_PER_LOOK {
                STREAMS * self.length
            } else {
                found[ROWS_PER_LOOK - 1].0 + 1
            };
            let mut found = found.into_iter().peekable();
            for key in next..end {
                let row = found.next_if(|(of, _)| *of == key).map(|(_, row)| row);
                if row != self.expected(key, transactions) {
                    return Ok((Some(key), rows));
                }
                rows += u64::from(row.is_some());
            }
            if let Some((key, _)) = found.next() {
                return Ok((Some(key), rows));
            }
            next = end;
            if next >= STREAMS * self.length {
                return Ok((None, rows));
            }
        }
    }
}

#[cfg(test)]
mod tests;
