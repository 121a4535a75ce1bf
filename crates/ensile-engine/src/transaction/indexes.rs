//! Upkeep of secondary indexes: a row's entries move with the row (Silo §4.7, X1).
//!
//! Neighbours: `writes` calls for each row of a table that has indexes; `sets::entry_keys` has computed the keys.

use ensile_epoch::Pinned;

use crate::error::{Error, Result};
use crate::read_path::{self, Own};
use crate::record::Scratch;
use crate::sets::Sets;
use crate::sets::entry_keys::EntryKeys;
use crate::sets::write_set::Expect;
use crate::tables::{IndexCore, TableCore};

/// Keeps a row's secondary index entries in step with the row (§4.7).
pub(super) struct Maintenance<'m, 'p> {
    pub(super) sets: &'m mut Sets<'p>,
    pub(super) entry_keys: &'m EntryKeys,
    pub(super) scratch: &'m mut Scratch,
    pub(super) pinned: Pinned<'p>,
}

impl Maintenance<'_, '_> {
    /// Moves the entries of `key`. The row of `key` becomes `new`. The move does all or nothing: before the first
    /// write, every unique index is looked up, and the room for all entries and the row is checked.
    pub(super) fn run(&mut self, table: &TableCore, key: &[u8], new: Option<&[u8]>) -> Result<()> {
        debug_assert!(!table.indexes.is_empty(), "a table without indexes needs no upkeep");
        for moved in self.entry_keys.moves() {
            let index = &table.indexes[moved.index];
            if let Some(entry_key) = moved.new.filter(|_| index.unique) {
                self.check_unique(table, index, entry_key)?;
            }
        }
        let (entries, bytes) = self.entry_keys.room();
        let row_bytes = key.len() + new.map_or(0, <[u8]>::len);
        self.sets.writes.check_room(entries + 1, bytes + entries * key.len() + row_bytes)?;
        let entries_max = self.sets.writes.entries.len() + entries;
        for moved in self.entry_keys.moves() {
            let entries = table.indexes[moved.index].entries.id;
            if let Some(old) = moved.old {
                self.sets.write(entries, old, None, Expect::Anything)?;
            }
            if let Some(new) = moved.new {
                self.sets.write(entries, new, Some(key), Expect::Anything)?;
            }
        }
        debug_assert!(self.sets.writes.entries.len() <= entries_max, "room is left for the row");
        Ok(())
    }

    /// Checks that the new entry key is free now. Commit validates the lookup's traces in the sets, so the key is free
    /// then too.
    fn check_unique(&mut self, table: &TableCore, index: &IndexCore, entry_key: &[u8]) -> Result<()> {
        debug_assert!(index.unique, "any number of rows may have an entry in another index");
        let taken = match read_path::own_write(Some(&self.sets.writes), index.entries.id, entry_key) {
            Own::Put(_) => true,
            Own::Deleted => false,
            Own::Unwritten => {
                let mut reader = self.sets.reader();
                let entries = &*index.entries;
                read_path::lookup(&mut reader, entries, entry_key, None, self.scratch, self.pinned)
            }
        };
        if taken {
            return Err(Error::NotUnique { table: table.name().to_owned(), index: index.name.clone() });
        }
        Ok(())
    }
}
