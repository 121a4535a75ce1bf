//! A picture's page while entries are added: entries with the frames of a checkpoint's blocks, in one piece of memory.
//!
//! Invariant: a page takes any row, and every row of the page's range: the state chooses the size of pages. `clear`
//! gives back the memory of a large page.
//!
//! Neighbours: [`crate::checkpoint::Pages`] fills pages; a picture's checkpointer moves the entries into blocks.

use ensile_base::Tid;
use ensile_base::limits::KEEP_BYTES_MAX;

use crate::files::block::entries::{ENTRY_FRAME_BYTES, FramedEntries, push_entry};

/// The entries of a page, in key order.
///
/// ```
/// use ensile_base::{Epoch, Tid};
/// use ensile_durability::PageContents;
/// let mut page = PageContents::new();
/// page.push(Tid::first_of(Epoch::new(3)), |body| body.extend_from_slice(b"hello"));
/// assert_eq!(page.entries(), 1);
/// assert!(page.iter().eq([(Tid::first_of(Epoch::new(3)), &b"hello"[..])]));
/// ```
#[derive(Debug, Default)]
pub struct PageContents {
    bytes: Vec<u8>,
    entries: u32,
}

impl PageContents {
    /// Bytes of an entry beyond the body.
    pub const FRAME_BYTES: usize = ENTRY_FRAME_BYTES;

    /// An empty page.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), entries: 0 }
    }

    /// Adds an entry; `body` appends the entry's body.
    #[inline]
    pub fn push(&mut self, tid: Tid, body: impl FnOnce(&mut Vec<u8>)) {
        let body = push_entry(&mut self.bytes, tid, body);
        assert!(body <= u32::MAX as usize, "an entry's length is half a word");
        self.entries += 1;
    }

    /// Number of entries in the page.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Bytes of the entries, with their frames.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The entries as in a file, one behind another.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.bytes
    }

    /// The entries, each with TID and body.
    pub fn iter(&self) -> impl Iterator<Item = (Tid, &[u8])> {
        debug_assert!(self.bytes.len() >= self.entries as usize * ENTRY_FRAME_BYTES, "entries have frames");
        FramedEntries::new(&self.bytes).map(|entry| entry.expect("what was pushed is framed"))
    }

    /// Empties the page.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEEP_BYTES_MAX);
        self.entries = 0;
        debug_assert!(self.iter().next().is_none(), "a page without bytes has no entries");
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::PageContents;
    use ensile_base::limits::KEEP_BYTES_MAX;
    use ensile_base::{Epoch, Tid};

    #[test]
    fn a_page_takes_any_entry_and_gives_back_what_a_large_one_took() {
        let mut page = PageContents::new();
        let (first, second) = (Tid::first_of(Epoch::new(1)), Tid::first_of(Epoch::new(2)));
        page.push(first, |_| {});
        page.push(second, |body| body.resize(body.len() + 8 * KEEP_BYTES_MAX, 7));
        let entries: Vec<_> = page.iter().map(|(tid, body)| (tid, body.len())).collect();
        assert_eq!(entries, [(first, 0), (second, 8 * KEEP_BYTES_MAX)]);
        assert_eq!((page.entries(), page.bytes()), (2, 24 + 8 * KEEP_BYTES_MAX));
        page.clear();
        assert_eq!((page.entries(), page.bytes(), page.iter().count()), (0, 0, 0));
        assert!(page.bytes.capacity() < 2 * KEEP_BYTES_MAX);
    }
}
