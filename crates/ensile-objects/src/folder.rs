//! A folder of objects looked at, or repaired, without opening it and without knowing the types of the objects.
//!
//! [`judge_folder`] reads every byte; [`repair`] cuts a damaged folder to its last consistent epoch. Both are as those
//! of a database's folder: the files are the same, and what their entries say is judged by its form.
//! [`rename_application`] says whose it is.
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
use ensile_durability::{Entry, Recoverable, Refused, entries_in, examine};

use crate::error::ObjectsResult as Result;
use crate::format::{OF_CHECKPOINT, OF_LOG, ObjectBody};
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

/// Takes entries apart and keeps nothing: a repair shows it the entries twice.
struct ObjectFraming;

impl Recoverable for ObjectFraming {
    fn entries(&self) -> EntryKind {
        EntryKind::Operations
    }

    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        each_form(entries, true, OF_CHECKPOINT)
    }

    fn load(&self, _section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        each_form(entries, false, OF_LOG)
    }
}

/// Each entry is one of the log, or each is one of a checkpoint; or why not.
fn each_form(entries: &[Entry<'_>], are_of_log: bool, otherwise: &'static str) -> Result<(), Refused> {
    for (entry, Entry { body, .. }) in entries.iter().enumerate() {
        let refused = |detail: &str| Refused { entry, detail: detail.to_owned() };
        let body = ObjectBody::decode(body).map_err(refused)?;
        if body.form.is_of_log() != are_of_log {
            return Err(refused(otherwise));
        }
    }
    Ok(())
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use ensile_base::{Epoch, Tid};
    use ensile_durability::{Entry, Recoverable as _};

    use super::ObjectFraming;
    use crate::format::{BodyForm, ObjectBody};

    #[test]
    fn an_entry_in_the_wrong_place_is_refused_and_shown_twice_one_is_not() {
        let body = |form| {
            let mut out = Vec::new();
            ObjectBody { form, version: 1, key: b"key", bytes: b"bytes" }.encode(&mut out);
            out
        };
        let piece = body(BodyForm::Piece { total: 9, offset: 0 });
        let (call, whole) = (body(BodyForm::Call), body(BodyForm::Whole));
        let entry = |body| [Entry { tid: Tid::first_of(Epoch::new(3)), body }];
        for _ in 0..2 {
            assert_eq!(ObjectFraming.replay(&entry(&call)), Ok(()));
            assert_eq!(ObjectFraming.load(0, &entry(&whole)), Ok(()));
            assert_eq!(ObjectFraming.load(0, &entry(&piece)), Ok(()));
        }
        for result in [
            ObjectFraming.replay(&entry(&whole)),
            ObjectFraming.load(0, &entry(&call)),
            ObjectFraming.load(0, &entry(b"x")),
        ] {
            assert!(result.is_err());
        }
    }
}
