//! The items of a list, within a transaction.
//!
//! A small list is packed in the row of its key. A larger list has rows of its own ([`super::item_rows`]), and keeps
//! them until the list is empty, or is cut to few items.
//!
//! Invariant: a key without items is absent.
//!
//! Neighbours: the commands of lists; `packed` has the form of small lists.

use std::ops::{ControlFlow, Range};

use ensile::Result;

use super::elements::{Access, OpenError, PACKED_BYTES_MAX};
use super::item_rows::ItemRows;
use super::keyspace::{Slot, ValueSlot};
use super::stored_value::{Kind, NewValue, ValueHeader};
use super::{Keyspace, objects, packed};

pub(crate) use super::item_rows::End;

/// The list of a key. An absent key has no items. After a write, [`List::finish`] is called.
pub(crate) struct List<'s, 'k, 'db> {
    keyspace: &'s mut Keyspace<'k, 'db>,
    key: &'s [u8],
    slot: Slot,
    form: ListForm,
    /// Number of items that came, for clients that wait for them.
    came: usize,
}

/// Place of the items.
enum ListForm {
    Packed { bytes: Vec<u8>, has_changed: bool },
    Rows(ItemRows),
}

impl<'s, 'k, 'db> List<'s, 'k, 'db> {
    /// Opens the list of a key.
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
        let form = match value {
            None => ListForm::Packed { bytes: Vec::new(), has_changed: false },
            Some(value) if value.header.kind != Kind::List => return Err(OpenError::WrongKind),
            Some(value) => match value.header.object {
                None => ListForm::Packed { bytes: value.bytes, has_changed: false },
                Some(object) => ListForm::Rows(ItemRows::new(object)),
            },
        };
        Ok(Self { keyspace, key, slot, form, came: 0 })
    }

    /// True if the key was absent when the list was opened.
    pub(crate) fn is_absent(&self) -> bool {
        self.slot.header.is_none()
    }

    /// Number of items.
    pub(crate) fn count(&mut self) -> Result<u64> {
        match &mut self.form {
            ListForm::Packed { bytes, .. } => Ok(packed::items(bytes).count() as u64),
            ListForm::Rows(rows) => rows.count(self.keyspace),
        }
    }

    /// The item at an index, which counts from the tail if negative.
    pub(crate) fn get(&mut self, index: i64) -> Result<Option<Vec<u8>>> {
        match &mut self.form {
            ListForm::Packed { bytes, .. } => Ok(place_at(bytes, index)
                .and_then(|place| packed::items(&bytes[place]).next())
                .map(|item| item.bytes.to_vec())),
            ListForm::Rows(rows) => rows.get(self.keyspace, index),
        }
    }

    /// Replaces the item at an index, which counts from the tail if negative. False without an item.
    pub(crate) fn set(&mut self, index: i64, item: &[u8]) -> Result<bool> {
        match &mut self.form {
            ListForm::Packed { bytes, .. } => match place_at(bytes, index) {
                Some(place) => self.splice(place, item).map(|()| true),
                None => Ok(false),
            },
            ListForm::Rows(rows) => rows.set(self.keyspace, index, item),
        }
    }

    /// Replaces a part of the packed items by an item. Items that are too long for the row of the key get rows.
    fn splice(&mut self, place: Range<usize>, item: &[u8]) -> Result<()> {
        let ListForm::Packed { bytes, has_changed } = &mut self.form else {
            debug_assert!(false, "a list with rows has no packed items");
            return Ok(());
        };
        *has_changed = true;
        let mut packed_item = Vec::with_capacity(item.len() + 4);
        packed::push(&mut packed_item, item);
        drop(bytes.splice(place, packed_item));
        if bytes.len() <= PACKED_BYTES_MAX {
            return Ok(());
        }
        let bytes = std::mem::take(bytes);
        let mut rows = ItemRows::make(self.keyspace)?;
        for item in packed::items(&bytes) {
            rows.push(self.keyspace, End::Tail, item.bytes)?;
        }
        self.form = ListForm::Rows(rows);
        Ok(())
    }

    pub(crate) fn push(&mut self, end: End, item: &[u8]) -> Result<()> {
        self.came += 1;
        self.put(end, item)
    }

    /// Puts an item at an end.
    fn put(&mut self, end: End, item: &[u8]) -> Result<()> {
        match &mut self.form {
            ListForm::Packed { bytes, .. } => {
                let at = if end == End::Head { 0 } else { bytes.len() };
                self.splice(at..at, item)
            }
            ListForm::Rows(rows) => rows.push(self.keyspace, end, item),
        }
    }

    /// Takes the item at an end; `None` without an item.
    pub(crate) fn pop(&mut self, end: End) -> Result<Option<Vec<u8>>> {
        match &mut self.form {
            ListForm::Packed { bytes, has_changed } => {
                let Some(place) = place_at(bytes, if end == End::Head { 0 } else { -1 }) else {
                    return Ok(None);
                };
                *has_changed = true;
                let item = packed::items(&bytes[place.clone()]).next().map(|item| item.bytes.to_vec());
                bytes.drain(place);
                Ok(item)
            }
            ListForm::Rows(rows) => rows.pop(self.keyspace, end),
        }
    }

    /// Removes this number of items at an end.
    pub(crate) fn shorten(&mut self, end: End, count: u64) -> Result<()> {
        match &mut self.form {
            ListForm::Packed { bytes, has_changed } => {
                *has_changed = true;
                let left = (packed::items(bytes).count() as u64).saturating_sub(count);
                cut(bytes, if end == End::Head { count } else { 0 }, left);
                Ok(())
            }
            ListForm::Rows(rows) => rows.shorten(self.keyspace, end, count),
        }
    }

    /// Visits the items from an end on, behind `skipped` items, `count_max` at most, until `visit` breaks. `visit` gets
    /// the number of items before an item.
    pub(crate) fn visit(
        &mut self,
        from: End,
        skipped: u64,
        count_max: u64,
        mut visit: impl FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let (mut at, behind) = (skipped, skipped.saturating_add(count_max));
        if count_max == 0 {
            return Ok(());
        }
        let visit_item = |item: &[u8]| {
            visit(at, item)?;
            at += 1;
            if at < behind { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        match &mut self.form {
            ListForm::Packed { bytes, .. } => {
                let mut items: Vec<&[u8]> = packed::items(bytes).map(|item| item.bytes).collect();
                if from == End::Tail {
                    items.reverse();
                }
                let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
                let _ = items.into_iter().skip(skipped).try_for_each(visit_item);
                Ok(())
            }
            ListForm::Rows(rows) => rows.visit(self.keyspace, from, skipped, visit_item),
        }
    }

    /// Inserts an item before the item at an index, or behind all items.
    pub(crate) fn insert(&mut self, index: u64, item: &[u8]) -> Result<()> {
        self.came += 1;
        match &mut self.form {
            ListForm::Packed { bytes, .. } => {
                let at = i64::try_from(index).ok().and_then(|index| place_at(bytes, index));
                let begin = at.map_or(bytes.len(), |place| place.start);
                self.splice(begin..begin, item)
            }
            ListForm::Rows(rows) => rows.insert(self.keyspace, index, item),
        }
    }

    /// Removes the items at these indexes, the least first.
    pub(crate) fn remove(&mut self, indexes: &[u64]) -> Result<()> {
        match &mut self.form {
            ListForm::Packed { bytes, has_changed } => {
                *has_changed |= !indexes.is_empty();
                let kept = packed::items(bytes).zip(0..).filter(|(_, at)| indexes.binary_search(at).is_err());
                *bytes = kept.flat_map(|(item, _)| bytes[item.place].to_vec()).collect();
                Ok(())
            }
            ListForm::Rows(rows) => rows.remove(self.keyspace, indexes),
        }
    }

    /// Keeps `kept` items behind the first `skipped` items, and removes the others. Fewer kept than removed items get
    /// rows of their own, so the effort is that of the fewer items.
    pub(crate) fn trim(&mut self, skipped: u64, kept: u64) -> Result<()> {
        let count = self.count()?;
        let rows = match &mut self.form {
            ListForm::Packed { bytes, has_changed } => {
                *has_changed = true;
                cut(bytes, skipped, kept);
                return Ok(());
            }
            ListForm::Rows(rows) => rows,
        };
        if kept < count / 2 {
            return self.keep_only(skipped, kept);
        }
        let behind = count.saturating_sub(skipped.saturating_add(kept));
        if skipped > 0 {
            rows.shorten(self.keyspace, End::Head, skipped)?;
        }
        if behind > 0 {
            rows.shorten(self.keyspace, End::Tail, behind)?;
        }
        rows.touch(self.keyspace, End::Tail)
    }

    /// As [`List::trim`]: the items get a new place, and the rows are left to the sweeper.
    fn keep_only(&mut self, skipped: u64, kept: u64) -> Result<()> {
        let mut items = Vec::new();
        self.visit(End::Head, skipped, kept, |_, item| {
            items.push(item.to_vec());
            ControlFlow::Continue(())
        })?;
        if let ListForm::Rows(rows) = &self.form
            && rows.has_new_header()
        {
            objects::abandon(self.keyspace.tx, self.keyspace.model, rows.object())?;
        }
        self.form = ListForm::Packed { bytes: Vec::new(), has_changed: true };
        items.iter().try_for_each(|item| self.put(End::Tail, item))
    }

    /// Writes the changes of the list's own rows: the row of the key, or the ends. A list without items goes with its
    /// key. Clients that wait for the key are told of new items (J3).
    pub(crate) fn finish(mut self) -> Result<()> {
        self.keyspace.note_pushed(Kind::List, self.key, self.came);
        let header = |object| {
            let expiry_millis = self.slot.header.and_then(|header| header.expiry_millis);
            ValueHeader { kind: Kind::List, expiry_millis, object }
        };
        match &mut self.form {
            ListForm::Packed { has_changed: false, .. } => Ok(()),
            ListForm::Packed { bytes, .. } if bytes.is_empty() => self.keyspace.remove(&self.slot, self.key),
            ListForm::Packed { bytes, .. } => {
                self.keyspace.write(&self.slot, self.key, NewValue { header: header(None), bytes })
            }
            ListForm::Rows(rows) => {
                let is_empty = rows.finish(self.keyspace)?;
                if is_empty && rows.has_new_header() {
                    // No header has the object.
                    objects::abandon(self.keyspace.tx, self.keyspace.model, rows.object())?;
                }
                if is_empty {
                    return self.keyspace.remove(&self.slot, self.key);
                }
                if rows.has_new_header() {
                    let value = NewValue { header: header(Some(rows.object())), bytes: &[] };
                    self.keyspace.write(&self.slot, self.key, value)?;
                }
                Ok(())
            }
        }
    }
}

/// Place of a packed item by its index, which counts from the tail if negative.
fn place_at(bytes: &[u8], index: i64) -> Option<Range<usize>> {
    let index = if index < 0 {
        (packed::items(bytes).count() as u64).checked_sub(index.unsigned_abs())?
    } else {
        index.unsigned_abs()
    };
    packed::items(bytes).nth(usize::try_from(index).ok()?).map(|item| item.place)
}

/// Keeps `kept` packed items behind the first `skipped` items.
fn cut(bytes: &mut Vec<u8>, skipped: u64, kept: u64) {
    let mut places = packed::items(bytes).map(|item| item.place);
    let [skipped, kept] = [skipped, kept].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    let mut places = places.by_ref().skip(skipped).take(kept);
    let first = places.next();
    let last = places.last().or_else(|| first.clone());
    match first.zip(last) {
        Some((first, last)) => {
            bytes.truncate(last.end);
            bytes.drain(..first.start);
        }
        None => bytes.clear(),
    }
}

#[cfg(test)]
mod tests;
