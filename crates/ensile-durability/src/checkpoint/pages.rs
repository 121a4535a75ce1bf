//! What a picture asks of a state: cut itself into pages, keep what commits displace, hand out page after page.
//!
//! Invariants, from `docs/protocols/pictures.md`:
//! - N1: the freeze is announced behind [`Pages::publish_pages`], once E is two above what that returned.
//! - N7: [`Pages::carry_marks`] comes once E is two above that too, and before the freeze is announced.
//! - N2, N5: no page is settled or taken before E is above the freeze.
//! - N13: a caller that takes or ends pages names the attempt. Nothing is taken or ended of another one. Only a picture
//!   that was installed ([`Pages::picture_installed`]) lets marks go that it has written.
//! - N9: behind a part's last page its checkpointer calls [`Pages::take_displaced`] until nothing is left, and writes
//!   what it got.
//!
//! Neighbours: the engine implements [`Pages`] over its tables; a picture's checkpointers call it.

use std::error::Error;
use std::fmt;

use ensile_base::Epoch;

use super::displaced::DisplacedBlock;
use super::page::PageContents;
use super::walk::{Slice, Walk};

/// Names an attempt at a picture. No other attempt of the same state has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PictureAttempt(u64);

impl PictureAttempt {
    /// Attempts of a state are numbered as they begin, from 1.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        assert!(number > 0, "no attempt has begun");
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u64 {
        debug_assert!(self.0 > 0);
        self.0
    }
}

/// Which pages a picture writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedPages {
    /// All: the picture before has no pages that this one could keep.
    All,
    /// Those of which rows may have changed since the picture before. The others hold what they held.
    Changed,
}

/// Pages that were published for a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "end the attempt: commits leave versions to it until then"]
pub struct PublishedPages {
    /// Whose they are.
    pub attempt: PictureAttempt,
    /// E, read behind the publication: the freeze may be announced once E is two above (N1).
    pub epoch: Epoch,
}

/// What came of taking a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenPage {
    /// The slice has another page.
    More,
    /// It was the slice's last.
    Last,
}

/// Why an attempt's pages cannot be taken: the attempt fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagesEnded {
    /// It was ended, or another one has begun (N13).
    Ended,
    /// Commits had displaced more than may wait for a picture, so it was ended: no commit waits for one, and none
    /// fails.
    GaveWay {
        /// What had been displaced and was not taken yet.
        displaced_bytes: u64,
        /// What may wait.
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

/// State of which consistent pictures can be taken (SIREN, §3.1). One picture at a time. The state may end an attempt
/// by itself; whatever is asked of that then says why it has ended.
pub trait Pages: Walk {
    /// Ends the attempt before, if nobody has; cuts every section into pages of about `page_bytes`, as it is now, and
    /// publishes them: commits of epochs from the next freeze on leave what they displace. A page that is not wanted
    /// keeps its bounds (N17).
    fn publish_pages(&self, page_bytes: usize, wanted: WantedPages) -> PublishedPages;

    /// Marks the pages in which rows have changed since the picture before was cut. Called once, when every commit that
    /// may have missed this attempt's pages has ended, and before the freeze is announced (N7).
    ///
    /// # Errors
    /// The attempt has ended.
    fn carry_marks(&self, attempt: PictureAttempt) -> Result<(), PagesEnded>;

    /// Deals the pages out that are wanted: `result[p]` are the runs of pages of part p, each a slice of neighbours in
    /// one section, in order. The others are closed (N5). Called once every commit of an epoch below the freeze is
    /// installed (N2).
    ///
    /// # Errors
    /// The attempt has ended.
    fn page_slices(&self, attempt: PictureAttempt, parts: usize) -> Result<Vec<Vec<Slice>>, PagesEnded>;

    /// Goes on at `resume` (empty: the slice's beginning): puts all entries of the page there into `page`, in key order
    /// and each key once, of epochs below `freeze`, and closes it. If the slice has another page, `resume` is at it
    /// then.
    ///
    /// What a semi-fuzzy picture lacks of the page was left beside it before. If it was not taken already,
    /// [`Pages::take_displaced`] finds it behind this.
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

    /// Takes versions that commits have left beside the pages of any part, and adds them to `block` until that has no
    /// more room; true if there are more. A row may be in its page too, with the same TID. Nothing is taken of a
    /// picture whose pages have all that they need (SIREN, §3.3).
    ///
    /// # Errors
    /// The attempt has ended, and what was left to it is lost.
    fn take_displaced(
        &self,
        attempt: PictureAttempt,
        freeze: Epoch,
        block: &mut DisplacedBlock<'_>,
    ) -> Result<bool, PagesEnded>;

    /// The picture has ended, or this attempt at it: commits leave nothing more to it. It may be called again, and
    /// late: another attempt goes on (N13).
    fn end_pages(&self, attempt: PictureAttempt);

    /// The picture that this attempt has written is durable, and is the one before the next. Until the state has heard
    /// that, changes that this one was to have written are the next one's to write (N13).
    fn picture_installed(&self, attempt: PictureAttempt);
}
