//! The entries of a stream, within a transaction.
//!
//! | table | key | value |
//! |---|---|---|
//! | `entries` | object, id | fields and values, packed |
//! | `streams` | object, 0 | number of removed entries, nothing, greatest id that `XDEL` removed |
//! | `streams` | object, 1 | number of added entries, the same number as clients are told, last id |
//!
//! Invariants:
//! - Y8: a write of an entry changes the row of an end: an addition changes the tail, a removal changes the head. A
//!   transaction that has read both ends has read the stream (`WATCH`).
//! - An addition reads and writes the tail alone, so removals and additions do not conflict.
//! - The number of entries is the number of the tail, less the number of the head.
//! - A stream without entries keeps its key.
//! - The last id never decreases below the greatest id of an entry.
//!
//! Neighbours: the commands of streams; `packed` has the form of an entry; `objects` copies and removes the rows.

use std::fmt;
use std::ops::{ControlFlow, RangeInclusive};

use ensile::{Readable as _, Result};

use super::elements::{Access, OpenError};
use super::keyspace::{Slot, ValueSlot};
use super::objects::{STREAM_HEAD as HEAD, STREAM_TAIL as TAIL};
use super::sorted_set::WalkDirection;
use super::stored_value::{Kind, NewValue, ValueHeader};
use super::{Keyspace, objects};

/// Number of removed entries from which on the fewer kept entries get rows of their own.
const MOVED_ENTRIES_MIN: u64 = 1024;

/// Id of an entry: milliseconds in the high half, and a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryId(pub(crate) u128);

impl EntryId {
    pub(crate) const MIN: Self = Self(0);
    pub(crate) const MAX: Self = Self(u128::MAX);

    pub(crate) fn new(millis: u64, sequence: u64) -> Self {
        Self(u128::from(millis) << 64 | u128::from(sequence))
    }

    pub(crate) fn millis(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The id behind; `None` behind the last id.
    pub(crate) fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }

    /// The id before; `None` before the first id.
    pub(crate) fn previous(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.millis(), self.0 as u64)
    }
}

/// Row of an end.
#[derive(Clone, Copy, Debug)]
struct StreamEndRow {
    /// Number of removed entries, or of added entries.
    count: u64,
    /// Number of added entries as clients are told (`XSETID`); 0 at the head.
    told: u64,
    /// Greatest id that `XDEL` removed, or the last id.
    id: EntryId,
    /// True if the transaction writes the row.
    has_changed: bool,
}

impl StreamEndRow {
    const EMPTY: Self = Self { count: 0, told: 0, id: EntryId::MIN, has_changed: false };
}

/// Numbers and ids of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamFigures {
    /// Number of entries that were removed before the first entry, roughly.
    pub(crate) removed: u64,
    /// Number of entries.
    pub(crate) count: u64,
    /// Number of added entries as clients are told.
    pub(crate) told: u64,
    pub(crate) last: EntryId,
    /// Greatest id that `XDEL` removed.
    pub(crate) greatest_removed: EntryId,
}

/// The stream of a key. An absent key has no entries. After a write, [`Stream::finish`] is called.
pub(crate) struct Stream<'s, 'k, 'db> {
    keyspace: &'s mut Keyspace<'k, 'db>,
    key: &'s [u8],
    slot: Slot,
    /// Number under which the rows stand; `None` for an absent key.
    object: Option<u64>,
    /// True if the row of the key is to be written.
    has_new_header: bool,
    /// The rows of both ends, once they are read.
    ends: [Option<StreamEndRow>; 2],
    /// True if an entry came, for clients that wait for entries.
    has_grown: bool,
}

impl<'s, 'k, 'db> Stream<'s, 'k, 'db> {
    /// Opens the stream of a key.
    ///
    /// # Errors
    /// [`OpenError::WrongKind`] if the key has a value of another type.
    pub(crate) fn open(
        keyspace: &'s mut Keyspace<'k, 'db>,
        key: &'s [u8],
        access: Access,
    ) -> Result<Self, OpenError> {
        let ValueSlot { slot, value } = match access {
            Access::Read => keyspace.read_slot(key)?,
            Access::Write => keyspace.value_slot(key)?,
        };
        if value.as_ref().is_some_and(|value| value.header.kind != Kind::Stream) {
            return Err(OpenError::WrongKind);
        }
        let object = value.and_then(|value| value.header.object);
        Ok(Self { keyspace, key, slot, object, has_new_header: false, ends: [None; 2], has_grown: false })
    }

