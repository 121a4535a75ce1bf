//! Rows that a call has copied out, for application code to look at between calls (E6).
//!
//! A scan copies a batch of rows and ends its call; a multi-get copies all that it finds. What decodes the rows, and the
//! application's call-backs, run afterwards: however long they take, the pin can be taken away meanwhile.
//!
//! Invariant: the ends of the rows grow, so that each row lies between the end of the one before and its own.
//!
//! Neighbours: `reading` fills batches; `typed` decodes them; a `context` keeps the space.

use std::ops::ControlFlow;

/// No row is copied behind this many bytes of a batch.
const BATCH_BYTES_MAX: usize = 256 << 10;

/// Rows in the order that they were met in.
#[derive(Debug, Default)]
pub(crate) struct RowBatch {
    bytes: Vec<u8>,
    ends: Vec<RowEnds>,
    rows_max: usize,
    keys_only: bool,
}

/// Where the parts of a row end. A table's row stands at its own key, and has no other.
#[derive(Clone, Copy, Debug)]
struct RowEnds {
    place: usize,
    key: Option<usize>,
    row: usize,
    found: bool,
    reads: usize,
}

/// A row of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchRow<'b> {
    /// Where it stands: its key, or its entry in an index.
    pub(crate) place: &'b [u8],
    /// Its primary key.
    pub(crate) key: &'b [u8],
    /// The row; empty if the batch was asked for keys only.
    pub(crate) row: &'b [u8],
    /// How many reads the transaction had remembered behind it.
    pub(crate) reads: usize,
    found: bool,
}

impl RowBatch {
    /// Empties it, for at most so many rows.
    #[inline]
    pub(crate) fn begin(&mut self, rows_max: usize, keys_only: bool) {
        debug_assert!(rows_max > 0, "a batch of nothing would never end");
        self.bytes.clear();
        self.ends.clear();
        (self.rows_max, self.keys_only) = (rows_max, keys_only);
    }

    /// Copies a row; breaks with the one that fills the batch.
    #[inline]
    pub(crate) fn push(
        &mut self,
        place: &[u8],
        key: Option<&[u8]>,
        row: &[u8],
        reads: usize,
    ) -> ControlFlow<()> {
        debug_assert!(self.ends.len() < self.rows_max, "a full batch takes no more rows");
        self.bytes.extend_from_slice(place);
        let end_of_place = self.bytes.len();
        let end_of_key = key.map(|key| {
            self.bytes.extend_from_slice(key);
            self.bytes.len()
        });
        if !self.keys_only {
            self.bytes.extend_from_slice(row);
        }
        let row = self.bytes.len();
        self.ends.push(RowEnds { place: end_of_place, key: end_of_key, row, found: true, reads });
        if self.is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Copies what a multi-get found.
    #[inline]
    pub(crate) fn push_found(&mut self, row: Option<&[u8]>) {
        let place = self.bytes.len();
        self.bytes.extend_from_slice(row.unwrap_or_default());
        let (row, found) = (self.bytes.len(), row.is_some());
        self.ends.push(RowEnds { place, key: None, row, found, reads: 0 });
    }

    /// Whether rows may follow that had no room.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.ends.len() >= self.rows_max || self.bytes.len() >= BATCH_BYTES_MAX
    }

    /// The rows.
    #[inline]
    pub(crate) fn rows(&self) -> impl Iterator<Item = BatchRow<'_>> {
        let mut start = 0;
        self.ends.iter().map(move |ends| {
            let place = &self.bytes[start..ends.place];
            let end_of_key = ends.key.unwrap_or(ends.place);
            let key = if ends.key.is_some() { &self.bytes[ends.place..end_of_key] } else { place };
            start = ends.row;
            BatchRow {
                place,
                key,
                row: &self.bytes[end_of_key..ends.row],
                reads: ends.reads,
                found: ends.found,
            }
        })
    }

    /// Bytes of memory that it holds.
    #[inline]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<RowEnds>()
    }
}

impl<'b> BatchRow<'b> {
    /// What a multi-get found.
    #[inline]
    pub(crate) fn found(self) -> Option<&'b [u8]> {
        self.found.then_some(self.row)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::ops::ControlFlow;

    use super::{BATCH_BYTES_MAX, RowBatch};

    #[test]
    fn rows_come_out_as_they_went_in() {
        let mut batch = RowBatch::default();
        batch.begin(3, false);
        assert_eq!(batch.push(b"k1", None, b"row", 1), ControlFlow::Continue(()));
        assert_eq!(batch.push(b"entry", Some(b"k2"), b"", 2), ControlFlow::Continue(()));
        assert_eq!(batch.push(b"", Some(b""), b"x", 3), ControlFlow::Break(()), "three are asked for");
        let rows: Vec<_> = batch.rows().map(|row| (row.place, row.key, row.row, row.reads)).collect();
        let (first, second, third) = (&b"k1"[..], &b"entry"[..], &b""[..]);
        assert_eq!(rows, [(first, first, &b"row"[..], 1), (second, b"k2", b"", 2), (third, b"", b"x", 3)]);
        batch.begin(3, true);
        assert_eq!(batch.push(b"k", None, b"row", 0), ControlFlow::Continue(()));
        assert_eq!(batch.rows().map(|row| row.row.len()).sum::<usize>(), 0, "keys only");
    }

    #[test]
    fn a_batch_is_full_after_many_bytes_too() {
        let mut batch = RowBatch::default();
        batch.begin(512, false);
        let row = vec![0; BATCH_BYTES_MAX / 2];
        assert_eq!(batch.push(b"a", None, &row, 0), ControlFlow::Continue(()));
        assert_eq!(batch.push(b"b", None, &row, 0), ControlFlow::Break(()));
        assert!(batch.is_full() && batch.kept_bytes() >= BATCH_BYTES_MAX);
    }

    #[test]
    fn a_multi_get_tells_absent_rows_from_empty_ones() {
        let mut batch = RowBatch::default();
        batch.begin(1, false);
        for found in [Some(&b"one"[..]), None, Some(b""), Some(b"two")] {
            batch.push_found(found);
        }
        let found: Vec<_> = batch.rows().map(|row| row.found()).collect();
        assert_eq!(found, [Some(&b"one"[..]), None, Some(b""), Some(b"two")]);
    }
}
