//! Rows that a call has copied out, for application code to look at between calls (E6).
//!
//! A scan copies a batch of rows and ends its call; a multi-get copies all that it finds. What decodes the rows, and
//! the application's call-backs, run afterwards: however long they take, the pin can be taken away meanwhile.
//!
//! Invariant: the ends of keys grow, so that a row's place and key lie between the end of the row before and its own.
//!
//! Neighbours: `reading` fills batches; `typed` decodes them; a `context` keeps the space.

use std::ops::ControlFlow;

use crate::record::{KeptRow, RowSpace};

/// No row is copied behind this many bytes of a batch.
const BATCH_BYTES_MAX: usize = 256 << 10;

/// Rows in the order that they were met in.
#[derive(Debug, Default)]
pub(crate) struct RowBatch {
    rows: RowSpace,
    list: RowList,
}

/// Where each row of a batch stands, and where its copy lies.
#[derive(Debug, Default)]
pub(crate) struct RowList {
    /// Places and primary keys.
    keys: Vec<u8>,
    ends: Vec<RowEnds>,
    /// What a multi-get found: nothing else has places here, and it has none in the others.
    found: Vec<KeptRow>,
    asked: BatchAsked,
    /// Rows were met through an index: their places are not their keys.
    of_index: bool,
    /// The batch takes no more rows.
    is_full: bool,
}

/// What a batch is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchAsked {
    pub(crate) rows_max: usize,
    pub(crate) keys_only: bool,
}

impl BatchAsked {
    /// What a multi-get finds, however many keys it has.
    pub(crate) const FOUND: Self = Self { rows_max: usize::MAX, keys_only: false };
}

impl Default for BatchAsked {
    fn default() -> Self {
        Self::FOUND
    }
}

/// Where the parts of a row end.
#[derive(Clone, Copy, Debug)]
struct RowEnds {
    place: u32,
    key: u32,
    row: KeptRow,
    mark: u64,
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
    /// What the reader had remembered behind it.
    pub(crate) mark: u64,
}

impl RowBatch {
    /// Empties it: where rows are copied to from now on, and where they are noted.
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

    /// Where the next row is copied to, and where it is noted.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut RowSpace, &mut RowList) {
        (&mut self.rows, &mut self.list)
    }

    /// Whether rows may follow that had no room.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.list.is_full
    }

    /// The rows.
    #[inline]
    pub(crate) fn rows(&self) -> impl Iterator<Item = BatchRow<'_>> {
        let RowList { keys, ends, of_index, .. } = &self.list;
        let mut start = 0;
        ends.iter().map(move |ends| {
            let place = &keys[start..ends.place as usize];
            let key = if *of_index { &keys[ends.place as usize..ends.key as usize] } else { place };
            start = ends.key as usize;
            let row = self.rows.found(ends.row).unwrap_or_default();
            BatchRow { place, key, row, mark: ends.mark }
        })
    }

    /// What a multi-get found, in the order of its keys.
    #[inline]
    pub(crate) fn found(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.list.found.iter().map(|row| self.rows.found(*row))
    }

    /// Bytes of memory that it holds.
    #[inline]
    pub(crate) fn kept_bytes(&self) -> usize {
        let RowList { keys, ends, found, .. } = &self.list;
        let places = ends.capacity() * size_of::<RowEnds>() + found.capacity() * size_of::<KeptRow>();
        self.rows.kept_bytes() + keys.capacity() + places
    }
}

impl RowList {
    /// Keeps the row that was copied last; breaks with the one that fills the batch.
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

    /// Notes what a multi-get finds, in the order of its keys.
    #[inline]
    pub(crate) fn found(&mut self, rows: impl Iterator<Item = KeptRow>) {
        self.found.extend(rows);
    }
}

/// Most keys are a number: eight bytes are one store, where a call to copy them would take longer.
#[inline(always)]
fn append_key(keys: &mut Vec<u8>, key: &[u8]) {
    match <[u8; 8]>::try_from(key) {
        Ok(number) => keys.extend_from_slice(&number),
        Err(_) => keys.extend_from_slice(key),
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
