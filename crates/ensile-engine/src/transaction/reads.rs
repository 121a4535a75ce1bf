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
        let (_, context) = self.enter(table)?;
        let Context { pin, sets, scratch, .. } = context;
        let met = sets.writes.find_key(table.id, key);
        if let Some(at) = sets.writes.written(met) {
            return Ok(sets.writes.put_value(at).map(read));
        }
        let Ok(call) = pin.enter() else { return self.expire() };
        let present = sets.look_up((table, key), met, scratch, call.pinned());
        Ok(present.then(|| read(scratch.bytes())))
    }

    fn raw_get_many(
        &mut self,
        table: &TableCore,
        keys: impl Iterator<Item = KeyBuffer>,
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let (_, context) = self.enter(table)?;
        let Context { pin, sets, scratch, descents, .. } = context;
        let Ok(call) = pin.enter() else { return self.expire() };
        descents.descend(table, keys, table.fetch, call.pinned());
        for (at, (key, place)) in descents.found().enumerate() {
            match reading::own_write(Some(&sets.writes), table.id, key) {
                Own::Put(value) => found(at, Some(value)),
                Own::Deleted => found(at, None),
                Own::Unwritten => {
                    let mut reader = sets.reader();
                    let present = reading::lookup(&mut reader, table, key, place, scratch, call.pinned());
                    found(at, present.then(|| scratch.bytes()));
                }
            }
        }
        descents.end_many();
        Ok(())
    }

    fn raw_scan(
        &mut self,
        table: &TableCore,
        range: Range<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let (_, context) = self.enter(table)?;
        let Context { pin, sets, scratch, .. } = context;
        sets.writes.sort_table(table.id);
        let Ok(call) = pin.enter() else { return self.expire() };
        let mut reader = sets.reader();
        let own = reader.writes.in_order(range.lower, range.upper);
        let scan = ScanRange { table, range, direction, own };
        reading::scan(&mut reader, &scan, scratch, call.pinned(), &mut |_, key, value| visit(key, value));
        Ok(())
    }

    fn raw_scan_index(
        &mut self,
        table: &TableCore,
        index: &IndexCore,
        range: Range<'_>,
        direction: Direction,
        visit: &mut VisitIndexed<'_>,
    ) -> Result<()> {
        let (_, context) = self.enter(table)?;
        let Context { pin, sets, scratch, row_scratch, .. } = context;
        sets.writes.sort_table(index.entries.id);
        let Ok(call) = pin.enter() else { return self.expire() };
        let mut reader = sets.reader();
        let own = reader.writes.in_order(range.lower, range.upper);
        let scan = ScanRange { table: &index.entries, range, direction, own };
        reading::scan_index(&mut reader, (table, index), &scan, (scratch, row_scratch), call.pinned(), visit);
        Ok(())
    }
}