    /// True if the key was absent when the stream was opened.
    pub(crate) fn is_absent(&self) -> bool {
        self.slot.header.is_none()
    }

    /// The row of an end, read once.
    fn end(&mut self, end: u32) -> Result<&mut StreamEndRow> {
        let row = &mut self.ends[end as usize];
        if row.is_none()
            && let Some(object) = self.object
        {
            let found = self.keyspace.tx.get(&self.keyspace.model.streams, &(object, end))?;
            // No assertion asks for the row: only the commit checks that header and row are of one moment.
            *row = found.map(|(count, told, id)| StreamEndRow {
                count,
                told,
                id: EntryId(id),
                has_changed: false,
            });
        }
        Ok(row.get_or_insert(StreamEndRow::EMPTY))
    }

    /// Number of entries.
    pub(crate) fn count(&mut self) -> Result<u64> {
        Ok(self.figures()?.count)
    }

    /// Id of the last entry that came; the least id without one.
    pub(crate) fn last_id(&mut self) -> Result<EntryId> {
        Ok(self.end(TAIL)?.id)
    }

    pub(crate) fn figures(&mut self) -> Result<StreamFigures> {
        let (head, tail) = (*self.end(HEAD)?, *self.end(TAIL)?);
        // Rows of different moments may contradict each other.
        let count = tail.count.saturating_sub(head.count);
        Ok(StreamFigures {
            removed: head.count,
            count,
            told: tail.told,
            last: tail.id,
            greatest_removed: head.id,
        })
    }

    /// Adds an entry behind all others.
    pub(crate) fn add(&mut self, id: EntryId, packed_fields: &[u8]) -> Result<()> {
        let tail = self.end(TAIL)?;
        debug_assert!(id > tail.id, "the command has compared the ids");
        *tail =
            StreamEndRow { count: tail.count + 1, told: tail.told.saturating_add(1), id, has_changed: true };
        self.has_grown = true;
        let object = self.object_to_write()?;
        self.keyspace.tx.put(&self.keyspace.model.entries, &(object, id.0), packed_fields)
    }

    /// Number of the object. A new stream gets a number.
    fn object_to_write(&mut self) -> Result<u64> {
        match self.object {
            Some(object) => Ok(object),
            None => self.make_object(),
        }
    }

    /// Gives the stream a new object, with the rows of both ends.
    fn make_object(&mut self) -> Result<u64> {
        for end in [HEAD, TAIL] {
            self.end(end)?.has_changed = true;
        }
        let object = objects::new_number(self.keyspace.tx, self.keyspace.model, self.keyspace.stripe)?;
        (self.object, self.has_new_header) = (Some(object), true);
        Ok(object)
    }

