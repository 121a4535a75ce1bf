//! The write-set: the changes of a transaction, private until commit (Silo §4.4).
//!
//! Invariants:
//! - A table and key have at most one entry; a later write to the key changes the entry.
//! - Keys and values are copied into one arena, so a write allocates nothing once the arena has grown.
//! - Keys and positions do not change, so the order of one scan serves the next scan.
//!
//! Neighbours: puts, inserts and deletes fill the write-set; reads search it (read-own-writes); commit uses it up.

use std::collections::vec_deque::Iter;
use std::ops::Bound;

use ensile_base::Epoch;
use ensile_base::limits::{INDEX_KEY_BYTES_MAX, TRANSACTION_BYTES_MAX};
use ensile_epoch::Pinned;

use super::key_order::KeyOrder;
use super::keys::{self, ArenaSpan, FoundPlace, KeyPlace, KeyTable};
use crate::error::{Error, Result};
use crate::formats::log_entry;
use crate::record::blocks::Fresh;
use crate::record::ownership::{Absent, PreservedVersion, Unlinked, VersionRoom};
use crate::record::pin_scope::forgets;
use crate::record::tid_word::Word;
use crate::record::{Handle, Record};
use crate::tables::TableFilter;
use ensile_base::limits::KEEP_BYTES_MAX;

/// Kind of the change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// The key gets the value.
    Put,
    /// The key becomes absent.
    Delete,
}

impl WriteKind {
    /// The kind of a write, and its value. A delete has no value, and no bytes.
    #[inline]
    fn from_value(value: Option<&[u8]>) -> (Self, &[u8]) {
        match value {
            Some(value) => (Self::Put, value),
            None => (Self::Delete, &[]),
        }
    }
}

/// Condition on the key at the serialization point, beyond the read-set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// No condition: a blind write.
    Anything,
    /// The key does not exist: an insert.
    Absent,
}

/// Length of the arena, in bytes, up to which announced keys enter.
const ANNOUNCED_BYTES_MAX: usize = 16 << 20;

/// Bound of the arena's length, in bytes, at the end of any entry. Announced keys, read keys, keys of refused inserts
/// and earlier writes lie in front of an entry.
const ARENA_BYTES_MAX: usize = ANNOUNCED_BYTES_MAX
    + keys::READ_KEYS_MAX * INDEX_KEY_BYTES_MAX
    + 2 * TRANSACTION_BYTES_MAX
    + 2 * INDEX_KEY_BYTES_MAX;

const _: () = assert!(ARENA_BYTES_MAX < u32::MAX as usize, "positions in the arena are halves of a word");

/// The write of one key.
#[derive(Debug)]
pub(crate) struct Write<'p> {
    pub(crate) table: u32,
    pub(crate) kind: WriteKind,
    pub(crate) expect: Expect,
    key: ArenaSpan,
    value: ArenaSpan,
    /// The key's position in the read-set, if a read entered the key.
    pub(crate) read: Option<u32>,
    /// The record, once known; a lookup may have found the record long before commit.
    pub(crate) record: Option<Handle<'p>>,
    /// Commit: the duty to unhook the record, a placeholder that this transaction put into the index (C3).
    pub(crate) placed: Option<Absent<'p>>,
    /// Commit: an unpublished record that replaces the present record, with the value, or empty for a delete.
    pub(crate) replacement: Option<Fresh>,
    /// Commit: room for the present version, or the fate of this version.
    pub(crate) old_version: OldVersion,
    /// Commit: the TID word before the lock.
    pub(crate) before: Word,
    /// Commit: effect of the install.
    pub(crate) effect: WriteEffect<'p>,
}

/// The version of a record that was present before the commit.
#[derive(Debug, Default)]
pub(crate) enum OldVersion {
    /// Commit obtained no room for a copy: no snapshot needs the version, or the version's record is replaced.
    #[default]
    NoRoom,
    /// Commit has room for a copy.
    Room(VersionRoom),
    /// Commit copied the version for snapshots.
    Preserved(PreservedVersion),
    /// Commit replaced the version's record by a new record in the index.
    Replaced(Unlinked),
}

