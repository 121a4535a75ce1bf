//! A transaction's reads of bytes: of its own writes first, then of the latest versions, which it remembers.
//!
//! Neighbours: `typed` decodes what they show; `reading` walks from the table to the record.

use ensile_index::{Direction, Range};

use super::Transaction;
use crate::codec::KeyBuffer;
use crate::error::Result;
use crate::reading::{self, Own, RawRead, ScanRange};
use crate::sets::context::Context;
use crate::sets::rows::RowBatch;
use crate::tables::{IndexCore, TableCore};

/// Where the row of a point read stands when its call is over.
enum Stands {
    Nowhere,
    InWriteSet(usize),
    InScratch,
}

impl RawRead for Transaction<'_> {
    #[inline]
    fn raw_get<R>(
        &mut self,
        table: &TableCore,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.check(table)?;
        let row = self.enter(
            #[inline(always)]
            |pinned, Context { sets, scratch, .. }| {
                let met = sets.writes.find_key(table.id, key);
                if let Some(at) = sets.writes.written(met) {
                    return Ok(Stands::InWriteSet(at));
                }
                let present = sets.look_up((table, key), met, scratch, pinned);
                sets.check_reads()?;
                Ok(if present { Stands::InScratch } else { Stands::Nowhere })
            },
        )?;
        Ok(self.between(
            #[inline(always)]
            |Context { sets, scratch, .. }| match row {
                Stands::Nowhere => None,
                Stands::InWriteSet(at) => sets.writes.put_value(at).map(read),
                Stands::InScratch => Some(read(scratch.bytes())),
            },
        ))
    }

    fn raw_get_many(
        &mut self,
        table: &TableCore,
        keys: impl Iterator<Item = KeyBuffer>,
        found: &mut RowBatch,
    ) -> Result<()> {
        self.check(table)?;
        self.between(|context| context.descents.begin_many(keys));
        self.enter(|pinned, Context { sets, scratch, descents, .. }| {
            let places = descents.descend(table, table.fetch, pinned);
            for (key, place) in descents.keys().zip(&places) {
                match reading::own_write(Some(&sets.writes), table.id, key) {
                    Own::Put(value) => found.push_found(Some(value)),
                    Own::Deleted => found.push_found(None),
                    Own::Unwritten => {
                        let mut reader = sets.reader();
                        let present =
                            reading::lookup(&mut reader, table.place(), key, *place, scratch, pinned);
                        found.push_found(present.then(|| scratch.bytes()));
                    }
                }
            }
            descents.end_many(places);
            sets.check_reads()
        })
    }

    fn raw_batch(
        &mut self,
        (table, index): (&TableCore, Option<&IndexCore>),
        range: Range<'_>,
        direction: Direction,
        batch: &mut RowBatch,
    ) -> Result<()> {
        self.check(table)?;
        self.enter(|pinned, Context { sets, scratch, row_scratch, .. }| {
            let scanned = index.map_or(table, |index| &index.entries);
            sets.writes.sort_table(scanned.id);
            let mut reader = sets.reader();
            let own = reader.writes.in_order(range.lower, range.upper);
            let scan = ScanRange { table: scanned, range, direction, own };
            reading::copy_rows(&mut reader, (table, index), &scan, (scratch, row_scratch), pinned, batch);
            sets.check_reads()
        })
    }

    fn take_rows(&mut self) -> RowBatch {
        self.between(|context| std::mem::take(&mut context.rows))
    }

    fn keep_rows(&mut self, rows: RowBatch) {
        self.between(|context| context.rows = rows);
    }

    fn forget_reads(&mut self, kept: usize) {
        self.between(|context| context.sets.forget_reads(kept));
    }
}
