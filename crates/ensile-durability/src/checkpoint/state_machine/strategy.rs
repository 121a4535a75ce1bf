//! Differences between kinds of checkpoints: opening and end of a walk, and the marks demanded after. Pure.
//!
//! ```text
//! fuzzy, cycling:
//!          e_l = E ------------------------------------------------------> E >= e_l + 1: the state is cut
//! picture: pages are published: x = E --E >= x + 2--> the freeze S is announced --E >= S + 1--> pages are dealt out
//! ```
//! Invariants: K1: the walk begins only when every epoch below e_l is installed; e_h is E, read when no checkpointer
//! walks any more. N1: a freeze is announced once every commit that may have missed the pages has ended. N2: no page is
//! taken before every commit of an epoch below the freeze is installed.
//!
//! Neighbours: `machine` and `attempt` call the methods; `installed_checkpoint` has a variant for each kind too.

use ensile_base::Epoch;

use super::action::Terms;
use crate::checkpoint::config::Strategy;
use crate::checkpoint::picture::picture_set::ClosedPicture;
use crate::files::block::Salt;
use crate::files::checkpoint::end_block::seal;
use crate::files::checkpoint::writer::PartWritten;
use crate::files::manifest::installed_checkpoint::{FuzzyCheckpoint, PartFiles, PictureCheckpoint};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalkEpochs {
    /// SiloR §4: e_l, and e_h once the walk has ended.
    Fuzzy { low: Epoch, high: Option<Epoch> },
    /// SIREN §3.1: x, which is E after the publication of the pages; and S once the freeze is announced.
    Picture { published: Option<Epoch>, freeze: Option<Epoch> },
}

/// Next step before a walk begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextOpening {
    /// E must reach this epoch.
    Epoch(Epoch),
    Pages,
    Freeze,
    /// The state must be cut into parts; the walk of the parts follows.
    Parts,
}

impl WalkEpochs {
    pub(super) fn open(strategy: Strategy, epoch: Epoch) -> Self {
        assert!(epoch > Epoch::ZERO, "E has begun");
        match strategy {
            Strategy::Fuzzy | Strategy::Cycling => Self::Fuzzy { low: epoch, high: None },
            Strategy::Pictures => Self::Picture { published: None, freeze: None },
        }
    }

    pub(super) fn next_opening(self, epoch: Epoch) -> NextOpening {
        let (least, next) = match self {
            // E2: every epoch below `low` is installed then.
            Self::Fuzzy { low, .. } => (low.next(), NextOpening::Parts),
            Self::Picture { published: None, .. } => return NextOpening::Pages,
            // N1, E2: a commit that missed the pages has an epoch <= x, and has ended then.
            Self::Picture { published: Some(published), freeze: None } => {
                (published.plus(2), NextOpening::Freeze)
            }
            // N2, E2: every epoch below S is installed then.
            Self::Picture { freeze: Some(freeze), .. } => (freeze.next(), NextOpening::Parts),
        };
        if epoch < least { NextOpening::Epoch(least) } else { next }
    }

    /// Notes that the pages are published. `epoch` is E, read after the publication.
    pub(super) fn record_publication(&mut self, epoch: Epoch) {
        let Self::Picture { published: published @ None, freeze: None } = self else {
            unreachable!("pages are published once, for a picture")
        };
        *published = Some(epoch);
    }

    pub(super) fn record_freeze(&mut self, announced: Epoch) {
        let Self::Picture { published: Some(published), freeze: freeze @ None } = self else {
            unreachable!("a freeze is announced once, for pages that are published")
        };
        assert!(announced > published.next(), "N1: E was two above the publication");
        *freeze = Some(announced);
    }

    /// Epoch above every walked entry. The log from this epoch on belongs to the checkpoint.
    pub(super) fn low(self) -> Epoch {
        match self {
            Self::Fuzzy { low, .. } => low,
            Self::Picture { freeze, .. } => freeze.expect("no page is taken before the freeze is announced"),
        }
    }

    /// Ends the walk: no checkpointer walks any more. `epoch` is E, read after the end.
    pub(super) fn end(&mut self, epoch: Epoch) {
        assert!(epoch > self.low(), "K1, N2: E has passed e_l before the walk began");
        if let Self::Fuzzy { high, .. } = self {
            assert_eq!(*high, None, "a walk ends once");
            *high = Some(epoch);
        }
    }

    /// The epoch whose mark must be synced in every log before the installation; `None` while the epoch is unknown.
    pub(super) fn durable_min(self) -> Option<Epoch> {
        match self {
            Self::Fuzzy { high, .. } => high,
            Self::Picture { freeze, .. } => freeze.map(Epoch::previous),
        }
    }

    /// True if the parts need a directory and a root, written after the parts.
    pub(super) fn is_closed_apart(self) -> bool {
        matches!(self, Self::Picture { .. })
    }

    /// The installed entry of an ended fuzzy walk, of the whole state or of a range, with these written parts.
    pub(super) fn fuzzy_checkpoint(
        self,
        number: u64,
        salt: Salt,
        written: &[&PartWritten],
        terms: &Terms,
    ) -> FuzzyCheckpoint {
        let Self::Fuzzy { low, high } = self else { unreachable!("a picture's pages are not walked whole") };
        let high = high.expect("K1: e_h is read before anything is installed");
        assert!(low < high, "K1: the walk began behind e_l");
        FuzzyCheckpoint { low, high, files: part_files(number, salt, written, terms) }
    }

    /// The installed entry of a picture, with the picture's closing figures.
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

fn part_files(number: u64, salt: Salt, written: &[&PartWritten], terms: &Terms) -> PartFiles {
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