/// Effect of an entry's install.
#[derive(Debug, Default)]
pub(crate) enum WriteEffect<'p> {
    /// Nothing (yet).
    #[default]
    Untouched,
    /// The key has the new value.
    Written,
    /// The key's record is absent now: the old record, or a new record in its place.
    Deleted(Absent<'p>),
}

impl<'p> Write<'p> {
    /// The entry's record. Only entries with a record are in the lock order.
    #[inline]
    pub(crate) fn record_at(&self, pinned: Pinned<'p>) -> Record<'p> {
        let Some(record) = self.record else { unreachable!("an entry in the lock order has a record") };
        record.resolve(pinned)
    }

    /// Forgets the word before the lock, and the entry's record unless `keeps_record`.
    pub(super) fn forget_preparation(&mut self, keeps_record: bool) {
        debug_assert!(
            self.placed.is_none() && self.replacement.is_none(),
            "everything that was prepared is given back before"
        );
        debug_assert!(matches!(self.old_version, OldVersion::NoRoom), "room for a copy is given back before");
        self.before = Word::PLACEHOLDER;
        if !keeps_record {
            self.record = None;
        }
    }

    /// Length of the key in bytes.
    #[inline]
    pub(crate) fn key_bytes(&self) -> usize {
        self.key.length as usize
    }

    /// Length of the value in bytes; 0 for a delete.
    #[inline]
    pub(crate) fn value_bytes(&self) -> usize {
        self.value.length as usize
    }

    /// True if a write may overwrite a record with this word in place: the record is present, or is the placeholder
    /// that this transaction placed. Other absent records belong to the commit that registered them for cleanup (U1).
    #[inline]
    pub(crate) fn may_overwrite(&self, word: Word) -> bool {
        debug_assert!(
            self.placed.is_none() || self.record.is_some(),
            "a placeholder is its entry's record (C3)"
        );
        !word.is_absent() || (self.placed.is_some() && word.is_placeholder())
    }

    /// True if the locked version belongs to a snapshot (S1).
    #[inline]
    pub(crate) fn must_preserve(&self, boundary: Epoch) -> bool {
        debug_assert!(!self.before.is_locked(), "a lock is taken over a free word");
        self.before.epoch() < boundary && !self.before.is_placeholder()
    }
}

/// All entries of a transaction.
#[derive(Debug, Default)]
pub(crate) struct WriteSet<'p> {
    pub(crate) entries: Vec<Write<'p>>,
    /// The written, read and announced keys.
    pub(crate) keys: KeyTable<'p>,
    /// The tables with entries.
    tables: TableFilter,
    /// Keys and values, in sequence.
    arena: Vec<u8>,
    /// Bytes of the arena that belong to entries. Keys only read or only announced do not count.
    bytes: usize,
    in_order: KeyOrder,
}

forgets!(WriteSet: emptied [entries], forgotten [keys], free [tables, arena, bytes, in_order]);

