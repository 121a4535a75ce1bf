//! The judgement over a folder, one for all that ask: an open, an examination and a repair differ in where findings go.
//!
//! In this order: whose the hint is ([`hint`]); the folders, the names and the checkpoint's files
//! ([`Inventory::take`]); each log file by itself (`FileChain::read`, on any thread); each log, put together from its
//! files ([`log`]); each generation ([`generation`]); the epochs that are reserved ([`reserved`]); the payloads
//! (`load`, `replay`).
//!
//! Invariants:
//! - An open ends with the first finding. An examination notes it and goes on, in the same order. So where an open
//!   ends, an examination has the same finding, and where an examination has none, an open finds none.
//! - A repair judges what it is about to leave with the same verdict, and what it has left with an examination.
//!
//! Neighbours: `recovery` and `examine` call; `listing`, `chain`, `verdict`, `load` judge the parts.

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::chain::{self, Chain};
use super::file::FileChain;
use super::listing::{self, Files, FoundFiles};
use super::load::Load;
use super::verdict::{self, Verdict};
use crate::DurabilityError;
use crate::checkpoint::leftovers;
use crate::store::hint::Hint;
use crate::store::installed::InstalledCheckpoint;
use crate::store::manifest::{Generation, Manifest};
use crate::store::names::{HINT, MANIFEST, SegmentFile};

/// Where findings go.
pub(super) trait Findings {
    /// Takes a finding; an error ends the judgement.
    fn found(&mut self, finding: DurabilityError) -> Result<(), DurabilityError>;

    /// The value, or `None` for a finding.
    fn note<T>(&mut self, result: Result<T, DurabilityError>) -> Result<Option<T>, DurabilityError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(finding) => self.found(finding).map(|()| None),
        }
    }
}

/// An open's: the first finding ends it.
#[derive(Debug)]
pub(super) struct FirstEnds;

impl Findings for FirstEnds {
    fn found(&mut self, finding: DurabilityError) -> Result<(), DurabilityError> {
        Err(finding)
    }
}

/// What is there, by names.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// Files of listed logs.
    pub(super) listed: Files,
    /// Files of other logs: they hold nothing that counts.
    pub(super) unlisted: Files,
    /// What a merge left that had not ended.
    pub(super) unfinished: Vec<SegmentFile>,
    /// Those of both that prove to be this database's.
    pub(super) removable: Vec<SegmentFile>,
    /// Of a backup: what only older states have, and what a run left that had not ended.
    pub(super) older: Vec<SegmentFile>,
    pub(super) left: Vec<SegmentFile>,
    /// `None` if a file of the checkpoint cannot be read.
    pub(super) load: Option<Load>,
}

impl Inventory {
    /// Lists the files of the logs, in the folders that are this database's, and those of the checkpoint. `None` if
    /// nothing can be said by names.
    pub(super) fn take(
        disk: &dyn Disk,
        manifest: &Manifest,
        findings: &mut impl Findings,
    ) -> Result<Option<Self>, DurabilityError> {
        let Manifest { checkpoint, generations, .. } = manifest;
        let found = listing::find(disk, manifest);
        let Some(found) = findings.note(found)? else { return Ok(None) };
        let FoundFiles { logs: mut unlisted, unfinished, older, left } = found;
        let mut listed = Files::new();
        for generation in generations {
            for logger in 0..generation.logs {
                let key = (generation.number, logger);
                let files = findings.note(listing::take_listed(&mut unlisted, key))?;
                listed.extend(files.map(|files| (key, files)));
            }
        }
        assert!(listed.values().all(|files| !files.is_empty()), "a log without files is missing");
        let mut removable =
            findings.note(listing::check_unlisted(disk, manifest, &unlisted))?.unwrap_or_default();
        if findings.note(listing::check_unfinished(disk, manifest, &unfinished))?.is_some() {
            removable.extend(&unfinished);
        }
        findings.note(leftovers::check_unlisted(disk, manifest))?;
        let load = findings.note(Load::new(disk, checkpoint.clone()))?;
        Ok(Some(Self { listed, unlisted, unfinished, removable, older, left, load }))
    }
}

/// The hint, if it says anything. One of another database is a finding, and says nothing (I1): an open would write over
/// it.
pub(super) fn hint(
    disk: &dyn Disk,
    manifest: &Manifest,
    findings: &mut impl Findings,
) -> Result<Option<Hint>, DurabilityError> {
    let read = Hint::read(disk).map_err(DurabilityError::from);
    let Some(hint) = findings.note(read)?.flatten() else { return Ok(None) };
    let ours = manifest.check_ours(HINT, hint.database);
    Ok(findings.note(ours)?.map(|()| hint))
}

/// No epoch that anything shows is one that was never reserved (L6): such a manifest is an older one, put back. `seen`:
/// the largest epoch in any block.
pub(super) fn reserved(
    manifest: &Manifest,
    hint: Option<&Hint>,
    seen: Epoch,
    findings: &mut impl Findings,
) -> Result<(), DurabilityError> {
    let Some(open) = manifest.generations.last() else { return Ok(()) };
    let hint = hint.filter(|hint| hint.is_of(open));
    let hinted = hint.map_or(Epoch::ZERO, |hint| hint.durable.max(hint.ended.unwrap_or_default()));
    let (shown, witness) = if hinted > seen { (hinted, "HINT") } else { (seen, "a log") };
    if shown < manifest.reserved {
        return Ok(());
    }
    let detail = format!(
        "it is an older one: it reserves the epochs below {}, and {witness} shows that epoch {shown} was used",
        manifest.reserved
    );
    findings.found(DurabilityError::damaged(MANIFEST, 0, detail))
}

/// Puts a log together from its files; entries of epochs below `covered` are in a checkpoint. `None` if they do not go
/// together.
pub(super) fn log(
    disk: &dyn Disk,
    generation: &Generation,
    files: Vec<FileChain>,
    covered: Epoch,
    findings: &mut impl Findings,
) -> Result<Option<Chain>, DurabilityError> {
    assert!(files.iter().all(|file| file.file.name.generation == generation.number), "of this generation");
    for file in &files {
        if findings.note(chain::check_origin(generation, file))?.is_none() {
            return Ok(None);
        }
    }
    findings.note(Chain::stitch(disk, files, covered))
}

/// Decides over a generation, whose logs all have a chain here. `None` if it is damaged.
pub(super) fn generation(
    generation: &Generation,
    chains: &[Chain],
    hint: Option<&Hint>,
    checkpoint: Option<&InstalledCheckpoint>,
    findings: &mut impl Findings,
) -> Result<Option<Verdict>, DurabilityError> {
    assert_eq!(chains.len(), generation.logs as usize, "L5: D is the minimum over all logs");
    let hint = hint.filter(|hint| hint.is_of(generation));
    let own = checkpoint.and_then(|checkpoint| checkpoint.written_in(generation.number));
    if generation.logs == 0 {
        let picture = checkpoint.filter(|_| own.is_some());
        return findings.note(verdict::decide_without_log(generation, picture, hint));
    }
    let verdict = match verdict::decide(generation, chains, hint) {
        Ok(verdict) => verdict,
        Err(damages) => {
            damages.into_iter().try_for_each(|damage| findings.found(damage))?;
            return Ok(None);
        }
    };
    if let Some(written) = own {
        findings.note(verdict::check_high(written, verdict.durable, chains))?;
    }
    Ok(Some(verdict))
}
