//! A transaction's writes of bytes, kept private until commit.
//!
//! Neighbours: `typed_api` encodes keys and values; `indexes` keeps secondary indexes in step; commit installs.

use ensile_epoch::Pinned;

use super::Transaction;
use super::indexes::Maintenance;
use crate::error::{Error, Result};
use crate::read_path::{self, RawRead};
use crate::record::tree::RecordLookup;
use crate::record::{Scratch, Seen};
use crate::sets::context::Context;
use crate::sets::keys::KeyPlace;
use crate::sets::write_set::Expect;
use crate::sets::{Read, Sets};
use crate::tables::TableCore;

impl Transaction<'_> {
    /// Writes a row with the value from `encode`. `open::catalogue` writes the definitions of tables with this call.
    #[inline]
    pub(crate) fn raw_put(
        &mut self,
        table: &TableCore,
        key: &[u8],
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        table.check_key(key)?;
        if !table.indexes.is_empty() {
            return self.with_value(encode, |tx, value| tx.put_indexed(table, key, value));
        }
        self.check_put(table)?;
        self.run_outside_call(
            #[inline(always)]
            |Context { sets, value, .. }| sets.put(table, key, Expect::Anything, value, encode),
        )
    }

    /// Encodes a value into the transaction's own buffer, and runs `write` on the value: the call allocates nothing.
    fn with_value(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>),
        write: impl FnOnce(&mut Self, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut value = self.take_value();
        value.clear();
        encode(&mut value);
        let written = write(self, &value);
        self.give_value_back(value);
        written
    }

    /// Takes the buffer for a value.
    fn take_value(&mut self) -> Vec<u8> {
        self.run_outside_call(|context| std::mem::take(&mut context.value))
    }

    /// Gives the buffer for a value back.
    fn give_value_back(&mut self, value: Vec<u8>) {
        self.run_outside_call(|context| context.keep_value(value));
    }

    /// Puts a row into a table with indexes. The put needs the old row, and so depends on the old row (X1).
    fn put_indexed(&mut self, table: &TableCore, key: &[u8], value: &[u8]) -> Result<()> {
        debug_assert!(!table.indexes.is_empty(), "only entries of indexes need the old row");
        table.check_value(value)?;
        let old = self.raw_get(table, key, <[u8]>::to_vec)?;
        self.run_outside_call(|context| context.entry_keys.compute(table, key, old.as_deref(), Some(value)))?;
        self.write_indexed(table, key, Some(value), Expect::Anything)
    }

    /// Enters a write of a row and of its index entries; without a value, a delete. The entries' keys have been
    /// computed.
    fn write_indexed(
        &mut self,
        table: &TableCore,
        key: &[u8],
        value: Option<&[u8]>,
        expect: Expect,
    ) -> Result<()> {
        if value.is_some() { self.check_put(table) } else { self.check(table) }?;
        self.enter(|pinned, Context { sets, entry_keys, scratch, .. }| {
            let mut maintenance = Maintenance { sets, entry_keys, scratch, pinned };
            let kept_in_step = maintenance.run(table, key, value);
            sets.check_reads()?;
            kept_in_step?;
            sets.write(table.id, key, value, expect)
        })
    }

    /// Writes a row with a key that must be free.
    pub(crate) fn raw_insert(
        &mut self,
        table: &TableCore,
        key: &[u8],
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        table.check_key(key)?;
        if !table.indexes.is_empty() {
            return self.with_value(encode, |tx, value| tx.insert_indexed(table, key, value));
        }
        self.check_put(table)?;
        let put = self.enter_then(
            #[inline(always)]
            |pinned, Context { sets, scratch, .. }| sets.check_free(table, key, scratch, pinned),
            #[inline(always)]
            |free, Context { sets, value, .. }| {
                sets.check_reads()?;
                free?;
                Ok(sets.put(table, key, Expect::Absent, value, encode))
            },
        )?;
        put.or_else(|error| self.refuse_insert(table, key, error))
    }

    /// Returns the error of an insert that failed after the key was found free (R2).
    #[cold]
    fn refuse_insert(&mut self, table: &TableCore, key: &[u8], error: Error) -> Result<()> {
        self.enter(|pinned, Context { sets, scratch, .. }| {
            Err(sets.refused_insert(table, key, error, scratch, pinned))
        })
    }

    /// As [`Transaction::raw_insert`], for a table with indexes.
    fn insert_indexed(&mut self, table: &TableCore, key: &[u8], value: &[u8]) -> Result<()> {
        debug_assert!(!table.indexes.is_empty(), "there are entries to keep in step");
        table.check_value(value)?;
        self.check(table)?;
        self.enter(|pinned, Context { sets, scratch, .. }| sets.check_free(table, key, scratch, pinned))?;
        let computed =
            self.run_outside_call(|context| context.entry_keys.compute(table, key, None, Some(value)));
        let written = computed.and_then(|()| self.write_indexed(table, key, Some(value), Expect::Absent));
        let Err(error) = written else { return Ok(()) };
        self.check(table)?;
        self.enter(|pinned, Context { sets, scratch, .. }| {
            Err(sets.refused_insert(table, key, error, scratch, pinned))
        })
    }

    /// Deletes a row and its index entries. True if the row existed.
    pub(crate) fn raw_delete(&mut self, table: &TableCore, key: &[u8]) -> Result<bool> {
        table.check_key(key)?;
        let indexed = !table.indexes.is_empty();
        let old = self.raw_get(table, key, |value| if indexed { value.to_vec() } else { Vec::new() })?;
        let Some(old) = old else { return Ok(false) };
        if indexed {
            self.run_outside_call(|context| context.entry_keys.compute(table, key, Some(&old), None))?;
            self.write_indexed(table, key, None, Expect::Anything)?;
            return Ok(true);
        }
        self.run_outside_call(|context| context.sets.write(table.id, key, None, Expect::Anything))?;
        Ok(true)
    }

    /// Reads a row, calls `change` for the new value, and puts the value, in one descent. False if the row does not
    /// exist.
    #[inline]
    pub(crate) fn raw_update(
        &mut self,
        table: &TableCore,
        key: &[u8],
        change: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<()>,
    ) -> Result<bool> {
        self.check_put(table)?;
        let row = self.enter(
            #[inline(always)]
            |pinned, Context { sets, scratch, .. }| {
                let met = sets.writes.find_key(table.id, key);
                if let Some(at) = sets.writes.write_position(met) {
                    return Ok(UpdatedRow::Own(at));
                }
                let present = sets.look_up(table, key, met, scratch, pinned);
                sets.check_reads()?;
                Ok(if present { UpdatedRow::Read } else { UpdatedRow::Missing })
            },
        )?;
        match row {
            UpdatedRow::Missing => Ok(false),
            UpdatedRow::Read if table.indexes.is_empty() => {
                self.run_outside_call(
                    #[inline(always)]
                    |Context { sets, scratch, .. }| {
                        let old = scratch.bytes();
                        let place = sets.writes.just_read(table.id, key);
                        sets.writes.add_encoded(
                            place,
                            table.id,
                            key,
                            Expect::Anything,
                            |new| change(old, new),
                            |new| table.check_value(new),
                        )
                    },
                )?;
                Ok(true)
            }
            UpdatedRow::Read => {
                self.run_outside_call(|Context { scratch, value, .. }| {
                    value.clear();
                    change(scratch.bytes(), value)
                })?;
                self.put_indexed_after_read(table, key)
            }
            UpdatedRow::Own(at) => {
                let changed = self.run_outside_call(|Context { sets, value, .. }| {
                    let Some(old) = sets.writes.value_if_put(at) else { return Ok(false) };
                    value.clear();
                    change(old, value).map(|()| true)
                });
                Ok(changed? && self.update_own_write(table, key, at)?)
            }
        }
    }

    /// Ends an update of a row that the transaction has written. The value buffer holds the new value.
    #[cold]
    fn update_own_write(&mut self, table: &TableCore, key: &[u8], at: usize) -> Result<bool> {
        let value = self.take_value();
        let updated = table.check_value(&value).and_then(|()| match table.indexes.is_empty() {
            true => self.run_outside_call(|context| context.sets.writes.change(at, Some(&value))),
            false => self.put_indexed(table, key, &value),
        });
        self.give_value_back(value);
        updated.map(|()| true)
    }

    /// Ends an update of a row after its read. The value buffer holds the new value, and the scratch buffer still holds
    /// the old value.
    fn put_indexed_after_read(&mut self, table: &TableCore, key: &[u8]) -> Result<bool> {
        debug_assert!(!table.indexes.is_empty(), "there are entries to keep in step");
        let value = self.take_value();
        let updated = table.check_value(&value).and_then(|()| {
            self.run_outside_call(|Context { scratch, entry_keys, .. }| {
                entry_keys.compute(table, key, Some(scratch.bytes()), Some(&value))
            })?;
            self.write_indexed(table, key, Some(&value), Expect::Anything)
        });
        self.give_value_back(value);
        updated.map(|()| true)
    }
}