impl<'p> WriteSet<'p> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets all entries and the keys that the transaction met by itself. Keeps the space, unless a huge transaction
    /// grew the space.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.keys.forget_only();
        if self.keys.is_empty() {
            debug_assert!(self.entries.is_empty(), "what is written has been met");
        } else if self.keys.has_announced_only() && self.entries.is_empty() {
            self.keys.restart_announced();
        } else {
            self.forget();
        }
        debug_assert!(self.entries.is_empty() && self.bytes == 0, "nothing of the transaction is left");
    }

    /// As [`WriteSet::clear`], for a transaction with entries or with keys of its own.
    fn forget(&mut self) {
        #[cfg(debug_assertions)]
        self.check();
        let bytes = self.keys.restart(&self.arena);
        debug_assert!(bytes <= self.arena.len(), "announced keys lie in the arena");
        self.arena.truncate(bytes);
        self.entries.clear();
        self.tables = TableFilter::default();
        self.bytes = 0;
        self.in_order.restart(0);
        if self.kept_bytes() > KEEP_BYTES_MAX && self.keys.is_empty() {
            *self = Self::default();
        }
    }

    /// Memory of the write-set in bytes.
    #[inline]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.arena.capacity() + self.entries.capacity() * size_of::<Write<'_>>() + self.keys.kept_bytes()
    }

    /// Forgets all entries and all keys, except an only read key. The end of the pin forgets the only read key.
    #[inline(always)]
    pub(crate) fn end(&mut self) {
        if self.keys.is_empty() {
            debug_assert!(self.entries.is_empty() && self.bytes == 0, "what is written has been met");
        } else {
            self.clear();
            self.end_batch();
        }
    }

    /// Forgets the announced keys too, at the end of the batch.
    #[inline]
    pub(crate) fn end_batch(&mut self) {
        debug_assert!(self.entries.is_empty(), "a batch ends between its transactions");
        if !self.keys.is_empty() {
            self.keys.forget_all();
            self.arena.clear();
        }
    }

    /// Position of a key in the table of keys; `None` for a key that the transaction meets now.
    #[inline(always)]
    pub(crate) fn find_key(&mut self, table: u32, key: &[u8]) -> Option<usize> {
        let met = self.keys.find(&mut self.arena, table, key);
        debug_assert!(met.is_none_or(|at| self.keys.table(at) == table), "a key is of one table");
        met
    }

    /// As [`find_key`](Self::find_key), for a read: no search for a transaction that only reads many keys.
    #[inline(always)]
    pub(crate) fn find_read_key(&mut self, table: u32, key: &[u8], reads: usize) -> Option<usize> {
        let Self { keys, arena, entries, .. } = self;
        keys.find_unless(arena, table, key, |keys| !serves_reads(entries, keys, reads))
    }

    /// True if the last of `reads` reads enters its key into the table of keys.
    #[inline(always)]
    pub(crate) fn notes_read(&self, reads: usize) -> bool {
        serves_reads(&self.entries, &self.keys, reads) && self.keys.has_room_for_reads()
    }

    /// Notes the place of a new key, found by a point read.
    #[inline(never)]
    pub(crate) fn note_new_read(&mut self, table: u32, key: &[u8], place: FoundPlace<'p>) {
        let at = self.enter_key(table, key);
        self.keys.set_found(at, place);
    }

    /// The place of the key that was just read. An only key is no longer noted afterwards: the caller enters the key.
    #[inline]
    pub(crate) fn just_read(&mut self, table: u32, key: &[u8]) -> KeyPlace<'p> {
        match self.keys.take_only() {
            Some(place) => KeyPlace { met: None, only_read: Some(place) },
            None => KeyPlace { met: self.keys.find(&mut self.arena, table, key), only_read: None },
        }
    }

    /// Notes the record of a key. The transaction does not depend on the record.
    pub(crate) fn note_place(&mut self, met: Option<usize>, table: u32, key: &[u8], record: Handle<'p>) {
        // A refused insert leaves its key behind, and nothing counts the key's bytes.
        if met.is_none() && self.arena.len() > TRANSACTION_BYTES_MAX {
            return;
        }
        let at = met.unwrap_or_else(|| self.enter_key(table, key));
        debug_assert_eq!(self.keys.table(at), table, "a record is noted under its own key");
        self.keys.set_record(at, Some(record));
    }

    /// Position of a key's entry after a search, if the transaction has written the key.
    #[inline(always)]
    pub(crate) fn write_position(&self, met: Option<usize>) -> Option<usize> {
        let at = self.keys.key_at(met?).write();
        debug_assert!(at.is_none_or(|at| at < self.entries.len()), "the table of keys leads to an entry");
        at
    }

    /// The value of an entry; `None` if the entry is a delete.
    #[inline]
    pub(crate) fn value_if_put(&self, at: usize) -> Option<&[u8]> {
        let write = &self.entries[at];
        debug_assert!(write.kind == WriteKind::Put || write.value_bytes() == 0, "a delete has no value");
        (write.kind == WriteKind::Put).then(|| self.value(write))
    }

    /// Enters a new key into the arena and the table of keys. Returns the position in the table.
    #[inline]
    fn enter_key(&mut self, table: u32, key: &[u8]) -> usize {
        debug_assert!(self.keys.find_among(&self.arena, table, key).is_none(), "a key stands once");
        let key = self.append(key);
        self.keys.enter_at(&self.arena, table, key)
    }

    /// Notes a key of a future use. Each key stands once. The call skips keys that no table can have, and keys beyond
    /// [`ANNOUNCED_BYTES_MAX`]: skipped keys are only slower.
    #[inline]
    pub(crate) fn announce(&mut self, table: u32, key: &[u8]) {
        if key.len() > INDEX_KEY_BYTES_MAX || self.arena.len() + key.len() > ANNOUNCED_BYTES_MAX {
            return;
        }
        self.keys.announce(&mut self.arena, table, key);
    }

    /// The keys from a position on, as table and bytes, for a common descent.
    pub(crate) fn announced_keys(&self, from: usize) -> impl ExactSizeIterator<Item = (u32, &[u8])> {
        debug_assert!(from <= self.keys.len(), "announcements begin within the table of keys");
        self.keys.from(from, &self.arena)
    }

    /// Lets searches find the keys at positions `from..to`, announced for the running request of a batch.
    #[inline]
    pub(crate) fn activate(&mut self, from: usize, to: usize) {
        debug_assert!(self.entries.is_empty(), "a request begins with nothing written");
        self.keys.activate(&self.arena, from, to);
    }

    #[inline]
    pub(crate) fn key(&self, write: &Write<'_>) -> &[u8] {
        &self.arena[write.key.range()]
    }

    #[inline]
    pub(crate) fn value(&self, write: &Write<'_>) -> &[u8] {
        &self.arena[write.value.range()]
    }

    /// Position of a key's entry, if the transaction has written the key. The caller does not use the key next.
    #[inline]
    pub(crate) fn find(&self, table: u32, key: &[u8]) -> Option<usize> {
        if !self.tables.may_have(table) {
            return None;
        }
        self.keys.key_at(self.keys.find_among(&self.arena, table, key)?).write()
    }

    /// Adds an entry for a key without an entry, after a search by [`WriteSet::find_key`]. Without a value the entry is
    /// a delete.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the write-set outgrows its limit; nothing is added.
    pub(crate) fn add(
        &mut self,
        met: Option<usize>,
        table: u32,
        key: &[u8],
        value: Option<&[u8]>,
        expect: Expect,
    ) -> Result<()> {
        debug_assert!(self.find(table, key).is_none(), "one entry per table and key");
        let (kind, value) = WriteKind::from_value(value);
        self.check_room(1, key.len() + value.len())?;
        let key_at = self.key_span(met, key);
        let value_at = self.append(value);
        self.push(KeyPlace { met, only_read: None }, table, key_at, value_at, kind, expect);
        Ok(())
    }

    /// As [`WriteSet::add`] of a put. `encode` writes the value behind the arena's end.
    ///
    /// # Errors
    /// As for [`WriteSet::add`], and the errors of `encode` and of `check`, which examines the value; nothing is added.
    #[inline]
    pub(crate) fn add_encoded(
        &mut self,
        place: KeyPlace<'p>,
        table: u32,
        key: &[u8],
        expect: Expect,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<()>,
        check: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let before = self.arena.len();
        let key_at = self.key_span(place.met, key);
        let start = self.arena.len();
        let cut = CutOnPanic { arena: &mut self.arena, before };
        let encoded = encode(cut.arena).and_then(|()| check(&cut.arena[start..]));
        std::mem::forget(cut);
        let checked = encoded.and_then(|()| self.check_room(1, key.len() + self.arena.len() - start));
        if checked.is_err() {
            self.cut_refused(before);
            return checked;
        }
        debug_assert!(self.arena.len() <= u32::MAX as usize, "positions in the arena are halves of a word");
        let value_at = ArenaSpan { start: start as u32, length: (self.arena.len() - start) as u32 };
        let at = self.push(place, table, key_at, value_at, WriteKind::Put, expect);
        if let Some(found) = place.only_read {
            self.keys.set_found(at, found);
        }
        Ok(())
    }

    /// Removes a refused value, and shrinks the arena if the value has grown the space out of proportion.
    #[cold]
    fn cut_refused(&mut self, before: usize) {
        self.arena.truncate(before);
        if self.arena.capacity() / 4 > before.max(KEEP_BYTES_MAX) {
            self.arena.shrink_to(KEEP_BYTES_MAX);
        }
    }

    /// The key's place in the arena. Appends the key if it is new.
    #[inline]
    fn key_span(&mut self, met: Option<usize>, key: &[u8]) -> ArenaSpan {
        let key_at = match met {
            Some(at) => self.keys.key_at(at).span(),
            None => self.append(key),
        };
        debug_assert_eq!(&self.arena[key_at.range()], key, "the arena holds the key");
        key_at
    }

    /// Adds the entry of a key that has no entry. Returns the position in the table of keys.
    #[inline]
    fn push(
        &mut self,
        place: KeyPlace<'p>,
        table: u32,
        key: ArenaSpan,
        value: ArenaSpan,
        kind: WriteKind,
        expect: Expect,
    ) -> usize {
        let (read, record) = place.only_read.map_or((None, None), |found| (found.read, Some(found.record)));
        debug_assert!(key.range().end <= value.range().start, "a value is appended behind its key");
        debug_assert!(value.range().end <= self.arena.len(), "the arena holds the value");
        let at = place.met.unwrap_or_else(|| self.keys.enter_at(&self.arena, table, key));
        debug_assert_eq!(self.keys.table(at), table, "the entry's key is of the entry's table");
        self.keys.set_write(at, self.entries.len());
        let met = self.keys.key_at(at);
        let (read, record) = (read.or(met.read_position()), record.or(met.record()));
        self.tables.add(table);
        self.bytes += key.length as usize + value.length as usize;
        self.entries.push(Write {
            table,
            kind,
            expect,
            key,
            value,
            read,
            record,
            placed: None,
            replacement: None,
            old_version: OldVersion::NoRoom,
            before: Word::PLACEHOLDER,
            effect: WriteEffect::Untouched,
        });
        at
    }

    /// Changes the value and the kind of entry `at`. Without a value the entry becomes a delete.
    ///
    /// # Errors
    /// As for [`WriteSet::add`].
    pub(crate) fn change(&mut self, at: usize, value: Option<&[u8]>) -> Result<()> {
        let (kind, value) = WriteKind::from_value(value);
        let old = self.entries[at].value.range();
        let stored = if value.len() <= old.len() {
            self.arena[old.start..old.start + value.len()].copy_from_slice(value);
            ArenaSpan { start: old.start as u32, length: value.len() as u32 }
        } else if old.end == self.arena.len() {
            // A row that grows step by step takes no more room than its last value.
            self.check_room(0, value.len() - old.len())?;
            self.bytes += value.len() - old.len();
            self.arena.truncate(old.start);
            self.append(value)
        } else {
            self.check_room(0, value.len())?;
            self.bytes += value.len();
            self.append(value)
        };
        debug_assert_eq!(stored.length as usize, value.len(), "the arena holds the new value");
        debug_assert!(kind == WriteKind::Put || stored.length == 0, "a delete has no value");
        let entry = &mut self.entries[at];
        entry.value = stored;
        entry.kind = kind;
        debug_assert_eq!(self.value(&self.entries[at]), value, "what is written is what is read");
        Ok(())
    }

    /// Checks that `entries` more entries with `bytes` of keys and values fit, so that several writes succeed together
    /// or not at all. Entries count as in the log, even without a log: an accepted write does not fail at commit.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the entries do not fit.
    #[inline]
    pub(crate) fn check_room(&self, entries: usize, bytes: usize) -> Result<()> {
        debug_assert!(self.bytes <= self.arena.len(), "what the entries take lies in the arena");
        let bytes = self.bytes + bytes + (self.entries.len() + entries) * log_entry::bytes(0, 0);
        if bytes <= TRANSACTION_BYTES_MAX {
            return Ok(());
        }
        Err(Error::TooLarge { what: "the transaction's write-set", bytes, bytes_max: TRANSACTION_BYTES_MAX })
    }

    #[inline]
    fn append(&mut self, bytes: &[u8]) -> ArenaSpan {
        let start = self.arena.len();
        keys::append(&mut self.arena, bytes);
        debug_assert!(self.arena.len() <= u32::MAX as usize, "positions in the arena are halves of a word");
        ArenaSpan { start: start as u32, length: bytes.len() as u32 }
    }

    /// Sorts the entries of one table by key, for [`WriteSet::in_order`]. Entries written since the last scan of the
    /// table are sorted into the others.
    pub(crate) fn sort_table(&mut self, table: u32) {
        let Self { entries, arena, in_order, .. } = self;
        if in_order.table != table {
            in_order.restart(table);
        }
        debug_assert!(in_order.seen <= entries.len(), "entries stay until the transaction ends");
        let new = in_order.seen as u32..entries.len() as u32;
        in_order.seen = entries.len();
        in_order.enter(new.filter(|at| entries[*at as usize].table == table), |at| {
            &arena[entries[at as usize].key.range()]
        });
    }

    /// The entries within a range of the last sorted table, as positions in key order. A scan merges with these entries
    /// (read-own-writes).
    pub(crate) fn in_order(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Iter<'_, u32> {
        debug_assert_eq!(self.in_order.seen, self.entries.len(), "`sort_table` comes first");
        self.in_order.range(lower, upper, |at| self.key(&self.entries[at as usize]))
    }

    /// Asserts the conditions that look-ups, scans and commit rely on.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self) {
        let count = self.entries.len();
        assert!(self.in_order.seen <= count, "an order takes in entries that there are");
        for (at, write) in self.entries.iter().enumerate() {
            assert_eq!(
                self.find(write.table, self.key(write)),
                Some(at),
                "the table of keys leads to each entry"
            );
            assert!(self.tables.may_have(write.table), "the filter knows every table that is written");
            assert!(write.key.range().end <= self.arena.len(), "a key lies in the arena");
            assert!(write.value.range().end <= self.arena.len(), "a value lies in the arena");
            assert!(write.kind == WriteKind::Put || write.value_bytes() == 0, "a delete has no value");
            assert!(write.placed.is_none() || write.record.is_some(), "a placed entry has its placeholder");
        }
        let sorted = self.in_order.positions.iter().map(|at| &self.entries[*at as usize]);
        assert!(sorted.clone().all(|write| write.table == self.in_order.table), "an order is of one table");
        assert!(sorted.is_sorted_by(|a, b| self.key(a) < self.key(b)), "no key comes twice");
    }

    /// The entries and the arena as two borrows: commit changes entries while it reads keys and values.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&mut [Write<'p>], Arena<'_>) {
        (&mut self.entries, Arena(&self.arena))
    }
}

