//! A picture's page while it is filled: entries as a checkpoint's blocks frame them, in one piece of memory.
//!
//! Invariant: a page takes any row, and as many as there are in its range: how large it should be is the state's
//! matter. What a large one took is given back when it is cleared.
//!
//! Neighbours: [`super::Pages`] fills pages; a picture's checkpointer moves their entries into blocks.

use ensile_base::Tid;
use ensile_base::limits::KEEP_BYTES_MAX;

use super::block::CheckpointBlock;
use crate::block::entries::{ENTRY_FRAME_BYTES, FramedEntries};

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
    /// Bytes that an entry takes beyond its body.
    pub const FRAME_BYTES: usize = ENTRY_FRAME_BYTES;

    /// An empty page.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), entries: 0 }
    }

    /// Adds an entry; `body` appends its body.
    #[inline]
    pub fn push(&mut self, tid: Tid, body: impl FnOnce(&mut Vec<u8>)) {
        let at = self.bytes.len();
        let mut frame = [0; ENTRY_FRAME_BYTES];
        frame[..8].copy_from_slice(&tid.bits().to_le_bytes());
        self.bytes.extend_from_slice(&frame);
        body(&mut self.bytes);
        let body = self.bytes.len().checked_sub(at + ENTRY_FRAME_BYTES).expect("the body only adds bytes");
        assert!(body <= u32::MAX as usize, "an entry's length is half a word");
        self.bytes[at + 8..at + ENTRY_FRAME_BYTES].copy_from_slice(&(body as u32).to_le_bytes());
        self.entries += 1;
    }

    /// How many entries it holds.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Bytes of its entries, with what frames them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Its entries as they stand in a file, one behind the other.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "pages stand in the files of `files` until they are written so")
    )]
    pub(crate) fn payload(&self) -> &[u8] {
        &self.bytes
    }

    /// Its entries, each with its TID and its body.
    pub fn iter(&self) -> impl Iterator<Item = (Tid, &[u8])> {
        debug_assert!(
            self.bytes.len() >= self.entries as usize * ENTRY_FRAME_BYTES,
            "each entry has its frame"
        );
        FramedEntries::of(&self.bytes).map(|entry| entry.expect("what was pushed is framed"))
    }

    /// Moves the entries from the byte `from` on into `block`, as long as it has room. Which byte is next: the page's
    /// end once all are moved.
    pub(crate) fn move_into(&self, block: &mut CheckpointBlock, from: usize) -> usize {
        let mut next = from;
        for entry in FramedEntries::of(&self.bytes[from..]) {
            let (tid, body) = entry.expect("what was pushed is framed");
            if !block.has_room(body.len()) {
                break;
            }
            block.push(tid, |out| out.extend_from_slice(body));
            next += ENTRY_FRAME_BYTES + body.len();
        }
        debug_assert!(next <= self.bytes.len(), "an entry is moved as a whole");
        next
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
    use super::{CheckpointBlock, PageContents};
    use ensile_base::limits::KEEP_BYTES_MAX;
    use ensile_base::{Epoch, Tid};

    #[test]
    fn small_pages_share_a_block_and_a_large_one_fills_several() {
        let tid = Tid::first_of(Epoch::new(1));
        let (mut page, mut block) = (PageContents::new(), CheckpointBlock::new());
        (0..3).for_each(|_| page.push(tid, |body| body.resize(body.len() + 100_000, 7)));
        assert_eq!(page.move_into(&mut block, 0), 2 * 100_012, "a third has no room");
        assert_eq!(page.move_into(&mut block, 2 * 100_012), 2 * 100_012);
        block.reset();
        assert_eq!(page.move_into(&mut block, 2 * 100_012), page.bytes());
        page.clear();
        page.push(tid, |body| body.push(1));
        assert_eq!((page.move_into(&mut block, 0), block.entries()), (13, 2));
    }

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
