//! The write-set: what the transaction will change, kept private until commit (Silo §4.4).
//!
//! Invariants:
//! - One entry per table and key; a later write to the key changes the entry.
//! - Keys and values are copied into one arena, so a write allocates nothing once the arena has grown.
//! - Keys and positions stay, so the order that one scan made serves the next.
//!
//! Neighbours: filled by puts, inserts and deletes; looked through by reads (read-own-writes); used up by commit.

use std::ops::{Bound, Range};

use ensile_base::Epoch;
use ensile_base::limits::TRANSACTION_BYTES_MAX;
use ensile_epoch::Pinned;

use crate::error::{Error, Result};
use crate::formats::log_entry;
use crate::record::blocks::Fresh;
use crate::record::word::Word;
use crate::record::{Handle, Record};
use crate::sets::KEEP_BYTES_MAX;
use crate::tables::TableFilter;

/// Up to this many entries a lookup compares all hashes; above, it asks a hash table.
const LINEAR_MAX: usize = 48;

/// What happens to the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// It gets this value.
    Put,
    /// It becomes absent.
    Delete,
}

/// What must hold of the key at the serialization point, beyond the read-set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// Nothing: a blind write.
    Anything,
    /// No such key: an insert.
    Absent,
}

/// One entry.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) table: u32,
    pub(crate) kind: WriteKind,
    pub(crate) expect: Expect,
    key: (u32, u32),
    value: (u32, u32),
    /// The record, once known; a lookup may have found it long before commit.
    pub(crate) record: Option<Handle>,
    /// Commit: the record is a placeholder that this transaction put into the index (C3).
    pub(crate) placed: bool,
    /// Commit: a filled, unpublished record that replaces the present one.
    pub(crate) replacement: Option<Fresh>,
    /// Commit: room to preserve the present version for snapshots.
    pub(crate) old_version: Option<Handle>,
    /// Commit: the TID word that the lock was taken over.
    pub(crate) before: Word,
    /// Commit: what became of it.
    pub(crate) installed: Installed,
}

/// What installing an entry did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Installed {
    /// Nothing (yet).
    Untouched,
    /// The record was overwritten where it stands; the old version was preserved, or not.
    InPlace { preserved: bool },
    /// The record became absent; the old version was preserved, or not.
    Deleted { preserved: bool },
    /// A new record took its place in the index; the old one serves as a version, or not.
    Replaced { kept: bool },
}

impl Write {
    /// The entry's record. Only entries with a record are in the lock order.
    #[inline]
    pub(crate) fn record_at<'p>(&self, pinned: Pinned<'p>) -> Record<'p> {
        let Some(record) = self.record else { unreachable!("an entry in the lock order has a record") };
        record.at(pinned)
    }

    /// Whether a record with this word may be overwritten where it stands: it is present, or it is the placeholder
    /// that this transaction placed. Other absent records belong to whoever registered them for cleanup (U1).
    #[inline]
    pub(crate) fn may_overwrite(&self, word: Word) -> bool {
        !word.is_absent() || (self.placed && word.is_placeholder())
    }

    /// Whether the version that was locked belongs to a snapshot (S1).
    #[inline]
    pub(crate) fn must_preserve(&self, boundary: Epoch) -> bool {
        self.before.epoch() < boundary && !self.before.is_placeholder()
    }
}

/// All entries of a transaction.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    pub(crate) entries: Vec<Write>,
    /// Of all entries, once there are two.
    hashes: Vec<u32>,
    /// The tables that are written.
    tables: TableFilter,
    arena: Vec<u8>,
    table: Table,
    in_order: InOrder,
}

/// The entries of the table that was scanned last, as positions in key order.
#[derive(Debug, Default)]
struct InOrder {
    table: u32,
    /// How many entries, of any table, it has taken in.
    seen: usize,
    positions: Vec<u32>,
}

/// Hash of a table's key, a folded multiplication a word: both halves of the product count, so that keys which differ
/// in their last byte only (the highest of a little-endian word) differ in the low bits that pick a slot.
#[inline]
pub(crate) fn hash_key(table: u32, key: &[u8]) -> u32 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(MULTIPLIER);
        (product >> 64) as u64 ^ product as u64
    };
    let mut hash = fold(u64::from(table) << 32 | key.len() as u64, MULTIPLIER);
    let mut chunks = key.chunks_exact(8);
    for chunk in chunks.by_ref() {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        hash = fold(hash, u64::from_le_bytes(word));
    }
    let tail = chunks.remainder();
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        hash = fold(hash, u64::from_le_bytes(word));
    }
    (hash >> 32) as u32 ^ hash as u32
}