/// True if the next read of a transaction with `reads` reads uses the table of keys.
#[inline(always)]
fn serves_reads(entries: &[Write<'_>], keys: &KeyTable<'_>, reads: usize) -> bool {
    !entries.is_empty() || keys.serves_reads_alone(reads)
}

/// Removes the output of an encoder that panics. The application may catch the panic and continue, any number of times.
struct CutOnPanic<'a> {
    arena: &'a mut Vec<u8>,
    before: usize,
}

impl Drop for CutOnPanic<'_> {
    #[cold]
    fn drop(&mut self) {
        self.arena.truncate(self.before);
    }
}

/// The bytes behind the entries.
#[derive(Clone, Copy)]
pub(crate) struct Arena<'a>(&'a [u8]);

impl<'a> Arena<'a> {
    #[inline]
    pub(crate) fn key(self, write: &Write<'_>) -> &'a [u8] {
        &self.0[write.key.range()]
    }

    #[inline]
    pub(crate) fn value(self, write: &Write<'_>) -> &'a [u8] {
        &self.0[write.value.range()]
    }

    /// The key's length, and key and value at once if they are adjacent. They are adjacent unless a longer value came
    /// later.
    #[inline]
    pub(crate) fn key_and_value(self, write: &Write<'_>) -> Option<(usize, &'a [u8])> {
        let (key, value) = (write.key.range(), write.value.range());
        debug_assert!(value.end <= self.0.len() && key.end <= self.0.len(), "entries lie in their arena");
        (key.end == value.start).then(|| (key.len(), &self.0[key.start..value.end]))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
