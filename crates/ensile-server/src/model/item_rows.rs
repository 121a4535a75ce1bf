//! The rows of a larger list: items at running positions without a gap, and the positions of both ends.
//!
//! | table | key | value |
//! |---|---|---|
//! | `items` | object, position | item |
//! | `stripes` | object, 0 | position of the first item, number of changes |
//! | `stripes` | object, 1 | position behind the last item, number of changes |
//!
//! Invariants:
//! - The items stand at all positions from the first end's to the second end's, and at no other.
//! - Y6: every write of an item changes the row of an end, so a transaction that has read both ends has read all items
//!   (`WATCH`).
//! - A push and a pop read and write the row of their own end only, so both ends are used at once. The item beside the
//!   end tells a pop if an item is left: the item's absence is a read, and the commit checks the read.
//! - Y7: a key's list in rows has an item. The transaction that takes the last item removes the key. A push at the
//!   other end has read the key's row, and has filled the place that the pop found empty: one of both is run again.
//!
//! Neighbours: [`super::list`] chooses between packed items and rows; `objects` copies, watches and removes the rows.

use std::ops::{ControlFlow, Range};

use ensile::{Error, Readable, Result};

use super::{Keyspace, objects};

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Head,
    Tail,
}

impl End {
    /// Number of the end's row in `stripes`.
    fn stripe(self) -> u32 {
        match self {
            Self::Head => 0,
            Self::Tail => 1,
        }
    }

    /// Step of a position away from the items.
    fn outwards(self) -> i64 {
        match self {
            Self::Head => -1,
            Self::Tail => 1,
        }
    }
}

/// Row of an end.
#[derive(Clone, Copy, Debug)]
struct EndRow {
    /// Position of the first item, or the position behind the last item.
    position: i64,
    changes: u64,
    /// True if the transaction writes the row.
    has_changed: bool,
}

/// The rows of a list.
#[derive(Debug)]
pub(super) struct ItemRows {
    object: u64,
    /// True if the row of the key is to be written.
    has_new_header: bool,
    /// The rows of both ends, once they are read.
    ends: [Option<EndRow>; 2],
    /// End at which items were removed: an item is to be left there.
    shortened: Option<End>,
}

/// The position `by` places on.
fn next_position(position: i64, by: i64) -> Result<i64> {
    position.checked_add(by).ok_or_else(|| {
        Error::Misuse("all positions of the list are used up: copy the items to a new list".to_owned())
    })
}

impl ItemRows {
    /// The rows of an object that a header names.
    pub(super) fn new(object: u64) -> Self {
        Self { object, has_new_header: false, ends: [None; 2], shortened: None }
    }

    /// The rows of a new object, without items.
    pub(super) fn make(keyspace: &mut Keyspace<'_, '_>) -> Result<Self> {
        let object = objects::new_number(keyspace.tx, keyspace.model, keyspace.stripe)?;
        let end = EndRow { position: 0, changes: 0, has_changed: true };
        Ok(Self { object, has_new_header: true, ends: [Some(end); 2], shortened: None })
    }

    pub(super) fn object(&self) -> u64 {
        self.object
    }

    pub(super) fn has_new_header(&self) -> bool {
        self.has_new_header
    }

    /// The row of an end, read once.
    fn end(&mut self, keyspace: &mut Keyspace<'_, '_>, end: End) -> Result<&mut EndRow> {
        let place = end.stripe();
        let row = &mut self.ends[place as usize];
        if row.is_none() {
            let found = keyspace.tx.get(&keyspace.model.stripes, &(self.object, place))?;
            // No assertion asks for the row: only the commit checks that header and row are of one moment.
            let (position, changes) = found.unwrap_or((0, 0));
            *row = Some(EndRow { position, changes, has_changed: false });
        }
        Ok(row.get_or_insert(EndRow { position: 0, changes: 0, has_changed: false }))
    }

    fn position(&mut self, keyspace: &mut Keyspace<'_, '_>, end: End) -> Result<i64> {
        Ok(self.end(keyspace, end)?.position)
    }

    /// Notes the change of an end, and of its position.
    fn set_end(&mut self, keyspace: &mut Keyspace<'_, '_>, end: End, position: i64) -> Result<()> {
        let row = self.end(keyspace, end)?;
        (row.position, row.has_changed) = (position, true);
        Ok(())
    }

