//! Reads through a table: one lookup and one scan for all readers.
//!
//! A [`Reader`] gives a version its meaning: a transaction reads the latest version and remembers the read, a snapshot
//! reads the version of its boundary and remembers nothing. The walk through index and records is the same.
//!
//! Neighbours: `transaction_reader` and `snapshot` have the readers; `tables` and `record` are read. `transaction`
//! calls for its reads, and for the reads within its writes.

mod side_cursor;
pub(crate) mod snapshot;
pub(crate) mod transaction_reader;

use std::collections::vec_deque::Iter;
use std::ops::ControlFlow;

use ensile_epoch::Pinned;
use ensile_index::{Direction, Range};

use crate::codec::KeyBuffer;
use crate::error::Result;
use crate::record::tree::{RecordLookup, RecordVisitor};
use crate::record::{Address, CopyTarget, Fetch, Handle, LeafWitness, NoData, Record, RowSpace, Scratch};
use crate::sets::rows::{BatchAsked, RowBatch, RowList};
use crate::sets::write_set::{WriteKind, WriteSet};
use crate::tables::side_index::{SideIndex, SideTree};
use crate::tables::{IndexCore, TableCore};
use side_cursor::SideCursor;

/// State of a record for its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionRead {
    /// The data is in the target of the copy.
    Present,
    /// The key is absent for this reader.
    Absent,
    /// The record and its chain have no version that the reader sees.
    Unborn,
    /// The record is no longer the key's: the caller looks the key up again.
    Superseded,
}

impl VersionRead {
    #[inline(always)]
    fn from_presence(present: bool) -> Self {
        if present { Self::Present } else { Self::Absent }
    }
}

/// A source of rows: a table, in the order of its keys, or an index of the table, in the order of its entries.
#[derive(Clone, Copy)]
pub(crate) struct RowSource<'t> {
    pub(crate) table: &'t TableCore,
    pub(crate) index: Option<&'t IndexCore>,
}

impl<'t> RowSource<'t> {
    /// The table whose keys a scan visits: the index's table of entries, or the table itself.
    #[inline]
    pub(crate) fn table_to_scan(self) -> &'t TableCore {
        self.index.map_or(self.table, |index| &index.entries)
    }
}

/// Reads of bytes, common to transactions and snapshots, as a base of typed reads. Closures of the caller run outside
/// the pin's calls (E6).
pub(crate) trait RawRead {
    /// Reads the row of a key, and calls `read` with its value. `None` if the key is absent.
    fn raw_get<R>(
        &mut self,
        table: &TableCore,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>>;

    /// Copies the found row of each key, in the order of the keys, for `read`.
    fn raw_get_many(
        &mut self,
        table: &TableCore,
        keys: impl Iterator<Item = KeyBuffer>,
        read: impl FnOnce(&RowBatch),
    ) -> Result<()>;

    /// Copies the next rows of a range of keys, or of entries of an index, for `read`, until the batch is full. A batch
    /// that is not full ends the range.
    fn raw_batch<R>(
        &mut self,
        source: RowSource<'_>,
        range: Range<'_>,
        direction: Direction,
        asked: BatchAsked,
        read: impl FnOnce(&RowBatch) -> R,
    ) -> Result<R>;

    /// The rows of the last batch.
    fn rows<R>(&mut self, read: impl FnOnce(&mut RowBatch) -> R) -> R;

    /// Forgets the reads behind a mark: reads of rows that the application was not shown.
    fn forget_behind(&mut self, mark: u64);
}

/// A reader of records.
pub(crate) trait Reader<'p> {
    /// True if the reader sees older versions than the latest, of deleted keys too (U3).
    const SEES_SIDE_INDEX: bool = false;

