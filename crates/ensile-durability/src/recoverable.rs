//! What durability asks of the state that it keeps: to take entries back, many at a time.
//!
//! An entry is a TID and a body that only the state understands. They come in batches, a block of a file each, so that
//! the state may overlap the waits for memory that each of them costs.
//!
//! Neighbours: `recovery` hands the blocks of logs and checkpoints over; the engine's tables implement it.

use ensile_base::{Epoch, Tid};

/// What the entries of a log are, and so how they may be replayed. Manifest and file headers tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EntryKind {
    /// Whole values: the one with the largest TID says all, in whatever order they come.
    Values,
    /// Operations: in the order of their TIDs for each object, in any order among objects.
    Operations,
}

impl EntryKind {
    /// As the manifest has it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Operations => "operations",
        }
    }

    /// No entry of a checkpoint `[low, high]` is of this epoch or a later one (K1). A fuzzy walk leaves out the values that
    /// are not older than e_l, as the log has them. A checkpoint of operations holds what they came to: the state of each
    /// object, with operations up to e_h.
    pub(crate) fn end_in_checkpoint(self, low: Epoch, high: Epoch) -> Epoch {
        assert!(low <= high, "K1: {low} to {high}");
        match self {
            Self::Values => low,
            Self::Operations => high.next(),
        }
    }

    /// The kind of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Values, Self::Operations].into_iter().find(|kind| kind.name() == name)
    }
}

/// Why a folder is refused that holds entries which the state does not take.
pub(crate) const NOT_TAKEN: &str = "its entries are of a kind that this program's state does not take";

/// One entry of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'b> {
    /// The transaction's.
    pub tid: Tid,
    /// What the state appended.
    pub body: &'b [u8],
}

/// An entry that the state does not understand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its place in the batch.
    pub entry: usize,
    /// Why.
    pub detail: String,
}

/// A state that can be rebuilt from its log entries, and from the entries of a checkpoint before them.
///
/// Entries come from several threads, and [`Recoverable::passed`] tells how far they are complete. *Value* entries come
/// in any order: each tells whole values, so the one with the largest TID says all. The newest come first, as a version
/// that is beaten already costs little, until the state [keeps](Recoverable::waiting) much for older ones; then the
/// oldest do. *Operations* come nearly in the order of their epochs. A state of them keeps an entry until its epoch has
/// passed, and then applies it in the order of TIDs; what it keeps is what the threads' pieces hold, however long the
/// log is.
///
/// A checkpoint `[e_l, e_h]` holds entries of epochs below e_l, and the log from e_l on is replayed over them. What stands
/// between is the kind's: a checkpoint of values leaves out what the log holds again. One of operations holds objects with
/// operations of epochs up to e_h; each entry's TID is that of its last operation, and the state leaves out what its object
/// has already.
pub trait Recoverable: Sync {
    /// Does it replay and load entries of this kind? A folder with entries of another kind is refused.
    fn takes(&self, kind: EntryKind) -> bool {
        kind == EntryKind::Values
    }

    /// Replays the entries of one log block. Called from several threads, in any order, but never with an epoch that has
    /// [passed](Recoverable::passed); of two entries about the same thing, in one batch or in two, the one with the larger TID
    /// wins.
    ///
    /// # Errors
    /// Which entry cannot be understood, and why; recovery then fails and names its place. Some or all of the others
    /// may have been replayed.
    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused>;

    /// Loads the entries of one checkpoint block of `section`, in key order. Called from several threads, before any
    /// replay; over all blocks, each key comes once at most.
    ///
    /// # Errors
    /// As [`Recoverable::replay`].
    fn load(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused>;

    /// Every entry of an epoch below `epoch` has been replayed, and none of these will come any more (L8). Called from several
    /// threads, while others replay; of two calls the larger number counts, whichever comes last. [`Epoch::MAX`]: all entries
    /// are replayed, and each thread says so once it has none left.
    ///
    /// What a state keeps for entries that may yet come, it may let go here: a delete's tombstone, or operations that wait for
    /// those before them. A reader of the log that never ends calls it just so.
    fn passed(&self, epoch: Epoch) {
        let _ = epoch;
    }

    /// Bytes that it keeps now for entries that may yet come, and lets go once their epochs have
    /// [passed](Recoverable::passed): tombstones. Each thread asks before it takes a piece of the log. From
    /// `REPLAY_WAITING_BYTES_MAX` on it takes the oldest piece, so that epochs pass. A state of values that keeps
    /// something and does not say so gets the whole log newest first.
    fn waiting(&self) -> u64 {
        0
    }
}
