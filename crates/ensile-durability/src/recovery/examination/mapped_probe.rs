//! Results that a process-safe process left in a folder not opened since, reported for a backup of the folder.
//!
//! Invariant B4: a backup of such a folder has the results that D covers, and reports the others.
//!
//! Neighbours: a backup asks before and after the copy; `recovery::mapped_tail` finds the results, as for an open.

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::super::chain::Chain;
use super::super::log_files;
use super::super::mapped_tail::{self, EntriesToTake, JudgedLife};
use super::super::validation::{self, FirstEnds};
use super::facts::Damage;
use crate::files::log::file_chain::FileChain;
use crate::files::manifest::Manifest;
use crate::files::manifest::generation::Generation;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::store::LockMode;
use crate::store::open::lock_existing;
use crate::store::ownership::expect_manifest;
use crate::unproven_tail::{NotProven, NotProvenReason};
use crate::{DurabilityError, Result};

/// Results of a process-safe process that a copy of this folder lacks. `None` without such a life, if that life was
/// closed, or if a process has the database open, whose heap has all results. Damage is no error here.
pub(crate) fn left_behind(disk: &dyn Disk) -> Result<Option<NotProven>> {
    let names_life = |manifest: &Manifest| manifest.mapped.is_some();
    if !names_life(&expect_manifest(disk)?) {
        return Ok(None);
    }
    let _locks = match lock_existing(disk, LockMode::Shared, &mut |_| Ok(())) {
        Ok(locks) => locks,
        Err(DurabilityError::InUse { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    // The manifest is read again under the locks: an open that has ended meanwhile has recovered the results.
    let manifest = expect_manifest(disk)?;
    let Some(open) = manifest.generations.last().filter(|_| names_life(&manifest)) else { return Ok(None) };
    let left = mapped_tail::find(disk, &manifest, open)?;
    let mut chains = Vec::new();
    let judged = Damage::unless(judge(disk, &manifest, open, &mut chains))?.flatten();
    let taken = match judged {
        Some(durable) => Damage::unless(entries_to_append(disk, &left, open, &chains, durable))?,
        None => None,
    };
    let is_whole = taken.is_some();
    let covered = manifest.checkpoint.as_ref().map(InstalledCheckpoint::redo_epoch).unwrap_or_default();
    let life = JudgedLife { generation: open, chains: &chains, durable: judged, covered, is_whole };
    let not_taken = taken.flatten().map(|_| NotProvenReason::NotOpened);
    mapped_tail::unproven_report(disk, &left, life, not_taken)
}

/// D of the open generation; `None` if it is damaged. Puts the logs, as far as whole, into `chains`.
fn judge(
    disk: &dyn Disk,
    manifest: &Manifest,
    open: &Generation,
    chains: &mut Vec<Chain>,
) -> Result<Option<Epoch>> {
    let hint = validation::hint(disk, manifest, &mut FirstEnds)?;
    let checkpoint = manifest.checkpoint.as_ref();
    let covered = checkpoint.map(InstalledCheckpoint::redo_epoch).unwrap_or_default();
    let mut found = log_files::find(disk, manifest)?.logs;
    for logger in 0..open.logs {
        let files = log_files::take_listed(&mut found, open.number, logger)?;
        let read = log_files::with_next(&files)
            .map(|(file, next)| FileChain::read_until(disk, file, next, open.log_bytes(file.name)))
            .collect::<Result<_, _>>()?;
        chains.extend(validation::log(disk, open, read, covered, &mut FirstEnds)?);
    }
    let verdict = validation::generation(open, chains, hint.as_ref(), checkpoint, &mut FirstEnds)?;
    Ok(verdict.map(|verdict| verdict.durable))
}

/// Entries that an open would append to the logs; `None` without such entries.
fn entries_to_append(
    disk: &dyn Disk,
    left: &mapped_tail::LeftByProcess,
    open: &Generation,
    chains: &[Chain],
    durable: Epoch,
) -> Result<Option<mapped_tail::MissingEntries>> {
    if let mapped_tail::LeftByProcess::UnknownBoot = left {
        return Ok(None);
    }
    let Some(buffers) = left.buffers(disk, open)? else { return Ok(None) };
    Ok(EntriesToTake::from_buffers(disk, chains, buffers, durable)?.missing)
}