    /// Notes a change that keeps the positions.
    pub(super) fn touch(&mut self, keyspace: &mut Keyspace<'_, '_>, end: End) -> Result<()> {
        self.end(keyspace, end)?.has_changed = true;
        Ok(())
    }

    /// Positions of the items. A loop over them ends at an absent item, as the ends may be of different moments.
    fn positions(&mut self, keyspace: &mut Keyspace<'_, '_>) -> Result<Range<i64>> {
        Ok(self.position(keyspace, End::Head)?..self.position(keyspace, End::Tail)?)
    }

    pub(super) fn count(&mut self, keyspace: &mut Keyspace<'_, '_>) -> Result<u64> {
        let Range { start, end } = self.positions(keyspace)?;
        Ok(if end > start { end.abs_diff(start) } else { 0 })
    }

    fn read(&self, keyspace: &mut Keyspace<'_, '_>, position: i64) -> Result<Option<Vec<u8>>> {
        let item = keyspace.tx.get(&keyspace.model.items, &(self.object, position))?;
        keyspace.copied_bytes += item.as_ref().map_or(0, Vec::len);
        Ok(item)
    }

    fn write(&self, keyspace: &mut Keyspace<'_, '_>, position: i64, item: &[u8]) -> Result<()> {
        keyspace.tx.put(&keyspace.model.items, &(self.object, position), item)
    }

    fn delete(&self, keyspace: &mut Keyspace<'_, '_>, position: i64) -> Result<bool> {
        keyspace.tx.delete(&keyspace.model.items, &(self.object, position))
    }

    /// Position of an item by its index. A negative index counts from the tail. The position may have no item.
    fn position_at(&mut self, keyspace: &mut Keyspace<'_, '_>, index: i64) -> Result<Option<i64>> {
        let from = self.position(keyspace, nearer_end(index))?;
        Ok(from.checked_add(index))
    }

    /// The item at an index, which counts from the tail if negative.
    pub(super) fn get(&mut self, keyspace: &mut Keyspace<'_, '_>, index: i64) -> Result<Option<Vec<u8>>> {
        match self.position_at(keyspace, index)? {
            Some(position) => self.read(keyspace, position),
            None => Ok(None),
        }
    }

    /// Replaces the item at an index, which counts from the tail if negative. False without an item.
    pub(super) fn set(&mut self, keyspace: &mut Keyspace<'_, '_>, index: i64, item: &[u8]) -> Result<bool> {
        let Some(position) = self.position_at(keyspace, index)? else { return Ok(false) };
        if !keyspace.tx.contains(&keyspace.model.items, &(self.object, position))? {
            return Ok(false);
        }
        self.write(keyspace, position, item)?;
        self.touch(keyspace, nearer_end(index))?;
        Ok(true)
    }

    pub(super) fn push(&mut self, keyspace: &mut Keyspace<'_, '_>, end: End, item: &[u8]) -> Result<()> {
        let position = self.position(keyspace, end)?;
        let beyond = next_position(position, end.outwards())?;
        self.write(keyspace, position.min(beyond), item)?;
        self.set_end(keyspace, end, beyond)
    }

    /// Takes the item at an end; `None` without an item.
    pub(super) fn pop(&mut self, keyspace: &mut Keyspace<'_, '_>, end: End) -> Result<Option<Vec<u8>>> {
        let position = self.position(keyspace, end)?;
        let within = next_position(position, -end.outwards())?;
        let item = self.read(keyspace, position.min(within))?;
        if item.is_some() {
            self.delete(keyspace, position.min(within))?;
            self.set_end(keyspace, end, within)?;
        }
        self.shortened = Some(end);
        Ok(item)
    }

    /// Removes this number of items at an end.
    pub(super) fn shorten(&mut self, keyspace: &mut Keyspace<'_, '_>, end: End, count: u64) -> Result<()> {
        let mut position = self.position(keyspace, end)?;
        for _ in 0..count {
            let within = next_position(position, -end.outwards())?;
            if !self.delete(keyspace, position.min(within))? {
                break;
            }
            position = within;
        }
        self.set_end(keyspace, end, position)?;
        self.shortened = Some(end);
        Ok(())
    }

