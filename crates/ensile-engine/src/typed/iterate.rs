//! Rows of a range as an iterator.
//!
//! The engine visits rows with a call-back, under a pin. An iterator is asked for one row at a time with the
//! application's code in between, so rows are fetched in batches, each behind the last row of the one before. The
//! first batch is small, since a transaction's read-set grows by what is fetched, asked for or not; each is twice as
//! large as the one before, up to a limit in rows and one in bytes.
//!
//! Invariant: a batch continues strictly behind the last row fetched, so no row comes twice.
//!
//! Neighbours: made by [`Readable`]; fetches through `raw_scan` and `raw_scan_index`.

use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use ensile_index::Direction;

use super::read::{Readable, decode_row};
use crate::codec::bounds::ByteRange;
use crate::codec::{Key, Value};
use crate::error::{Error, Result};
use crate::tables::{IndexCore, TableCore};

/// Rows of the first batch.
const BATCH_ROWS_FIRST: usize = 8;
/// Most rows of a batch.
const BATCH_ROWS_MAX: usize = 512;
/// No row is fetched behind this many bytes of a batch.
const BATCH_BYTES_MAX: usize = 256 << 10;

/// The rows of a range, in order: what [`Readable::range`] and its kin return.
///
/// It borrows the transaction; to write while reading, collect first or use several ranges. After an error it ends.
pub struct Rows<'r, R, K, V> {
    reader: &'r mut R,
    // Borrowed, not held: one more owner would be a write to a line that every other reader of the table reads.
    table: &'r TableCore,
    /// The index that orders the rows; without one it is the primary key.
    index: Option<&'r IndexCore>,
    /// What has not been fetched yet.
    rest: ByteRange,
    direction: Direction,
    batch_rows: usize,
    fetched: VecDeque<(K, V)>,
    /// What ended the last batch, if nothing can be fetched behind it.
    end: Option<Result<()>>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<'r, R: Readable, K: Key, V: Value> Rows<'r, R, K, V> {
    pub(super) fn new(
        reader: &'r mut R,
        table: &'r TableCore,
        index: Option<&'r IndexCore>,
        range: ByteRange,
        direction: Direction,
    ) -> Self {
        Self {
            reader,
            table,
            index,
            rest: range,
            direction,
            batch_rows: BATCH_ROWS_FIRST,
            fetched: VecDeque::new(),
            end: None,
            types: PhantomData,
        }
    }

    /// Fetches the next batch. Ok if the range may go on behind it.
    fn fetch(&mut self) -> ControlFlow<Result<()>> {
        if self.rest.is_empty() {
            return ControlFlow::Break(Ok(()));
        }
        let rows_max = self.batch_rows;
        self.batch_rows = (2 * rows_max).min(BATCH_ROWS_MAX);
        let mut bytes = 0;
        let mut stopped = Stopped::AtTheEnd;
        let mut visit = |place: &[u8], key: &[u8], row: &[u8]| {
            match decode_row(self.table, key, row) {
                Ok(decoded) => self.fetched.push_back(decoded),
                Err(error) => {
                    stopped = Stopped::Failed(error);
                    return ControlFlow::Break(());
                }
            }
            bytes += key.len() + row.len();
            if self.fetched.len() < rows_max && bytes < BATCH_BYTES_MAX {
                return ControlFlow::Continue(());
            }
            stopped = Stopped::Behind(place.to_vec());
            ControlFlow::Break(())
        };
        let range = self.rest.as_range();
        let scanned = match self.index {
            None => {
                self.reader.raw_scan(self.table, range, self.direction, &mut |key, row| visit(key, key, row))
            }
            Some(index) => self.reader.raw_scan_index(self.table, index, range, self.direction, &mut visit),
        };
        match (scanned, stopped) {
            (Err(error), _) | (Ok(()), Stopped::Failed(error)) => ControlFlow::Break(Err(error)),
            (Ok(()), Stopped::AtTheEnd) => ControlFlow::Break(Ok(())),
            (Ok(()), Stopped::Behind(place)) => {
                self.rest.resume(&place, self.direction);
                ControlFlow::Continue(())
            }
        }
    }
}

/// Why a batch ended.
enum Stopped {
    /// The range has no more rows.
    AtTheEnd,
    /// It was full; the next one continues behind this place.
    Behind(Vec<u8>),
    /// A row did not decode.
    Failed(Error),
}

impl<R: Readable, K: Key, V: Value> Iterator for Rows<'_, R, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.fetched.pop_front() {
                return Some(Ok(row));
            }
            if let Some(end) = &mut self.end {
                return std::mem::replace(end, Ok(())).err().map(Err);
            }
            if let ControlFlow::Break(end) = self.fetch() {
                self.end = Some(end);
            }
        }
    }
}

impl<R: Readable, K: Key, V: Value> FusedIterator for Rows<'_, R, K, V> {}

impl<R, K, V> fmt::Debug for Rows<'_, R, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows")
            .field("table", &self.table.name())
            .field("rest", &self.rest)
            .field("direction", &self.direction)
            .finish_non_exhaustive()
    }
}
