//! Iterator over the rows of a range.
//!
//! Rows are fetched in batches, and each batch follows the last row of the batch before. The first batch is small,
//! because a transaction's read-set grows by all fetched rows, used or not. Each batch is twice as large as the batch
//! before, up to a limit in rows and a limit in bytes.
//!
//! Batches come from the front or from the back of the range, and the range shrinks from that end.
//!
//! Invariant: A batch begins strictly behind the last row fetched from its end, so no row comes twice.
//!
//! Neighbours: [`Readable`] makes the iterator, and `raw_batch` fetches the rows.

use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use ensile_index::Direction;

use super::read::{Readable, decode_row};
use crate::codec::bounds::ByteRange;
use crate::codec::{Key, KeyBuffer, Value};
use crate::error::Result;
use crate::sets::rows::BatchAsked;
use crate::tables::{IndexCore, TableCore};

/// Number of rows in the first batch.
const BATCH_ROWS_FIRST: usize = 8;
/// Largest number of rows in a batch.
const BATCH_ROWS_MAX: usize = 512;

/// The rows of a range, from either end: the result of [`Readable::range`] and [`Readable::find`].
///
/// The iterator borrows the transaction. To write during a read, collect first or use several ranges. The iterator ends
/// after an error.
pub struct Rows<'r, R, K, V> {
    reader: &'r mut R,
    // Borrowed, not held: a further owner would write to a line that every other reader of the table reads.
    table: &'r TableCore,
    /// The index that orders the rows; `None` for the order of the primary key.
    index: Option<&'r IndexCore>,
    /// Range not yet fetched.
    rest: ByteRange,
    batch_rows: usize,
    /// Rows fetched from the front and from the back, in the order of their fetch.
    front: VecDeque<(K, V)>,
    back: VecDeque<(K, V)>,
    /// Result of the last batch, if no batch can follow.
    end: Option<Result<()>>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<'r, R: Readable, K: Key, V: Value> Rows<'r, R, K, V> {
    pub(super) fn new(
        reader: &'r mut R,
        table: &'r TableCore,
        index: Option<&'r IndexCore>,
        range: ByteRange,
    ) -> Self {
        Self {
            reader,
            table,
            index,
            rest: range,
            batch_rows: BATCH_ROWS_FIRST,
            front: VecDeque::new(),
            back: VecDeque::new(),
            end: None,
            types: PhantomData,
        }
    }

    /// The next row from the end given by `direction`.
    fn step(&mut self, direction: Direction) -> Option<Result<(K, V)>> {
        loop {
            let (near, far) = match direction {
                Direction::Forward => (&mut self.front, &mut self.back),
                Direction::Reverse => (&mut self.back, &mut self.front),
            };
            if let Some(row) = near.pop_front() {
                return Some(Ok(row));
            }
            match &mut self.end {
                None => {}
                // All rows between the two ends are fetched.
                Some(Ok(())) => return far.pop_back().map(Ok),
                Some(failed) => {
                    far.clear();
                    return std::mem::replace(failed, Ok(())).err().map(Err);
                }
            }
            if let ControlFlow::Break(end) = self.fetch(direction) {
                self.end = Some(end);
            }
        }
    }

    /// Fetches the next batch from an end. Continues if the range may go on behind the batch.
    fn fetch(&mut self, direction: Direction) -> ControlFlow<Result<()>> {
        if self.rest.is_empty() {
            return ControlFlow::Break(Ok(()));
        }
        let rows_max = self.batch_rows;
        self.batch_rows = (2 * rows_max).min(BATCH_ROWS_MAX);
        let fetched = match direction {
            Direction::Forward => &mut self.front,
            Direction::Reverse => &mut self.back,
        };
        let (table, source) = (self.table, (self.table, self.index));
        let asked = BatchAsked { rows_max, keys_only: false };
        let copied = self.reader.raw_batch(source, (self.rest.as_range(), direction), asked, |rows| {
            let mut last = None;
            for row in rows.rows() {
                fetched.push_back(decode_row(table, row.key, row.row)?);
                last = Some(row.place);
            }
            Ok(last.filter(|_| rows.is_full()).map(KeyBuffer::of))
        });
        match copied.flatten() {
            Err(error) => ControlFlow::Break(Err(error)),
            Ok(None) => ControlFlow::Break(Ok(())),
            Ok(Some(place)) => {
                self.rest.resume(place, direction);
                ControlFlow::Continue(())
            }
        }
    }
}

impl<R: Readable, K: Key, V: Value> Iterator for Rows<'_, R, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Direction::Forward)
    }
}

impl<R: Readable, K: Key, V: Value> DoubleEndedIterator for Rows<'_, R, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(Direction::Reverse)
    }
}

impl<R: Readable, K: Key, V: Value> FusedIterator for Rows<'_, R, K, V> {}

impl<R, K, V> fmt::Debug for Rows<'_, R, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows")
            .field("table", &self.table.name())
            .field("rest", &self.rest)
            .finish_non_exhaustive()
    }
}