/// State of an updated row.
enum UpdatedRow {
    /// The row does not exist.
    Missing,
    /// The row was read: the scratch buffer holds the value.
    Read,
    /// The transaction has written the key: position of the key's entry in the write-set.
    Own(usize),
}

impl<'p> Sets<'p> {
    /// Enters a put with the value from `encode`: straight into the write-set, unless the transaction has written the
    /// key before.
    #[inline]
    fn put(
        &mut self,
        table: &TableCore,
        key: &[u8],
        expect: Expect,
        buffer: &mut Vec<u8>,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        debug_assert!(table.indexes.is_empty(), "a row with index entries goes by another way");
        self.dead.forget_ranges_with(table.id, key);
        let met = self.writes.find_key(table.id, key);
        if let Some(at) = self.writes.write_position(met) {
            buffer.clear();
            encode(buffer);
            table.check_value(buffer)?;
            return self.writes.change(at, Some(buffer));
        }
        let encode = |value: &mut Vec<u8>| {
            encode(value);
            Ok(())
        };
        let place = KeyPlace { met, only_read: None };
        self.writes.add_encoded(place, table.id, key, expect, encode, |value| table.check_value(value))
    }

    /// Refuses an insert with a taken key. A miss needs no witness, and an absent record needs no place in the
    /// read-set: at commit the lock of the key's record shows if the record is still absent.
    #[inline]
    fn check_free(
        &mut self,
        table: &TableCore,
        key: &[u8],
        scratch: &mut Scratch,
        pinned: Pinned<'p>,
    ) -> Result<()> {
        let met = self.writes.find_key(table.id, key);
        let taken = match self.writes.write_position(met) {
            Some(at) => self.writes.value_if_put(at).is_some(),
            None => self.probe(table, key, met, scratch, pinned),
        };
        if taken { Err(Error::KeyExists { table: table.name().to_owned() }) } else { Ok(()) }
    }