    /// Visits the items from an end on, behind `skipped` items, until `visit` breaks.
    pub(super) fn visit(
        &mut self,
        keyspace: &mut Keyspace<'_, '_>,
        from: End,
        skipped: u64,
        mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let position = self.position(keyspace, from)?;
        let object = self.object;
        let Keyspace { tx, model, copied_bytes, .. } = keyspace;
        let mut visit_row = |_, item: &Vec<u8>| {
            *copied_bytes += item.len();
            visit(item)
        };
        match from {
            End::Head => {
                let first = position.saturating_add_unsigned(skipped);
                tx.scan(&model.items, (object, first)..(object + 1, i64::MIN), &mut visit_row)
            }
            End::Tail => {
                let behind = position.saturating_sub_unsigned(skipped);
                tx.scan_reverse(&model.items, (object, i64::MIN)..(object, behind), &mut visit_row)
            }
        }
    }

    /// Inserts an item before the item at an index. The items of the shorter side move.
    pub(super) fn insert(&mut self, keyspace: &mut Keyspace<'_, '_>, index: u64, item: &[u8]) -> Result<()> {
        let positions = self.positions(keyspace)?;
        let at = positions.start.saturating_add_unsigned(index);
        debug_assert!(index < 1 << 62, "an index counts items");
        if at.abs_diff(positions.start) < positions.end.abs_diff(at) {
            let first = next_position(positions.start, -1)?;
            for position in positions.start..at {
                let Some(moving) = self.read(keyspace, position)? else { break };
                self.write(keyspace, position - 1, &moving)?;
            }
            self.write(keyspace, at - 1, item)?;
            return self.set_end(keyspace, End::Head, first);
        }
        let behind = next_position(positions.end, 1)?;
        for position in (at..positions.end).rev() {
            let Some(moving) = self.read(keyspace, position)? else { break };
            self.write(keyspace, position + 1, &moving)?;
        }
        self.write(keyspace, at, item)?;
        self.set_end(keyspace, End::Tail, behind)
    }

    /// Removes the items at these indexes, the least first. The items of the shorter side move.
    pub(super) fn remove(&mut self, keyspace: &mut Keyspace<'_, '_>, indexes: &[u64]) -> Result<()> {
        let positions = self.positions(keyspace)?;
        let removed: Vec<i64> =
            indexes.iter().map(|index| positions.start.saturating_add_unsigned(*index)).collect();
        debug_assert!(removed.is_sorted(), "the least index comes first");
        let (Some(first), Some(last)) = (removed.first(), removed.last()) else { return Ok(()) };
        if last.abs_diff(positions.start) < positions.end.abs_diff(*first) {
            let free = self.close_gaps(keyspace, (positions.start..=*last).rev(), &removed, -1)?;
            self.shorten(keyspace, End::Head, free)
        } else {
            let free = self.close_gaps(keyspace, *first..positions.end, &removed, 1)?;
            self.shorten(keyspace, End::Tail, free)
        }
    }

    /// Moves the items of these positions over the removed items, in the order of the positions. Returns the number of
    /// places that are free at the end of the positions.
    fn close_gaps(
        &mut self,
        keyspace: &mut Keyspace<'_, '_>,
        positions: impl Iterator<Item = i64>,
        removed: &[i64],
        step: i64,
    ) -> Result<u64> {
        let mut free = 0;
        for position in positions {
            if removed.binary_search(&position).is_ok() {
                free += 1;
                continue;
            }
            let Some(moving) = self.read(keyspace, position)? else { break };
            self.write(keyspace, position - step * free, &moving)?;
        }
        debug_assert!(free >= 0, "a position is removed once");
        Ok(free.unsigned_abs())
    }

    /// Writes the rows of the ends. True if no item is left.
    pub(super) fn finish(&mut self, keyspace: &mut Keyspace<'_, '_>) -> Result<bool> {
        if let Some(end) = self.shortened {
            let position = self.position(keyspace, end)?;
            let beside = position.min(next_position(position, -end.outwards())?);
            if !keyspace.tx.contains(&keyspace.model.items, &(self.object, beside))? {
                return Ok(true);
            }
        }
        for end in [End::Head, End::Tail] {
            if let Some(row) = self.ends[end.stripe() as usize].filter(|row| row.has_changed) {
                let place = (self.object, end.stripe());
                keyspace.tx.put(&keyspace.model.stripes, &place, &(row.position, row.changes + 1))?;
            }
        }
        Ok(false)
    }
}

/// End from which an index counts.
fn nearer_end(index: i64) -> End {
    if index < 0 { End::Tail } else { End::Head }
}
