//! Interface between recovery and the state that recovery rebuilds. An entry is a TID and a body that only the state
//! understands. Entries come in batches, one file block a batch, so that the state can overlap the memory waits of
//! several entries.
//!
//! Neighbours: `recovery` and `backup` hand over the blocks of logs and checkpoints; the engine's tables and the
//! objects implement [`Recoverable`].

use ensile_base::{Epoch, Tid};

/// Kind of a folder's entries. The kind decides the order of replay, and the entries that a checkpoint may hold. The
/// manifest and every file declare the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EntryKind {
    /// Whole values. Of several entries with the same key, the entry with the largest TID counts, in any order of
    /// arrival. A checkpoint holds the entries of epochs below e_l; the log has the rest.
    Values,
    /// Operations. Replay keeps TID order within an object, and no order between objects. A checkpoint entry is the
    /// whole state of an object after the operation with the entry's TID. The entry's epoch may be any up to e_h.
    Operations,
}

impl EntryKind {
    /// Name of the kind in the manifest.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Operations => "operations",
        }
    }

    /// Description of a folder with entries of this kind, and the remedy, for error texts.
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

    /// First epoch that no entry of the checkpoint `[low, high]` may have (K1).
    pub(crate) const fn checkpoint_end(self, low: Epoch, high: Epoch) -> Epoch {
        match self {
            Self::Values => low,
            Self::Operations => high.next(),
        }
    }

    /// Kind with this name in the manifest; `None` for any other name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Values, Self::Operations].into_iter().find(|kind| kind.name() == name)
    }
}

/// Error text for a file with entries of a kind that the state cannot replay. If the whole folder has this kind, the
/// check of the manifest refuses the folder first.
pub(crate) const NOT_TAKEN: &str = "its entries are of a kind that this program's state does not take";

/// One entry of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'b> {
    /// Transaction's TID.
    pub tid: Tid,
    /// Bytes that the state appended.
    pub body: &'b [u8],
}

/// Page boundaries of one section, in a picture that is about to be loaded.
#[derive(Clone, Copy, Debug)]
pub struct LoadedPages<'p> {
    /// Section of the pages.
    pub section: u32,
    /// First key of each page, in order. The section's first page begins with the empty key.
    pub first_keys: &'p [&'p [u8]],
    /// Indexes, in order, of the pages in a folder that is no longer used. The next picture must write these pages.
    pub to_move: &'p [usize],
    /// Epoch e_c: the picture is the state at the end of this epoch. Every replayed entry has a later epoch.
    pub epoch: Epoch,
}

/// Entry that the state does not understand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Index of the entry in the batch.
    pub entry: usize,
    /// Reason of the refusal.
    pub detail: String,
}

/// A state that recovery can rebuild from a checkpoint's entries and the log entries after the checkpoint.
///
/// Several threads hand over entries. [`Recoverable::advance_watermark`] reports the epoch up to which the entries are
/// complete.
/// - *Values* come in any order, the newest first, because a version that a newer version has replaced then costs
///   little. If the state [keeps](Recoverable::waiting_bytes) much for older entries, the oldest values come first.
/// - *Operations* come nearly in the order of their epochs. A state of operations keeps an entry until the entry's
///   epoch has passed, and then applies entries in the order of TIDs. By TID, the state skips operations that a loaded
///   object already includes. The replaying threads hold a bounded amount, so the kept entries are bounded for a log of
///   any length.
pub trait Recoverable: Sync {
    /// Kind of the state's entries. The files of logs and checkpoints declare the kind. Recovery refuses a folder with
    /// entries of another kind.
    fn entries(&self) -> EntryKind {
        EntryKind::Values
    }

    /// Replays the entries of one log block. Several threads call this function, in any order of blocks, but never with
    /// an epoch that has [passed](Recoverable::advance_watermark). Of two entries with the same key, the entry with the
    /// larger TID counts.
    ///
    /// # Errors
    /// The index of an entry that the state cannot understand, and the reason. Recovery then fails and names the
    /// entry's place; some or all other entries may have been replayed.
    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused>;

    /// Loads entries of one checkpoint block that belong to `section`. Several threads call this function, before any
    /// replay. Entries come in key order, and a key comes once at most. Entries that commits have left beside a
    /// picture's pages ([`Pages::take_displaced`](crate::Pages::take_displaced)) are the exception: they come in any
    /// order, and their keys may also come with a page, before or after. The state skips an entry whose key is present
    /// with the same TID (N11).
    ///
    /// # Errors
    /// The index of an entry that the state cannot understand, and the reason, as for [`Recoverable::replay`]. An entry
    /// whose key is present with a different TID is damage, and also an error.
    fn load(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused>;

    /// Announces the pages of one section of a picture that is about to be loaded. Recovery calls this function once a
    /// section, before the first load, and only for sections of the picture.
    ///
    /// A state that returns true marks changed pages from here on. The next picture keeps pages without a mark
    /// ([`WantedPages::Changed`](crate::WantedPages::Changed)). The state marks the page of each replayed entry, even
    /// if the entry loses, and even for a delete whose key is missing (N14): the entry's log file may be removed with
    /// that picture. The state also marks the pages of entries of [`Recoverable::load_displaced`] (N10), and the pages
    /// to be moved. If the state returns false for any section, the next picture has all pages.
    fn load_pages(&self, pages: &LoadedPages<'_>) -> bool {
        let _ = pages;
        false
    }

    /// As [`Recoverable::load`], for entries that commits have left beside a picture's pages. On disk, the pages lack
    /// these entries (N10).
    ///
    /// # Errors
    /// As [`Recoverable::load`].
    fn load_displaced(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.load(section, entries)
    }

    /// Key of a checkpoint entry with this body, in the key order of [`Pages`](crate::Pages); `None` if the state
    /// cannot tell. If the state returns keys, a picture's page with a key outside the page's bounds, or not above the
    /// previous key, is damaged (N17).
    fn checkpoint_key<'b>(&self, body: &'b [u8]) -> Option<&'b [u8]> {
        let _ = body;
        None
    }

    /// Reports that every entry of an epoch below `epoch` is replayed, and that no more such entries come (L8). Several
    /// threads call this function, while other threads replay. Of two calls, the larger epoch counts, in either order.
    /// [`Epoch::MAX`] means that all entries are replayed; each thread reports [`Epoch::MAX`] when the thread has no
    /// entry left.
    ///
    /// The state may now give up data kept for entries that could still come: the tombstone of a delete, or operations
    /// that wait for earlier operations. A reader that follows a growing log calls this function in the same way.
    fn advance_watermark(&self, epoch: Epoch) {
        let _ = epoch;
    }

    /// Bytes that the state keeps now for entries that may still come, such as tombstones. The state gives these bytes
    /// up once the epochs have [passed](Recoverable::advance_watermark). A thread asks before the thread takes a part
    /// of the log. From `REPLAY_WAITING_BYTES_MAX` on, the thread takes the oldest part, so that epochs pass. A state
    /// of values that keeps data and returns 0 gets the whole log newest first.
    fn waiting_bytes(&self) -> u64 {
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
            assert_eq!(EntryKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(EntryKind::from_name("Values"), None);
    }
}