impl WriteSet {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets all entries and keeps the space, unless a huge transaction grew it.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if !(self.entries.is_empty() && self.arena.is_empty()) {
            self.forget();
        }
    }

    /// Whether keys and values lie in the arena, and each entry has a hash once there are two.
    pub(crate) fn check(&self) -> bool {
        let lies_in = |part: (u32, u32)| range(part).end <= self.arena.len();
        let hashed = self.entries.len() < 2 || self.hashes.len() == self.entries.len();
        hashed && self.entries.iter().all(|write| lies_in(write.key) && lies_in(write.value))
    }

    fn forget(&mut self) {
        debug_assert!(self.check(), "a write-set that is given up was whole");
        self.entries.clear();
        self.hashes.clear();
        self.tables = TableFilter::default();
        self.table.clear();
        self.in_order.restart(0);
        if self.arena.capacity() + self.entries.capacity() * size_of::<Write>() > KEEP_BYTES_MAX {
            *self = Self::default();
        }
        self.arena.clear();
    }

    #[inline]
    pub(crate) fn key(&self, write: &Write) -> &[u8] {
        &self.arena[range(write.key)]
    }

    #[inline]
    pub(crate) fn value(&self, write: &Write) -> &[u8] {
        &self.arena[range(write.value)]
    }

    /// The entry of this key, if the transaction has written it.
    #[inline]
    pub(crate) fn find(&self, table: u32, key: &[u8]) -> Option<usize> {
        if !self.tables.may_have(table) {
            return None;
        }
        match self.entries.as_slice() {
            [only] => (only.table == table && self.key(only) == key).then_some(0),
            _ => self.find_among(table, key),
        }
    }

    fn find_among(&self, table: u32, key: &[u8]) -> Option<usize> {
        let hash = hash_key(table, key);
        let is_it = |at: usize| {
            let write = &self.entries[at];
            write.table == table && self.key(write) == key
        };
        if self.hashes.len() <= LINEAR_MAX {
            return self.find_linearly(hash, is_it);
        }
        self.table.find(hash, is_it)
    }

    /// Compares all hashes, a group at a time: without a branch for each, the compiler makes vectors of it.
    #[inline]
    fn find_linearly(&self, hash: u32, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        const GROUP: usize = 8;
        let (groups, rest) = self.hashes.as_chunks::<GROUP>();
        for (index, group) in groups.iter().enumerate() {
            if group.iter().fold(false, |any, other| any | (*other == hash)) {
                let found = (0..GROUP).find(|at| group[*at] == hash && is_it(index * GROUP + at));
                if let Some(at) = found {
                    return Some(index * GROUP + at);
                }
            }
        }
        let start = groups.len() * GROUP;
        (start..start + rest.len()).find(|at| self.hashes[*at] == hash && is_it(*at))
    }

    /// Adds an entry for a key that has none. `value` is empty for a delete.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the write-set outgrows its limit; nothing is added.
    pub(crate) fn add(
        &mut self,
        (table, key, value): (u32, &[u8], &[u8]),
        kind: WriteKind,
        expect: Expect,
        record: Option<Handle>,
    ) -> Result<()> {
        self.check_room(1, key.len() + value.len())?;
        let key_at = self.append(key);
        let value_at = self.append(value);
        if !self.entries.is_empty() {
            self.add_hash(table, key);
        }
        self.tables.add(table);
        self.entries.push(Write {
            table,
            kind,
            expect,
            key: key_at,
            value: value_at,
            record,
            placed: false,
            replacement: None,
            old_version: None,
            before: Word::PLACEHOLDER,
            installed: Installed::Untouched,
        });
        Ok(())
    }

    /// Keeps the hash of another entry than the first, and the first one's with the second's: a transaction that writes
    /// one key needs none.
    fn add_hash(&mut self, table: u32, key: &[u8]) {
        if let [only] = self.entries.as_slice() {
            self.hashes.push(hash_key(only.table, self.key(only)));
        }
        self.hashes.push(hash_key(table, key));
        if self.hashes.len() > LINEAR_MAX {
            self.table.insert_all(&self.hashes);
        }
    }

    /// Changes what entry `at` does to its key.
    ///
    /// # Errors
    /// As for [`WriteSet::add`].
    pub(crate) fn change(&mut self, at: usize, kind: WriteKind, value: &[u8]) -> Result<()> {
        let old = range(self.entries[at].value);
        let stored = if value.len() <= old.len() {
            self.arena[old.start..old.start + value.len()].copy_from_slice(value);
            (old.start as u32, value.len() as u32)
        } else if old.end == self.arena.len() {
            // A row that grows step by step takes no more room than it has in the end.
            self.check_room(0, value.len() - old.len())?;
            self.arena.truncate(old.start);
            self.append(value)
        } else {
            self.check_room(0, value.len())?;
            self.append(value)
        };
        debug_assert_eq!(stored.1 as usize, value.len(), "the arena holds the new value");
        let entry = &mut self.entries[at];
        entry.value = stored;
        entry.kind = kind;
        Ok(())
    }

    /// Whether so many more entries fit, with `bytes` of keys and values, so that several writes succeed together or
    /// not at all. Counted as in the log, with it or without: what is accepted here does not fail at commit.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if not.
    #[inline]
    pub(crate) fn check_room(&self, entries: usize, bytes: usize) -> Result<()> {
        let bytes = self.arena.len() + bytes + (self.entries.len() + entries) * log_entry::bytes(0, 0);
        if bytes <= TRANSACTION_BYTES_MAX {
            return Ok(());
        }
        Err(Error::TooLarge { what: "the transaction's write-set", bytes, bytes_max: TRANSACTION_BYTES_MAX })
    }

    #[inline]
    fn append(&mut self, bytes: &[u8]) -> (u32, u32) {
        let start = self.arena.len();
        self.arena.extend_from_slice(bytes);
        debug_assert!(self.arena.len() <= u32::MAX as usize, "places in the arena are halves of a word");
        (start as u32, bytes.len() as u32)
    }

    /// Brings the entries of one table in key order, for [`WriteSet::in_order`]: those written since the last scan of
    /// that table are sorted into the others.
    pub(crate) fn sort_table(&mut self, table: u32) {
        let Self { entries, arena, in_order, .. } = self;
        if in_order.table != table {
            in_order.restart(table);
        }
        let sorted = in_order.positions.len();
        let new =
            (in_order.seen as u32..entries.len() as u32).filter(|at| entries[*at as usize].table == table);
        in_order.positions.extend(new);
        in_order.seen = entries.len();
        let key = |at: &u32| &arena[range(entries[*at as usize].key)];
        match in_order.positions.len() - sorted {
            0 => {}
            1 => {
                let (others, last) = in_order.positions.split_at(sorted);
                let place = others.partition_point(|other| key(other) < key(&last[0]));
                in_order.positions[place..].rotate_right(1);
            }
            // A stable sort takes what is in order already as one run, and merges the rest with it.
            _ => in_order.positions.sort_by(|a, b| key(a).cmp(key(b))),
        }
    }

    /// The entries within the range of the table that was sorted last, as positions in key order: what a scan merges
    /// with (read-own-writes).
    pub(crate) fn in_order(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> &[u32] {
        let positions = self.in_order.positions.as_slice();
        let key = |at: &u32| self.key(&self.entries[*at as usize]);
        let start = positions.partition_point(|at| match lower {
            Bound::Included(lower) => key(at) < lower,
            Bound::Excluded(lower) => key(at) <= lower,
            Bound::Unbounded => false,
        });
        let positions = &positions[start..];
        let length = positions.partition_point(|at| match upper {
            Bound::Included(upper) => key(at) <= upper,
            Bound::Excluded(upper) => key(at) < upper,
            Bound::Unbounded => true,
        });
        &positions[..length]
    }

    /// Arena and entries apart, for commit, which changes entries while it reads keys and values.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut [Write], Arena<'_>) {
        (&mut self.entries, Arena(&self.arena))
    }
}

