//! Versions that commits leave beside a picture's pages, on the way into the picture's files (SIREN, §3.3): entries
//! whose bodies begin with their section, as a u32.
//!
//! Neighbours: [`crate::checkpoint::Pages`] fills blocks with versions taken from commits; a picture's checkpointers
//! write the blocks, `picture::reader` reads the blocks.

use ensile_base::Tid;

use crate::files::checkpoint::block::CheckpointBlock;

/// Bytes of a section before a body.
const SECTION_BYTES: usize = size_of::<u32>();

/// A block while versions of any section are added: a pending-removes block.
///
/// ```
/// use ensile_base::{Epoch, Tid};
/// use ensile_durability::{CheckpointBlock, DisplacedBlock};
/// let mut block = CheckpointBlock::new();
/// let mut displaced = DisplacedBlock::new(&mut block);
/// assert!(displaced.has_room(5));
/// displaced.push(7, Tid::first_of(Epoch::new(3)), |body| body.extend_from_slice(b"hello"));
/// assert!(displaced.iter().eq([(7, Tid::first_of(Epoch::new(3)), &b"hello"[..])]));
/// ```
#[derive(Debug)]
pub struct DisplacedBlock<'b>(&'b mut CheckpointBlock);

impl<'b> DisplacedBlock<'b> {
    /// Fills this block. The block holds no entries of pages.
    #[must_use]
    pub fn new(block: &'b mut CheckpointBlock) -> Self {
        Self(block)
    }

    /// As [`CheckpointBlock::has_room`].
    #[inline]
    pub fn has_room(&mut self, body_bytes: usize) -> bool {
        self.0.has_room(SECTION_BYTES + body_bytes)
    }

    /// Adds a version of a section after a successful [`DisplacedBlock::has_room`]; `body` appends the version's body.
    #[inline]
    pub fn push(&mut self, section: u32, tid: Tid, body: impl FnOnce(&mut Vec<u8>)) {
        let before = self.0.entries();
        self.0.push(tid, |bytes| {
            bytes.extend_from_slice(&section.to_le_bytes());
            body(bytes);
        });
        debug_assert_eq!(self.0.entries(), before + 1, "a version is one entry");
    }

    /// The versions, each with section, TID and body.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Tid, &[u8])> {
        self.0.iter().map(|(tid, body)| {
            let (section, body) = section_and_body(body).expect("each was pushed with its section");
            (section, tid, body)
        })
    }
}

/// Splits an entry's bytes into section and body; `None` if the entry is too short.
pub(crate) fn section_and_body(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (section, body) = bytes.split_first_chunk::<SECTION_BYTES>()?;
    debug_assert_eq!(body.len() + SECTION_BYTES, bytes.len(), "nothing else stands there");
    Some((u32::from_le_bytes(*section), body))
}
