//! What can go wrong, by what the caller does next.
//!
//! Neighbours: every public call of this crate; the engine maps these to its own few kinds.

use ensile_base::{Epoch, Tid};
use ensile_disk::{Disk, DiskError};
use std::borrow::Cow;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::EntryKind;
use crate::block::NEWER;
use crate::not_proven::NotProven;

/// A failure of logging or recovery.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DurabilityError {
    /// A write or sync failed while this result waited: it may or may not survive. Stop, and recover by opening again.
    #[error(
        "outcome unknown: the log stopped before this epoch was durable ({0}); open the database again to find out"
    )]
    OutcomeUnknown(Arc<str>),
    /// The log takes no more entries, so what was asked for, a commit or a checkpoint, was not done. Open the database
    /// again.
    #[error("not done: the log is stopped ({0}); open the database again")]
    Stopped(Arc<str>),
    /// A file or folder of the database was removed while the database was open. Nothing becomes durable there any
    /// more, and a close leaves nothing to open: restore a backup into an empty folder.
    #[error(
        "the log has ended: {0}, so nothing is durable there any more; restore a backup into an empty folder"
    )]
    Removed(Arc<str>),
    /// The disk is full; this one was not committed, and nothing that was acknowledged is in doubt. Try again when
    /// there is space: the log goes on by itself.
    #[error("not committed: the disk is full ({0}); free some space and try again")]
    DiskFull(Arc<str>),
    /// Epochs cannot be reserved on disk, and E has come to the end of those that are; this one was not committed, and
    /// nothing that was acknowledged is in doubt. Try again once the cause is gone: the log goes on by itself.
    #[error(
        "not committed: the epochs that are reserved on disk are used up ({0}); mend the disk and try again"
    )]
    EpochsEnded(Arc<str>),
    /// The disk has been full for as long as a result waits, or, without a log, a picture has failed, so it is still
    /// not durable. What was committed stays: it becomes durable once the cause is gone, unless the process ends
    /// before. Do not run it again.
    #[error(
        "committed or read, and not durable yet: {0}; once the cause is gone it becomes durable without running it again"
    )]
    NotDurableYet(Arc<str>),
    /// The disk was full at open, on a file system that needs space to overwrite: what was read may be in the system's
    /// cache only, and a power failure may take it back. What is of epochs up to `durable` stays.
    #[error(
        "read, and perhaps not durable: the disk was full at open ({reason}), so what is above epoch {durable} could not be \
         written again; free some space and open the database again"
    )]
    NotProven {
        /// Everything of epochs up to this survives a crash.
        durable: Epoch,
        /// What the disk said.
        reason: Arc<str>,
    },
    /// The disk is too full to begin the files of the next life, or of the first one. Nothing is lost.
    #[error("not opened: the disk is full ({0}); free some space and open again")]
    NoRoomToOpen(Arc<str>),
    /// The entry is larger than a transaction may be: split the transaction.
    #[error("an entry of {bytes} bytes is larger than the limit of {limit}: split the transaction")]
    TooLarge {
        /// The size asked for.
        bytes: usize,
        /// `TRANSACTION_BYTES_MAX`.
        limit: usize,
    },
    /// What was acknowledged as durable cannot be read back: restore this file from a backup or a replica.
    #[error("{file} is damaged at byte {offset}: {detail}; restore it from a copy")]
    Damaged {
        /// The file, relative to the database's folder.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        detail: String,
    },
    /// The recoverable state refused an entry: its format is not one that this program knows.
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
        /// What the state said.
        detail: Box<str>,
    },
    /// A file that is whole has a version that this program does not know: open it with the one that wrote it.
    #[error("{file}, block at byte {offset}: {detail}; use the version that wrote it, or a newer one")]
    Unknown {
        /// The file, relative to the database's folder.
        file: String,
        /// The offset of its first block that is not known.
        offset: u64,
        /// What of it is not known.
        detail: &'static str,
    },
    /// A file of another database stands among this one's (I1). Nothing was changed: move it to where it belongs, and
    /// put this database's own file back if there was one.
    #[error(
        "{file} belongs to another database ({found}, and this one is {own}): move it to where it belongs; nothing was changed"
    )]
    NotOurs {
        /// The file, relative to the database's folder.
        file: Box<str>,
        /// The identity of the database to which it belongs.
        found: Box<str>,
        /// This database's identity.
        own: Box<str>,
    },
    /// A checkpoint was given up, and its files with it. The log goes on; the next checkpoint is a new attempt.
    #[error("no checkpoint was made: {0}; nothing else is lost, ask again once the cause is gone")]
    CheckpointFailed(Arc<str>),
    /// Called within a call-back, such as a future's waker, a checkpoint's or an operation, which what was called has
    /// to wait for: a close, or a checkpoint. Nothing was done. Return from the call-back, and call it on a thread of
    /// your own.
    #[error(
        "not done: this was called within a call-back (a waker, a checkpoint's, or an operation) that it has to wait for; \
         return from it, and close or wait for a checkpoint on a thread of your own"
    )]
    InCallBack,
    /// A configuration that cannot work: fix it.
    #[error("{0}")]
    Config(Cow<'static, str>),
    /// The link to a log's or checkpointer's folder leads nowhere: its device is missing. Mount it, or put a copy of
    /// the folder there.
    #[error("{folder} is a link to {}, and no folder is there: mount its device, or put a copy there", to.display())]
    FolderMissing {
        /// The link's name in the database's folder.
        folder: String,
        /// Where it leads.
        to: PathBuf,
    },
    /// The folder of a log or checkpointer that was in use is empty: its device is not mounted.
    #[error("{folder} ({}) is empty, and the database has files there: is its device mounted? Mount it and open again", place.display())]
    NotMounted {
        /// Its name in the database's folder.
        folder: String,
        /// Where it is.
        place: PathBuf,
    },
    /// A folder is not the one that the database was made in. Nothing was changed. Use the original; or adopt this one,
    /// which makes it a database of its own.
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
        /// What shows it.
        detail: Box<str>,
    },
    /// A process-safe life was not closed here, and has returned what only the folder that it left proves: an adoption
    /// gives that up for good. Nothing was changed. Open that folder first; or adopt this one without it.
    #[error(
        "not adopted: {left}. To give them up, run `ensile adopt --without-buffers {}`. Nothing was changed", folder.display()
    )]
    WouldLose {
        /// The folder.
        folder: Box<Path>,
        /// What would be lost.
        left: Box<NotProven>,
    },
    /// The folder given for a log or checkpointer belongs to another database, or holds other files. Nothing in it was
    /// changed.
    #[error("{folder} ({}) is not this database's: {detail}; give it an empty folder of its own", place.display())]
    ForeignFolder {
        /// Its name in the database's folder.
        folder: Box<str>,
        /// Where it is.
        place: Box<Path>,
        /// What shows it.
        detail: Box<str>,
    },
    /// The folder holds something else than a database. Nothing was changed: give the database's folder, or an empty
    /// one.
    #[error("{} is not a database's folder: {detail}; give an empty folder, or the database's", folder.display())]
    NotADatabase {
        /// The folder.
        folder: PathBuf,
        /// What it holds.
        detail: String,
    },
    /// The folder holds what another kind of state keeps: a database's rows, or an application's own objects. Nothing
    /// was changed. Open it as what it is, or give another folder.
    #[error("{} holds {}. Nothing was changed", folder.display(), found.of_a_folder())]
    OtherEntries {
        /// The folder.
        folder: PathBuf,
        /// What its entries are.
        found: EntryKind,
    },
    /// The folder is of an application with another name, or was opened without one. Nothing was changed. Open it by
    /// the application that it names, or give another folder; if that is called otherwise now, `ensile objects name`
    /// says so to the folder.
    #[error(
        "{} is the folder of {found:?}, and was opened {}: open it with that name, or give another folder; if the \
         application is called otherwise now, say so by `ensile objects name`. Nothing was changed",
        folder.display(),
        given.as_ref().map_or("without a name".to_owned(), |given| format!("for {given:?}"))
    )]
    OtherApplication {
        /// The folder.
        folder: Box<Path>,
        /// The name that it has.
        found: Box<str>,
        /// The one that it was opened for, if it was one.
        given: Option<Box<str>>,
    },
    /// There is no database where one must be: give its folder, or make one.
    #[error(
        "no database is in {}: give the folder of one (is its device mounted?), or make one by `open` or `create_new`",
        folder.display()
    )]
    NoDatabase {
        /// The folder.
        folder: PathBuf,
    },
    /// There is a database where none may be: open it, or give another folder.
    #[error("a database is in {} already: open it by `open_existing`, or give another folder", folder.display())]
    DatabaseExists {
        /// The folder.
        folder: PathBuf,
    },
    /// An archive does not have what is needed to bring a backup to the epoch that was asked for. Nothing counts in the
    /// target's folder: ask for what can be had, or take another backup.
    #[error("{} does not have that: {detail}", folder.display())]
    NotInArchive {
        /// The archive's folder.
        folder: PathBuf,
        /// What is missing, and what can be had.
        detail: String,
    },
    /// The folder that is to get a backup holds something else, or a backup of another database. Nothing in it was
    /// changed: give another folder.
    #[error(
        "{} takes no backup of this database: {detail}. Give an empty folder, or that of an earlier backup of it", folder.display()
    )]
    NotItsBackup {
        /// The folder.
        folder: PathBuf,
        /// What it holds.
        detail: String,
    },
    /// A backup, a restore or a take-over was begun in the folder and has not ended, so nothing in it counts. Run it
    /// again, and it goes on; or remove the folder.
    #[error(
        "{what} into {} has not ended, and nothing in the folder counts: run it again, or remove the folder", folder.display()
    )]
    Unfinished {
        /// The folder.
        folder: PathBuf,
        /// What was begun.
        what: String,
    },
    /// The folder that is to be restored from is no backup, or does not have what was asked for. Nothing was written.
    #[error("{} cannot be restored from: {detail}", folder.display())]
    NotABackup {
        /// The folder.
        folder: PathBuf,
        /// Why.
        detail: String,
    },
    /// A backup or a restore could not write its folder, or what is in it is damaged. A backup that was made into it
    /// before counts as before. Mend the cause and run it again, or give another folder.
    #[error(
        "not done, {}: {detail}. A backup that was made there before is as it was; run it again once the cause is gone, or \
         give another folder", folder.display()
    )]
    TargetFailed {
        /// The folder.
        folder: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// The database changes faster than it is backed up: there was never less to copy, so the backup would not end. A
    /// backup that was made into its folder before counts as before. Raise the rate, or run it at a quieter time.
    #[error("the backup would not end: {detail}. A backup that was made there before is as it was")]
    TooSlow {
        /// How often it began anew, and what rate would do.
        detail: Box<str>,
    },
    /// The shared store cannot be used now. Nothing else is lost: shipping tries again by itself; a take-over is run
    /// again once the cause is gone.
    #[error("the shared store {place} cannot be used: {detail}")]
    SharedStore {
        /// Where it is.
        place: Box<str>,
        /// What it said, or what it holds.
        detail: Box<str>,
    },
    /// An object of the shared store is not what its manifest says: put it back from a copy, or use the machine that
    /// has shipped it.
    #[error("{object} in the shared store {place} is damaged: {detail}; put it back from a copy")]
    SharedDamaged {
        /// Where the store is.
        place: Box<str>,
        /// The object's name.
        object: Box<str>,
        /// What is wrong with it.
        detail: Box<str>,
    },
    /// Another machine took over from the shared store while this one was about to. Use that one; or take over from it.
    #[error("not taken over: {detail}; use that one, or run it again to take over from it")]
    TakenOver {
        /// Who has.
        detail: Box<str>,
    },
    /// Another machine has taken over from the shared store: this database ships nothing any more. Use the other one;
    /// what this one acknowledged since is here alone.
    #[error("fenced: {detail}; use that one, as nothing that is changed here reaches it")]
    Fenced {
        /// Who has.
        detail: Arc<str>,
    },
    /// The folder's database is fenced: another machine has taken over from the shared store. Nothing was changed. Use
    /// that machine; or read this folder by `open_fenced`, or adopt it.
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
    /// The folder's database ships to a shared store, and was opened without it. Nothing was changed. Open it by
    /// `ship_to`; or end the shipping by `stop_shipping`.
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
    /// The shared store does not have everything yet that was to be shipped. It goes on; wait longer, or see the
    /// figures of shipping for what fails. From a close: the store has not answered in time. All is durable in the
    /// folder, and the next open ships it.
    #[error(
        "not shipped yet: the shared store is complete up to epoch {shipped}, and {wanted} was asked for{why}"
    )]
    NotShipped {
        /// It is complete up to this.
        shipped: Epoch,
        /// It is to be complete up to this.
        wanted: Epoch,
        /// What fails, if something does.
        why: Box<str>,
    },
    /// A backup or a restore was cancelled. A backup that was made into its folder before counts as before.
    #[error("cancelled: a backup that was made there before is as it was")]
    Cancelled,
    /// Another process, one forked from it that lives on, or another handle of this one has the database open: close it
    /// there, or open another folder.
    #[error(
        "{} is in use by another process, a process forked from it, or another handle: close it there first",
        path.display()
    )]
    InUse {
        /// The lock's file.
        path: PathBuf,
    },
    /// This process was forked from the one that opened the database, which goes on there. Nothing was changed. Open it
    /// anew once the other process has closed it.
    #[error(
        "this process was forked from the one that opened the database: open it anew, once that one has closed it"
    )]
    Forked,
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

    /// A block that a newer version wrote (L7).
    pub(crate) fn newer(file: &str, offset: u64) -> Self {
        Self::Unknown { file: file.to_owned(), offset, detail: NEWER }
    }

    pub(crate) fn damaged(file: &str, offset: u64, detail: impl Into<String>) -> Self {
        Self::Damaged { file: file.to_owned(), offset, detail: detail.into() }
    }

    /// What went wrong in the folder that gets a copy.
    pub(crate) fn target_failed(disk: &dyn Disk, error: impl Display) -> Self {
        let folder = disk.folder_place("").unwrap_or_default();
        Self::TargetFailed { folder, detail: error.to_string() }
    }
}

/// The outcome, or `None` if there is no such file.
pub(crate) fn unless_missing<T>(outcome: Result<T, DiskError>) -> Result<Option<T>, DiskError> {
    match outcome {
        Err(error) if error.is_not_found() => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// The outcome, or `None` if there was no space, or no descriptor for another file.
pub(crate) fn unless_full<T>(outcome: Result<T, DiskError>) -> Result<Option<T>, DiskError> {
    match outcome {
        Err(error) if error.is_full() || error.is_out_of_descriptors() => Ok(None),
        outcome => outcome.map(Some),
    }
}
