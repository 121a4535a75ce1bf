//! The keys of a row's index entries, before and after a write of the row.
//!
//! Functions of the application compute the keys. All keys are computed before any look-up or write of the entries, and
//! outside the calls of the transaction's pin. So a function that panics leaves row and entries in step, and a
//! transaction with a waiting function can be ended (E4).
//!
//! Neighbours: `transaction::indexes` moves the entries; a context keeps the buffers.

use std::ops::Range;

use crate::error::Result;
use crate::tables::{IndexCore, TableCore};

/// The entry keys of one row, index by index.
#[derive(Debug, Default)]
pub(crate) struct EntryKeys {
    /// All keys, concatenated.
    bytes: Vec<u8>,
    moves: Vec<EntryMove>,
}

/// Ranges of the keys of one index's entry; `None` if the row has no entry.
#[derive(Debug)]
struct EntryMove {
    /// The index's position among the table's indexes.
    index: usize,
    old: Option<Range<usize>>,
    new: Option<Range<usize>>,
}

/// Move of a row's entry in one index.
pub(crate) struct MovedEntry<'k> {
    /// The index's position among the table's indexes.
    pub(crate) index: usize,
    /// The removed key.
    pub(crate) old: Option<&'k [u8]>,
    /// The added key.
    pub(crate) new: Option<&'k [u8]>,
}

impl EntryKeys {
    /// Computes the keys of a row that changes from `old` to `new`. Unchanged entries are left out.
    ///
    /// # Errors
    /// [`Error::Decode`](crate::Error::Decode) if a row is not of its table's type, and
    /// [`Error::TooLarge`](crate::Error::TooLarge) if a new key is too long.
    pub(crate) fn compute(
        &mut self,
        table: &TableCore,
        key: &[u8],
        old: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<()> {
        debug_assert!(!table.indexes.is_empty(), "a table without indexes needs no entries");
        debug_assert!(old.is_some() || new.is_some(), "a row comes, changes or goes");
        self.bytes.clear();
        self.moves.clear();
        for (index, core) in table.indexes.iter().enumerate() {
            let start = self.bytes.len();
            let old = self.add(core, key, old)?;
            let new = self.add(core, key, new)?;
            if let Some(new) = &new {
                core.entries.check_key(&self.bytes[new.clone()])?;
            }
            let is_moved = old.as_ref().map(|old| &self.bytes[old.clone()])
                != new.as_ref().map(|new| &self.bytes[new.clone()]);
            if is_moved {
                self.moves.push(EntryMove { index, old, new });
            } else {
                self.bytes.truncate(start);
            }
        }
        Ok(())
    }

    /// Appends the key of a row's entry in an index, if the index has the row.
    fn add(&mut self, index: &IndexCore, key: &[u8], row: Option<&[u8]>) -> Result<Option<Range<usize>>> {
        let Some(row) = row else { return Ok(None) };
        let start = self.bytes.len();
        if !index.entry_key(key, row, &mut self.bytes)? {
            debug_assert_eq!(self.bytes.len(), start, "a row that an index leaves out has no key");
            return Ok(None);
        }
        Ok(Some(start..self.bytes.len()))
    }

    /// The moves of entries.
    pub(crate) fn moves(&self) -> impl Iterator<Item = MovedEntry<'_>> {
        let key = |range: &Option<Range<usize>>| range.clone().map(|range| &self.bytes[range]);
        self.moves.iter().map(move |entry| MovedEntry {
            index: entry.index,
            old: key(&entry.old),
            new: key(&entry.new),
        })
    }

    /// Number of entries to write, and length of all keys in bytes.
    pub(crate) fn room(&self) -> (usize, usize) {
        let writes = self
            .moves
            .iter()
            .map(|entry| usize::from(entry.old.is_some()) + usize::from(entry.new.is_some()));
        (writes.sum(), self.bytes.len())
    }

    /// Memory of the keys in bytes.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.bytes.capacity() + self.moves.capacity() * size_of::<EntryMove>()
    }
}
