//! Reading while others are replayed: the next pieces are on their way, and buffers are used again.
//!
//! Memory: a piece for each thread, and [`AHEAD`] pieces in the system's cache, which it may take back.
//!
//! Neighbours: `replaying` lends the buffers to each step; `replay` reads into them.

use ensile_base::Tid;
use ensile_disk::Disk;

use crate::{DurabilityError, Entry};

/// Pieces that are asked for before their turn.
pub(super) const AHEAD: usize = 8;

/// One thread's buffers.
#[derive(Debug, Default)]
pub(super) struct ReadBuffers {
    bytes: Vec<u8>,
    /// Empty, for its memory.
    entries: Vec<Entry<'static>>,
}

impl ReadBuffers {
    /// Reads a part of a file; with it, an empty vector for its entries.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`] if the file ends before.
    pub(super) fn read(
        &mut self,
        disk: &dyn Disk,
        name: &str,
        offset: u64,
        bytes: u64,
    ) -> Result<(&[u8], Vec<Entry<'_>>), DurabilityError> {
        // What is there already is overwritten, so it is not made zero.
        let bytes = bytes as usize;
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
        let piece = &mut self.bytes[..bytes];
        assert!(self.entries.is_empty(), "no entry of an earlier piece is left");
        let read = disk.open_to_read(name)?.read_at(piece, offset)?;
        if read < bytes {
            return Err(DurabilityError::damaged(name, offset + read as u64, "the file ends inside a block"));
        }
        Ok((piece, std::mem::take(&mut self.entries)))
    }

    /// Takes a vector of entries back.
    pub(super) fn keep(&mut self, entries: Vec<Entry<'static>>) {
        assert!(entries.is_empty(), "it is kept for its memory");
        self.entries = entries;
    }
}

/// An empty vector of entries that borrow from somewhere else, in the same memory.
pub(super) fn recycled<'p>(mut entries: Vec<Entry<'_>>) -> Vec<Entry<'p>> {
    entries.clear();
    entries.into_iter().map(|_| Entry { tid: Tid::ZERO, body: &[] }).collect()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use ensile_base::Tid;

    use super::recycled;
    use crate::Entry;

    #[test]
    fn recycled_entries_are_gone_and_their_memory_stays() {
        let body = vec![1, 2, 3];
        let entries: Vec<_> = (0..100).map(|_| Entry { tid: Tid::ZERO, body: &body }).collect();
        let (memory, capacity) = (entries.as_ptr() as usize, entries.capacity());
        let empty: Vec<Entry<'static>> = recycled(entries);
        assert!(empty.is_empty());
        assert_eq!((empty.as_ptr() as usize, empty.capacity()), (memory, capacity));
    }
}
