//! Iterator over the rows of a range.
//!
//! Rows are fetched in batches, and each batch follows the last row of the batch before. The first batch is small,
//! because a transaction's read-set grows by all fetched rows, used or not. Later batches grow, up to a limit in rows
//! and a limit in bytes. A row is decoded when its turn comes.
//!
//! Batches come from the front or from the back of the range, and the range shrinks from that end.
//!
//! Invariant: A batch begins strictly behind the last row fetched from its end, so no row comes twice.
//!
//! Neighbours: [`Readable`] makes the iterator, and `raw_batch` fetches the rows.

use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::mem;

use ensile_index::Direction;

use super::read::{Readable, undecodable_row};
use crate::codec::bounds::ByteRange;
use crate::codec::{Key, KeyBuffer, Value};
use crate::error::{Error, Result};
use crate::read_path::RowSource;
use crate::sets::rows::{BatchAsked, BatchRow, RowBatch};

/// Number of rows in each batch of a scan. The sums of the first batches are 10, 50, 100, 200, 500 and 1,000. Callers
/// often stop after such a round number, and then the scan has fetched no unused row.
const BATCH_ROWS: [usize; 6] = [10, 40, 50, 100, 300, 500];

/// Numbers of rows in the batches of a scan.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BatchSizes {
    batches: usize,
}

impl BatchSizes {
    /// Number of rows in the next batch.
    #[inline]
    pub(super) fn next(&mut self) -> usize {
        let rows = BATCH_ROWS[self.batches];
        self.batches = (self.batches + 1).min(BATCH_ROWS.len() - 1);
        rows
    }
}

/// The rows of a range, from either end: the result of [`Readable::range`] and [`Readable::find`].
///
/// [`next`](Iterator::next) returns rows by value, [`next_with`](Self::next_with) shows them by reference.
///
/// The iterator borrows the transaction. To write during a read, collect first or use several ranges. The iterator ends
/// after an error.
pub struct Rows<'r, R, K, V> {
    reader: &'r mut R,
    // Borrowed, not held: a further owner would write to a line that every other reader of the table reads.
    source: RowSource<'r>,
    /// Range not yet fetched.
    rest: ByteRange,
    batches: BatchSizes,
    front: Unshown,
    back: Unshown,
    /// End of the range whose batch the reader holds.
    held: Direction,
    /// Batch of the other end.
    other: RowBatch,
    /// True if no batch can follow.
    is_ended: bool,
    types: PhantomData<fn() -> (K, V)>,
}

/// Positions in its batch of the rows that one end of the range has fetched and the iterator has not shown.
#[derive(Clone, Copy, Default)]
struct Unshown {
    next: usize,
    end: usize,
}

impl Unshown {
    /// Takes the row nearest to this end of the range, and returns the row's position.
    #[inline]
    fn take_near(&mut self) -> Option<usize> {
        let at = self.next;
        (at < self.end).then(|| self.next += 1)?;
        Some(at)
    }

    /// Takes the row farthest from this end of the range, and returns the row's position.
    fn take_far(&mut self) -> Option<usize> {
        (self.next < self.end).then(|| self.end -= 1)?;
        Some(self.end)
    }
}

impl<'r, R: Readable, K: Key, V: Value> Rows<'r, R, K, V> {
    pub(super) fn new(reader: &'r mut R, source: RowSource<'r>, range: ByteRange) -> Self {
        Self {
            reader,
            source,
            rest: range,
            batches: BatchSizes::default(),
            front: Unshown::default(),
            back: Unshown::default(),
            held: Direction::Forward,
            other: RowBatch::default(),
            is_ended: false,
            types: PhantomData,
        }
    }

    /// Calls `read` with the next row of the range, and returns the result; `None` at the end of the range. Rows of
    /// fixed layout are read in place, so the call is faster than [`next`](Iterator::next) for large rows.
    ///
    /// ```
    /// # extern crate ensile_engine as ensile;
    /// use ensile::{Database, Readable};
    /// # fn main() -> ensile::Result<()> {
    /// let db = Database::in_memory()?;
    /// let accounts = db.table::<u32, i64>("accounts")?;
    /// db.run(|tx| [(1, 100), (2, 50)].iter().try_for_each(|(id, balance)| tx.put(&accounts, id, balance)))?;
    /// let total = db.run(|tx| {
    ///     let (mut rows, mut total) = (tx.range(&accounts, ..), 0);
    ///     while let Some(balance) = rows.next_with(|_id, balance| *balance)? {
    ///         total += balance;
    ///     }
    ///     Ok(total)
    /// })?;
    /// assert_eq!(total, 150);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`range`](Readable::range). The iterator ends after an error.
    #[inline]
    pub fn next_with<T>(&mut self, read: impl FnOnce(K, &V) -> T) -> Result<Option<T>> {
        self.show_next(Direction::Forward, read)
    }

    /// As [`next_with`](Self::next_with), from the back of the range.
    ///
    /// # Errors
    /// As for [`next_with`](Self::next_with).
    #[inline]
    pub fn next_back_with<T>(&mut self, read: impl FnOnce(K, &V) -> T) -> Result<Option<T>> {
        self.show_next(Direction::Reverse, read)
    }

