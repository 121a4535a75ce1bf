//! Judgement of a folder, shared by open, examination and repair. The three differ in the treatment of findings: an
//! open ends with the first finding, an examination notes the finding and continues, in the same order.
//!
//! The order is: the hint's owner ([`hint`]); the folders, the names and the checkpoint's files ([`Inventory::take`]);
//! each log file alone (`FileChain::read`, on any thread); each log, put together from its files ([`log`]); each
//! generation ([`generation`]); the reserved epochs ([`check_reserved_epochs`]); the payloads (`load`, `replay`).
//!
//! Neighbours: `recovery` and `examination` call; `log_files`, `chain`, `durable_epoch`, `load` judge the parts.

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::chain::{self, Chain};
use super::durable_epoch::{self, Verdict};
use super::load::Load;
use super::log_files::{self, Files, FoundFiles};
use crate::checkpoint::orphans;
use crate::files::hint::Hint;
use crate::files::log::file_chain::FileChain;
use crate::files::manifest::Manifest;
use crate::files::manifest::generation::Generation;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::files::names::{HINT, MANIFEST, SegmentFile};
use crate::{DurabilityError, Result};

pub(super) trait Findings {
    /// Takes a finding; an error ends the judgement.
    fn record_finding(&mut self, finding: DurabilityError) -> Result<()>;

    /// The value; `None` for an error, which is recorded as a finding.
    fn note<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(finding) => self.record_finding(finding).map(|()| None),
        }
    }
}

/// Findings of an open: the first finding ends the judgement.
#[derive(Debug)]
pub(super) struct FirstEnds;

impl Findings for FirstEnds {
    fn record_finding(&mut self, finding: DurabilityError) -> Result<()> {
        Err(finding)
    }
}

#[derive(Debug, Default)]
pub(super) struct Inventory {
    pub(super) listed: Files,
    /// Files of unlisted logs, without an entry that counts.
    pub(super) unlisted: Files,
    pub(super) unfinished: Vec<SegmentFile>,
    /// Files of `unlisted` and `unfinished` that prove to be this database's, or that end before a whole opening block.
    pub(super) removable: Vec<SegmentFile>,
    /// Files of a backup: files needed by older states only, and files of an unfinished run.
    pub(super) older: Vec<SegmentFile>,
    pub(super) left: Vec<SegmentFile>,
    /// Load of the checkpoint; `None` if a file of the checkpoint cannot be read.
    pub(super) load: Option<Load>,
}

impl Inventory {
    /// Lists the log files in this database's folders, and the checkpoint's files. `None` if a finding prevents that.
    pub(super) fn take(
        disk: &dyn Disk,
        manifest: &Manifest,
        findings: &mut impl Findings,
    ) -> Result<Option<Self>> {
        let Manifest { checkpoint, generations, .. } = manifest;
        let found = log_files::find(disk, manifest);
        let Some(found) = findings.note(found)? else { return Ok(None) };
        let FoundFiles { logs: mut unlisted, unfinished, older, left } = found;
        let mut listed = Files::new();
        for generation in generations {
            for logger in 0..generation.logs {
                let files = log_files::take_listed(&mut unlisted, generation.number, logger);
                let files = findings.note(files)?;
                listed.extend(files.map(|files| ((generation.number, logger), files)));
            }
        }
        assert!(listed.values().all(|files| !files.is_empty()), "a log without files is missing");
        let mut removable =
            findings.note(log_files::check_unlisted(disk, manifest, &unlisted))?.unwrap_or_default();
        if findings.note(log_files::check_unfinished(disk, manifest, &unfinished))?.is_some() {
            removable.extend(&unfinished);
        }
        findings.note(orphans::check_unlisted(disk, manifest))?;
        let load = findings.note(Load::new(disk, checkpoint.clone()))?;
        Ok(Some(Self { listed, unlisted, unfinished, removable, older, left, load }))
    }
}

/// Hint of the folder, if usable. Another database's hint is a finding (I1): an open would overwrite that hint.
pub(super) fn hint(
    disk: &dyn Disk,
    manifest: &Manifest,
    findings: &mut impl Findings,
) -> Result<Option<Hint>> {
    let read = Hint::read(disk).map_err(DurabilityError::from);
    let Some(hint) = findings.note(read)?.flatten() else { return Ok(None) };
    let ours = manifest.check_ours(HINT, hint.database);
    Ok(findings.note(ours)?.map(|()| hint))
}

/// Checks that every shown epoch was reserved (L6): otherwise an older manifest was put back. `seen` is of the blocks.
pub(super) fn check_reserved_epochs(
    manifest: &Manifest,
    hint: Option<&Hint>,
    seen: Epoch,
    findings: &mut impl Findings,
) -> Result<()> {
    let Some(open) = manifest.generations.last() else { return Ok(()) };
    let hint = hint.filter(|hint| hint.belongs_to(open));
    let hinted = hint.map_or(Epoch::ZERO, |hint| hint.durable.max(hint.ended.unwrap_or_default()));
    let (shown, witness) = if hinted > seen { (hinted, "HINT") } else { (seen, "a log") };
    if shown < manifest.reserved {
        return Ok(());
    }
    let detail = format!(
        "it is an older one: it reserves the epochs below {}, and {witness} shows that epoch {shown} was used",
        manifest.reserved
    );
    findings.record_finding(DurabilityError::damaged_file(MANIFEST, 0, detail))
}

/// Puts a log together; a checkpoint holds the epochs below `covered`. `None` if the files do not fit together.
pub(super) fn log(
    disk: &dyn Disk,
    generation: &Generation,
    files: Vec<FileChain>,
    covered: Epoch,
    findings: &mut impl Findings,
) -> Result<Option<Chain>> {
    assert!(files.iter().all(|file| file.file.name.generation == generation.number), "of this generation");
    for file in &files {
        if findings.note(chain::check_origin(generation, file))?.is_none() {
            return Ok(None);
        }
    }
    findings.note(Chain::stitch(disk, files, covered))
}

/// Decides D of a generation; `chains` has a chain for every log. `None` if the generation is damaged.
pub(super) fn generation(
    generation: &Generation,
    chains: &[Chain],
    hint: Option<&Hint>,
    checkpoint: Option<&InstalledCheckpoint>,
    findings: &mut impl Findings,
) -> Result<Option<Verdict>> {
    assert_eq!(chains.len(), generation.logs as usize, "L5: D is the minimum over all logs");
    let hint = hint.filter(|hint| hint.belongs_to(generation));
    let own = checkpoint.and_then(|checkpoint| checkpoint.written_in(generation.number));
    if generation.logs == 0 {
        let picture = checkpoint.filter(|_| own.is_some());
        return findings.note(durable_epoch::decide_without_log(generation, picture, hint));
    }
    let verdict = match durable_epoch::decide(generation, chains, hint) {
        Ok(verdict) => verdict,
        Err(damages) => {
            damages.into_iter().try_for_each(|damage| findings.record_finding(damage))?;
            return Ok(None);
        }
    };
    if let Some(own) = own {
        findings.note(durable_epoch::check_checkpoint_durable(&own, verdict.durable, chains))?;
    }
    Ok(Some(verdict))
}
