//! Upkeep of secondary indexes: a row's entries move with the row (Silo §4.7, X1).
//!
//! Neighbours: `writes` calls for each row of a table that has indexes.

use ensile_epoch::Pinned;

use crate::error::{Error, Result};
use crate::reading::{self, Own};
use crate::record::Scratch;
use crate::sets::Sets;
use crate::sets::write_set::{Expect, WriteKind};
use crate::tables::{IndexCore, TableCore};

/// Keeps a row's secondary index entries in step with the row (§4.7).
pub(super) struct Maintenance<'m> {
    pub(super) sets: &'m mut Sets,
    pub(super) entry_keys: &'m mut (Vec<u8>, Vec<u8>),
    pub(super) scratch: &'m mut Scratch,
    pub(super) pinned: Pinned<'m>,
}

impl Maintenance<'_> {
    /// Moves the entries of `key` from its `old` row to its `new` one. It does all or nothing. Before anything is
    /// written, the keys of every index are made and checked, every unique index is looked up, and room is made sure
    /// of, for the row too.
    pub(super) fn run(
        &mut self,
        table: &TableCore,
        key: &[u8],
        old: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<()> {
        debug_assert!(!table.indexes.is_empty(), "a table without indexes needs no upkeep");
        debug_assert!(old.is_some() || new.is_some(), "a row comes, changes or goes");
        let (mut writes, mut bytes) = (1, key.len() + new.map_or(0, <[u8]>::len));
        let mut moves = None;
        for index in &table.indexes {
            moves = self.entry_keys(index, key, old, new)?;
            let Some((leaves, enters)) = moves else { continue };
            writes += usize::from(leaves) + usize::from(enters);
            bytes += self.entry_keys.0.len() + self.entry_keys.1.len() + key.len();
            if enters && index.unique {
                self.check_unique(table, index)?;
            }
        }
        self.sets.writes.check_room(writes, bytes)?;
        let entries_max = self.sets.writes.entries.len() + writes;
        for index in &table.indexes {
            // With one index, its keys are still in `entry_keys`.
            if table.indexes.len() > 1 {
                moves = self.entry_keys(index, key, old, new)?;
            }
            let Some((leaves, enters)) = moves else { continue };
            let entries = index.entries.id;
            if leaves {
                let write = (entries, self.entry_keys.0.as_slice(), &[][..]);
                self.sets.write(write, WriteKind::Delete, Expect::Anything)?;
            }
            if enters {
                let write = (entries, self.entry_keys.1.as_slice(), key);
                self.sets.write(write, WriteKind::Put, Expect::Anything)?;
            }
        }
        debug_assert!(self.sets.writes.entries.len() < entries_max, "room is left for the row");
        Ok(())
    }

    /// Computes both entry keys; says whether the old one goes and the new one comes, or `None` if nothing changes.
    fn entry_keys(
        &mut self,
        index: &IndexCore,
        key: &[u8],
        old: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Option<(bool, bool)>> {
        debug_assert!(old.is_some() || new.is_some(), "a row comes, changes or goes");
        let (old_key, new_key) = &mut *self.entry_keys;
        let leaves = old.map_or(Ok(false), |old| index.entry_key(key, old, old_key))?;
        let enters = new.map_or(Ok(false), |new| index.entry_key(key, new, new_key))?;
        if enters {
            index.entries.check_key(new_key)?;
        }
        let unchanged = leaves == enters && (!leaves || old_key == new_key);
        Ok((!unchanged).then_some((leaves, enters)))
    }

    /// Checks that the new entry key is free now. Commit validates what the lookup leaves in the sets, so the key is
    /// free then too.
    fn check_unique(&mut self, table: &TableCore, index: &IndexCore) -> Result<()> {
        debug_assert!(index.unique, "any number of rows may have an entry in another index");
        let entry_key = &self.entry_keys.1;
        let taken = match reading::own_write(Some(&self.sets.writes), index.entries.id, entry_key) {
            Own::Put(_) => true,
            Own::Deleted => false,
            Own::Unwritten => {
                let mut reader = self.sets.reader();
                reading::lookup(&mut reader, &index.entries, entry_key, None, self.scratch, self.pinned)
            }
        };
        if taken {
            return Err(Error::NotUnique { table: table.name().to_owned(), index: index.name.clone() });
        }
        Ok(())
    }
}
