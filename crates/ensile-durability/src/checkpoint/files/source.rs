//! Where the entries of a part come from: the walk of a fuzzy checkpoint, or a picture's pages.
//!
//! A block is not a page. Small pages share a block, and a large one fills several.
//!
//! Neighbours: `part` asks for one block after the other; [`Walk`] and [`super::super::Pages`] are the state's.

use ensile_base::Epoch;

use crate::checkpoint::block::CheckpointBlock;
use crate::checkpoint::config::Strategy;
use crate::checkpoint::page::PageContents;
use crate::checkpoint::walk::{Slice, Walk};

/// The entries of a part under way.
#[derive(Debug)]
pub(in crate::checkpoint) enum EntrySource {
    Walk,
    Pages(PageInHand),
}

/// The page that was taken last, while its entries move into blocks.
#[derive(Debug, Default)]
pub(in crate::checkpoint) struct PageInHand {
    page: PageContents,
    /// Its entries before this byte stand in blocks.
    moved: usize,
    /// The slice has no page behind it.
    is_last: bool,
}

impl EntrySource {
    pub(in crate::checkpoint) fn of(strategy: Strategy) -> Self {
        match strategy {
            Strategy::Fuzzy => Self::Walk,
            Strategy::Pictures => Self::Pages(PageInHand::default()),
        }
    }

    /// Whether commits may leave something beside the slices that belongs to the part.
    pub(super) fn has_displaced(&self) -> bool {
        matches!(self, Self::Pages(_))
    }

    /// Goes on at `resume`, and fills `block` with entries of epochs below `low`. True if the slice has more.
    pub(super) fn fill(
        &mut self,
        walk: &dyn Walk,
        slice: &Slice,
        resume: &mut Vec<u8>,
        low: Epoch,
        block: &mut CheckpointBlock,
    ) -> bool {
        let Self::Pages(hand) = self else { return walk.walk(slice, resume, low, block) };
        let pages = walk.pages().expect("it has published them");
        loop {
            debug_assert!(hand.moved <= hand.page.bytes(), "what is in hand was not all moved");
            hand.moved = hand.page.move_into(block, hand.moved);
            if hand.moved < hand.page.bytes() {
                return true;
            }
            hand.page.clear();
            hand.moved = 0;
            if std::mem::take(&mut hand.is_last) {
                return false;
            }
            hand.is_last = !pages.take_page(slice, resume, low, &mut hand.page);
        }
    }
}
