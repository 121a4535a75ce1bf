//! Reads for replay: the next pieces are prefetched while earlier pieces are replayed, and buffers are reused.
//!
//! Memory: one piece per thread, and [`AHEAD`] pieces in the system's cache, which the system may reclaim.
//!
//! Neighbours: `replay_state` and other readers of whole logs lend the buffers to a step; `replay` reads into the
//! buffers.

use ensile_base::Tid;
use ensile_disk::Disk;

use crate::{DurabilityError, Entry, Result};

/// Number of pieces prefetched before their turn.
pub(super) const AHEAD: usize = 8;

#[derive(Debug, Default)]
pub(super) struct ReadBuffers {
    bytes: Vec<u8>,
    /// Empty vector, kept for its memory.
    entries: Vec<Entry<'static>>,
}

impl ReadBuffers {
    /// Reads a part of a file. Also returns an empty vector for the part's entries.
    pub(super) fn read(
        &mut self,
        disk: &dyn Disk,
        name: &str,
        offset: u64,
        bytes: u64,
    ) -> Result<(&[u8], Vec<Entry<'_>>)> {
        // The read overwrites old bytes, so the buffer is not zeroed.
        let bytes = bytes as usize;
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
        let piece = &mut self.bytes[..bytes];
        assert!(self.entries.is_empty(), "no entry of an earlier piece is left");
        let read = disk.open_to_read(name)?.read_at(piece, offset)?;
        if read < bytes {
            let detail = "the file ends inside a block";
            return Err(DurabilityError::damaged_file(name, offset + read as u64, detail));
        }
        Ok((piece, std::mem::take(&mut self.entries)))
    }

    pub(super) fn keep(&mut self, entries: Vec<Entry<'static>>) {
        assert!(entries.is_empty(), "it is kept for its memory");
        self.entries = entries;
    }
}

/// Empty vector of entries with another lifetime, in the same memory.
pub(super) fn recycle_vec<'p>(mut entries: Vec<Entry<'_>>) -> Vec<Entry<'p>> {
    entries.clear();
    entries.into_iter().map(|_| Entry { tid: Tid::ZERO, body: &[] }).collect()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use ensile_base::Tid;

    use super::recycle_vec;
    use crate::Entry;

    #[test]
    fn recycled_entries_are_gone_and_their_memory_stays() {
        let body = vec![1, 2, 3];
        let entries: Vec<_> = (0..100).map(|_| Entry { tid: Tid::ZERO, body: &body }).collect();
        let (memory, capacity) = (entries.as_ptr() as usize, entries.capacity());
        let empty: Vec<Entry<'static>> = recycle_vec(entries);
        assert!(empty.is_empty());
        assert_eq!((empty.as_ptr() as usize, empty.capacity()), (memory, capacity));
    }
}