    /// Visits the entries of a range until `visit` breaks.
    pub(crate) fn visit(
        &mut self,
        ids: RangeInclusive<EntryId>,
        direction: WalkDirection,
        mut visit: impl FnMut(EntryId, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let Some(object) = self.object.filter(|_| !ids.is_empty()) else { return Ok(()) };
        let bounds = (object, ids.start().0)..=(object, ids.end().0);
        let Keyspace { tx, model, copied_bytes, .. } = &mut *self.keyspace;
        let visit_row = |(_, id): (u64, u128), fields: &Vec<u8>| {
            *copied_bytes += fields.len();
            visit(EntryId(id), fields)
        };
        match direction {
            WalkDirection::Up => tx.scan(&model.entries, bounds, visit_row),
            WalkDirection::Down => tx.scan_reverse(&model.entries, bounds, visit_row),
        }
    }

    /// Ids of the first entries up to an id, `count_max` at most.
    fn first_ids(&mut self, until: EntryId, count_max: u64) -> Result<Vec<EntryId>> {
        let mut ids = Vec::new();
        let Some(object) = self.object.filter(|_| count_max > 0) else { return Ok(ids) };
        let Keyspace { tx, model, .. } = &mut *self.keyspace;
        tx.scan_keys(&model.entries, (object, 0)..=(object, until.0), |(_, id)| {
            ids.push(EntryId(id));
            if (ids.len() as u64) < count_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(ids)
    }

    /// Number of entries below an id, `count_max` at most.
    pub(crate) fn count_below(&mut self, id: EntryId, count_max: u64) -> Result<u64> {
        match id.previous() {
            Some(until) => Ok(self.first_ids(until, count_max)?.len() as u64),
            None => Ok(0),
        }
    }

    /// Removes an entry. True if the entry was there.
    pub(crate) fn remove(&mut self, id: EntryId) -> Result<bool> {
        let Some(object) = self.object else { return Ok(false) };
        debug_assert!(!self.has_grown, "a command adds, or removes by ids");
        let is_there = self.keyspace.tx.delete(&self.keyspace.model.entries, &(object, id.0))?;
        if is_there {
            let head = self.end(HEAD)?;
            *head = StreamEndRow { count: head.count + 1, told: 0, id: head.id.max(id), has_changed: true };
        }
        Ok(is_there)
    }

    /// Removes the first `count` entries. Fewer kept than removed entries get rows of their own, and the sweeper
    /// removes the others, so the effort is that of the fewer entries.
    pub(crate) fn shorten(&mut self, count: u64) -> Result<()> {
        let Some(object) = self.object.filter(|_| count > 0) else { return Ok(()) };
        if count >= MOVED_ENTRIES_MIN {
            let kept = self.count()?.saturating_sub(count);
            if kept < count {
                return self.keep_last(kept, count);
            }
        }
        let ids = self.first_ids(EntryId::MAX, count)?;
        debug_assert!(ids.len() as u64 <= count, "a trim removes no kept entry");
        for id in &ids {
            self.keyspace.tx.delete(&self.keyspace.model.entries, &(object, id.0))?;
        }
        self.note_shortened(ids.len() as u64)
    }

    fn note_shortened(&mut self, count: u64) -> Result<()> {
        let head = self.end(HEAD)?;
        (head.count, head.has_changed) = (head.count + count, true);
        Ok(())
    }

    /// Moves the last `kept` entries to a new object.
    fn keep_last(&mut self, kept: u64, removed: u64) -> Result<()> {
        let mut entries: Vec<(EntryId, Vec<u8>)> = Vec::new();
        if kept > 0 {
            self.visit(EntryId::MIN..=EntryId::MAX, WalkDirection::Down, |id, fields| {
                entries.push((id, fields.to_vec()));
                if (entries.len() as u64) < kept { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
        }
        if let Some(object) = self.object.filter(|_| self.has_new_header) {
            // No header has the object.
            objects::abandon(self.keyspace.tx, self.keyspace.model, object)?;
        }
        self.note_shortened(removed)?;
        let object = self.make_object()?;
        let Keyspace { tx, model, .. } = &mut *self.keyspace;
        entries.iter().try_for_each(|(id, fields)| tx.put(&model.entries, &(object, id.0), fields.as_slice()))
    }

    /// Sets the last id, and the figures that clients are told.
    pub(crate) fn set_last(
        &mut self,
        last: EntryId,
        told: Option<u64>,
        greatest_removed: Option<EntryId>,
    ) -> Result<()> {
        let tail = self.end(TAIL)?;
        *tail = StreamEndRow { told: told.unwrap_or(tail.told), id: last, has_changed: true, ..*tail };
        if let Some(id) = greatest_removed {
            let head = self.end(HEAD)?;
            (head.id, head.has_changed) = (id, true);
        }
        Ok(())
    }

    /// Writes the changes of the stream's own rows. Clients that wait for entries are told of new entries (J3).
    pub(crate) fn finish(self) -> Result<()> {
        let Some(object) = self.object else { return Ok(()) };
        let has_changed = |row: &Option<StreamEndRow>| row.is_some_and(|row| row.has_changed);
        debug_assert!(
            !self.has_new_header || self.ends.iter().all(has_changed),
            "a new object gets the rows of both ends"
        );
        if self.has_grown {
            // Every waiting client reads the entry.
            self.keyspace.note_appeared(Kind::Stream, self.key);
        }
        for (end, row) in (HEAD..).zip(self.ends) {
            if let Some(row) = row.filter(|row| row.has_changed) {
                let value = (row.count, row.told, row.id.0);
                self.keyspace.tx.put(&self.keyspace.model.streams, &(object, end), &value)?;
            }
        }
        if self.has_new_header {
            let expiry_millis = self.slot.header.and_then(|header| header.expiry_millis);
            let header = ValueHeader { kind: Kind::Stream, expiry_millis, object: Some(object) };
            self.keyspace.write(&self.slot, self.key, NewValue { header, bytes: &[] })?;
        }
        Ok(())
    }
}