    /// Reads a record, and remembers the read if the reader must.
    fn read(&mut self, record: Record<'p>, scratch: &mut impl CopyTarget) -> VersionRead;

    /// Notes a leaf that a miss or a scan depends on.
    fn witness(&mut self, witness: LeafWitness<'p>);

    /// The reader's own writes, if the reader has any.
    fn write_set(&self) -> Option<&WriteSet<'p>>;

    /// State of the reader's memory, for [`RawRead::forget_behind`]: the length of a transaction's read-set, or the
    /// largest epoch that a snapshot has shown.
    fn mark(&self) -> u64;

    /// Notes that the reader has found no record of a key of the table, or an absent record.
    #[inline(always)]
    fn note_missing_key(&mut self, side: &SideIndex) {
        let _ = side;
    }

    /// Notes the record of a key.
    fn note_found_record(&mut self, table: u32, key: &[u8], record: Handle<'p>) {
        let _ = (table, key, record);
    }
}

/// Looks `key` up in the table's index and reads the key's record, beyond the reader's own writes. `place` is the
/// record, if a descent has found the record before. True if the key is present.
#[inline]
pub(crate) fn lookup<'p>(
    reader: &mut impl Reader<'p>,
    table: &TableCore,
    key: &[u8],
    place: Option<Handle<'p>>,
    scratch: &mut impl CopyTarget,
    pinned: Pinned<'p>,
) -> bool {
    let mut place = place;
    loop {
        let record = match place.take() {
            Some(record) => record.resolve(pinned),
            None => match table.tree.get(key, pinned) {
                RecordLookup::Found(record) => record,
                RecordLookup::Missing(witness) => {
                    reader.witness(witness);
                    reader.note_missing_key(&table.side);
                    return lookup_aside(reader, table, key, scratch, pinned);
                }
            },
        };
        match reader.read(record, scratch) {
            VersionRead::Present => {
                reader.note_found_record(table.id, key, record.handle());
                return true;
            }
            VersionRead::Absent => {
                reader.note_missing_key(&table.side);
                reader.note_found_record(table.id, key, record.handle());
                return false;
            }
            VersionRead::Unborn => return lookup_aside(reader, table, key, scratch, pinned),
            VersionRead::Superseded => ensile_base::sync::spin_loop(),
        }
    }
}

/// Looks a key up in the side index, for a reader of older versions that found none in the table's tree. True if the
/// key is present.
#[inline(always)]
pub(crate) fn lookup_aside<'p, R: Reader<'p>>(
    reader: &mut R,
    table: &TableCore,
    key: &[u8],
    scratch: &mut impl CopyTarget,
    pinned: Pinned<'p>,
) -> bool {
    match table.side.look() {
        Some(side) if R::SEES_SIDE_INDEX => read_aside(reader, side, key, scratch, pinned),
        _ => false,
    }
}

/// Reads the newest of a key's buried records with a version that the reader sees. True if the key is present.
#[cold]
fn read_aside<'p>(
    reader: &mut impl Reader<'p>,
    side: SideTree<'_>,
    key: &[u8],
    scratch: &mut impl CopyTarget,
    pinned: Pinned<'p>,
) -> bool {
    let mut read = VersionRead::Unborn;
    side.each_of(key, pinned, |record| {
        // A record without the mark is in the table's tree still, or a newer record leads to its versions (V1).
        if !record.is_buried() {
            return ControlFlow::Continue(());
        }
        read = reader.read(record, scratch);
        if read == VersionRead::Unborn { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    read == VersionRead::Present
}

/// State of a key in a reader's own writes.
pub(crate) enum Own<'w> {
    /// The reader has not written the key.
    Unwritten,
    /// The reader has put this value.
    Put(&'w [u8]),
    /// The reader has deleted the key.
    Deleted,
}

/// Searches the reader's own writes for a key.
#[inline]
pub(crate) fn own_write<'w>(writes: Option<&'w WriteSet<'_>>, table: u32, key: &[u8]) -> Own<'w> {
    let Some(writes) = writes else { return Own::Unwritten };
    match writes.find(table, key) {
        None => Own::Unwritten,
        Some(at) => match writes.entries[at].kind {
            WriteKind::Put => Own::Put(writes.value(&writes.entries[at])),
            WriteKind::Delete => Own::Deleted,
        },
    }
}

/// A scan's parameters.
pub(crate) struct ScanRange<'s> {
    pub(crate) table: &'s TableCore,
    pub(crate) range: Range<'s>,
    pub(crate) direction: Direction,
    /// Positions of the reader's own writes within the range, in key order.
    pub(crate) own: Iter<'s, u32>,
    /// Room for the scan's present key.
    pub(crate) key_buffer: &'s mut Vec<u8>,
}

/// Visits the present keys of the range in order, with own writes merged in, until `visit` breaks. `visit` receives the
/// reader, a key, and the copy of the key's value. Returns the number of dead rows in front of the first row.
fn scan<'p, R: Reader<'p>, C: CopyTarget>(
    reader: &mut R,
    scan: ScanRange<'_>,
    scratch: &mut C,
    pinned: Pinned<'p>,
    mut visit: impl FnMut(&mut R, &[u8], &mut C) -> ControlFlow<()>,
) -> usize {
    let visit = &mut visit;
    let ScanRange { table, range, direction, own, key_buffer } = scan;
    let fetch = if C::TAKES_DATA { table.fetch } else { Fetch::HEADER };
    let own = Overlay::new(own, direction);
    let (in_front, is_shown, broken) = (0, false, false);
    let aside = SideCursor::new(range, direction);
    let mut merge =
        Merge { reader, table, own, aside, fetch, scratch, pinned, visit, in_front, is_shown, broken };
    table.tree.scan_in(range, direction, key_buffer, &mut merge, pinned);
    if !merge.broken {
        let _ = merge.own_before(None);
    }
    if R::SEES_SIDE_INDEX && !merge.broken {
        let _ = merge.aside_before(None);
    }
    // Behind the reads of the leaves.
    merge.reader.note_missing_key(&table.side);
    merge.in_front
}

/// The reader's own writes in scan order.
struct Overlay<'s> {
    /// Position of the next own write.
    next: Option<u32>,
    /// Positions of the own writes behind `next`.
    rest: Iter<'s, u32>,
    direction: Direction,
}

impl<'s> Overlay<'s> {
    fn new(positions: Iter<'s, u32>, direction: Direction) -> Self {
        let mut overlay = Self { next: None, rest: positions, direction };
        overlay.skip();
        overlay
    }

    /// Moves to the next own write.
    #[inline]
    fn skip(&mut self) {
        let next = match self.direction {
            Direction::Forward => self.rest.next(),
            Direction::Reverse => self.rest.next_back(),
        };
        self.next = next.copied();
    }
}

/// Merges committed entries with own writes.
struct Merge<'m, 'p, R, C, F> {
    reader: &'m mut R,
    table: &'m TableCore,
    own: Overlay<'m>,
    aside: SideCursor<'m>,
    fetch: Fetch,
    scratch: &'m mut C,
    pinned: Pinned<'p>,
    visit: &'m mut F,
    /// Number of own deletes and absent records in front of the first row.
    in_front: usize,
    /// True after the first row.
    is_shown: bool,
    broken: bool,
}

impl<'p, R: Reader<'p>, C: CopyTarget, F: FnMut(&mut R, &[u8], &mut C) -> ControlFlow<()>>
    Merge<'_, 'p, R, C, F>
{
    /// Visits own puts in front of `key` (without a key, all remaining puts). Breaks if the visitor breaks. Otherwise
    /// returns true if `key` itself is an own write: the caller then skips the entry.
    fn own_before(&mut self, key: Option<&[u8]>) -> ControlFlow<(), bool> {
        while let Some(at) = self.own.next {
            let Some(writes) = self.reader.write_set() else { break };
            let write = &writes.entries[at as usize];
            let own_key = writes.key(write);
            let order = key.map(|key| match self.own.direction {
                Direction::Forward => own_key.cmp(key),
                Direction::Reverse => key.cmp(own_key),
            });
            if order == Some(std::cmp::Ordering::Greater) {
                break;
            }
            if write.kind == WriteKind::Put {
                // The visitor receives the reader, so the visitor's key must not borrow from the reader.
                let own_key = own_key.to_vec();
                self.scratch.copy(writes.value(write));
                self.own.skip();
                self.call(&own_key)?;
            } else {
                self.own.skip();
            }
            if order == Some(std::cmp::Ordering::Equal) {
                return ControlFlow::Continue(true);
            }
        }
        ControlFlow::Continue(false)
    }

    /// Passes a row to the visitor: its key, and its copy in the scratch buffer.
    #[inline(always)]
    fn call(&mut self, key: &[u8]) -> ControlFlow<()> {
        self.is_shown = true;
        if R::SEES_SIDE_INDEX {
            self.aside.set_last_key(key);
        }
        let flow = (self.visit)(self.reader, key, self.scratch);
        self.broken = flow.is_break();
        flow
    }

    /// Reads the record of an entry. True if the key is present for the reader. If the record was superseded since the
    /// read of the leaf, looks the key up again.
    fn present(&mut self, key: &[u8], record: Record<'p>) -> bool {
        match self.reader.read(record, self.scratch) {
            VersionRead::Present => true,
            VersionRead::Absent => false,
            VersionRead::Unborn => lookup_aside(self.reader, self.table, key, self.scratch, self.pinned),
            VersionRead::Superseded => lookup(self.reader, self.table, key, None, self.scratch, self.pinned),
        }
    }

    /// Visits the rows of the side index in front of `key` (without a key, all remaining rows). Breaks if the visitor
    /// breaks.
    #[inline(always)]
    fn aside_before(&mut self, key: Option<&[u8]>) -> ControlFlow<()> {
        match self.table.side.look() {
            None => ControlFlow::Continue(()),
            Some(side) => self.visit_aside(side, key),
        }
    }

    /// As [`Self::aside_before`], for a side index with entries.
    #[cold]
    fn visit_aside(&mut self, side: SideTree<'_>, key: Option<&[u8]>) -> ControlFlow<()> {
        while let Some(buried) = self.aside.next_before(side, key, self.pinned) {
            if read_aside(self.reader, side, &buried, self.scratch, self.pinned) {
                self.call(&buried)?;
            }
        }
        ControlFlow::Continue(())
    }
}

impl<'p, R: Reader<'p>, C: CopyTarget, F: FnMut(&mut R, &[u8], &mut C) -> ControlFlow<()>> RecordVisitor<'p>
    for Merge<'_, 'p, R, C, F>
{
    fn witness(&mut self, witness: LeafWitness<'p>) {
        self.reader.witness(witness);
    }

    #[inline]
    fn announce(&mut self, record: Address) {
        self.fetch.ask(record);
    }

    fn entry(&mut self, key: &[u8], record: Record<'p>) -> ControlFlow<()> {
        if self.own.next.is_some() && self.own_before(Some(key))? {
            self.in_front += usize::from(!self.is_shown);
            return ControlFlow::Continue(());
        }
        if R::SEES_SIDE_INDEX {
            self.aside_before(Some(key))?;
        }
        if !self.present(key, record) {
            self.in_front += usize::from(!self.is_shown);
            return ControlFlow::Continue(());
        }
        self.call(key)
    }
}

/// Copies the rows of a table, or the rows of an index's entries (§4.7: two tree accesses), until the batch is full.
/// Returns the number of dead rows in front of the first row.
pub(crate) fn copy_rows<'p, R: Reader<'p>>(
    reader: &mut R,
    source: RowSource<'_>,
    scan: ScanRange<'_>,
    scratch: &mut Scratch,
    pinned: Pinned<'p>,
    rows: &mut RowSpace,
    list: &mut RowList,
) -> usize {
    let RowSource { table, index } = source;
    debug_assert!(std::ptr::eq(scan.table, source.table_to_scan()), "the scan visits the source's keys");
    if index.is_none() {
        if list.is_of_keys() {
            return copy_keys(reader, scan, pinned, rows, list);
        }
        return self::scan(
            reader,
            scan,
            rows,
            pinned,
            #[inline(always)]
            |reader, key, rows| list.push(key, None, rows, reader.mark()),
        );
    }
    self::scan(reader, scan, scratch, pinned, |reader, entry_key, scratch| {
        let key = scratch.bytes();
        if let Own::Put(value) = own_write(reader.write_set(), table.id, key) {
            rows.copy(value);
            return list.push(entry_key, Some(key), rows, reader.mark());
        }
        // The row exists: rows and entries change in one transaction. If this reader misses the row, the reader has
        // read two states, and its commit will fail; until then the scan skips the entry.
        if lookup(reader, table, key, None, rows, pinned) {
            return list.push(entry_key, Some(key), rows, reader.mark());
        }
        ControlFlow::Continue(())
    })
}

/// As [`copy_rows`] of a table, for keys only: the rows are not copied.
#[inline(never)]
fn copy_keys<'p, R: Reader<'p>>(
    reader: &mut R,
    scan: ScanRange<'_>,
    pinned: Pinned<'p>,
    rows: &mut RowSpace,
    list: &mut RowList,
) -> usize {
    self::scan(reader, scan, &mut NoData, pinned, |reader, key, _| list.push(key, None, rows, reader.mark()))
}