    /// The error of an insert that failed after it found its key free. The failure tells the closure that the key is
    /// free, so the sets get the key's absence (R2). If the key has come meanwhile, the error is [`Error::KeyExists`].
    #[cold]
    fn refused_insert(
        &mut self,
        table: &TableCore,
        key: &[u8],
        error: Error,
        scratch: &mut Scratch,
        pinned: Pinned<'p>,
    ) -> Error {
        let met = self.writes.find_key(table.id, key);
        if self.writes.write_position(met).is_none()
            && read_path::lookup(&mut self.reader(), table, key, None, scratch, pinned)
        {
            return Error::KeyExists { table: table.name().to_owned() };
        }
        error
    }

    /// True if a key without an own write exists. The read of a present row enters the read-set; the record of an
    /// absent row is only noted.
    fn probe(
        &mut self,
        table: &TableCore,
        key: &[u8],
        met: Option<usize>,
        scratch: &mut Scratch,
        pinned: Pinned<'p>,
    ) -> bool {
        debug_assert!(self.writes.write_position(met).is_none(), "an own write answers by itself");
        loop {
            let RecordLookup::Found(found) = table.tree.get(key, pinned) else { return false };
            let record = found.handle();
            match found.read(scratch) {
                Seen::Present(word) => {
                    self.reads.push(Read { record, word });
                    return true;
                }
                Seen::Absent(_) => {
                    self.writes.note_place(met, table.id, key, record);
                    return false;
                }
                Seen::Superseded => ensile_base::sync::spin_loop(),
            }
        }
    }
}
