//! A transaction's writes of bytes, kept private until commit.
//!
//! Neighbours: `typed` encodes what is written; `indexes` keeps secondary indexes in step; commit installs.

use ensile_epoch::Call;

use super::Transaction;
use super::indexes::Maintenance;
use crate::error::{Error, Result};
use crate::reading::{self, Own, RawRead};
use crate::record::tree::RecordLookup;
use crate::record::{Scratch, Seen};
use crate::sets::context::Context;
use crate::sets::last_read::LastRead;
use crate::sets::write_set::{Expect, WriteKind};
use crate::sets::{Read, Sets};
use crate::tables::TableCore;

impl Transaction<'_> {
    #[inline]
    pub(crate) fn raw_put(&mut self, table: &TableCore, key: &[u8], value: &[u8]) -> Result<()> {
        table.check_key(key)?;
        table.check_value(value)?;
        if !table.indexes.is_empty() {
            return self.put_indexed(table, key, value);
        }
        let (_, context) = self.enter(table)?;
        let record = context.last_read.find(table.id, key).or_else(|| context.hints.find(table.id, key));
        context.sets.write((table.id, key, value), WriteKind::Put, Expect::Anything, record)
    }

    /// A put into a table with indexes needs the old row, and so depends on it (X1).
    fn put_indexed(&mut self, table: &TableCore, key: &[u8], value: &[u8]) -> Result<()> {
        let old = self.raw_get(table, key, <[u8]>::to_vec)?;
        let (_, context) = self.enter(table)?;
        let Context { pin, sets, last_read, entry_keys, row_scratch, .. } = context;
        let Ok(call) = pin.enter() else { return self.expire() };
        let mut maintenance =
            Maintenance { sets, last_read, entry_keys, scratch: row_scratch, pinned: call.pinned() };
        maintenance.run(table, key, old.as_deref(), Some(value))?;
        let record = last_read.find(table.id, key);
        sets.write((table.id, key, value), WriteKind::Put, Expect::Anything, record)
    }

    pub(crate) fn raw_insert(&mut self, table: &TableCore, key: &[u8], value: &[u8]) -> Result<()> {
        table.check_key(key)?;
        table.check_value(value)?;
        let (_, context) = self.enter(table)?;
        let Context { pin, sets, scratch, last_read, entry_keys, row_scratch, .. } = context;
        let Ok(call) = pin.enter() else { return self.expire() };
        let taken = match reading::own_write(Some(&sets.writes), table.id, key) {
            Own::Put(_) => true,
            Own::Deleted => false,
            Own::Unwritten => probe_insert(table, key, sets, last_read, scratch, &call),
        };
        if taken {
            return Err(Error::KeyExists { table: table.name().to_owned() });
        }
        if !table.indexes.is_empty() {
            let pinned = call.pinned();
            let kept = Maintenance { sets, last_read, entry_keys, scratch: row_scratch, pinned }.run(
                table,
                key,
                None,
                Some(value),
            );
            // The entry may be the key's own, come since the key was found free. What is told must rest on one
            // moment, so the key's absence goes into the sets beside the entry's presence.
            if matches!(kept, Err(Error::NotUnique { .. }))
                && sets.writes.find(table.id, key).is_none()
                && reading::lookup(&mut sets.reader(last_read), table, key, None, scratch, pinned)
            {
                return Err(Error::KeyExists { table: table.name().to_owned() });
            }
            kept?;
        }
        let record = last_read.find(table.id, key);
        sets.write((table.id, key, value), WriteKind::Put, Expect::Absent, record)
    }

    pub(crate) fn raw_delete(&mut self, table: &TableCore, key: &[u8]) -> Result<bool> {
        table.check_key(key)?;
        let indexed = !table.indexes.is_empty();
        let old = self.raw_get(table, key, |value| if indexed { value.to_vec() } else { Vec::new() })?;
        let Some(old) = old else { return Ok(false) };
        let (_, context) = self.enter(table)?;
        let Context { pin, sets, last_read, entry_keys, row_scratch, .. } = context;
        if indexed {
            let Ok(call) = pin.enter() else { return self.expire() };
            let pinned = call.pinned();
            Maintenance { sets, last_read, entry_keys, scratch: row_scratch, pinned }.run(
                table,
                key,
                Some(&old),
                None,
            )?;
        }
        let record = last_read.find(table.id, key);
        sets.write((table.id, key, &[]), WriteKind::Delete, Expect::Anything, record)?;
        Ok(true)
    }

    /// Reads a row, lets `change` make its new value, and puts that: one descent.
    #[inline]
    pub(crate) fn raw_update(
        &mut self,
        table: &TableCore,
        key: &[u8],
        change: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<()>,
    ) -> Result<bool> {
        let (_, context) = self.enter(table)?;
        let Context { pin, sets, scratch, last_read, hints, value, .. } = context;
        value.clear();
        let own = sets.writes.find(table.id, key);
        let record = match own.map(|at| (at, sets.writes.entries[at].kind)) {
            Some((_, WriteKind::Delete)) => return Ok(false),
            Some((at, WriteKind::Put)) => {
                change(sets.writes.value(&sets.writes.entries[at]), value)?;
                None
            }
            None => {
                let Ok(call) = pin.enter() else { return self.expire() };
                let hint = hints.find(table.id, key);
                let mut reader = sets.reader(last_read);
                if !reading::lookup(&mut reader, table, key, hint, scratch, call.pinned()) {
                    return Ok(false);
                }
                change(scratch.bytes(), value)?;
                last_read.latest()
            }
        };
        table.check_value(value)?;
        if !table.indexes.is_empty() {
            let value = std::mem::take(value);
            let kept = self.put_indexed_after_read(table, key, &value);
            self.give_value_buffer(value);
            return kept.map(|()| true);
        }
        match own {
            Some(at) => sets.writes.change(at, WriteKind::Put, value)?,
            None => sets.writes.add((table.id, key, value), WriteKind::Put, Expect::Anything, record)?,
        }
        Ok(true)
    }

    /// As `put_indexed`, for a row that has just been read: its old value is still in the scratch buffer, unless
    /// it was an own write.
    fn put_indexed_after_read(&mut self, table: &TableCore, key: &[u8], value: &[u8]) -> Result<()> {
        let (_, context) = self.enter(table)?;
        if context.sets.writes.find(table.id, key).is_some() {
            return self.put_indexed(table, key, value);
        }
        let Context { pin, sets, scratch, last_read, entry_keys, row_scratch, .. } = context;
        let Ok(call) = pin.enter() else { return self.expire() };
        let record = last_read.find(table.id, key);
        let pinned = call.pinned();
        Maintenance { sets, last_read, entry_keys, scratch: row_scratch, pinned }.run(
            table,
            key,
            Some(scratch.bytes()),
            Some(value),
        )?;
        sets.write((table.id, key, value), WriteKind::Put, Expect::Anything, record)
    }

    /// A buffer to encode a value into; give it back with [`Transaction::give_value_buffer`].
    #[inline]
    pub(crate) fn raw_value_buffer(&mut self) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.context().value);
        buffer.clear();
        buffer
    }

    #[inline]
    pub(crate) fn give_value_buffer(&mut self, buffer: Vec<u8>) {
        self.context().value = buffer;
    }
}

/// Whether an insert finds its key taken. A miss needs no witness, nor an absent record a place in the read-set: the
/// lock of the key's record at commit says whether it is still absent.
fn probe_insert(
    table: &TableCore,
    key: &[u8],
    sets: &mut Sets,
    last_read: &mut LastRead,
    scratch: &mut Scratch,
    call: &Call<'_>,
) -> bool {
    last_read.forget();
    loop {
        let RecordLookup::Found(found) = table.tree.get(key, call.pinned()) else { return false };
        let record = found.handle();
        match found.read(scratch) {
            Seen::Present(word) => {
                sets.reads.push(Read { record, word });
                return true;
            }
            Seen::Absent(_) => {
                last_read.remember(table.id, key, record);
                return false;
            }
            Seen::Superseded => ensile_base::sync::spin_loop(),
        }
    }
}
