//! An adoption that says what it gives up: what a process-safe life returned, and only the folder that it left proves.
//!
//! The manifest names a process-safe life that was not closed. In the folder that its process left, and in its boot, an
//! open takes what the logs and the mapped buffers have beyond D. In a copy D rules, for good: the next open removes
//! the buffers. So an adoption reads the folder first, as `ensile verify` does, and asks.
//!
//! Invariant: B4: nothing that was returned is given up unless that was agreed to.
//!
//! Neighbours: [`super::judge`] judges; `store::adopt` has the locks, and changes the folder.

use std::sync::Arc;

use ensile_disk::Disk;

use super::super::taking;
use super::{Judge, Nowhere};
use crate::DurabilityError;
use crate::not_proven::{NotProven, NotProvenReason};
use crate::store::manifest::Manifest;
use crate::store::{Adopted, adopt as copies, mapped, whose};

/// What an adoption gives up only if that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdoptOptions {
    /// What a process-safe life that was not closed had returned and no log proves: its mapped buffers, and what stands
    /// in the logs behind their last marks.
    pub without_buffers: bool,
}

/// Makes the database in this folder one of its own. It has no archive: the original's stays the original's.
///
/// # Errors
/// [`DurabilityError::InUse`] while it, or a database that shares its files, is open;
/// [`DurabilityError::ForeignFolder`] if a link leads to a folder of the original; [`DurabilityError::Config`] if its
/// files are hard links; [`DurabilityError::WouldLose`] if a process-safe life was not closed that has returned more
/// than a copy proves; [`DurabilityError::Unfinished`]; what an open says of a damaged manifest and of folders that are
/// not there. Nothing was changed then.
pub fn adopt(disk: &Arc<dyn Disk>) -> Result<Adopted, DurabilityError> {
    adopt_with(disk, AdoptOptions::default())
}

/// As [`adopt`], and gives up what is asked for: [`Adopted::not_proven`] says what that was.
///
/// # Errors
/// As for [`adopt`], without [`DurabilityError::WouldLose`] if that is asked for.
pub fn adopt_with(disk: &Arc<dyn Disk>, options: AdoptOptions) -> Result<Adopted, DurabilityError> {
    copies::adopt(disk, |disk, manifest| match given_up(disk, manifest)? {
        Some(left) if !options.without_buffers => {
            let folder = disk.folder_place("")?.into();
            Err(DurabilityError::WouldLose { folder, left: Box::new(left) })
        }
        left => Ok(left),
    })
}

/// What an adoption of the folder with this manifest gives up.
fn given_up(disk: &Arc<dyn Disk>, manifest: &Manifest) -> Result<Option<NotProven>, DurabilityError> {
    let Some(open) = manifest.generations.last() else { return Ok(None) };
    // Of a copy that was adopted before this was agreed to, and is not taken.
    if manifest.mapped.is_none() || open.database != manifest.identity {
        return Ok(None);
    }
    assert_eq!(open.durable, None, "B4: mapped buffers are those of an open generation");
    let is_copy = !whose::is_same(disk.folder_id("")?, manifest.main());
    let mut judge = Judge::of_newest(disk, manifest);
    judge.is_copy = is_copy;
    let target = Nowhere(open.entries);
    judge.look(&target)?;
    let found = judge.found();
    // A copy, or another boot: this may be a copy of the whole device, and the original still run.
    let is_left_out = found.not_proven.as_ref().is_some_and(NotProven::is_left_out);
    if found.is_whole() && (is_copy || is_left_out) {
        return Ok(found.not_proven.clone());
    }
    // The folder that its process left; or what is damaged, of which nobody knows what its logs prove.
    let durable = found.durable_epoch.unwrap_or(open.first.previous());
    let chains = &judge.open_chains[..];
    let logged = taking::logged_above(&**disk, (open, chains), durable)?;
    let lacking = if is_copy { taking::not_copied(&**disk, open, chains)? } else { Vec::new() };
    let reason = if is_copy { NotProvenReason::Copied } else { NotProvenReason::NotOpened };
    let left = mapped::not_proven(&**disk, (reason, durable), open, (logged, lacking), |_| Ok(true))?;
    if !found.is_whole() {
        return Ok(Some(left.unwrap_or_else(|| NotProven::uncounted(reason, durable))));
    }
    // Refused: where the boot is not known, an open waits until it is.
    let is_lost = found.to_take.is_some() || found.refused.is_some();
    Ok(left.filter(|_| is_lost))
}
