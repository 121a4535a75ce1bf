//! Repair of a damaged folder: a cut to the last consistent epoch, on request, with copies of the parts to be cut.
//!
//! Invariants:
//! - L4: the next generation begins above every epoch in the folder's files, and the given-up epochs stay discarded.
//! - A crash in between leaves a folder that can be repaired again, with the same result: the copies are synced before
//!   the manifest is replaced, and no file is cut or removed before that.
//!
//! Neighbours: `repair_plan` has made the plan from an [`Examination`]; the last part is recovery's own `finish`.

use std::sync::Arc;

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::super::install_generation::Recovered;
use super::super::load::Load;
use super::super::replay_state::Recovery;
use super::facts::{Damage, Examination, Loss, Repaired, Unread};
use super::folder_examination::examine_locked;
use super::judge::NullState;
use super::repair_plan::{self, GIVE_UP, NoRepair, PICTURE_ALONE, RepairPlan};
use crate::files::manifest::ManifestKeeper;
use crate::files::names::{MANIFEST, SegmentFile, log_folder, logger_of};
use crate::log::LogConfig;
use crate::store::archive::copy_range;
use crate::store::claim::{Wanted, claim};
use crate::store::folders::is_folder;
use crate::store::mark_renewal::{mark_file, renew_marks, renewable_in, renewable_marks};
use crate::store::open::lock_existing;
use crate::store::ownership::expect_manifest;
use crate::store::unlocked_disk_guard::guard_disk;
use crate::store::{LockMode, Locks};
use crate::{DurabilityError, Recoverable, Result};

/// Cuts a damaged folder; `None` if nothing is damaged. `target` receives the entries before and after, and keeps none.
///
/// # Errors
/// As for [`super::examine`]; [`DurabilityError::Config`] with the reason if no cut leaves a consistent state;
/// [`DurabilityError::Damaged`] if the folder is damaged after the repair, or if a log's folder is missing.
pub fn repair(disk: &Arc<dyn Disk>, target: &dyn Recoverable) -> Result<Option<Repaired>> {
    repair_with(disk, target, RepairOptions::default())
}

/// Losses that a repair accepts only on request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairOptions {
    /// Contents of missing log folders. Without this option, a missing folder counts as a device that is not mounted.
    pub without_missing_folders: bool,
    /// Contents of the whole log, if no cut helps: the installed picture is kept as is.
    pub picture_alone: bool,
}

/// As [`repair`], but accepts the losses in `options`.
///
/// # Errors
/// As for [`repair`]; [`DurabilityError::Config`] if a cut of the log keeps more than the picture alone.
pub fn repair_with(
    disk: &Arc<dyn Disk>,
    target: &dyn Recoverable,
    options: RepairOptions,
) -> Result<Option<Repaired>> {
    let mut renewable = renewable_in(&**disk)?;
    let marks: Vec<String> = renewable.iter().map(|folder| mark_file(folder)).collect();
    let mut locks = lock_existing(&**disk, LockMode::Exclusive, &mut |why| match why {
        DurabilityError::Damaged { file, .. } if marks.contains(&file) => Ok(()),
        why => note_missing(options, why),
    })?;
    let disk = &guard_disk(disk, &locks)?;
    let (found, seen) = examine_locked(disk, target)?;
    let plan = (!found.is_whole()).then(|| plan(&**disk, &found, seen, options)).transpose()?;
    if !renewable.is_empty() {
        // The marks are checked again under the locks: another process may have adopted the folder meanwhile.
        let manifest = expect_manifest(&**disk)?;
        let now = renewable_marks(&**disk, &manifest)?;
        renewable.retain(|folder| now.contains(folder));
        renew_marks(&**disk, &manifest, &renewable, &mut locks)?;
    }
    let marks: Vec<String> = renewable.iter().map(|folder| mark_file(folder)).collect();
    let Some(plan) = plan else {
        let is_renewed = !marks.is_empty();
        return Ok(is_renewed.then(|| Repaired { loss: Loss::default(), copies: None, marks }));
    };
    let copies = copy_aside(&**disk, &plan.loss)?;
    let loss = plan.loss.clone();
    // The locks are held until the second examination has ended.
    let _recovered = carry_out(disk, plan, locks)?;
    check(&examine_locked(disk, target)?.0, &copies)?;
    Ok(Some(Repaired { loss, copies: Some(copies), marks }))
}

