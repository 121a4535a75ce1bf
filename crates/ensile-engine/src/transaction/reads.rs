//! A transaction's reads of bytes: of its own writes first, then of the latest versions, which it remembers.
//!
//! Neighbours: `typed` decodes what they show; `reading` walks from the table to the record.

use ensile_index::{Direction, Range};

use super::Transaction;
use crate::codec::KeyBuffer;
use crate::error::Result;
use crate::reading::{self, Own, RawRead, ScanRange, Visit, VisitIndexed};
use crate::sets::context::Context;
use crate::tables::{IndexCore, TableCore};

impl RawRead for Transaction<'_> {
    #[inline]
    fn raw_get<R>(
        &mut self,
        table: &TableCore,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.check(table)?;
        self.enter(
            #[inline(always)]
            |pinned, Context { sets, scratch, .. }| {
                let met = sets.writes.find_key(table.id, key);
                if let Some(at) = sets.writes.written(met) {
                    return Ok(sets.writes.put_value(at).map(read));
                }
                let present = sets.look_up((table, key), met, scratch, pinned);
                Ok(present.then(|| read(scratch.bytes())))
            },
        )
    }

    fn raw_get_many(
        &mut self,
        table: &TableCore,
        keys: impl Iterator<Item = KeyBuffer>,
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.check(table)?;
        self.enter(|pinned, Context { sets, scratch, descents, .. }| {
            let places = descents.descend(table, keys, table.fetch, pinned);
            for (at, (key, place)) in descents.keys().zip(&places).enumerate() {
                match reading::own_write(Some(&sets.writes), table.id, key) {
                    Own::Put(value) => found(at, Some(value)),
                    Own::Deleted => found(at, None),
                    Own::Unwritten => {
                        let mut reader = sets.reader();
                        let present =
                            reading::lookup(&mut reader, table.place(), key, *place, scratch, pinned);
                        found(at, present.then(|| scratch.bytes()));
                    }
                }
            }
            descents.end_many(places);
            Ok(())
        })
    }

    fn raw_scan(
        &mut self,
        table: &TableCore,
        range: Range<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        self.check(table)?;
        self.enter(|pinned, Context { sets, scratch, .. }| {
            sets.writes.sort_table(table.id);
            let mut reader = sets.reader();
            let own = reader.writes.in_order(range.lower, range.upper);
            let scan = ScanRange { table, range, direction, own };
            reading::scan(&mut reader, &scan, scratch, pinned, &mut |_, key, value| visit(key, value));
            Ok(())
        })
    }

    fn raw_scan_index(
        &mut self,
        table: &TableCore,
        index: &IndexCore,
        range: Range<'_>,
        direction: Direction,
        visit: &mut VisitIndexed<'_>,
    ) -> Result<()> {
        self.check(table)?;
        self.enter(|pinned, Context { sets, scratch, row_scratch, .. }| {
            sets.writes.sort_table(index.entries.id);
            let mut reader = sets.reader();
            let own = reader.writes.in_order(range.lower, range.upper);
            let scan = ScanRange { table: &index.entries, range, direction, own };
            let scratches = (scratch, row_scratch);
            reading::scan_index(&mut reader, (table, index), &scan, scratches, pinned, visit);
            Ok(())
        })
    }
}
