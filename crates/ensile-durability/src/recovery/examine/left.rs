//! Results that a process-safe process left in a folder not opened since, reported for a backup of the folder
//! (docs/internals/protocols/process.md).
//!
//! Invariant B4: a backup of such a folder has the results that D covers, and reports the missing results. Nothing is
//! changed.
//!
//! Neighbours: a backup asks before the copy, and after its last read; `recovery::taking` finds the
//! results, as for an open.

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::super::chain::Chain;
use super::super::file::FileChain;
use super::super::judgement::{self, FirstEnds};
use super::super::listing;
use super::super::taking::{self, JudgedLife, TakenLife};
use super::facts::Damage;
use crate::DurabilityError;
use crate::not_proven::NotProven;
use crate::store::Hold;
use crate::store::installed::InstalledCheckpoint;
use crate::store::manifest::{Generation, Manifest};
use crate::store::open::lock_existing;
use crate::store::whose::expect_manifest;

/// Results of a process-safe process that a copy of this folder lacks. `None` if the folder has no such life, if that
/// life was closed, or if a process has the database open: the heap of an open database has all results.
///
/// # Errors
/// Errors of the disk. Damage is not an error here: the copy meets the damage itself.
pub(crate) fn left_behind(disk: &dyn Disk) -> Result<Option<NotProven>, DurabilityError> {
    let names_life = |manifest: &Manifest| manifest.mapped.is_some();
    if !names_life(&expect_manifest(disk)?) {
        return Ok(None);
    }
    let _locks = match lock_existing(disk, Hold::Shared, &mut |_| Ok(())) {
        Ok(locks) => locks,
        Err(DurabilityError::InUse { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    // The manifest is read again under the locks: an open that has ended meanwhile has recovered the results.
    let manifest = expect_manifest(disk)?;
    let Some(open) = manifest.generations.last().filter(|_| names_life(&manifest)) else { return Ok(None) };
    let left = taking::find(disk, &manifest, open)?;
    let mut chains = Vec::new();
    let judged = Damage::unless(judge(disk, &manifest, open, &mut chains))?.flatten();
    let taken = match judged {
        Some(durable) => Damage::unless(taken(disk, &left, open, &chains, durable))?,
        None => None,
    };
    let is_whole = taken.is_some();
    let covered = manifest.checkpoint.as_ref().map(InstalledCheckpoint::covered).unwrap_or_default();
    let life = JudgedLife { generation: open, chains: &chains, durable: judged, covered, is_whole };
    taking::left_uncopied(disk, &left, life, taken.flatten().is_some())
}

/// D of the open generation; `None` if the generation is damaged. Puts the generation's logs, as far as whole, into
/// `chains`.
fn judge(
    disk: &dyn Disk,
    manifest: &Manifest,
    open: &Generation,
    chains: &mut Vec<Chain>,
) -> Result<Option<Epoch>, DurabilityError> {
    let hint = judgement::hint(disk, manifest, &mut FirstEnds)?;
    let checkpoint = manifest.checkpoint.as_ref();
    let covered = checkpoint.map(InstalledCheckpoint::covered).unwrap_or_default();
    let mut found = listing::find(disk, manifest)?.logs;
    for logger in 0..open.logs {
        let files = listing::take_listed(&mut found, open.number, logger)?;
        let next = files.iter().skip(1).copied().map(Some).chain([None]);
        let read = files
            .iter()
            .copied()
            .zip(next)
            .map(|(file, next)| FileChain::read_until(disk, file, next, open.log_bytes(file.name)));
        let read = read.collect::<Result<Vec<_>, _>>()?;
        chains.extend(judgement::log(disk, open, read, covered, &mut FirstEnds)?);
    }
    let verdict = judgement::generation(open, chains, hint.as_ref(), checkpoint, &mut FirstEnds)?;
    Ok(verdict.map(|verdict| verdict.durable))
}

/// Entries that an open would append to the logs; `None` without such entries.
fn taken(
    disk: &dyn Disk,
    left: &taking::LeftByProcess,
    open: &Generation,
    chains: &[Chain],
    durable: Epoch,
) -> Result<Option<taking::Lacking>, DurabilityError> {
    if let taking::LeftByProcess::UnknownBoot = left {
        return Ok(None);
    }
    let Some(buffers) = left.buffers(disk, open)? else { return Ok(None) };
    Ok(TakenLife::of(disk, chains, buffers, durable)?.lacking)
}
