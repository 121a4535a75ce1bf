//! The keys of a database, within a transaction.
//!
//! Invariants:
//! - An expired key is absent for every command. A command that meets the row of an expired key removes the row, so the
//!   commits order the expiry: no transaction with an earlier time sees the key afterwards. Two reads leave the row to
//!   the sweeper: a walk, and a read while nothing can be removed ([`Model::is_stuck`]).
//! - The row of the database is read before the first key, so a transaction rests on the database's content.
//!
//! Neighbours: commands have a [`Keyspace`]; `contents` exchanges the contents of databases.

use std::ops::ControlFlow;

use ensile::{Error, Prefix, Readable, Result, Transaction};

use super::stored_value::{Kind, NewValue, StoredValue, ValueHeader, ValueSummary};
use super::{ExpiryRow, KeyRow, Model, contents, objects};
use crate::blocking::{Arrival, WaitedKey};
use crate::effects::Effects;

/// A view of a database's keys for one transaction.
pub(crate) struct Keyspace<'k, 'db> {
    pub(crate) tx: &'k mut Transaction<'db>,
    pub(crate) model: &'k Model,
    /// Effects of the run, which take place once, after the commit (J1).
    pub(crate) effects: &'k mut Effects,
    /// Number of the database.
    pub(crate) database: u32,
    /// Stripe of the counts that this loop changes.
    pub(crate) stripe: u32,
    /// Time of the request in milliseconds since 1970.
    pub(crate) now_millis: i64,
    /// Content id of the database, once it is read.
    content: Option<u32>,
    /// Bytes of values that were copied for the command.
    pub(crate) copied_bytes: usize,
}

/// The place of a key, and the header of the row that is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    content: u32,
    hash: u64,
    /// Header of the value; `None` for an absent key.
    pub(crate) header: Option<ValueHeader>,
}

/// The place of a key, and the value that is there.
#[derive(Debug)]
pub(crate) struct ValueSlot {
    pub(crate) slot: Slot,
    /// The value; `None` for an absent key.
    pub(crate) value: Option<StoredValue>,
}

impl Slot {
    /// Expiry of the row in milliseconds since 1970.
    fn expiry_millis(&self) -> Option<i64> {
        self.header?.expiry_millis
    }

    /// Number of the object of the row's value.
    fn object(&self) -> Option<u64> {
        self.header?.object
    }
}

/// A key that a transaction rests on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchedKey {
    /// Number of rows that the transaction has read.
    pub(crate) rows: usize,
    /// Expiry of the key in milliseconds since 1970.
    pub(crate) expiry_millis: Option<i64>,
}

/// A step of a walk over the keys of a database.
pub(crate) struct KeyAt<'r> {
    pub(crate) hash: u64,
    pub(crate) key: &'r [u8],
    pub(crate) header: ValueHeader,
    /// True if the key is absent, and only its row is there.
    pub(crate) is_expired: bool,
}

impl<'k, 'db> Keyspace<'k, 'db> {
    pub(crate) fn new(
        tx: &'k mut Transaction<'db>,
        model: &'k Model,
        effects: &'k mut Effects,
        database: u32,
        stripe: u32,
        now_millis: i64,
    ) -> Self {
        Self { tx, model, effects, database, stripe, now_millis, content: None, copied_bytes: 0 }
    }

    /// Content id of the database.
    #[inline]
    pub(crate) fn content(&mut self) -> Result<u32> {
        match self.content {
            Some(content) => Ok(content),
            None => {
                let content = contents::content_of(self.tx, self.model, self.database)?;
                self.content = Some(content);
                Ok(content)
            }
        }
    }

    /// Notes that a value of this key has this number of elements more, for clients that wait for the key (J3).
    pub(crate) fn note_pushed(&mut self, kind: Kind, key: &[u8], count: usize) {
        if let Some(kind) = kind.waited_for().filter(|_| count > 0) {
            let key = WaitedKey { database: self.database, kind, key: key.into() };
            self.effects.arrive(Arrival::Pushed(key, count));
        }
    }

    /// Notes that a whole value has come under this key (J3).
    pub(crate) fn note_appeared(&mut self, kind: Kind, key: &[u8]) {
        self.note_pushed(kind, key, usize::MAX);
    }

