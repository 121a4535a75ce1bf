//! Typed removals of rows in key order: the ends of a range, and whole ranges.
//!
//! Neighbours: `source` reads the rows; `transaction` keeps the deletes until commit.

use std::ops::Bound;

use ensile_index::{Direction, Range};

use super::read::{decode_row, undecodable_key};
use super::source::{Source, one_row};
use super::table::Table;
use crate::codec::bounds::ByteRange;
use crate::codec::{Key, KeyBounds, KeyBuffer, Value};
use crate::error::{Error, Result};
use crate::read_path::{RawRead as _, RowSource};
use crate::sets::context::Context;
use crate::sets::rows::BatchAsked;
use crate::tables::TableCore;
use crate::transaction::Transaction;

/// Most rows that [`Transaction::delete_range`] reads before it deletes them.
const BATCH_ROWS_MAX: usize = 512;

/// Result of [`Transaction::delete_range`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeDeletion<K> {
    /// Number of deleted rows.
    pub rows: u64,
    /// Key of the last deleted row, if the transaction is full and rows may be left behind the key.
    pub stopped_at: Option<K>,
}

impl Transaction<'_> {
    /// Deletes the row with the least key within `bounds`, and returns the row; `None` without a row. A later call
    /// begins behind the rows that the transaction has deleted. So a transaction takes many rows from a queue without a
    /// slow-down, until the transaction is full.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// # fn main() -> ensile::Result<()> {
    /// let db = ensile::Database::in_memory()?;
    /// let jobs = db.table::<u64, String>("jobs")?;
    /// db.run(|tx| (1..=3).try_for_each(|job| tx.put(&jobs, &job, "to do")))?;
    /// let taken = db.run(|tx| Ok((tx.pop_first(&jobs, ..)?, tx.pop_last(&jobs, ..)?)))?;
    /// assert_eq!(taken, (Some((1, "to do".to_string())), Some((3, "to do".to_string()))));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`first`](crate::Readable::first) and [`delete`](Self::delete).
    pub fn pop_first<S: Source>(
        &mut self,
        source: &S,
        bounds: impl KeyBounds<S::Key>,
    ) -> Result<Option<(S::PrimaryKey, S::Row)>> {
        self.pop(source, &S::range(&bounds), Direction::Forward)
    }

    /// As [`pop_first`](Self::pop_first), with the greatest key.
    ///
    /// # Errors
    /// As for [`pop_first`](Self::pop_first).
    pub fn pop_last<S: Source>(
        &mut self,
        source: &S,
        bounds: impl KeyBounds<S::Key>,
    ) -> Result<Option<(S::PrimaryKey, S::Row)>> {
        self.pop(source, &S::range(&bounds), Direction::Reverse)
    }

    /// Deletes the first row of a range in the scan order of `direction`, and returns the row.
    fn pop<S: Source>(
        &mut self,
        source: &S,
        range: &ByteRange,
        direction: Direction,
    ) -> Result<Option<(S::PrimaryKey, S::Row)>> {
        let table = source.table();
        let found = one_row(source.row_source(), self, range, direction, false, |row| {
            decode_row(table, row.key, row.row).map(|decoded| (KeyBuffer::from_bytes(row.key), decoded))
        })?;
        let Some((key, row)) = found.transpose()? else { return Ok(None) };
        self.raw_delete(table, key.as_ref())?;
        Ok(Some(row))
    }

    /// Deletes the rows within `bounds`, least key first. A range may have more rows than a transaction can delete. The
    /// call then deletes as many as it can, and returns the last deleted key: commit, and continue behind the key in a
    /// new transaction.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use std::ops::Bound;
    /// # fn main() -> ensile::Result<()> {
    /// let db = ensile::Database::in_memory()?;
    /// let events = db.table::<u64, u32>("events")?;
    /// db.run(|tx| (0..1000).try_for_each(|event| tx.put(&events, &event, &7)))?;
    ///
    /// let mut from = Bound::Unbounded;
    /// loop {
    ///     let deletion = db.run(|tx| tx.delete_range(&events, (from, Bound::Excluded(900))))?;
    ///     let Some(key) = deletion.stopped_at else { break };
    ///     from = Bound::Excluded(key);
    /// }
    /// # use ensile::Readable;
    /// # assert_eq!(db.run(|tx| Ok(tx.range(&events, ..).count()))?, 100);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`scan_keys`](crate::Readable::scan_keys) and [`delete`](Self::delete).
    /// [`Error::TooLarge`](crate::Error::TooLarge) only if the transaction was full before its first delete.
    pub fn delete_range<K: Key, V: Value>(
        &mut self,
        table: &Table<K, V>,
        bounds: impl KeyBounds<K>,
    ) -> Result<RangeDeletion<K>> {
        let (core, range) = (&*table.core, bounds.encode());
        let (mut rest, mut rows, mut last) = (range.clone(), 0, None::<KeyBuffer>);
        let source = RowSource { table: core, index: None };
        let asked = BatchAsked { rows_max: BATCH_ROWS_MAX, keys_only: true };
        let mut ended = Ok(());
        while ended.is_ok() && !rest.is_empty() {
            let left = rest.as_range();
            let read = self.raw_batch(source, left, Direction::Forward, asked, |batch| {
                let keys = batch.rows().map(|row| KeyBuffer::from_bytes(row.key));
                (keys.collect::<Vec<_>>(), batch.is_full())
            });
            let goes_on = match read {
                Ok((keys, goes_on)) => {
                    ended = keys.into_iter().try_for_each(|key| {
                        self.raw_delete(core, key.as_ref())?;
                        (rows, last) = (rows + 1, Some(key));
                        Ok(())
                    });
                    goes_on
                }
                Err(error) => {
                    ended = Err(error);
                    false
                }
            };
            match &last {
                Some(key) if goes_on => rest.resume(key.clone(), Direction::Forward),
                _ => break,
            }
        }
        let Some(last) = last else { return ended.map(|()| RangeDeletion { rows, stopped_at: None }) };
        self.note_deleted(core, &range, last.as_ref());
        let stopped_at = match ended {
            Ok(()) => None,
            Err(Error::TooLarge { .. }) => {
                Some(K::decode(last.as_ref()).map_err(|error| undecodable_key::<K>(core, error))?)
            }
            Err(error) => return Err(error),
        };
        Ok(RangeDeletion { rows, stopped_at })
    }

    /// Notes that the transaction has deleted all rows of a range up to a key: a later scan begins behind them.
    fn note_deleted(&mut self, table: &TableCore, range: &ByteRange, last: &[u8]) {
        let deleted = Range { lower: range.as_range().lower, upper: Bound::Included(last) };
        self.run_outside_call(|Context { sets, .. }| {
            sets.dead.note(table.id, deleted, Direction::Forward, None, sets.reads.len());
        });
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
