//! A transaction's reads of bytes: of own writes first, then of the latest versions, which the transaction remembers.
//!
//! Neighbours: `typed_api` decodes the bytes; `read_path` walks from the table to the record.

use ensile_index::{Direction, Range};

use super::Transaction;
use crate::codec::KeyBuffer;
use crate::error::Result;
use crate::read_path::transaction_reader::ScanReader;
use crate::read_path::{self, Own, RawRead, RowSource, ScanRange};
use crate::record::{CopyTarget, KeptRow};
use crate::sets::Sets;
use crate::sets::context::Context;
use crate::sets::dead_ranges::PASSED_MIN;
use crate::sets::rows::{BatchAsked, RowBatch};
use crate::tables::TableCore;

/// Place of the row of a point read at the end of the call.
enum RowLocation {
    /// The key is absent.
    Nowhere,
    /// The transaction has written the key: position of the key's entry in the write-set.
    InWriteSet(usize),
    /// The scratch buffer holds the copy of the row.
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
        self.enter_then(
            #[inline(always)]
            |pinned, Context { sets, scratch, .. }| {
                let met = sets.writes.find_read_key(table.id, key, sets.reads.len());
                if let Some(at) = sets.writes.write_position(met) {
                    return RowLocation::InWriteSet(at);
                }
                let present = sets.look_up(table, key, met, scratch, pinned);
                if present { RowLocation::InScratch } else { RowLocation::Nowhere }
            },
            #[inline(always)]
            |row, Context { sets, scratch, .. }| {
                sets.check_reads()?;
                Ok(match row {
                    RowLocation::Nowhere => None,
                    RowLocation::InWriteSet(at) => sets.writes.value_if_put(at).map(read),
                    RowLocation::InScratch => Some(read(scratch.bytes())),
                })
            },
        )
    }

    fn raw_get_many(
        &mut self,
        table: &TableCore,
        keys: impl Iterator<Item = KeyBuffer>,
        read: impl FnOnce(&RowBatch),
    ) -> Result<()> {
        self.check(table)?;
        self.run_outside_call(|context| context.descents.begin_many(keys));
        self.enter_then(
            |pinned, Context { sets, descents, rows, .. }| {
                let places = descents.descend(table, table.fetch, pinned);
                let (rows, list) = rows.begin(BatchAsked::FOUND, false);
                list.found_rows(descents.keys().zip(&places).map(|(key, place)| {
                    let is_present = match read_path::own_write(Some(&sets.writes), table.id, key) {
                        Own::Put(value) => {
                            rows.copy(value);
                            true
                        }
                        Own::Deleted => false,
                        Own::Unwritten => {
                            let mut reader = sets.reader();
                            read_path::lookup(&mut reader, table, key, *place, rows, pinned)
                        }
                    };
                    if is_present { rows.keep() } else { KeptRow::NONE }
                }));
                descents.end_many(places);
                sets.check_reads()
            },
            |checked, context| checked.map(|()| context.show_rows_once(read)),
        )
    }

    fn raw_batch<R>(
        &mut self,
        source: RowSource<'_>,
        range: Range<'_>,
        direction: Direction,
        asked: BatchAsked,
        read: impl FnOnce(&RowBatch) -> R,
    ) -> Result<R> {
        self.check(source.table)?;
        self.enter_then(
            |pinned, Context { sets, scratch, rows: batch, scan_key, .. }| {
                let scanned = source.table_to_scan();
                let (rows, list) = batch.begin(asked, source.index.is_some());
                sets.writes.sort_table(scanned.id);
                let Sets { reads, nodes, writes, dead, buried, .. } = sets;
                let Some(rest) = dead.range_to_visit(scanned.id, range, direction) else { return Ok(()) };
                let own = writes.in_order(rest.lower, rest.upper);
                let scan = ScanRange { table: scanned, range: rest, direction, own, key_buffer: scan_key };
                let mut reader = ScanReader { reads, nodes, writes, buried };
                let passed = read_path::copy_rows(&mut reader, source, scan, scratch, pinned, rows, list);
                if passed >= PASSED_MIN {
                    sets.note_dead(scanned.id, range, direction, batch);
                }
                sets.check_reads()
            },
            |checked, context| checked.map(|()| context.show_rows(read)),
        )
    }

    #[inline]
    fn rows<R>(&mut self, read: impl FnOnce(&mut RowBatch) -> R) -> R {
        self.run_outside_call(|context| read(&mut context.rows))
    }

    fn forget_behind(&mut self, mark: u64) {
        self.run_outside_call(|context| context.sets.forget_reads(mark as usize));
    }
}

impl Sets<'_> {
    /// Notes the dead rows in front of a scan's first row.
    #[cold]
    fn note_dead(&mut self, table: u32, range: Range<'_>, direction: Direction, rows: &RowBatch) {
        let first = rows.rows().next();
        let reads = first.map_or(self.reads.len(), |row| row.mark as usize);
        self.dead.note(table, range, direction, first.map(|row| row.place), reads);
    }
}
