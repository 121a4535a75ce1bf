//! Interface of a state that checkpoints walk: it cuts itself into slices, and writes their entries into blocks.
//!
//! Neighbours: the engine implements [`Walk`] over its tables, and the objects over their states; checkpointers'
//! threads call, a block at a time.

use ensile_base::Epoch;

use super::pages::Pages;
use super::range_partition::RangeCut;
use crate::files::checkpoint::block::CheckpointBlock;

/// A part of a section that one checkpointer walks at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The part of the state: for the engine, a table.
    pub section: u32,
    /// First bound. Only the [`Walk`] interprets bounds, except for a cycling checkpoint. Bounds of a cycling
    /// checkpoint are keys, in the order of their bytes, and the empty key is the section's beginning.
    pub from: Box<[u8]>,
    /// End bound, exclusive; `None` at the section's end.
    pub to: Option<Box<[u8]>>,
}

/// State that checkpointers can walk beside its writers (K1).
pub trait Walk: Sync {
    /// Cuts every section into `parts` parts of roughly equal work; `result[p]` has the slices of part p, in order. A
    /// checkpoint calls `slices` once, when every commit of an epoch below e_l is installed.
    fn slices(&self, parts: usize) -> Vec<Vec<Slice>>;

    /// Continues the walk at `resume` (empty: the slice's beginning). Adds the entries of epochs below `low` to
    /// `block`, in order and each key once, until [`CheckpointBlock::has_room`] returns false or the slice ends.
    /// Returns true if entries are left, with `resume` at the first of them.
    ///
    /// An entry of an epoch below `low` is never omitted, unless it has changed since the checkpoint began.
    fn walk(&self, slice: &Slice, resume: &mut Vec<u8>, low: Epoch, block: &mut CheckpointBlock) -> bool;

    /// Reports the bytes of the state's rows, or of sample rows, to `cut`, in the order of sections and keys. A cycling
    /// checkpoint cuts the state into ranges of about equal bytes (SiloR §8), in a turn that takes every range. The
    /// bounds of the ranges are compared by their bytes (K4). The default counts each slice as much as any other.
    fn measure(&self, cut: &mut RangeCut) {
        let mut slices: Vec<Slice> = self.slices(cut.most()).into_iter().flatten().collect();
        slices.sort_unstable_by(|a, b| (a.section, &a.from).cmp(&(b.section, &b.from)));
        slices.iter().for_each(|slice| cut.add(slice.section, &slice.from, 1));
    }

    /// Reason why the walk under way cannot become a checkpoint, such as an entry that cannot be written. The caller
    /// asks after each block, and gives up the attempt if there is a reason. A walk begins with [`Walk::slices`].
    fn refusal(&self) -> Option<String> {
        None
    }

    /// Bytes that commits have changed since the open, in a state without a log, so that a picture begins after enough
    /// changes. A value read before a freeze is announced includes no change of an epoch from the freeze on.
    fn changed_bytes(&self) -> u64 {
        0
    }

    /// Estimated nanoseconds of applying the logged entries since the open, which only grow, for the prediction of the
    /// recovery time. `None` if not measured: the prediction uses the times of earlier recoveries.
    fn applied_nanos(&self) -> Option<u64> {
        None
    }

    /// The state as [`Pages`], if pictures of the state can be taken.
    fn pages(&self) -> Option<&dyn Pages> {
        None
    }
}
