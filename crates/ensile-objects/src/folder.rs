//! A folder of objects looked at, or repaired, without opening it and without knowing the types of the objects.
//!
//! [`judge_folder`] reads every byte; [`repair`] cuts a damaged folder to its last consistent epoch. Both are as those
//! of a database's folder: the files are the same, and what their entries say is judged by its form.
//! [`rename_application`] says whose it is. [`backup`] and [`restore`] copy it.
//!
//! Neighbours: the durability crate examines and cuts; `judge` has what a folder holds; the `ensile` command prints.

use std::path::Path;
use std::sync::Arc;

use ensile_disk::{Disk, RealDisk};
pub use ensile_durability::RangeStart;
pub use ensile_durability::examine::{
    AgeFacts, BackupFacts, CheckpointFacts, Damage, Examination, FileFacts, GenerationFacts, Loss,
    PageFileFacts, PictureFacts, RangeFacts, Remedy, RepairOptions, Repaired, Role, SectionFacts, Unread,
};
pub use ensile_durability::{ApplicationName, EntryKind, Renamed, TornTail};
use ensile_durability::{entries_in, examine};

pub use crate::backups::{
    CopyOptions, CopyPhase, CopyProgress, CopyReport, WatchCopy, backup, restore, restore_to_epoch,
};
use crate::error::ObjectsResult as Result;
use crate::framing::ObjectFraming;
pub use crate::judge::{FolderJudgement, judge_folder};

/// Whether a folder holds an application's own objects, and no database: as its manifest says. A process may have it
/// open.
///
/// # Errors
/// [`ObjectsError::Durability`](crate::ObjectsError::Durability) if the folder is not there, or its manifest cannot be
/// read.
pub fn holds_objects(folder: impl AsRef<Path>) -> Result<bool> {
    let disk = RealDisk::existing(folder)?;
    Ok(entries_in(&disk)? == Some(EntryKind::Operations))
}

/// Cuts a damaged folder to its last consistent epoch, and keeps a copy of what it cuts. Every object is then as it was
/// at the end of that epoch. What mapped buffers held beyond it is given up with the rest
/// ([`ObjectDurability::Process`](crate::ObjectDurability::Process)). `None` if nothing is damaged. Before it returns
/// it has read the whole folder once more, and found it whole.
///
/// A damaged checkpoint cannot be cut: the log before it is gone. Nor is what contradicts itself
/// ([`FolderJudgement::disorder`]) mended by a cut.
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
/// [`ObjectsError::Durability`](crate::ObjectsError::Durability): as for [`judge_folder`]; a log's folder is missing as
/// a whole, as its device may not be mounted; no consistent state can be had from what is there, and the message says
/// why; or something is damaged behind the cut.
pub fn repair(folder: impl AsRef<Path>, options: RepairOptions) -> Result<Option<Repaired>> {
    repair_on(&(Arc::new(RealDisk::existing(folder)?) as Arc<dyn Disk>), options)
}

fn repair_on(disk: &Arc<dyn Disk>, options: RepairOptions) -> Result<Option<Repaired>> {
    Ok(examine::repair_with(disk, &ObjectFraming, options)?)
}

/// Gives the application of a folder another name, or none (`name` is `None`); nobody has the folder open.
/// `ensile objects name` does the same.
///
/// It is for an application that is called otherwise now, or whose partitions are numbered otherwise:
/// [`ObjectsBuilder::application_name`](crate::ObjectsBuilder::application_name) is compared with what the folder says.
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
/// [`ObjectsError::Durability`](crate::ObjectsError::Durability): it is no name; the folder is in use, holds no
/// objects, is a copy that was not adopted, or cannot be read. Nothing was changed.
pub fn rename_application(folder: impl AsRef<Path>, name: Option<&str>) -> Result<Renamed> {
    let name = name.map(ApplicationName::new).transpose()?;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::existing(folder)?);
    Ok(ensile_durability::rename_application(&disk, EntryKind::Operations, name)?)
}
