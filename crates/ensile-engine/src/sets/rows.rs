//! Rows that a call has copied out, for application code to read between calls (E6).
//!
//! A scan copies a batch of rows and ends its call; a multi-get copies all found rows. Decoding of rows and the
//! application's call-backs run afterwards: during a long call-back the database can take the pin away.
//!
//! Invariant: The ends of keys grow, so a row's place and key lie between the end of the row before and the row's own
//! end.
//!
//! Neighbours: `read_path` fills batches; `typed_api` decodes rows; `context` keeps the space. The build of an index
//! (`open::catalogue`) reads its table in such batches.

use std::ops::ControlFlow;

use crate::record::{KeptRow, RowSpace};

/// Length of a batch, in bytes, from which the batch takes no more rows.
const BATCH_BYTES_MAX: usize = 256 << 10;

/// Rows in the order of their reads.
#[derive(Debug, Default)]
pub(crate) struct RowBatch {
    rows: RowSpace,
    list: RowList,
}

/// The place, key and copy of each row in a batch.
#[derive(Debug, Default)]
pub(crate) struct RowList {
    /// Places and primary keys, concatenated.
    keys: Vec<u8>,
    ends: Vec<RowEnds>,
    /// Rows that a multi-get found. Only multi-gets fill this list, and multi-gets have neither places nor keys.
    found: Vec<KeptRow>,
    asked: BatchAsked,
    /// True if an index led to the rows: the rows' places are not their keys.
    of_index: bool,
    /// True if the batch takes no more rows.
    is_full: bool,
}

/// Limits of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchAsked {
    pub(crate) rows_max: usize,
    pub(crate) keys_only: bool,
}

impl BatchAsked {
    /// The limits of a multi-get: any number of rows.
    pub(crate) const FOUND: Self = Self { rows_max: usize::MAX, keys_only: false };
}

impl Default for BatchAsked {
    fn default() -> Self {
        Self::FOUND
    }
}

/// Ends of a row's parts, in bytes of the keys, and the row's copy.
#[derive(Clone, Copy, Debug)]
struct RowEnds {
    place: u32,
    key: u32,
    row: KeptRow,
    /// The reader's mark behind the row.
    mark: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchRow<'b> {
    /// The row's place: the key, or the entry in an index.
    pub(crate) place: &'b [u8],
    /// The row's primary key.
    pub(crate) key: &'b [u8],
    /// The row; empty if the caller asked for keys only.
    pub(crate) row: &'b [u8],
    /// The reader's mark behind the row, for `RawRead::forget_behind`.
    pub(crate) mark: u64,
}

impl RowBatch {
    /// Empties the batch. Returns the space for copies of rows, and the list of rows.
    #[inline]
    pub(crate) fn begin(&mut self, asked: BatchAsked, of_index: bool) -> (&mut RowSpace, &mut RowList) {
        debug_assert!(asked.rows_max > 0, "a batch of nothing would never end");
        self.rows.clear();
        let list = &mut self.list;
        list.keys.clear();
        list.ends.clear();
        list.found.clear();
        (list.asked, list.of_index, list.is_full) = (asked, of_index, false);
        (&mut self.rows, list)
    }

    /// The space for the next row's copy, and the list of rows.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut RowSpace, &mut RowList) {
        (&mut self.rows, &mut self.list)
    }

    /// True if the batch has reached its limits: more rows may follow.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.list.is_full
    }

    #[inline]
    pub(crate) fn rows(&self) -> impl Iterator<Item = BatchRow<'_>> {
        let mut start = 0;
        self.list.ends.iter().map(move |ends| {
            let row = self.row_between(start, *ends);
            start = ends.key;
            row
        })
    }

    /// Number of rows.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.list.ends.len()
    }

    /// The row at a position.
    #[inline]
    pub(crate) fn row(&self, at: usize) -> BatchRow<'_> {
        let ends = &self.list.ends;
        self.row_between(if at == 0 { 0 } else { ends[at - 1].key }, ends[at])
    }

    /// The row whose place begins at `start`, with these ends.
    #[inline(always)]
    fn row_between(&self, start: u32, ends: RowEnds) -> BatchRow<'_> {
        let RowList { keys, of_index, .. } = &self.list;
        let place = &keys[start as usize..ends.place as usize];
        let key = if *of_index { &keys[ends.place as usize..ends.key as usize] } else { place };
        BatchRow { place, key, row: self.rows.get(ends.row).unwrap_or_default(), mark: ends.mark }
    }

    /// Place of the last row, if the batch is full: the next batch begins behind this place.
    #[inline]
    pub(crate) fn place_behind(&self) -> Option<&[u8]> {
        let last = self.len().checked_sub(1).filter(|_| self.is_full())?;
        Some(self.row(last).place)
    }

    /// The rows that a multi-get found, in the order of its keys.
    #[inline]
    pub(crate) fn found_rows(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.list.found.iter().map(|row| self.rows.get(*row))
    }

    /// Memory of the batch in bytes.
    #[inline]
    pub(crate) fn kept_bytes(&self) -> usize {
        let RowList { keys, ends, found, .. } = &self.list;
        let places = ends.capacity() * size_of::<RowEnds>() + found.capacity() * size_of::<KeptRow>();
        self.rows.kept_bytes() + keys.capacity() + places
    }
}

impl RowList {
    /// Keeps the last copied row; breaks with the row that fills the batch.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        place: &[u8],
        key: Option<&[u8]>,
        rows: &mut RowSpace,
        mark: u64,
    ) -> ControlFlow<()> {
        debug_assert!(!self.is_full, "a full batch takes no more rows");
        debug_assert_eq!(
            key.is_some(),
            self.of_index,
            "rows that an index leads to have a place of their own"
        );
        append_key(&mut self.keys, place);
        let end_of_place = self.keys.len() as u32;
        if let Some(key) = key {
            append_key(&mut self.keys, key);
        }
        let row = if self.asked.keys_only { KeptRow::NONE } else { rows.keep() };
        let end_of_key = self.keys.len() as u32;
        self.ends.push(RowEnds { place: end_of_place, key: end_of_key, row, mark });
        let is_full =
            self.ends.len() >= self.asked.rows_max || self.keys.len() + rows.used_bytes() >= BATCH_BYTES_MAX;
        if is_full {
            self.is_full = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// True if the caller asked for keys only.
    #[inline]
    pub(crate) fn is_of_keys(&self) -> bool {
        self.asked.keys_only
    }

    /// Notes the rows that a multi-get found, in the order of its keys.
    #[inline]
    pub(crate) fn found_rows(&mut self, rows: impl Iterator<Item = KeptRow>) {
        self.found.extend(rows);
    }
}

/// Appends a key. Most keys are a number: eight bytes are one store, and a call for the copy would take longer.
#[inline(always)]
fn append_key(keys: &mut Vec<u8>, key: &[u8]) {
    match <[u8; 8]>::try_from(key) {
        Ok(number) => keys.extend_from_slice(&number),
        Err(_) => keys.extend_from_slice(key),
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
