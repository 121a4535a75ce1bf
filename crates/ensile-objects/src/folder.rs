//! Inspection and repair of a folder of objects, without an open and without the types of the objects.
//!
//! [`judge_folder`] reads every byte; [`repair`] cuts a damaged folder to its last consistent epoch. Both match the
//! functions for a database's folder: the files are the same, and the form of an entry decides its meaning.
//! [`rename_application`] sets the folder's name. [`backup`] and [`restore`] copy a folder.
//!
//! Neighbours: the durability crate examines and cuts; `folder_check` has the contents of a folder; the `ensile`
//! command prints.

use std::path::Path;

pub use ensile_durability::RangeStart;
pub use ensile_durability::examination::{
    AgeFacts, BackupFacts, CheckpointFacts, Damage, Examination, FileFacts, GenerationFacts, Loss,
    PageFileFacts, PictureFacts, RangeFacts, Remedy, RepairOptions, Repaired, Role, SectionFacts, Unread,
};
pub use ensile_durability::{ApplicationName, EntryKind, Renamed, TornTail};
use ensile_durability::{application_name, entries_in, examination};

pub use crate::backups::{
    CopyOptions, CopyPhase, CopyProgress, CopyReport, WatchCopy, backup, restore, restore_to_epoch,
};
use crate::collection::check::existing_disk;
use crate::error::ObjectsResult as Result;
pub use crate::folder_check::{FolderJudgement, judge_folder};
use crate::framing::ObjectFraming;

/// True if a folder holds an application's own objects, and no database, according to the folder's manifest. A process
/// may have the folder open.
///
/// # Errors
/// [`ObjectsError::Storage`](crate::ObjectsError::Storage) if the folder is missing, or its manifest is
/// unreadable.
pub fn holds_objects(folder: impl AsRef<Path>) -> Result<bool> {
    Ok(entries_in(&*existing_disk(folder)?)? == Some(EntryKind::Operations))
}

/// Cuts a damaged folder to its last consistent epoch, and keeps a copy of the removed parts. Every object then has its
/// state at the end of the epoch. Later results in mapped buffers are removed with the rest
/// ([`ObjectDurability::Process`](crate::ObjectDurability::Process)). Returns `None` if nothing is damaged. Before the
/// return, `repair` has read the whole folder once more, and found the folder whole.
///
/// A damaged checkpoint cannot be cut: the log before the checkpoint is gone. A cut does not mend contradictions either
/// ([`FolderJudgement::disorder`]).
///
/// ```
/// use ensile_objects::folder::{RepairOptions, judge_folder, repair};
/// # fn main_of(folder: &std::path::Path) -> ensile_objects::ObjectsResult<()> {
/// let found = judge_folder(folder)?;
/// if !found.is_whole() {
///     eprintln!("{:?}: {:?}", found.examination.damage, found.examination.remedy);
///     repair(folder, RepairOptions::default())?;
/// }
/// # Ok(())
/// # }
/// # assert!(main_of(std::path::Path::new("nowhere")).is_err());
/// ```
///
/// # Errors
/// [`ObjectsError::Storage`](crate::ObjectsError::Storage): as for [`judge_folder`]; a log's folder is missing as
/// a whole, as its device may not be mounted; the files give no consistent state, and the message has the reason; or a
/// part behind the cut is damaged.
pub fn repair(folder: impl AsRef<Path>, options: RepairOptions) -> Result<Option<Repaired>> {
    Ok(examination::repair_with(&existing_disk(folder)?, &ObjectFraming, options)?)
}

/// Gives the application of a folder another name, or no name (`name` is `None`). No process may have the folder open.
/// `ensile objects name` does the same.
///
/// Serves an application with a new name, or with new numbers of partitions: an open compares
/// [`ObjectsBuilder::application_name`](crate::ObjectsBuilder::application_name) with the folder's name.
///
/// ```
/// use ensile_objects::folder::rename_application;
/// # fn main_of(folder: &std::path::Path) -> ensile_objects::ObjectsResult<()> {
/// let renamed = rename_application(folder, Some("prices, partition 0 of 8"))?;
/// assert_eq!(renamed.before.as_ref().map(|name| name.as_str()), Some("prices, partition 0 of 4"));
/// # Ok(())
/// # }
/// # assert!(main_of(std::path::Path::new("nowhere")).is_err());
/// ```
///
/// # Errors
/// [`ObjectsError::Misuse`](crate::ObjectsError::Misuse): the name is invalid.
/// [`ObjectsError::Storage`](crate::ObjectsError::Storage): the folder is in use, holds no objects, is a copy that was
/// not adopted, or is unreadable. Nothing was changed.
pub fn rename_application(folder: impl AsRef<Path>, name: Option<&str>) -> Result<Renamed> {
    let name = name.map(application_name).transpose()?;
    let disk = existing_disk(folder)?;
    Ok(ensile_durability::rename_application(&disk, EntryKind::Operations, name)?)
}