    /// Notes the content id of the database, if the id is read.
    #[inline]
    pub(crate) fn note_content(&self, contents: &mut [u32]) {
        if let (Some(content), Some(noted)) = (self.content, contents.get_mut(self.database as usize)) {
            *noted = content;
        }
    }

    /// Looks at another database from now on.
    pub(crate) fn select(&mut self, database: u32) {
        self.database = database;
        self.content = None;
    }

    /// The value of a key; `None` for an absent key.
    #[inline]
    pub(crate) fn get(&mut self, key: &[u8]) -> Result<Option<StoredValue>> {
        let (content, hash) = (self.content()?, self.model.key_hash(key));
        let row = self.tx.get(&self.model.keys, &(content, hash, key))?;
        self.copied_bytes += row.as_ref().map_or(0, |row| row.bytes.len());
        let slot = Slot { content, hash, header: row.as_ref().map(|row| row.header) };
        let is_present = self.is_present(slot, key)?;
        self.effects.note_read(is_present);
        Ok(row.filter(|_| is_present))
    }

    /// Calls `read` with the value of a key, in place: the header, and the bytes of one version. `None` for an absent
    /// key. The bytes count as copied.
    #[inline]
    pub(crate) fn read<R>(
        &mut self,
        key: &[u8],
        read: impl FnOnce(ValueHeader, &[u8]) -> R,
    ) -> Result<Option<R>> {
        let (content, hash) = (self.content()?, self.model.key_hash(key));
        let (now_millis, copied_bytes) = (self.now_millis, &mut self.copied_bytes);
        let row = self.tx.get_encoded(&self.model.keys, &(content, hash, key), |row| {
            let (header, bytes) = ValueHeader::decode(row)?;
            let seen = (!header.is_expired(now_millis)).then(|| read(header, bytes));
            *copied_bytes += if seen.is_some() { bytes.len() } else { 0 };
            Ok((header, seen))
        })?;
        self.effects.note_read(matches!(row, Some((_, Some(_)))));
        let Some((header, seen)) = row else { return Ok(None) };
        if seen.is_none() {
            let is_present = self.is_present(Slot { content, hash, header: Some(header) }, key)?;
            debug_assert!(!is_present, "the key of an unread row is expired");
        }
        Ok(seen)
    }

    /// Properties of the value of a key; `None` for an absent key. The value is not copied.
    #[inline]
    pub(crate) fn summary(&mut self, key: &[u8]) -> Result<Option<ValueSummary>> {
        let (content, hash) = (self.content()?, self.model.key_hash(key));
        let row = self.tx.get_with(&self.model.keys, &(content, hash, key), StoredValue::summary)?;
        let slot = Slot { content, hash, header: row.map(|row| row.header) };
        let is_present = self.is_present(slot, key)?;
        self.effects.note_read(is_present);
        Ok(row.filter(|_| is_present))
    }

    /// True if the key of a read is present. The row of an expired key is removed, if rows can be removed.
    #[inline]
    fn is_present(&mut self, slot: Slot, key: &[u8]) -> Result<bool> {
        match slot.header {
            None => Ok(false),
            Some(header) if header.is_expired(self.now_millis) => {
                if !self.model.is_stuck() {
                    self.remove_expired(slot, key)?;
                }
                Ok(false)
            }
            Some(_) => Ok(true),
        }
    }

    /// The place of a key, for a write. The value is not copied.
    #[inline]
    pub(crate) fn slot(&mut self, key: &[u8]) -> Result<Slot> {
        let (content, hash) = (self.content()?, self.model.key_hash(key));
        let header = self.tx.get_with(&self.model.keys, &(content, hash, key), |row| row.header)?;
        self.emptied_if_expired(Slot { content, hash, header }, key)
    }

    /// The place and the value of a key, for a read. The place of an absent key has no header.
    pub(crate) fn read_slot(&mut self, key: &[u8]) -> Result<ValueSlot> {
        let (content, hash) = (self.content()?, self.model.key_hash(key));
        let value = self.get(key)?;
        let header = value.as_ref().map(|value| value.header);
        Ok(ValueSlot { slot: Slot { content, hash, header }, value })
    }

