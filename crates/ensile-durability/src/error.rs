//! Errors of this crate, one for each cause.
//!
//! Neighbours: every public call of this crate returns [`DurabilityError`]. The engine and objects have an error of
//! their own each, which wraps this error. `kind` groups the errors by the action of the calling program.

pub(crate) mod kind;

use ensile_base::{Epoch, Tid};
use ensile_disk::{Disk, DiskError};
use std::borrow::Cow;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::EntryKind;
use crate::entry_type::OtherType;
use crate::unproven_tail::NotProven;
use kind::ErrorKind;

/// Text for a block of a newer version (L7).
pub(crate) const NEWER: &str = "a newer version of Ensile wrote this block";

/// Result of a call of this crate.
pub(crate) type DurabilityResult<T, E = DurabilityError> = std::result::Result<T, E>;

/// A failure of logging or recovery.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DurabilityError {
    /// A write or sync failed while this result waited: the result may or may not survive.
    #[error(
        "outcome unknown: the log stopped before this epoch was durable ({0}); open the database again to find out"
    )]
    OutcomeUnknown(Arc<str>),
    /// The log accepts no more entries. The requested commit or checkpoint was not done. Open the database again.
    #[error("not done: the log is stopped ({0}); open the database again")]
    Stopped(Arc<str>),
    /// The program closed the log. The requested commit or checkpoint was not done.
    #[error("not done: the log is stopped ({0}); open the database again")]
    Closed(Arc<str>),
    /// A file or folder of the database was removed while the database was open. A close leaves nothing to open.
    #[error(
        "the log has ended: {0}, so nothing is durable there any more; restore a backup into an empty folder"
    )]
    Removed(Arc<str>),
    /// The disk is full. No acknowledged commit is in doubt, and the log continues by itself once the disk has space.
    #[error("not committed: the disk is full ({0}); free some space and try again")]
    DiskFull(Arc<str>),
    /// E has reached the last epoch reserved on disk, and no more can be reserved. No acknowledged commit is in doubt,
    /// and the log continues by itself once the cause is gone.
    #[error(
        "not committed: the epochs that are reserved on disk are used up ({0}); mend the disk and try again"
    )]
    EpochsEnded(Arc<str>),
    /// The result is committed and not yet durable: the disk has been full for the whole wait limit of a result, or,
    /// without a log, a picture has failed. The commit becomes durable unless the process ends before.
    #[error(
        "committed or read, and not durable yet: {0}; once the cause is gone it becomes durable without running it again"
    )]
    NotDurableYet(Arc<str>),
    /// The disk was full at open, on a file system that needs space to overwrite. Entries that the open read may be
    /// only in the system's cache, and a power failure may remove them. Entries of epochs up to `durable` survive.
    #[error(
        "read, and perhaps not durable: the disk was full at open ({reason}), so what is above epoch {durable} could not be \
         written again; free some space and open the database again"
    )]
    NotProven {
        /// Last epoch that survives a crash completely.
        durable: Epoch,
        /// Reason from the disk.
        reason: Arc<str>,
    },
    /// The disk is too full to begin the files of the next or first life. Nothing is lost.
    #[error("not opened: the disk is full ({0}); free some space and open again")]
    NoRoomToOpen(Arc<str>),
    /// The entry exceeds the size limit of a transaction: split the transaction.
    #[error("an entry of {bytes} bytes is larger than the limit of {limit}: split the transaction")]
    TooLarge {
        /// Requested size in bytes.
        bytes: usize,
        /// Limit in bytes: `TRANSACTION_BYTES_MAX`.
        limit: usize,
    },
    /// Acknowledged, durable data cannot be read back: restore this file from a backup or a replica.
    #[error("{file} is damaged at byte {offset}: {detail}; restore it from a copy")]
    Damaged {
        /// The file, relative to the database's folder.
        file: String,
        /// Offset of the damage in bytes.
        offset: u64,
        /// Kind of the damage.
        detail: String,
    },
    /// The recoverable state refused an entry, because this program does not know the entry's format.
    #[error(
        "{file}, block at byte {offset}: entry {tid} is whole and not understood: {detail}; use the version that wrote it, or a newer one"
    )]
    Replay {
        /// The file, relative to the database's folder.
        file: Box<str>,
        /// The offset of the entry's block.
        offset: u64,
        /// The entry.
        tid: Tid,
        /// Reason from the state.
        detail: Box<str>,
    },
    /// An intact file has a version that this program does not know.
    #[error("{file}, block at byte {offset}: {detail}; use the version that wrote it, or a newer one")]
    Unknown {
        /// The file, relative to the database's folder.
        file: String,
        /// Offset of the file's first unknown block, in bytes.
        offset: u64,
        /// Unknown part of the block.
        detail: &'static str,
    },
    /// A file of another database stands among the files of this database (I1); perhaps it replaced an own file.
    #[error(
        "{file} belongs to another database ({found}, and this one is {own}): move it to where it belongs; nothing was changed"
    )]
    NotOurs {
        /// The file, relative to the database's folder.
        file: Box<str>,
        /// Identity of the file's database.
        found: Box<str>,
        /// This database's identity.
        own: Box<str>,
    },
    /// A checkpoint was abandoned, and its files were discarded. The log continues.
    #[error("no checkpoint was made: {0}; nothing else is lost, ask again once the cause is gone")]
    CheckpointFailed(Arc<str>),
    /// A handle was called from a call-back: from an operation, a codec, a replay, a look at an object or a
    /// checkpoint's call-back; or from a future's waker for which the call would wait. Or a thread with an object's
    /// guard closes, or waits for a checkpoint. Nothing was done or changed. Return from the call-back, or release the
    /// guard, and call then, or on a thread of your own.
    #[error(
        "not done, and nothing was changed: a call-back (an operation, a codec, a replay, a look at an object, a checkpoint's \
         call-back, or a waker that the call would wait for) made this call, or a thread with an object's guard; return from \
         the call-back, or release the guard, and call then, or on a thread of your own"
    )]
    InCallBack,
    /// A configuration that cannot work: correct the configuration.
    #[error("{0}")]
    Config(Cow<'static, str>),
    /// The link to a log's or checkpointer's folder leads nowhere, because its device is missing.
    #[error("{folder} is a link to {}, and no folder is there: mount its device, or put a copy there", to.display())]
    FolderMissing {
        /// The link's name in the database's folder.
        folder: String,
        /// Target of the link.
        to: PathBuf,
    },
    /// The folder of a log or checkpointer was in use and is empty now: its device is not mounted.
    #[error("{folder} ({}) is empty, and the database has files there: is its device mounted? Mount it and open again", place.display())]
    NotMounted {
        /// Name of the folder in the database's folder.
        folder: String,
        /// Path of the folder.
        place: PathBuf,
    },
    /// The folder is not the folder in which the database was made.
    #[error(
        "{} was copied, restored or moved: {detail}. Nothing was changed. If the original is not used together with it, run \
         `ensile adopt {}`, which makes it a database of its own",
        folder.display(),
        database.display()
    )]
    Copied {
        /// The folder.
        folder: Box<Path>,
        /// The main folder of the database.
        database: Box<Path>,
        /// Evidence of the copy.
        detail: Box<str>,
    },
    /// A process-safe life was not closed in this folder. An adoption gives up the acknowledged results that only the
    /// life's own folder proves.
    #[error(
        "not adopted: {left}. To give them up, run `ensile adopt --without-buffers {}`. Nothing was changed", folder.display()
    )]
    WouldLose {
        /// The folder.
        folder: Box<Path>,
        /// Results that an adoption would lose.
        left: Box<NotProven>,
    },
    /// The folder given for a log or checkpointer belongs to another database, or holds foreign files.
    #[error("{folder} ({}) is not this database's: {detail}; give it an empty folder of its own", place.display())]
    ForeignFolder {
        /// Name of the folder in the database's folder.
        folder: Box<str>,
        /// Path of the folder.
        place: Box<Path>,
        /// Evidence of the other owner.
        detail: Box<str>,
    },
    /// The folder holds something other than a database. Nothing was changed.
    #[error("{} is not a database's folder: {detail}; give an empty folder, or the database's", folder.display())]
    NotADatabase {
        /// The folder.
        folder: PathBuf,
        /// Content of the folder.
        detail: String,
    },
    /// The folder holds the entries of another kind of state: a database's rows, or an application's own objects.
    #[error("{} holds {}. Nothing was changed", folder.display(), found.of_a_folder())]
    OtherEntries {
        /// The folder.
        folder: PathBuf,
        /// Kind of the folder's entries.
        found: EntryKind,
    },
    /// The folder is of an application with another name, or was opened without a name.
    #[error(
        "{} is the folder of {found:?}, and was opened {}: open it with that name, or give another folder; if the \
         application is called otherwise now, say so by `ensile objects name`. Nothing was changed",
        folder.display(),
        given.as_ref().map_or("without a name".to_owned(), |given| format!("for {given:?}"))
    )]
    OtherApplication {
        /// The folder.
        folder: Box<Path>,
        /// Name of the application in the folder.
        found: Box<str>,
        /// Name that the open gave, if any.
        given: Option<Box<str>>,
    },
    /// The folder has entries of another type than the open gave, for a version that both have.
    #[error("{0}")]
    OtherType(Box<OtherType>),
    /// No database is in the folder, and the call needs one: give a database's folder, or make a database.
    #[error(
        "no database is in {}: give the folder of one (is its device mounted?), or make one by `open` or `create_new`",
        folder.display()
    )]
    NoDatabase {
        /// The folder.
        folder: PathBuf,
    },
    /// A database is in the folder, and the call needs an empty folder: open the database, or give another folder.
    #[error("a database is in {} already: open it by `open_existing`, or give another folder", folder.display())]
    DatabaseExists {
        /// The folder.
        folder: PathBuf,
    },
    /// An archive lacks files that a backup needs to reach the requested epoch. Nothing counts in the target's folder.
    #[error("{} does not have that: {detail}", folder.display())]
    NotInArchive {
        /// The archive's folder.
        folder: PathBuf,
        /// Missing files, and available epochs.
        detail: String,
    },
    /// The target folder of a backup holds something else, or a backup of another database. Nothing was changed.
    #[error(
        "{} takes no backup of this database: {detail}. Give an empty folder, or that of an earlier backup of it", folder.display()
    )]
    NotItsBackup {
        /// The folder.
        folder: PathBuf,
        /// Content of the folder.
        detail: String,
    },
    /// A backup, a restore or a take-over began in the folder and has not ended.
    #[error(
        "{what} into {} has not ended, and nothing in the folder counts: run it again, or remove the folder", folder.display()
    )]
    Unfinished {
        /// The folder.
        folder: PathBuf,
        /// Name of the unfinished operation.
        what: String,
    },
    /// The source folder of a restore is no backup, or lacks the requested state. Nothing was written.
    #[error("{} cannot be restored from: {detail}", folder.display())]
    NotABackup {
        /// The folder.
        folder: PathBuf,
        /// Reason.
        detail: String,
    },
    /// A backup or a restore could not write its folder, or the folder is damaged.
    #[error(
        "not done, {}: {detail}. A backup that was made there before is as it was; run it again once the cause is gone, or \
         give another folder", folder.display()
    )]
    TargetFailed {
        /// The folder.
        folder: PathBuf,
        /// Kind of the failure.
        detail: String,
    },
    /// The database changes faster than the backup copies. A higher rate, or a quieter time, helps.
    #[error("the backup would not end: {detail}. A backup that was made there before is as it was")]
    TooSlow {
        /// Number of restarts, and a sufficient rate.
        detail: Box<str>,
    },
    /// The shared store cannot be used now. Shipping tries again by itself; a take-over does not.
    #[error("the shared store {place} cannot be used: {detail}")]
    SharedStore {
        /// Place of the store.
        place: Box<str>,
        /// Reason from the store, or its content.
        detail: Box<str>,
    },
    /// An object of the shared store differs from its manifest.
    #[error("{object} in the shared store {place} is damaged: {detail}; put it back from a copy")]
    SharedDamaged {
        /// Place of the store.
        place: Box<str>,
        /// The object's name.
        object: Box<str>,
        /// Kind of the damage.
        detail: Box<str>,
    },
    /// Another machine took over from the shared store while this machine was about to.
    #[error("not taken over: {detail}; use that one, or run it again to take over from it")]
    TakenOver {
        /// Machine that has taken over.
        detail: Box<str>,
    },
    /// Another machine has taken over from the shared store. Results acknowledged since are only in this folder.
    #[error("fenced: {detail}; use that one, as nothing that is changed here reaches it")]
    Fenced {
        /// Machine that has taken over.
        detail: Arc<str>,
    },
    /// The folder's database is fenced: another machine has taken over from the shared store.
    #[error(
        "{} is fenced: another machine has taken over its database from the shared store {store}. Use that machine. To read \
         what this folder has, open it by `open_fenced`; `ensile adopt {}` makes it a database of its own. Nothing was \
         changed",
        folder.display(),
        folder.display()
    )]
    FencedFolder {
        /// The folder.
        folder: Box<Path>,
        /// Identity of the shared store.
        store: Box<str>,
    },
    /// The folder's database ships to a shared store, and was opened without the store.
    #[error(
        "{} ships to the shared store {store}, from which another machine may have taken over: open it by `ship_to` and that \
         store, or end its shipping by `stop_shipping`. Nothing was changed",
        folder.display()
    )]
    ShipsElsewhere {
        /// The folder.
        folder: Box<Path>,
        /// Identity of the shared store.
        store: Box<str>,
    },
    /// The shared store lacks a part of the requested epochs, and shipping continues. From a close: the store did not
    /// answer in time, and the next open ships the rest.
    #[error(
        "not shipped yet: the shared store is complete up to epoch {shipped}, and {wanted} was asked for{why}"
    )]
    NotShipped {
        /// Last epoch that is complete in the store.
        shipped: Epoch,
        /// Requested epoch.
        wanted: Epoch,
        /// Reason of a failure, if any.
        why: Box<str>,
    },
    /// A backup or a restore was cancelled. An earlier backup in the folder counts as before.
    #[error("cancelled: a backup that was made there before is as it was")]
    Cancelled,
    /// The database is open in another process, in a surviving fork of the process, or by another handle.
    #[error(
        "{} is in use by another process, a process forked from it, or another handle: close it there first",
        path.display()
    )]
    InUse {
        /// Path of the lock's file.
        path: PathBuf,
    },
    /// This process was forked from the process that opened the database, and the database continues there.
    #[error(
        "this process was forked from the one that opened the database: open it anew, once that one has closed it"
    )]
    Forked,
    /// The crate above refused an open, for a cause that only that crate knows: a key, an object, a thread.
    #[error("{text}")]
    NotOpened {
        /// The caller's next action.
        kind: ErrorKind,
        /// Cause and remedy.
        text: Box<str>,
    },
    /// The disk refused before anything was promised: retry once the cause is gone.
    #[error(transparent)]
    Disk(Arc<DiskError>),
}