    /// Shows the next row from the end given by `direction`.
    // The result is written once, in its final place. A copy of a result of several words just after the words are
    // stored stalls on store-to-load forwarding.
    #[inline]
    fn show_next<T>(&mut self, direction: Direction, read: impl FnOnce(K, &V) -> T) -> Result<Option<T>> {
        let Some(at) = self.advance(direction)? else { return Ok(None) };
        let mut shown = None;
        let is_decoded = self.reader.rows(|rows| {
            let BatchRow { key, row, .. } = rows.row(at);
            K::decode(key).is_ok_and(|key| V::view(row, |row| shown = Some(read(key, row))).is_ok())
        });
        if is_decoded { Ok(shown) } else { Err(self.undecodable(at)) }
    }

    /// The next row from the end given by `direction`.
    #[inline]
    fn next_row(&mut self, direction: Direction) -> Option<Result<(K, V)>> {
        let at = match self.advance(direction) {
            Ok(at) => at?,
            Err(error) => return Some(Err(error)),
        };
        // The row is made in its final place. Each further copy of a row of 100 bytes takes a tenth of the time.
        let decoded = self.reader.rows(|rows| {
            let BatchRow { key, row, .. } = rows.row(at);
            let key = K::decode(key).ok()?;
            Some(Ok((key, V::decode(row).ok()?)))
        });
        if decoded.is_some() { decoded } else { Some(Err(self.undecodable(at))) }
    }

    /// Moves to the next row from the end given by `direction`. Returns the row's position in the batch that the reader
    /// holds then.
    #[inline]
    fn advance(&mut self, direction: Direction) -> Result<Option<usize>> {
        if self.held == direction
            && let Some(at) = self.side(direction).take_near()
        {
            return Ok(Some(at));
        }
        self.advance_further(direction)
    }

    /// Slow path of [`Self::advance`]: fetches a batch. If the range has no further row, takes the farthest unshown row
    /// of the other end.
    #[cold]
    fn advance_further(&mut self, direction: Direction) -> Result<Option<usize>> {
        let mut at = self.side(direction).take_near();
        let mut side = direction;
        if at.is_none() && !self.is_ended {
            self.fetch(direction).inspect_err(|_| self.end())?;
            at = self.side(direction).take_near();
        }
        if at.is_none() {
            debug_assert!(self.is_ended, "only the last batch may be empty");
            side = match direction {
                Direction::Forward => Direction::Reverse,
                Direction::Reverse => Direction::Forward,
            };
            at = self.side(side).take_far();
        }
        self.hold(side);
        Ok(at)
    }

    /// Makes the reader hold the batch of this end.
    fn hold(&mut self, side: Direction) {
        if self.held != side {
            self.reader.rows(|rows| mem::swap(rows, &mut self.other));
            self.held = side;
        }
    }

    /// Fetches the next batch from an end.
    fn fetch(&mut self, direction: Direction) -> Result<()> {
        if self.rest.is_empty() {
            self.is_ended = true;
            return Ok(());
        }
        let asked = BatchAsked { rows_max: self.batches.next(), keys_only: false };
        self.hold(direction);
        let (count, place) =
            self.reader.raw_batch(self.source, self.rest.as_range(), direction, asked, |rows| {
                (rows.len(), rows.place_behind().map(KeyBuffer::from_bytes))
            })?;
        *self.side(direction) = Unshown { next: 0, end: count };
        match place {
            Some(place) => self.rest.resume(place, direction),
            None => self.is_ended = true,
        }
        Ok(())
    }

    /// Error of the row at a position of the batch that the reader holds. The iterator ends.
    #[cold]
    #[inline(never)]
    fn undecodable(&mut self, at: usize) -> Error {
        self.end();
        let table = self.source.table;
        self.reader.rows(|rows| undecodable_row::<K, V>(table, rows.row(at)))
    }

    /// Ends the iterator after an error.
    #[cold]
    fn end(&mut self) {
        self.is_ended = true;
        (self.front, self.back) = Default::default();
    }

    #[inline]
    fn side(&mut self, direction: Direction) -> &mut Unshown {
        match direction {
            Direction::Forward => &mut self.front,
            Direction::Reverse => &mut self.back,
        }
    }
}

impl<R: Readable, K: Key, V: Value> Iterator for Rows<'_, R, K, V> {
    type Item = Result<(K, V)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.next_row(Direction::Forward)
    }
}

impl<R: Readable, K: Key, V: Value> DoubleEndedIterator for Rows<'_, R, K, V> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.next_row(Direction::Reverse)
    }
}

impl<R: Readable, K: Key, V: Value> FusedIterator for Rows<'_, R, K, V> {}

impl<R, K, V> fmt::Debug for Rows<'_, R, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows")
            .field("table", &self.source.table.name())
            .field("rest", &self.rest)
            .finish_non_exhaustive()
    }
}