    /// The place and the value of a key, for a read that a write follows.
    #[inline]
    pub(crate) fn value_slot(&mut self, key: &[u8]) -> Result<ValueSlot> {
        let (content, hash) = (self.content()?, self.model.key_hash(key));
        let row = self.tx.get(&self.model.keys, &(content, hash, key))?;
        self.copied_bytes += row.as_ref().map_or(0, |row| row.bytes.len());
        let slot = Slot { content, hash, header: row.as_ref().map(|row| row.header) };
        let slot = self.emptied_if_expired(slot, key)?;
        Ok(ValueSlot { slot, value: row.filter(|_| slot.header.is_some()) })
    }

    /// The slot, without its row if the key is expired.
    #[inline]
    fn emptied_if_expired(&mut self, slot: Slot, key: &[u8]) -> Result<Slot> {
        let is_expired = slot.header.is_some_and(|header| header.is_expired(self.now_millis));
        if is_expired { self.remove_expired(slot, key) } else { Ok(slot) }
    }

    /// Removes the row of an expired key, and returns the empty slot.
    #[cold]
    fn remove_expired(&mut self, slot: Slot, key: &[u8]) -> Result<Slot> {
        debug_assert!(
            slot.expiry_millis().is_some_and(|expiry| expiry <= self.now_millis),
            "the key is expired"
        );
        self.remove(&slot, key)?;
        self.effects.note_expired();
        Ok(Slot { header: None, ..slot })
    }

    /// Writes the value of a key. The object of the value before is abandoned, unless the new value has it.
    #[inline]
    pub(crate) fn write(&mut self, slot: &Slot, key: &[u8], value: NewValue<'_>) -> Result<()> {
        debug_assert_eq!(slot.hash, self.model.key_hash(key), "a slot is of its key");
        let object = slot.object().filter(|object| value.header.object != Some(*object));
        if let Some(object) = object {
            objects::abandon(self.tx, self.model, object)?;
        }
        self.tx.put(&self.model.keys, &(slot.content, slot.hash, key), &value)?;
        if slot.header.is_none() {
            count_keys(self.tx, self.model, slot.content, self.stripe, 1)?;
        }
        self.move_expiry(slot, key, value.header.expiry_millis)
    }

    /// Removes a key with its value. The slot may have no row.
    pub(crate) fn remove(&mut self, slot: &Slot, key: &[u8]) -> Result<()> {
        if let Some(object) = slot.object() {
            objects::abandon(self.tx, self.model, object)?;
        }
        self.detach(slot, key)
    }

    /// Removes a key. The object of its value stays, for another key. The slot may have no row.
    pub(crate) fn detach(&mut self, slot: &Slot, key: &[u8]) -> Result<()> {
        debug_assert_eq!(slot.hash, self.model.key_hash(key), "a slot is of its key");
        if slot.header.is_none() {
            return Ok(());
        }
        self.tx.delete(&self.model.keys, &(slot.content, slot.hash, key))?;
        count_keys(self.tx, self.model, slot.content, self.stripe, -1)?;
        self.move_expiry(slot, key, None)
    }

    /// Header of a copy of a value. The rows of an object are copied.
    pub(crate) fn copied_header(&mut self, value: &StoredValue) -> Result<ValueHeader> {
        let Some(from) = value.header.object else { return Ok(value.header) };
        let to = objects::new_number(self.tx, self.model, self.stripe)?;
        self.copied_bytes += objects::copy(self.tx, self.model, from, to)?;
        Ok(ValueHeader { object: Some(to), ..value.header })
    }

    /// Reads a key, so that the transaction rests on the value as a whole.
    pub(crate) fn watch(&mut self, key: &[u8]) -> Result<WatchedKey> {
        let header = self.summary(key)?.map(|value| value.header);
        let mut watched =
            WatchedKey { rows: 1, expiry_millis: header.and_then(|header| header.expiry_millis) };
        if header.is_some_and(|header| header.object.is_some())
            && let Some(value) = self.get(key)?
            && let Some(object) = value.header.object
        {
            watched.rows += objects::watch(self.tx, self.model, object, value.header.kind, value.stripes())?;
        }
        Ok(watched)
    }

