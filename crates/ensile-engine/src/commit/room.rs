//! Room for the memory of a commit, in a database with a limit of its memory (M4).
//!
//! Invariants:
//! - M4: a commit looks at the room before its first change of the index, and again between its entries. So between
//!   two looks a worker allocates the memory of one entry at most. A commit with much data sets its memory aside
//!   first.
//! - A commit with a put is refused at the limit. A commit of deletes, and of puts into tables that use the reserve for
//!   deletes, is refused once the reserve is used up. A commit of the catalogue is never refused.
//!
//! Neighbours: [`Commit::run`](super::Commit) begins here if the memory has a limit; `prepare` looks between entries.

use ensile_memory::{MemoryRoom, SizeClass};

use super::Commit;
use crate::error::{Error, Result};
use crate::record::HEADER_BYTES;
use crate::sets::write_set::{Write, WriteKind};

/// Memory of a commit from which the commit sets its memory aside, in bytes.
const SET_ASIDE_MIN: u64 = 64 << 10;
/// Bytes of index nodes for a key, if nodes are half full.
const NODE_BYTES: usize = 64;
/// Length of a key in bytes from which the nodes of the key count one by one.
const LONG_KEY_BYTES: usize = 1 << 10;
/// Bytes of nodes for each byte of a long key: eight bytes of the key may need a node of 320 bytes.
const NODE_BYTES_A_KEY_BYTE: usize = 40;

impl Commit<'_, '_> {
    /// Places and reserves, within the room of the memory. Returns the length of the log entry in bytes.
    #[inline(never)]
    pub(super) fn prepare_with_room(&mut self) -> Result<usize> {
        debug_assert!(self.shared.settings.is_memory_limited, "other commits prepare without a look (M4)");
        self.take_room()?;
        self.place_watched()?;
        self.reserve_watched()
    }

    /// Refuses the commit if the memory lacks room, and sets memory aside for a commit with much data.
    fn take_room(&mut self) -> Result<()> {
        debug_assert!(
            self.worker.commit.slot().bound_epoch().is_none(),
            "what may be refused is obtained before binding (E1)"
        );
        let bytes: u64 = self.sets.writes.entries.iter().map(|write| self.bytes_of(write)).sum();
        let refused_from = match bytes {
            _ if self.is_of_catalogue() => None,
            0 => Some(MemoryRoom::Exhausted),
            _ => Some(MemoryRoom::Full),
        };
        let blocks = &mut self.worker.blocks;
        blocks.refuse_from(refused_from);
        let has_room = !blocks.lacks_room()
            && (bytes < SET_ASIDE_MIN || refused_from.is_none() || blocks.set_aside(bytes));
        if has_room { Ok(()) } else { Err(Error::memory_full(self.shared.memory.memory_use())) }
    }

    /// Bytes that the memory of an entry takes below the limit; 0 for a delete, and in a table that uses the reserve.
    fn bytes_of(&self, write: &Write<'_>) -> u64 {
        debug_assert!(self.shared.settings.is_memory_limited, "other commits count no bytes (M4)");
        let table = self.shared.tables.logged_table(write.table);
        if table.is_some_and(|table| table.uses_reserve()) { 0 } else { bytes_of(write) }
    }
}

/// Bytes that the memory of an entry takes, if its key is new; 0 for a delete.
fn bytes_of(write: &Write<'_>) -> u64 {
    if write.kind == WriteKind::Delete {
        debug_assert_eq!(write.value_bytes(), 0, "a delete has no value");
        return 0;
    }
    let key = write.key_bytes();
    let nodes = if key > LONG_KEY_BYTES { key * NODE_BYTES_A_KEY_BYTE } else { key };
    (SizeClass::of_bytes(HEADER_BYTES + write.value_bytes()).bytes() + NODE_BYTES + nodes) as u64
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
