//! What durability asks of the state that it keeps: to take entries back, many at a time.
//!
//! An entry is a TID and a body that only the state understands. Entries come in batches, a block of a file each, so
//! that the state can overlap the waits for memory that each of them costs.
//!
//! Neighbours: `recovery` hands over the blocks of logs and checkpoints; the engine's tables implement [`Recoverable`].

use ensile_base::{Epoch, Tid};

/// What entries are: it decides in which order they are replayed, and which of them a checkpoint may hold. The manifest
/// and every file declare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EntryKind {
    /// Whole values. Of all entries about one thing the one with the largest TID counts, in whatever order they come. A
    /// checkpoint holds those of epochs below e_l; the log has all others.
    Values,
    /// Operations: replayed in the order of their TIDs for each object, in any order among objects. An entry of a
    /// checkpoint is an object's whole state after the operation with its TID. Its epoch may be any up to e_h.
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

    /// What a folder of them holds, and what is done with it.
    pub(crate) const fn of_a_folder(self) -> &'static str {
        match self {
            Self::Values => {
                "a database's rows, not objects: open it with `Database::builder` of the crate `ensile`, or look at it with \
                 `ensile inspect`"
            }
            Self::Operations => {
                "an application's own objects, not a database: open it with `ObjectsBuilder` of the crate `ensile-objects`, \
                 in C with `ensile_objects_open`, or look at it with `ensile objects check`"
            }
        }
    }

    /// The first epoch that no entry of the checkpoint `[low, high]` may have (K1).
    pub(crate) const fn checkpoint_end(self, low: Epoch, high: Epoch) -> Epoch {
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

/// Why a file is refused that holds entries which the state does not take. Of a folder the manifest says it first.
pub(crate) const NOT_TAKEN: &str = "its entries are of a kind that this program's state does not take";

/// One entry of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'b> {
    /// The transaction's.
    pub tid: Tid,
    /// What the state appended.
    pub body: &'b [u8],
}

/// Where the pages of one section begin in a picture that is about to be loaded.
#[derive(Clone, Copy, Debug)]
pub struct LoadedPages<'p> {
    /// Their section.
    pub section: u32,
    /// The first key of each page, in order. The section's first page begins with the empty key.
    pub first_keys: &'p [&'p [u8]],
    /// Which of these pages, in order, stand in a folder that is not used any more: the next picture must write them.
    pub to_move: &'p [usize],
    /// The picture is the state at the end of this epoch, e_c: whatever is replayed is of a later one.
    pub epoch: Epoch,
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
/// Entries come from several threads. [`Recoverable::passed`] says up to which epoch they are complete.
/// - *Values* come in any order, the newest first: a version that a newer one has replaced costs little then. Once the
///   state [keeps](Recoverable::waiting) much for older entries, the oldest come first.
/// - *Operations* come nearly in the order of their epochs. A state of them keeps an entry until its epoch has passed,
///   and then applies it in the order of TIDs. It skips the operations that an object's loaded state includes, by their
///   TIDs. What it keeps is bounded by what the replaying threads hold, however long the log is.
pub trait Recoverable: Sync {
    /// What its entries are. The files of its logs and checkpoints declare it, and a folder with entries of another
    /// kind is refused.
    fn entries(&self) -> EntryKind {
        EntryKind::Values
    }

    /// Replays the entries of one log block. It is called from several threads, in any order, and never with an epoch
    /// that has [passed](Recoverable::passed). Of two entries about the same value the one with the larger TID counts.
    ///
    /// # Errors
    /// Which entry cannot be understood, and why. Recovery then fails and names its place; some or all of the other
    /// entries may have been replayed.
    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused>;

    /// Loads entries of one checkpoint block that are of `section`. It is called from several threads, before any
    /// replay. They come in key order, and each key comes once at most; but for what commits have left beside a
    /// picture's pages ([`Pages::take_displaced`](crate::Pages::take_displaced)): that comes in any order, and one of
    /// its keys may come with a page too, before or after. An entry whose key is there with the same TID is passed over
    /// (N11).
    ///
    /// # Errors
    /// Which entry cannot be understood, and why, as [`Recoverable::replay`] says it. Also one whose key is there with
    /// another TID: that is damage.
    fn load(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused>;

    /// A picture is about to be loaded, and the pages of one of its sections begin so. Called once for each section,
    /// before anything is loaded. A section that the picture does not have is not named.
    ///
    /// A state that says true marks from here on which pages change, and the next picture keeps those that have no mark
    /// ([`WantedPages::Changed`](crate::WantedPages::Changed)). It marks the page of each entry that is replayed,
    /// whether that wins or not, of a delete whose key is missing too (N14): the entry's file may go with that picture.
    /// It marks the page of each entry of [`Recoverable::load_displaced`] (N10), and those that are to be moved. If it
    /// says false of any section, the next picture has all pages.
    fn load_pages(&self, pages: &LoadedPages<'_>) -> bool {
        let _ = pages;
        false
    }

    /// As [`Recoverable::load`], of entries that commits have left beside a picture's pages: on the disk their pages
    /// lack them (N10).
    ///
    /// # Errors
    /// As [`Recoverable::load`].
    fn load_displaced(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.load(section, entries)
    }

    /// The key of a checkpoint's entry with this body, in the order in which [`Pages`](crate::Pages) cuts; `None` if
    /// that cannot be said. A page of a picture whose keys are said is damaged if one is not within its bounds, or not
    /// above the one before it (N17).
    fn checkpoint_key<'b>(&self, body: &'b [u8]) -> Option<&'b [u8]> {
        let _ = body;
        None
    }

    /// Every entry of an epoch below `epoch` is replayed, and none of them comes any more (L8). It is called from
    /// several threads, while others replay. Of two calls the larger number counts, whichever comes last.
    /// [`Epoch::MAX`] says that all entries are replayed; each thread says so when it has none left.
    ///
    /// The state may give up here what it keeps for entries that could still come: the tombstone of a delete, or
    /// operations that wait for those before them. A reader that follows a growing log calls it in the same way.
    fn passed(&self, epoch: Epoch) {
        let _ = epoch;
    }

    /// Bytes that the state keeps now for entries that may still come, and gives up once their epochs have
    /// [passed](Recoverable::passed): tombstones. Each thread asks before it takes a part of the log. From
    /// `REPLAY_WAITING_BYTES_MAX` on the thread takes the oldest part, so that epochs pass. A state of values that
    /// keeps something and returns 0 gets the whole log newest first.
    fn waiting(&self) -> u64 {
        0
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::EntryKind;
    use ensile_base::Epoch;

    #[test]
    fn a_checkpoint_of_values_ends_below_e_l_and_one_of_operations_behind_e_h() {
        let (low, high) = (Epoch::new(9), Epoch::new(12));
        assert_eq!(EntryKind::Values.checkpoint_end(low, high), low);
        assert_eq!(EntryKind::Operations.checkpoint_end(low, high), Epoch::new(13));
    }

    #[test]
    fn a_kind_is_found_by_its_name_only() {
        for kind in [EntryKind::Values, EntryKind::Operations] {
            assert_eq!(EntryKind::named(kind.name()), Some(kind));
        }
        assert_eq!(EntryKind::named("Values"), None);
    }
}
