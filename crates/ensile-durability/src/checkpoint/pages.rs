//! What a picture asks of a state: cut itself into pages, keep what commits displace, hand out page after page.
//!
//! Invariants, from `docs/protocols/pictures.md`:
//! - N1: the freeze is announced behind [`Pages::publish_pages`], once E is two above what that returned.
//! - N2: no page is taken before E is above the freeze.
//!
//! - N9: behind a part's last page its checkpointer calls [`Pages::take_displaced`] until nothing is left, and writes
//!   what it got.
//!
//! Neighbours: the engine implements [`Pages`] over its tables; a picture's checkpointers call it.

use ensile_base::Epoch;

use super::displaced::DisplacedBlock;
use super::page::PageContents;
use super::walk::{Slice, Walk};

/// State of which consistent pictures can be taken (SIREN, §3.1). One picture at a time.
pub trait Pages: Walk {
    /// Cuts every section into pages of about `page_bytes`, as it is now, and publishes them: commits of epochs from
    /// the next freeze on leave what they displace. Returns E, read behind the publication: the freeze may be announced
    /// once E is two above (N1).
    fn publish_pages(&self, page_bytes: usize) -> Epoch;

    /// Deals the pages out: `result[p]` are the runs of pages of part p, each a slice of one section, in order. Called
    /// once every commit of an epoch below the freeze is installed (N2).
    fn page_slices(&self, parts: usize) -> Vec<Vec<Slice>>;

    /// Goes on at `resume` (empty: the slice's beginning): puts all entries of the page there into `page`, in key order
    /// and each key once, of epochs below `freeze`, and closes it. True if the slice has another page, with `resume` at
    /// it. If the picture has ended, `page` stays empty and the slice has no other page.
    ///
    /// What a semi-fuzzy picture lacks of the page was left beside it before. If it was not taken already,
    /// [`Pages::take_displaced`] finds it behind this.
    fn take_page(&self, slice: &Slice, resume: &mut Vec<u8>, freeze: Epoch, page: &mut PageContents) -> bool;

    /// Takes versions that commits have left beside the pages of any part, and adds them to `block` until that has no
    /// more room; true if there are more. A row may be in its page too, with the same TID. Nothing is taken of another
    /// picture than that of this freeze, or of one whose pages have all that they need (SIREN, §3.3).
    fn take_displaced(&self, freeze: Epoch, block: &mut DisplacedBlock<'_>) -> bool;

    /// The picture has ended, or its attempt: commits leave nothing more. It may be called again.
    fn end_pages(&self);
}
