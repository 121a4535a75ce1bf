//! What depends on the kind of a checkpoint: what opens a walk, what ends it, and what is then demanded. Pure.
//!
//! The stages are the same for every kind, and `super` has them. A kind is a variant here, and each question is a
//! method.
//!
//! Invariants:
//! - K1: e_l is the E of the attempt's beginning, and the walk begins only when every epoch below it is installed. e_h
//!   is the E that is read when no checkpointer walks any more.
//!
//! Neighbours: `super` asks; `store::installed` has what is installed, a variant a kind too.

use ensile_base::Epoch;

use super::Terms;
use crate::block::Salt;
use crate::checkpoint::fuzzy::end::seal;
use crate::checkpoint::fuzzy::write::PartWritten;
use crate::store::installed::{FuzzyCheckpoint, InstalledCheckpoint};

/// The epochs of a walk, from its opening on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalkEpochs {
    /// SiloR §4: e_l, and e_h once the walk has ended.
    Fuzzy { low: Epoch, high: Option<Epoch> },
}

impl WalkEpochs {
    /// A fuzzy walk is opened when E is `epoch`.
    pub(super) fn open_fuzzy(epoch: Epoch) -> Self {
        assert!(epoch > Epoch::ZERO, "E has begun");
        Self::Fuzzy { low: epoch, high: None }
    }

    /// Entries of epochs below this are walked; the log from it on goes with them.
    pub(super) fn low(self) -> Epoch {
        let Self::Fuzzy { low, .. } = self;
        low
    }

    /// The walk begins once E has reached this: every epoch below `low` is installed then (E2).
    pub(super) fn begins(self) -> Epoch {
        let Self::Fuzzy { low, .. } = self;
        low.next()
    }

    /// No checkpointer walks any more. E is `epoch`, read since.
    pub(super) fn end(&mut self, epoch: Epoch) {
        let Self::Fuzzy { low, high } = self;
        assert!(epoch > *low, "K1: E has passed e_l before the walk began");
        assert_eq!(*high, None, "a walk ends once");
        *high = Some(epoch);
    }

    /// The epoch of which every log is to have a synced mark before the checkpoint is installed; `None` while
    /// checkpointers walk.
    pub(super) fn demanded(self) -> Option<Epoch> {
        let Self::Fuzzy { high, .. } = self;
        high
    }

    /// What is installed of a walk that has ended, whose parts are these.
    pub(super) fn to_install(
        self,
        (number, salt): (u64, Salt),
        written: &[PartWritten],
        terms: &Terms,
    ) -> InstalledCheckpoint {
        let Self::Fuzzy { low, high } = self;
        let high = high.expect("K1: e_h is read before anything is installed");
        assert!(low < high, "K1: the walk began behind e_l");
        assert!(written.iter().all(|part| part.ends.len() == terms.files as usize), "each file has an end");
        InstalledCheckpoint::Fuzzy(FuzzyCheckpoint {
            number,
            generation: terms.generation,
            low,
            high,
            checkpointers: terms.checkpointers as u32,
            files: terms.files,
            entries: written.iter().map(|part| part.entries).sum(),
            bytes: written.iter().map(|part| part.bytes).sum(),
            salt,
            seal: seal(written.iter().flat_map(|part| part.ends.iter().copied())),
            database: terms.database,
        })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn k1_a_fuzzy_walk_begins_behind_low_and_demands_the_epoch_of_its_end() {
        let mut epochs = WalkEpochs::open_fuzzy(Epoch::new(7));
        assert_eq!((epochs.low(), epochs.begins(), epochs.demanded()), (Epoch::new(7), Epoch::new(8), None));
        epochs.end(Epoch::new(9));
        assert_eq!((epochs.low(), epochs.demanded()), (Epoch::new(7), Some(Epoch::new(9))));
    }

    #[test]
    #[should_panic(expected = "K1: E has passed e_l")]
    fn k1_no_fuzzy_walk_ends_before_it_may_begin() {
        WalkEpochs::open_fuzzy(Epoch::new(7)).end(Epoch::new(7));
    }
}
