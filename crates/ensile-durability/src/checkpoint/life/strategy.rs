//! What depends on the kind of a checkpoint: what opens a walk, what ends it, and what is then demanded. Pure.
//!
//! The stages are the same for every kind, and `super` has them. A kind is a variant here, and each question is a
//! method.
//!
//! ```text
//! fuzzy, cycling:
//!          e_l = E ------------------------------------------------------> E >= e_l + 1: the state is cut
//! picture: pages are published: x = E --E >= x + 2--> the freeze S is announced --E >= S + 1--> pages are dealt out
//! ```
//! Invariants:
//! - K1: e_l is the E of the attempt's beginning, and the walk begins only when every epoch below it is installed. e_h
//!   is the E that is read when no checkpointer walks any more.
//! - N1: a freeze is announced once every commit that may have missed the pages has ended.
//! - N2: no page is taken before every commit of an epoch below the freeze is installed.
//!
//! Neighbours: `super` asks; `store::installed` has what is installed, a variant a kind too.

use ensile_base::Epoch;

use super::Terms;
use crate::block::Salt;
use crate::checkpoint::config::Strategy;
use crate::checkpoint::files::end::seal;
use crate::checkpoint::files::write::PartWritten;
use crate::checkpoint::picture::keeper::ClosedPicture;
use crate::store::installed::{FuzzyCheckpoint, PartFiles, PictureCheckpoint};

/// The epochs of a walk, from its opening on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalkEpochs {
    /// SiloR §4: e_l, and e_h once the walk has ended.
    Fuzzy { low: Epoch, high: Option<Epoch> },
    /// SIREN §3.1: x, which is E behind the publication of the pages, and S once it is announced.
    Picture { published: Option<Epoch>, freeze: Option<Epoch> },
}

/// What is to be done before a walk begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextOpening {
    /// E is to reach this.
    Epoch(Epoch),
    /// The state is to publish its pages.
    Pages,
    /// The freeze is to be announced.
    Freeze,
    /// The state is to be cut into parts, which are walked then.
    Parts,
}

impl WalkEpochs {
    /// A walk is opened when E is `epoch`.
    pub(super) fn open(strategy: Strategy, epoch: Epoch) -> Self {
        assert!(epoch > Epoch::ZERO, "E has begun");
        match strategy {
            Strategy::Fuzzy | Strategy::Cycling => Self::Fuzzy { low: epoch, high: None },
            Strategy::Pictures => Self::Picture { published: None, freeze: None },
        }
    }

    /// What comes next when E is `epoch`.
    pub(super) fn next_opening(self, epoch: Epoch) -> NextOpening {
        let (least, next) = match self {
            // Every epoch below `low` is installed then (E2).
            Self::Fuzzy { low, .. } => (low.next(), NextOpening::Parts),
            Self::Picture { published: None, .. } => return NextOpening::Pages,
            // A commit that missed the pages has an epoch <= x: it has ended then (N1, E2).
            Self::Picture { published: Some(published), freeze: None } => {
                (published.plus(2), NextOpening::Freeze)
            }
            // Every epoch below S is installed then (N2, E2).
            Self::Picture { freeze: Some(freeze), .. } => (freeze.next(), NextOpening::Parts),
        };
        if epoch < least { NextOpening::Epoch(least) } else { next }
    }

    /// The pages are published; E is `epoch`, read behind that.
    pub(super) fn published(&mut self, epoch: Epoch) {
        let Self::Picture { published: published @ None, freeze: None } = self else {
            unreachable!("pages are published once, for a picture")
        };
        *published = Some(epoch);
    }

    /// The freeze is announced.
    pub(super) fn announced(&mut self, announced: Epoch) {
        let Self::Picture { published: Some(published), freeze: freeze @ None } = self else {
            unreachable!("a freeze is announced once, for pages that are published")
        };
        assert!(announced > published.next(), "N1: E was two above the publication");
        *freeze = Some(announced);
    }

    /// Entries of epochs below this are walked; the log from it on goes with them.
    pub(super) fn low(self) -> Epoch {
        match self {
            Self::Fuzzy { low, .. } => low,
            Self::Picture { freeze, .. } => freeze.expect("no page is taken before the freeze is announced"),
        }
    }

    /// No checkpointer walks any more. E is `epoch`, read since.
    pub(super) fn end(&mut self, epoch: Epoch) {
        assert!(epoch > self.low(), "K1, N2: E has passed e_l before the walk began");
        if let Self::Fuzzy { high, .. } = self {
            assert_eq!(*high, None, "a walk ends once");
            *high = Some(epoch);
        }
    }

    /// The epoch of which every log is to have a synced mark before the checkpoint is installed; `None` while that is
    /// not known.
    pub(super) fn demanded(self) -> Option<Epoch> {
        match self {
            Self::Fuzzy { high, .. } => high,
            Self::Picture { freeze, .. } => freeze.map(Epoch::previous),
        }
    }

    /// Is something to be written that reaches all parts, once these are?
    pub(super) fn is_closed_apart(self) -> bool {
        matches!(self, Self::Picture { .. })
    }

    /// What is installed of a fuzzy walk that has ended, of the whole state or of a range, whose parts are these.
    pub(super) fn walked(
        self,
        (number, salt): (u64, Salt),
        written: &[&PartWritten],
        terms: &Terms,
    ) -> FuzzyCheckpoint {
        let Self::Fuzzy { low, high } = self else { unreachable!("a picture's pages are not walked whole") };
        let high = high.expect("K1: e_h is read before anything is installed");
        assert!(low < high, "K1: the walk began behind e_l");
        FuzzyCheckpoint { low, high, files: part_files((number, salt), written, terms) }
    }

    /// What is installed of a picture, with what closes it.
    pub(super) fn picture(
        self,
        number: u64,
        closed: Option<&ClosedPicture>,
        terms: &Terms,
    ) -> PictureCheckpoint {
        assert!(self.is_closed_apart(), "it is a picture's walk");
        let closed = closed.expect("N12: its root is written before it is installed").clone();
        PictureCheckpoint {
            number,
            generation: terms.generation,
            epoch: self.low().previous(),
            entries: closed.entries,
            bytes: closed.bytes,
            pages: closed.pages,
            next_page: closed.next_page,
            root: closed.root,
            database: terms.database,
            files: closed.files,
        }
    }
}

/// What is said of files that are written whole.
fn part_files((number, salt): (u64, Salt), written: &[&PartWritten], terms: &Terms) -> PartFiles {
    assert!(written.iter().all(|part| part.ends.len() == terms.files as usize), "each file has an end");
    PartFiles {
        number,
        generation: terms.generation,
        checkpointers: terms.checkpointers as u32,
        files: terms.files,
        entries: written.iter().map(|part| part.entries).sum(),
        bytes: written.iter().map(|part| part.bytes).sum(),
        salt,
        seal: seal(written.iter().flat_map(|part| part.ends.iter().copied())),
        database: terms.database,
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
