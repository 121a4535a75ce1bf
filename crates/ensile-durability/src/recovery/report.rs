//! What a recovery found and did, in figures.
//!
//! Neighbours: filled by `verdict`, `replay` and the parts of a recovery; the engine hands it to the application.

use ensile_base::Epoch;

use super::progress::PhaseReport;
use crate::not_proven::NotProven;
use crate::store::{NameGiven, RememberedStore};

/// The end of a log that was being written when the database stopped: cut off, as no result rested on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TornTail {
    /// The file in which the whole part ends.
    pub file: String,
    /// Where it ends.
    pub offset: u64,
    /// Bytes behind it that were written, over all later files of the log.
    pub bytes: u64,
    /// Epochs of entries in blocks there, as far as they can be read.
    pub epochs: Option<(Epoch, Epoch)>,
    /// Why the whole part ends there.
    pub detail: &'static str,
}

/// What recovery found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// D of the last generation: everything up to this epoch is there, nothing above it.
    pub durable_epoch: Epoch,
    /// The generation that begins now; 1 for a new database.
    pub generation: u64,
    /// Its first epoch (L6). What an earlier life showed has a smaller one: it is kept if its epoch is not above
    /// `durable_epoch` and was not lost before, and lost otherwise. In a life that can only be read, as the disk is
    /// full, what is kept is kept for good only up to the database's own D: what is above that is decided by the next
    /// open.
    pub first_epoch: Epoch,
    /// e_l and e_h of the checkpoint that was loaded; of a picture S and e_c = S - 1.
    pub checkpoint: Option<(Epoch, Epoch)>,
    /// Entries loaded from it.
    pub checkpoint_entries: u64,
    /// Bytes of its files.
    pub checkpoint_bytes: u64,
    /// Data blocks replayed.
    pub blocks: u64,
    /// Entries replayed.
    pub entries: u64,
    /// Bytes of blocks replayed.
    pub bytes: u64,
    /// Entries whose file is still there and which the checkpoint covers: not replayed (K1).
    pub covered_entries: u64,
    /// Whole entries that were not replayed, as their epochs never became durable.
    pub ignored_entries: u64,
    /// Entries that only the mapped buffers of a process-safe life had, whose process died and whose system lived on.
    /// They count, as everything that was logged in that life.
    pub taken_entries: u64,
    /// What a process-safe life returned and nothing proves here: how much, why, and what to do, which it says in words
    /// too. It [was left out](NotProven::is_left_out) if the folder is a copy, or the system was started since.
    pub not_proven: Option<NotProven>,
    /// Folders of this process-safe life whose file systems tell no mount. A device that is lost and returns within one
    /// boot is not recognized there, and what the life returned above D may be gone then.
    pub unknown_mounts: Vec<String>,
    /// The folder had no name of an application, and got that for which it was opened (I5): which one, which it says in
    /// words too. A folder that is new is none of that.
    pub name_given: Option<NameGiven>,
    /// Shared store that the folder remembers; `None` if the database ships nowhere, or if this open stopped its
    /// shipping. A fenced folder is open to be read alone.
    pub shared_store: Option<RememberedStore>,
    /// Ends of logs that were cut.
    pub torn_tails: Vec<TornTail>,
    /// Log files that the database does not need any more, and that stay as the archive lacks them and cannot take
    /// them: which one is damaged, and what to do.
    pub not_archived: Vec<String>,
    /// Epochs above D that some logs have a mark of and others not. Entries of them, if a log lost any, are gone; if it
    /// was a crash that took them, none was acknowledged.
    pub unfinished_epochs: Option<(Epoch, Epoch)>,
    /// Earlier generations whose entries were merged into one file.
    pub merged_generations: u64,
    /// What each phase took, as the caller that drove the steps has measured it.
    pub phases: Vec<PhaseReport>,
}
