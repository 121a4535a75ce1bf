//! Examination of a folder under its lock, with the remedy. Also the entries of a whole log, in the order of TIDs.
//!
//! Neighbours: `validator` has the steps; `folder_repair`, the objects and the `ensile` command call; `tid_order` reads
//! in order.

use std::ops::ControlFlow;
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::super::resync_tail::{self, AtOnce};
use super::super::tid_order;
use super::super::validation::Findings as _;
use super::facts::{Damage, Examination, Remedy};
use super::judge::Judge;
use super::repair_plan::{self, NoRepair};
use crate::files::names::LOCK;
use crate::store::LockMode;
use crate::store::mark_renewal::{mark_file, renewable_in};
use crate::store::open::lock_existing;
use crate::{DurabilityError, Entry, Recoverable, Result};

/// Reads a whole folder, which may be read-only. Entries that count go to `target`, even if other data is damaged.
///
/// # Errors
/// [`DurabilityError::InUse`] if a process has the database open; [`DurabilityError::NoDatabase`] or
/// [`DurabilityError::NotADatabase`] without a database; [`DurabilityError::OtherEntries`] if `target` takes another
/// kind of entries; [`DurabilityError::NotMounted`] or [`DurabilityError::FolderMissing`] if the device of a folder is
/// missing; the disk's. Damage is no error. [`Examination::unread`] lists unreadable files. A copy can be examined.
pub fn examine(disk: &Arc<dyn Disk>, target: &dyn Recoverable) -> Result<Examination> {
    let mut refusals = Vec::new();
    let mut note = |why| match why {
        why @ DurabilityError::NotMounted { .. } => Err(why),
        why => {
            refusals.push(why);
            Ok(())
        }
    };
    let locks = lock_existing(&**disk, LockMode::Shared, &mut note)?;
    let judged = examine_locked(disk, target);
    // Without a lock file, another process may have opened the database: its changes would look like damage.
    if !locks.has_file() && disk.lock_to_read(LOCK)?.is_some() {
        return Err(DurabilityError::InUse { path: LOCK.into() });
    }
    let (mut found, seen) = judged?;
    for refusal in refusals {
        match refusal {
            why @ DurabilityError::Copied { .. } => found.refused.push(why.to_string()),
            why => found.record_finding(why)?,
        }
    }
    if !found.is_whole() {
        found.durable_epoch = None;
        found.remedy = Some(remedy(&**disk, &found, seen)?);
    }
    assert_eq!(found.is_whole(), found.remedy.is_none(), "damage has a remedy, or a reason for none");
    Ok(found)
}

/// Remedy for the findings. A mark that a repair writes anew is no obstacle to a cut.
fn remedy(disk: &dyn Disk, found: &Examination, seen: Epoch) -> Result<Remedy> {
    assert!(!found.is_whole(), "what is whole is left alone");
    let marks: Vec<String> = renewable_in(disk)?.iter().map(|folder| mark_file(folder)).collect();
    let is_other = |damage: &&Damage| !marks.contains(&damage.file);
    let others =
        Examination { damage: found.damage.iter().filter(is_other).cloned().collect(), ..found.clone() };
    if others.is_whole() {
        return Ok(Remedy::Marks(marks));
    }
    Ok(match repair_plan::plan(disk, &others, seen) {
        Ok(plan) => Remedy::Cut(plan.loss),
        Err(NoRepair::BelowThePicture(why, plan)) => Remedy::PictureAlone { why, loss: plan.loss },
        Err(NoRepair::Reason(why)) => Remedy::Copy(why),
        Err(NoRepair::Error(error)) => return Err(error),
    })
}

/// Like [`examine`], but then, if nothing is damaged, shows the entries that count, of all logs, in TID order, until
/// `visit` breaks. The function reads the entries a second time. Memory holds only entries of neighbouring epochs.
/// Entries that the checkpoint covers are not shown; from the checkpoint's first epoch on, the entries are complete.
///
/// If a process ended without a close, its last writes may be only in the system's cache. A caller may act on a shown
/// entry, so these writes are written again and synced first, as an open does before service.
///
/// # Errors
/// As for [`examine`]; errors of a file that reads differently the second time, or that cannot be written.
pub fn visit_log(
    disk: &Arc<dyn Disk>,
    target: &dyn Recoverable,
    visit: &mut dyn FnMut(Entry<'_>) -> ControlFlow<()>,
) -> Result<Examination> {
    let mut damage = Vec::new();
    let mut note = |why| Damage::from_error(why).map(|found| damage.push(found));
    let _locks = lock_existing(&**disk, LockMode::Exclusive, &mut note)?;
    let mut judge = Judge::new(disk);
    judge.run_to_end(target)?;
    judge.found.damage.extend(damage);
    if judge.found.is_whole() {
        judge.open_chains.iter().try_for_each(|chain| resync_tail::rewrite(&**disk, chain, AtOnce::File))?;
        tid_order::visit(&**disk, judge.logs, visit)?;
    }
    Ok(judge.found)
}

/// As [`examine`], for a caller that holds the lock, without a remedy. Also returns the largest epoch in the folder.
pub(super) fn examine_locked(disk: &Arc<dyn Disk>, target: &dyn Recoverable) -> Result<(Examination, Epoch)> {
    let mut judge = Judge::new(disk);
    judge.run_to_end(target)?;
    Ok((judge.found, judge.seen))
}
