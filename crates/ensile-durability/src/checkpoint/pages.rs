//! Interface of a state of which pictures can be taken: the state cuts itself into pages, keeps displaced versions, and
//! hands out page after page. Conditions (`protocols/pictures.md`), in the order of the calls:
//! - N1: the freeze is announced after [`Pages::publish_pages`], once E is two above the returned epoch.
//! - N7: [`Pages::carry_marks`] is called before the freeze. N2, N5: no page is taken before E is above the freeze.
//! - N9: after a part's last page the checkpointer calls [`Pages::take_displaced`] until no version is left.
//! - N13: a caller names the attempt. Only an installed picture clears the marks of the pages that it wrote.
//!
//! Neighbours: the engine implements [`Pages`] over its tables; a picture's checkpointers call the methods.

use std::error::Error;
use std::fmt;

use ensile_base::Epoch;

use super::walk::{Slice, Walk};
use crate::files::checkpoint::page::PageContents;
use crate::files::picture::pending_removes::DisplacedBlock;

/// Name of an attempt at a picture. No other attempt of the same state has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PictureAttempt(u64);

impl PictureAttempt {
    /// Creates the name of attempt `number`. Attempts of a state are numbered as they begin, from 1.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        assert!(number > 0, "no attempt has begun");
        Self(number)
    }

    /// The attempt's number.
    #[must_use]
    pub const fn number(self) -> u64 {
        debug_assert!(self.0 > 0);
        self.0
    }
}

/// The pages that a picture writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedPages {
    /// All pages: the picture before has no pages that this picture could keep.
    All,
    /// Pages with rows that may have changed since the picture before. The others hold the same rows as before.
    Changed,
}

/// Pages that were published for a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "end the attempt: commits leave versions to it until then"]
pub struct PublishedPages {
    /// The attempt that the pages belong to.
    pub attempt: PictureAttempt,
    /// E, read after the publication: the freeze may be announced once E is two above this epoch (N1).
    pub epoch: Epoch,
}

/// Result of taking a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenPage {
    /// The slice has another page.
    More,
    /// The page was the slice's last.
    Last,
}

/// Reason for refusing an attempt's pages: the attempt fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagesEnded {
    /// The attempt was ended, or another attempt has begun (N13).
    Ended,
    /// Commits had displaced more bytes than may wait, so the attempt was ended. No commit waits or fails.
    GaveWay {
        /// Bytes of displaced versions that were not taken yet.
        displaced_bytes: u64,
        /// Most bytes of displaced versions that may wait.
        displaced_bytes_max: u64,
    },
}

impl fmt::Display for PagesEnded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => out.write_str("the picture has ended before all of its pages were taken"),
            Self::GaveWay { displaced_bytes, displaced_bytes_max } => write!(
                out,
                "commits displaced versions faster than the picture could write them, so it was given up: \
                 {displaced_bytes} bytes waited for it, and Tuning::displaced_bytes_max is {displaced_bytes_max}. Allow \
                 more, or let the checkpoint write faster: on a faster disk, with a larger \
                 Tuning::checkpoint_bandwidth, or rate of the backup that asked for it, if there is one, and with \
                 Tuning::semi_fuzzy, so that what is displaced is written at once"
            ),
        }
    }
}

impl Error for PagesEnded {}

/// State of which consistent pictures can be taken (SIREN, §3.1). The state takes one picture at a time. The state may
/// end an attempt by itself; later calls of the attempt then return the reason.
pub trait Pages: Walk {
    /// Ends the attempt before, unless ended already; cuts every section into pages of about `page_bytes`, as the
    /// section is now; and publishes the pages. Commits of epochs from the next freeze on leave the versions that they
    /// displace. A page that is not wanted keeps its bounds (N17).
    fn publish_pages(&self, page_bytes: usize, wanted: WantedPages) -> PublishedPages;

    /// Marks the pages in which rows have changed since the picture before was cut. Called once, before the freeze is
    /// announced (N7), when every commit that may have missed this attempt's pages has ended.
    ///
    /// # Errors
    /// The attempt has ended.
    fn carry_marks(&self, attempt: PictureAttempt) -> Result<(), PagesEnded>;

    /// Deals out the wanted pages: `result[p]` has the runs of pages of part p, each a slice of neighbours. The other
    /// pages are closed (N5). Called once every commit of an epoch below the freeze is installed (N2).
    ///
    /// # Errors
    /// The attempt has ended.
    fn page_slices(&self, attempt: PictureAttempt, parts: usize) -> Result<Vec<Vec<Slice>>, PagesEnded>;

    /// Takes the page at `resume` (empty: the slice's first page). Puts all its entries of epochs below `freeze` into
    /// `page`, in key order and each key once, and closes the page. `resume` moves to the slice's next page, if any.
    ///
    /// A page of a semi-fuzzy picture may lack versions that commits left beside it, for [`Pages::take_displaced`].
    ///
    /// # Errors
    /// The attempt has ended, and `page` is empty.
    fn take_page(
        &self,
        attempt: PictureAttempt,
        slice: &Slice,
        resume: &mut Vec<u8>,
        freeze: Epoch,
        page: &mut PageContents,
    ) -> Result<TakenPage, PagesEnded>;

    /// Takes versions that commits have left beside the pages of any part, and adds the versions to `block` until
    /// `block` has no more room. Returns true if more versions are left. A row may be in its page too, with the same
    /// TID. A picture whose pages have every needed version has nothing to take (SIREN, §3.3).
    ///
    /// # Errors
    /// The attempt has ended, and the versions left for the attempt are lost.
    fn take_displaced(
        &self,
        attempt: PictureAttempt,
        freeze: Epoch,
        block: &mut DisplacedBlock<'_>,
    ) -> Result<bool, PagesEnded>;

    /// Ends this attempt at the picture: commits leave no more versions for it. Late calls do nothing (N13).
    fn end_pages(&self, attempt: PictureAttempt);

    /// Reports that the picture of this attempt is durable, and is the base of the next picture. Before the report, the
    /// next picture must write the changes of this picture too (N13).
    fn picture_installed(&self, attempt: PictureAttempt);
}