    /// Moves the row of a key's expiry to the new time.
    #[inline]
    fn move_expiry(&mut self, slot: &Slot, key: &[u8], to_millis: Option<i64>) -> Result<()> {
        let from_millis = slot.expiry_millis();
        if from_millis == to_millis {
            return Ok(());
        }
        if let Some(expiry) = from_millis {
            self.tx.delete(&self.model.expiries, &(expiry, slot.content, slot.hash, key))?;
        }
        if let Some(expiry) = to_millis {
            self.tx.put(&self.model.expiries, &(expiry, slot.content, slot.hash, key), &())?;
        }
        match (from_millis, to_millis) {
            (None, Some(_)) => count_expiring(self.tx, self.model, slot.content, self.stripe, 1),
            (Some(_), None) => count_expiring(self.tx, self.model, slot.content, self.stripe, -1),
            _ => Ok(()),
        }
    }

    /// Numbers of keys of the database, expired keys whose rows are there included.
    pub(crate) fn key_counts(&mut self) -> Result<KeyCounts> {
        let content = self.content()?;
        let mut counts = KeyCounts::default();
        self.tx.scan(&self.model.counts, Prefix((content,)), |(_, stripe), count| {
            let sum = if stripe < EXPIRING_STRIPES { &mut counts.keys } else { &mut counts.expiring };
            *sum += count;
            ControlFlow::Continue(())
        })?;
        // No assertion compares the counts: only the commit checks that all are of one moment.
        Ok(counts)
    }

    /// Visits the rows of the database, those of expired keys too, in the order of their hashes, from a hash on, until
    /// `visit` breaks. No value is copied. The rows of expired keys stay, so a walk may miss a key that a transaction
    /// with an earlier time still sees.
    pub(crate) fn walk(
        &mut self,
        from_hash: u64,
        mut visit: impl FnMut(KeyAt<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let (content, now_millis) = (self.content()?, self.now_millis);
        // Every key of the content comes before the first possible key of the next content.
        let bounds = (content, from_hash, Vec::new())..(content + 1, 0, Vec::new());
        self.tx.scan(&self.model.keys, bounds, |(_, hash, key): KeyRow, value| {
            let is_expired = value.header.is_expired(now_millis);
            visit(KeyAt { hash, key: &key, header: value.header, is_expired })
        })
    }
}

/// Largest number of bytes that the commands of a queue copy: other clients of the loop wait meanwhile.
const COPIED_BYTES_MAX: usize = 256 << 20;

/// Refuses a queue whose commands have copied this many bytes of values.
///
/// # Errors
/// [`Error::TooLarge`].
pub(crate) fn check_copies(bytes: usize) -> Result<()> {
    if bytes <= COPIED_BYTES_MAX {
        return Ok(());
    }
    Err(Error::TooLarge { what: "the transaction's sum of read values", bytes, bytes_max: COPIED_BYTES_MAX })
}

/// Numbers of keys of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyCounts {
    pub(crate) keys: i64,
    /// Number of keys with an expiry.
    pub(crate) expiring: i64,
}

/// First stripe of the numbers of keys with an expiry. Stripes below are of the numbers of keys.
const EXPIRING_STRIPES: u32 = 1 << 31;

/// Adds to the number of keys of a content.
pub(crate) fn count_keys(
    tx: &mut Transaction<'_>,
    model: &Model,
    content: u32,
    stripe: u32,
    by: i64,
) -> Result<()> {
    debug_assert!(stripe < EXPIRING_STRIPES, "a stripe is a loop's number, or the sweeper's");
    let place = (content, stripe);
    let count = tx.get(&model.counts, &place)?.unwrap_or(0);
    tx.put(&model.counts, &place, &(count + by))
}

/// Adds to the number of keys of a content that have an expiry.
pub(crate) fn count_expiring(
    tx: &mut Transaction<'_>,
    model: &Model,
    content: u32,
    stripe: u32,
    by: i64,
) -> Result<()> {
    debug_assert!(stripe < EXPIRING_STRIPES, "a stripe is a loop's number, or the sweeper's");
    let place = (content, EXPIRING_STRIPES | stripe);
    let count = tx.get(&model.counts, &place)?.unwrap_or(0);
    tx.put(&model.counts, &place, &(count + by))
}

/// The key of a row in `expiries`, as the key of the row in `keys`.
pub(crate) fn key_of_expiry(row: ExpiryRow) -> KeyRow {
    let (_, content, hash, key) = row;
    (content, hash, key)
}