impl InOrder {
    /// Forgets all positions and goes on with another table.
    #[inline]
    fn restart(&mut self, table: u32) {
        self.table = table;
        self.seen = 0;
        self.positions.clear();
    }
}

#[inline]
fn range((start, length): (u32, u32)) -> Range<usize> {
    start as usize..start as usize + length as usize
}

/// The bytes behind the entries.
#[derive(Clone, Copy)]
pub(crate) struct Arena<'a>(&'a [u8]);

impl<'a> Arena<'a> {
    #[inline]
    pub(crate) fn key(self, write: &Write) -> &'a [u8] {
        &self.0[range(write.key)]
    }

    #[inline]
    pub(crate) fn value(self, write: &Write) -> &'a [u8] {
        &self.0[range(write.value)]
    }

    /// The key's length, and key and value at once where they lie side by side: they do unless a longer value came later.
    #[inline]
    pub(crate) fn key_and_value(self, write: &Write) -> Option<(usize, &'a [u8])> {
        let (key, value) = (range(write.key), range(write.value));
        (key.end == value.start).then(|| (key.len(), &self.0[key.start..value.end]))
    }
}

/// Open addressing over entry positions, for large write-sets only.
#[derive(Debug, Default)]
struct Table {
    slots: Vec<(u32, u32)>,
    filled: usize,
}

const EMPTY: u32 = u32::MAX;

impl Table {
    fn clear(&mut self) {
        self.slots.clear();
        self.filled = 0;
    }

    /// Takes in the hashes that it does not have yet.
    fn insert_all(&mut self, hashes: &[u32]) {
        if hashes.len() * 2 > self.slots.len() {
            self.slots.clear();
            self.slots.resize((hashes.len() * 4).next_power_of_two(), (0, EMPTY));
            self.filled = 0;
        }
        for (at, hash) in hashes.iter().enumerate().skip(self.filled) {
            let mut slot = *hash as usize & (self.slots.len() - 1);
            while self.slots[slot].1 != EMPTY {
                slot = (slot + 1) & (self.slots.len() - 1);
            }
            self.slots[slot] = (*hash, at as u32);
        }
        self.filled = hashes.len();
    }

    fn find(&self, hash: u32, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let mut slot = hash as usize & (self.slots.len() - 1);
        loop {
            let (slot_hash, at) = self.slots[slot];
            if at == EMPTY {
                return None;
            }
            if slot_hash == hash && is_it(at as usize) {
                return Some(at as usize);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }
}

#[cfg(test)]
mod tests;