impl From<DiskError> for DurabilityError {
    fn from(error: DiskError) -> Self {
        match error {
            DiskError::InUse { path } => Self::InUse { path },
            DiskError::Forked { .. } => Self::Forked,
            error @ (DiskError::Removed { .. } | DiskError::Io { .. }) => Self::Disk(Arc::new(error)),
        }
    }
}

impl DurabilityError {
    pub(crate) fn config(what: impl Into<Cow<'static, str>>) -> Self {
        Self::Config(what.into())
    }

    pub(crate) fn not_ours(file: &str, found: impl Display, own: impl Display) -> Self {
        Self::NotOurs { file: file.into(), found: found.to_string().into(), own: own.to_string().into() }
    }

    pub(crate) fn foreign_folder(folder: &str, place: &Path, detail: &str) -> Self {
        Self::ForeignFolder { folder: folder.into(), place: place.into(), detail: detail.into() }
    }

    /// Error for a block that a newer version wrote (L7).
    pub(crate) fn newer(file: &str, offset: u64) -> Self {
        Self::Unknown { file: file.to_owned(), offset, detail: NEWER }
    }

    pub(crate) fn damaged_file(file: &str, offset: u64, detail: impl Into<String>) -> Self {
        Self::Damaged { file: file.to_owned(), offset, detail: detail.into() }
    }

    /// Error for a failure in the target folder of a copy.
    pub(crate) fn target_failed(disk: &dyn Disk, error: impl Display) -> Self {
        let folder = disk.folder_place("").unwrap_or_default();
        Self::TargetFailed { folder, detail: error.to_string() }
    }
}

/// Returns `None` in place of the error that the file does not exist. Any other outcome is unchanged.
pub(crate) fn unless_missing<T>(outcome: Result<T, DiskError>) -> Result<Option<T>, DiskError> {
    match outcome {
        Err(error) if error.is_not_found() => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Returns `None` in place of the error that the disk has no space, or the process no descriptor for another file. Any
/// other outcome is unchanged.
pub(crate) fn unless_full<T>(outcome: Result<T, DiskError>) -> Result<Option<T>, DiskError> {
    match outcome {
        Err(error) if error.is_full() || error.is_out_of_descriptors() => Ok(None),
        outcome => outcome.map(Some),
    }
}
