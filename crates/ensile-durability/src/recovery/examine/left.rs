//! What a process-safe life left in a folder that nobody has opened since, for a backup of it
//! (docs/protocols/process.md).
//!
//! Invariant: B4: a backup of such a folder has what D covers, and says what it has not. Nothing is changed.
//!
//! Neighbours: a backup asks before it copies, and behind its last read; `recovery::taking` finds and counts, as for an
//! open.

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

/// What a process-safe life returned, and what a copy of this folder has not. `None` if there was no such life, if it
/// was closed, or if a process has the database open: that one's heap has all.
///
/// # Errors
/// The disk's. Damage is none here: who copies comes upon it.
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
    // Behind the locks: an open that has ended meanwhile has taken it.
    let manifest = expect_manifest(disk)?;
    let Some(open) = manifest.generations.last().filter(|_| names_life(&manifest)) else { return Ok(None) };
    let left = taking::find(disk, &manifest, open)?;
    let mut chains = Vec::new();
    let judged = Damage::unless(judge(disk, (&manifest, open), &mut chains))?.flatten();
    let taken = match judged {
        Some(durable) => Damage::unless(taken(disk, (&left, open), &chains, durable))?,
        None => None,
    };
    let is_whole = taken.is_some();
    let covered = manifest.checkpoint.as_ref().map(InstalledCheckpoint::covered).unwrap_or_default();
    let life = JudgedLife { generation: open, chains: &chains, durable: judged, covered, is_whole };
    taking::left_uncopied(disk, &left, life, taken.flatten().is_some())
}

/// D of the open generation, whose logs are put into `chains` as far as they are whole; `None` without one.
fn judge(
    disk: &dyn Disk,
    (manifest, open): (&Manifest, &Generation),
    chains: &mut Vec<Chain>,
) -> Result<Option<Epoch>, DurabilityError> {
    let hint = judgement::hint(disk, manifest, &mut FirstEnds)?;
    let checkpoint = manifest.checkpoint.as_ref();
    let covered = checkpoint.map(InstalledCheckpoint::covered).unwrap_or_default();
    let mut found = listing::find(disk, manifest)?.logs;
    for logger in 0..open.logs {
        let files = listing::take_listed(&mut found, (open.number, logger))?;
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

/// What an open would write behind the logs, if anything.
fn taken(
    disk: &dyn Disk,
    (left, open): (&taking::LeftByProcess, &Generation),
    chains: &[Chain],
    durable: Epoch,
) -> Result<Option<taking::Lacking>, DurabilityError> {
    if let taking::LeftByProcess::UnknownBoot = left {
        return Ok(None);
    }
    let Some(buffers) = left.buffers(disk, open)? else { return Ok(None) };
    Ok(TakenLife::of(disk, chains, buffers, durable)?.lacking)
}
