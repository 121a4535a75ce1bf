//! The readers of a transaction: the latest versions, and a memory of the reads (Silo §4.4).
//!
//! Neighbours: `transaction` reads through these readers; commit validates the remembered reads.

use ensile_base::Epoch;
use ensile_epoch::Pinned;

use super::{Reader, VersionRead, lookup};
use crate::error::{Error, Result};
use crate::record::{CopyTarget, Handle, LeafWitness, Record, Scratch, Seen};
use crate::sets::keys::FoundPlace;
use crate::sets::node_set::NodeSet;
use crate::sets::write_set::{Expect, WriteSet};
use crate::sets::{Read, Sets};
use crate::tables::TableCore;
use crate::tables::side_index::SideIndex;

/// Reads a record's latest version. Returns the entry for the read-set, and true if the key is present. `None` if
/// another record has taken the record's place.
#[inline(always)]
fn read_latest<'p>(record: Record<'p>, scratch: &mut impl CopyTarget) -> Option<(Read<'p>, bool)> {
    let (word, present) = match record.read(scratch) {
        Seen::Present(word) => (word, true),
        Seen::Absent(word) => (word, false),
        Seen::Superseded => return None,
    };
    Some((Read { record: record.handle(), word }, present))
}

/// Reader of a point read: reads the key's latest version, remembers the read, and notes the record.
pub(crate) struct PointReader<'t, 'p> {
    sets: &'t mut Sets<'p>,
    /// The key's position in the table of keys.
    met: Option<usize>,
}

impl<'p> Reader<'p> for PointReader<'_, 'p> {
    #[inline(always)]
    fn read(&mut self, record: Record<'p>, scratch: &mut impl CopyTarget) -> VersionRead {
        let Some((read, present)) = read_latest(record, scratch) else { return VersionRead::Superseded };
        let Sets { reads, writes, .. } = &mut *self.sets;
        let known = self.met.and_then(|at| reads.get(writes.keys.key_at(at).read()?));
        if known != Some(&read) {
            reads.push(read);
        }
        VersionRead::from_presence(present)
    }

    #[inline]
    fn witness(&mut self, witness: LeafWitness<'p>) {
        self.sets.nodes.push(witness);
    }

    #[inline(always)]
    fn note_missing_key(&mut self, side: &SideIndex) {
        self.sets.buried = self.sets.buried.max(side.newest().epoch());
    }

    fn write_set(&self) -> Option<&WriteSet<'p>> {
        None
    }

    fn mark(&self) -> u64 {
        self.sets.reads.len() as u64
    }

    #[inline(always)]
    fn note_found_record(&mut self, table: u32, key: &[u8], record: Handle<'p>) {
        let Sets { reads, writes, .. } = &mut *self.sets;
        if self.met.is_none() && reads.len() == 1 && writes.keys.note_only(table, key, record) {
            return;
        }
        let last = reads.len() - 1;
        if self.met.is_none() && !writes.notes_read(last) {
            return;
        }
        let place = FoundPlace { record, read: (reads[last].record == record).then_some(last as u32) };
        match self.met {
            Some(at) => writes.keys.set_found(at, place),
            None => writes.note_new_read(table, key, place),
        }
    }
}

/// Reads the latest versions of many rows, in order, and remembers the reads. The reader enters no key into the table
/// of keys.
pub(crate) struct ScanReader<'t, 'p> {
    pub(crate) reads: &'t mut Vec<Read<'p>>,
    pub(crate) nodes: &'t mut NodeSet<'p>,
    pub(crate) writes: &'t WriteSet<'p>,
    pub(crate) buried: &'t mut Epoch,
}

impl<'p> Reader<'p> for ScanReader<'_, 'p> {
    // A scan calls this function once a row. The function is inlined because a call takes a tenth of a row's time.
    #[inline(always)]
    fn read(&mut self, record: Record<'p>, scratch: &mut impl CopyTarget) -> VersionRead {
        let Some((read, present)) = read_latest(record, scratch) else { return VersionRead::Superseded };
        self.reads.push(read);
        VersionRead::from_presence(present)
    }

    #[inline]
    fn witness(&mut self, witness: LeafWitness<'p>) {
        self.nodes.push(witness);
    }

    #[inline(always)]
    fn note_missing_key(&mut self, side: &SideIndex) {
        *self.buried = (*self.buried).max(side.newest().epoch());
    }

    #[inline]
    fn write_set(&self) -> Option<&WriteSet<'p>> {
        Some(self.writes)
    }

    #[inline]
    fn mark(&self) -> u64 {
        self.reads.len() as u64
    }
}

impl<'p> Sets<'p> {
    /// A reader of many rows.
    #[inline]
    pub(crate) fn reader(&mut self) -> ScanReader<'_, 'p> {
        let Self { reads, nodes, writes, buried, .. } = self;
        ScanReader { reads, nodes, writes, buried }
    }

    /// Reads the keys that inserts found free: no commit will lock their records, and an error may rest on the absence
    /// of the keys (R2).
    ///
    /// # Errors
    /// [`Error::Conflict`] if a key is taken by now.
    #[cold]
    pub(crate) fn read_inserted_keys<'t>(
        &mut self,
        table: impl Fn(u32) -> &'t TableCore,
        scratch: &mut Scratch,
        pinned: Pinned<'p>,
    ) -> Result<()> {
        let Self { reads, nodes, writes, buried, .. } = self;
        let mut reader = ScanReader { reads, nodes, writes, buried };
        for write in writes.entries.iter().filter(|write| write.expect == Expect::Absent) {
            debug_assert!(write.placed.is_none(), "a transaction that was placed is committed, or renewed");
            let table = table(write.table);
            if lookup(&mut reader, table, writes.key(write), write.record, scratch, pinned) {
                return Err(Error::Conflict);
            }
        }
        Ok(())
    }

    /// A point read, beyond own writes, of a key after a search in the table of keys. True if the key is present.
    #[inline(always)]
    pub(crate) fn look_up(
        &mut self,
        table: &TableCore,
        key: &[u8],
        met: Option<usize>,
        scratch: &mut Scratch,
        pinned: Pinned<'p>,
    ) -> bool {
        let known = met.and_then(|at| self.read_met(at, scratch, pinned));
        known.unwrap_or_else(|| {
            let mut reader = PointReader { sets: self, met };
            lookup(&mut reader, table, key, None, scratch, pinned)
        })
    }

    /// Reads the record of a key in the table of keys. True if the key is present. `None` if no record is known, or
    /// another record has taken the record's place.
    #[inline(always)]
    fn read_met(&mut self, at: usize, scratch: &mut Scratch, pinned: Pinned<'p>) -> Option<bool> {
        let handle = self.writes.keys.key_at(at).record()?;
        let (read, present) = read_latest(handle.resolve(pinned), scratch)?;
        let known = self.writes.keys.key_at(at).read().is_some_and(|position| self.reads[position] == read);
        if !known {
            self.writes.keys.set_read(at, self.reads.len());
            self.reads.push(read);
        }
        Some(present)
    }
}
