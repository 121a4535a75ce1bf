//! Findings and work of a recovery, in figures.
//!
//! Neighbours: the parts of a recovery fill the report; the engine hands it to the application.

use ensile_base::Epoch;

use super::progress::PhaseReport;
use crate::files::manifest::shipping_target::RememberedStore;
use crate::store::NameGiven;
use crate::unproven_tail::NotProven;

/// End of a log that was incomplete when the database stopped. Recovery cuts the end: no result rested on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TornTail {
    /// File in which the whole part of the log ends.
    pub file: String,
    /// End of the whole part in the file, in bytes.
    pub offset: u64,
    /// Number of written bytes after the whole part, over the later files of the log too.
    pub bytes: u64,
    /// Smallest and largest readable epoch of the entries after the whole part.
    pub epochs: Option<(Epoch, Epoch)>,
    /// Reason why the whole part ends.
    pub detail: &'static str,
}

/// Findings and work of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// D of the last generation. The database has every entry up to this epoch, and no entry above.
    pub durable_epoch: Epoch,
    /// Number of the generation that begins now; 1 for a new database.
    pub generation: u64,
    /// First epoch of the new generation (L6). Results of an earlier life have smaller epochs. A result is kept if its
    /// epoch is not above `durable_epoch`, and if it was not lost before. On a full disk, the life is read-only. Then
    /// results above the database's own D are kept only for now, and the next open decides.
    pub first_epoch: Epoch,
    /// e_l and e_h of the loaded checkpoint; S and e_c = S - 1 of a picture.
    pub checkpoint: Option<(Epoch, Epoch)>,
    /// Number of entries that were loaded from the checkpoint.
    pub checkpoint_entries: u64,
    /// Bytes of the checkpoint's files.
    pub checkpoint_bytes: u64,
    /// Number of replayed data blocks.
    pub blocks: u64,
    /// Number of replayed entries.
    pub entries: u64,
    /// Bytes of the replayed blocks.
    pub bytes: u64,
    /// Number of replayed entries without an effect, on objects of marked lives that no longer exist. The caller
    /// counts.
    pub passed_over_entries: u64,
    /// Number of entries in the log that a checkpoint covers. Recovery does not replay covered entries (K1).
    pub covered_entries: u64,
    /// Number of whole entries that were not replayed, because their epochs never became durable.
    pub ignored_entries: u64,
    /// Number of entries, all of which count, that only the mapped buffers of a dead process's life had.
    pub taken_entries: u64,
    /// Results of a process-safe life that the folder cannot prove, with files, reason and remedy. An open [leaves them
    /// out](NotProven::is_left_out) in a copy, and after a new start of the system or a new mount of a file system.
    pub not_proven: Option<NotProven>,
    /// Folders of this process-safe life on file systems without a known mount. There, recovery cannot recognize a
    /// device that is lost and returns within one boot. Results of that life with epochs above D may be gone then.
    pub unknown_mounts: Vec<String>,
    /// New name of a folder that was opened without a name (I5); `None` for a new folder. `Display` writes the message.
    pub name_given: Option<NameGiven>,
    /// Shared store that the folder remembers, if the database ships. A fenced folder is open for reading only.
    pub shared_store: Option<RememberedStore>,
    /// Cut ends of logs.
    pub torn_tails: Vec<TornTail>,
    /// Log files that the database only keeps for the archive, which cannot take them. Each text names file and remedy.
    pub not_archived: Vec<String>,
    /// Epochs above D that only some logs have marked. If a log lost entries of these epochs, the entries are gone. If
    /// a crash took the entries, no entry was acknowledged.
    pub unfinished_epochs: Option<(Epoch, Epoch)>,
    /// Number of earlier generations whose entries were merged into one file.
    pub merged_generations: u64,
    /// Cost of each phase, as measured by the caller that drove the steps.
    pub phases: Vec<PhaseReport>,
}
