//! Buffers of a checkpointer for the pages of a picture.
//!
//! Neighbours: `picture_state` keeps the buffers; `checkpoint::pages` fills them.

use ensile_base::limits::KEEP_BYTES_MAX;
use ensile_durability::PageContents;

use super::pending_removes::PendingRemove;
use crate::record::Scratch;

/// Buffers of a checkpointer, reused from page to page.
#[derive(Debug, Default)]
pub(crate) struct PageSpace {
    /// Buffer for a row.
    pub(crate) scratch: Scratch,
    /// Versions of the page left by commits.
    pub(crate) left: Vec<PendingRemove>,
    /// Rows found by the walk of the page, during the merge with `left`.
    pub(crate) walked: PageContents,
}

impl PageSpace {
    /// Releases the memory of an unusually large page.
    pub(super) fn shrink(&mut self) {
        debug_assert!(self.left.is_empty() && self.walked.entries() == 0, "the page was taken");
        if self.scratch.kept_bytes() > KEEP_BYTES_MAX {
            self.scratch = Scratch::default();
        }
        self.left.shrink_to(KEEP_BYTES_MAX / size_of::<PendingRemove>());
        // `walked` limits its own memory when it is cleared.
        debug_assert!(self.left.capacity() * size_of::<PendingRemove>() <= 2 * KEEP_BYTES_MAX);
    }
}
