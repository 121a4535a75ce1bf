//! What a checkpoint asks of a state: cut itself into slices, write a slice's entries into blocks.
//!
//! Neighbours: the engine implements [`Walk`] over its tables; `checkpoint` calls it, a block at a time, from the
//! checkpointers' threads.

use ensile_base::Epoch;

use super::block::CheckpointBlock;
use super::cut::RangeCut;
use super::pages::Pages;

/// A part of a section: what one checkpointer walks at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Which part of the state: for the engine, a table.
    pub section: u32,
    /// Where it begins. Bounds mean something to the [`Walk`] only, unless the checkpoint goes round by ranges: then
    /// they are keys, in the order of their bytes, and the empty one is the section's beginning.
    pub from: Box<[u8]>,
    /// Where it ends, this bound left out; `None` is the section's end.
    pub to: Option<Box<[u8]>>,
}

/// State that can be walked beside its writers (K1).
pub trait Walk: Sync {
    /// Cuts every section into `parts` parts of roughly equal work; `result[p]` are the slices of part p, in order.
    /// Called once a checkpoint, when every commit of an epoch below its e_l is installed.
    fn slices(&self, parts: usize) -> Vec<Vec<Slice>>;

    /// Goes on from `resume` (empty: the slice's beginning), adds the entries of epochs below `low` to `block`, in
    /// order and each key once, until [`CheckpointBlock::has_room`] says no or the slice ends; true if there is more,
    /// with `resume` moved. What was present with an epoch below `low` when the checkpoint began, and has not changed
    /// since, is not left out; what has changed may be.
    fn walk(&self, slice: &Slice, resume: &mut Vec<u8>, low: Epoch, block: &mut CheckpointBlock) -> bool;

    /// Goes over the state in the order of sections and keys, and says of its rows, or of some of them, how many bytes
    /// they stand for: a checkpoint that goes round by ranges cuts the state into ranges of about equal bytes
    /// (SiloR §8). Bounds are compared by their bytes then (K4). Called when a turn takes all ranges; else each slice
    /// counts as much as any other.
    fn measure(&self, cut: &mut RangeCut) {
        let mut slices: Vec<Slice> = self.slices(cut.most()).into_iter().flatten().collect();
        slices.sort_unstable_by(|a, b| (a.section, &a.from).cmp(&(b.section, &b.from)));
        slices.iter().for_each(|slice| cut.add(slice.section, &slice.from, 1));
    }

    /// Why the walk under way cannot become a checkpoint, if it cannot: it met something that cannot be written. It is
    /// asked behind each block, and the attempt is given up then. A walk begins with [`Walk::slices`].
    fn refusal(&self) -> Option<String> {
        None
    }

    /// Bytes that commits have changed since the open, in a state that is not logged: what has been read before a
    /// freeze is announced counts nothing from the freeze on. Such a state says it, so that a picture begins when
    /// enough has changed.
    fn changed_bytes(&self) -> u64 {
        0
    }

    /// About how many nanoseconds applying all that was logged since the open has taken, in a state that measures that:
    /// the prediction of the recovery time rests on it. It only grows. `None`: nothing has measured it, and what
    /// recoveries took stands for it.
    fn applied_nanos(&self) -> Option<u64> {
        None
    }

    /// The same state as one of which pictures can be taken, if they can.
    fn pages(&self) -> Option<&dyn Pages> {
        None
    }
}