fn plan(disk: &dyn Disk, found: &Examination, seen: Epoch, options: RepairOptions) -> Result<RepairPlan> {
    assert!(!found.is_whole(), "what is whole is left alone");
    match repair_plan::plan(disk, found, seen) {
        Ok(_) if options.picture_alone => Err(DurabilityError::config(
            "a cut of the log keeps more than the picture alone: `ensile verify DIR --repair`",
        )),
        Ok(plan) => Ok(plan),
        Err(NoRepair::BelowThePicture(_, plan)) if options.picture_alone => Ok(*plan),
        Err(NoRepair::BelowThePicture(why, _)) => Err(DurabilityError::config(format!(
            "{why}; to keep the picture, and give up all of the log: {PICTURE_ALONE}"
        ))),
        Err(NoRepair::Reason(why)) => Err(DurabilityError::config(why)),
        Err(NoRepair::Error(error)) => Err(error),
    }
}

/// Ignores a missing log folder if `options` permit: its device may not be mounted (I2). Foreign folders stay (I1).
fn note_missing(options: RepairOptions, why: DurabilityError) -> Result<()> {
    match why {
        DurabilityError::Damaged { file, .. }
            if options.without_missing_folders && logger_of(&file).is_some() =>
        {
            Ok(())
        }
        DurabilityError::Damaged { file, offset, detail } if logger_of(&file).is_some() => {
            let detail = format!("{detail}, or say that what it held is to be given up ({GIVE_UP})");
            Err(DurabilityError::Damaged { file, offset, detail })
        }
        why => Err(why),
    }
}

/// Checks that the folder is whole after a repair.
fn check(left: &Examination, copies: &str) -> Result<()> {
    if let Some(Unread { path, detail }) = left.unread.first() {
        return Err(DurabilityError::config(format!(
            "{} cannot be read after the cut ({detail}), so it is unknown whether the repair is whole; what was cut is in \
             {copies}",
            path.display()
        )));
    }
    let Some(Damage { file, offset, detail, .. }) = left.damage.first() else { return Ok(()) };
    let detail =
        format!("{detail}; a repair has cut what it could, and left this; what was cut is in {copies}");
    Err(DurabilityError::damaged_file(file, *offset, detail))
}

/// Copies the parts to be cut, and the manifest, into a new folder. Returns the folder's name.
fn copy_aside(disk: &dyn Disk, loss: &Loss) -> Result<String> {
    let mut number = 1;
    while disk.exists(&format!("repaired-{number}"))? {
        number += 1;
    }
    let folder = format!("repaired-{number}");
    disk.create_folder(&folder)?;
    let manifest = (MANIFEST.to_owned(), 0);
    for (name, from) in loss.files.iter().chain([&manifest]) {
        let flat = name.replace('/', "-");
        let to = if *from == 0 { flat } else { format!("{flat}-from-{from}") };
        copy(disk, name, *from, &format!("{folder}/{to}"))?;
    }
    disk.sync_folder(&folder)?;
    disk.sync_folder("")?;
    Ok(folder)
}

fn copy(disk: &dyn Disk, from: &str, offset: u64, to: &str) -> Result<()> {
    let (source, copy) = (disk.open_to_read(from)?, disk.create(to)?);
    let end = copy_range(&*source, &*copy, offset..u64::MAX)?;
    assert_eq!(copy.len()?, end - offset, "all of {from} is in {to}");
    Ok(copy.sync_all()?)
}

/// Makes the cut durable, like a recovery that ends at the cut.
fn carry_out(disk: &Arc<dyn Disk>, plan: RepairPlan, mut locks: Locks) -> Result<Recovered> {
    let mut keeper = ManifestKeeper::new(disk, expect_manifest(&**disk)?);
    // The archive keeps the given-up entries, so the archive must not continue from there.
    keeper.end_archive();
    let load = Load::new(&**disk, keeper.manifest().checkpoint.clone())?;
    let RepairPlan { loss, judged, last: (number, logs) } = plan;
    let cut = &judged.generations.last().expect("a generation is cut").generation;
    let target = NullState(cut.entries);
    load.items().try_for_each(|item| load.load(item, &**disk, &target))?;
    assert!(judged.seen >= loss.durable, "L4: the next generation begins above what is kept");
    assert_eq!(cut.durable, Some(loss.durable), "it is closed at the cut");
    let is_removed = |file: &SegmentFile| judged.given_up.contains(file);
    assert!(!judged.cuts.iter().any(|(file, _)| is_removed(file)), "a file is cut or removed");
    let config = LogConfig { loggers: logs as usize, ..LogConfig::default() };
    // Every file of the next generation needs a folder. A removed folder is made anew.
    for folder in (0..logs).map(log_folder) {
        if !is_folder(&**disk, &folder)? {
            keeper.folders_mut().remove(&folder);
        }
    }
    let logs = Wanted { count: config.loggers, links: &[], name: log_folder };
    locks.extend(claim(&mut keeper, &[logs])?.0);
    let mut recovery = Recovery::new(Arc::clone(disk), keeper, config, locks, load, judged);
    (recovery.report.durable_epoch, recovery.report.generation) = (loss.durable, number + 1);
    recovery.finish(&target)
}
