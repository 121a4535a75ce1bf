//! An adoption that says what it gives up: what a process-safe life returned, and only the folder that it left proves.
//!
//! The manifest names a process-safe life that was not closed. In the folder that its process left, and in its boot, an
//! open takes what the logs and the mapped buffers have beyond D. So does an adoption there: an open may send the user
//! here, as a folder's mark is lost. In a copy D rules, for good: the next open removes the buffers. So an adoption
//! reads the folder first, as `ensile verify` does, and asks.
//!
//! Invariants:
//! - B4: nothing that was returned is given up unless that was agreed to.
//! - B5: what is taken has synced marks before the folder gets another identity.
//!
//! Neighbours: [`super::judge`] judges; `store::adopt` has the locks, and changes the folder.

use std::sync::Arc;

use ensile_disk::Disk;

use super::{Judge, Nowhere};
use crate::DurabilityError;
use crate::store::Adopted;
use crate::store::adopt::{self as copies, LeftToAdopt};
use crate::store::manifest::Manifest;

/// What an adoption gives up only if that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdoptOptions {
    /// What a process-safe life that was not closed had returned and no log proves: its mapped buffers, and what stands
    /// in the logs behind their last marks.
    pub without_buffers: bool,
}

/// Makes the database in this folder one of its own. It has no archive: the original's stays the original's.
///
/// Of the folder that a process-safe life left, in its boot, all is taken first that an open would take: the folder may
/// have lost a mark, and nothing else. [`Adopted::taken_entries`] says so.
///
/// # Errors
/// [`DurabilityError::InUse`] while it, or a database that shares its files, is open;
/// [`DurabilityError::ForeignFolder`] if a link leads to a folder of the original; [`DurabilityError::Config`] if its
/// files are hard links; [`DurabilityError::WouldLose`] if a process-safe life was not closed that has returned more
/// than the folder proves; [`DurabilityError::Unfinished`]; what an open says of a damaged manifest and of folders that
/// are not there. Nothing was changed then, but what was taken stands in the logs, as behind an open.
pub fn adopt(disk: &Arc<dyn Disk>) -> Result<Adopted, DurabilityError> {
    adopt_with(disk, AdoptOptions::default())
}

/// As [`adopt`], and gives up what is asked for: [`Adopted::not_proven`] says what that was.
///
/// # Errors
/// As for [`adopt`], without [`DurabilityError::WouldLose`] if that is asked for.
pub fn adopt_with(disk: &Arc<dyn Disk>, options: AdoptOptions) -> Result<Adopted, DurabilityError> {
    copies::adopt(disk, |disk, manifest| {
        let left = take(disk, manifest)?;
        match left.not_proven {
            Some(lost) if !lost.is_taken() && !options.without_buffers => {
                let folder = disk.folder_place("")?.into();
                Err(DurabilityError::WouldLose { folder, left: Box::new(lost) })
            }
            _ => Ok(left),
        }
    })
}

/// Takes what an open would take of what a process-safe life left, and says what that does not prove; or what of it
/// nothing proves here. The caller has the folder's locks.
fn take(disk: &Arc<dyn Disk>, manifest: &Manifest) -> Result<LeftToAdopt, DurabilityError> {
    let Some(open) = manifest.generations.last() else { return Ok(LeftToAdopt::default()) };
    // Of a copy that was adopted before this was agreed to, and is not taken.
    if manifest.mapped.is_none() || open.database != manifest.identity {
        return Ok(LeftToAdopt::default());
    }
    assert_eq!(open.durable, None, "B4: mapped buffers are those of an open generation");
    let look = || {
        let mut judge = Judge::of_newest(disk, manifest);
        judge.look(&Nowhere(open.entries)).map(|()| judge)
    };
    let mut judge = look()?;
    let mut taken_entries = 0;
    if let Some(lacking) = judge.lacking.take() {
        assert!(judge.found().is_whole(), "L5: what is damaged is judged before anything is written");
        let high = lacking.high();
        taken_entries = lacking.entries();
        lacking.write(&**disk, &judge.open_chains)?;
        judge = look()?;
        let found = judge.found();
        assert!(!found.is_whole() || found.durable_epoch == Some(high), "B5: D covers all that counts");
    }
    Ok(LeftToAdopt { not_proven: judge.found().not_proven.clone(), taken_entries })
}
