//! Reads a folder from the manifest to the last block, and notes findings instead of ending at the first.
//!
//! Neighbours: [`super::examine`] asks; `recovery::judgement` judges, as for an open.

use std::sync::Arc;

use ensile_base::Epoch;
use ensile_disk::{Disk, DiskError};

use super::super::chain::Chain;
use super::super::file::FileChain;
use super::super::judgement::{self, Findings, Inventory};
use super::super::listing::Files;
use super::super::load::Load;
use super::super::reading::ReadBuffers;
use super::super::replay::{self, Bounds, LogPiece};
use super::super::report::RecoveryReport;
use super::facts::{
    BackupFacts, CheckpointFacts, Damage, Examination, FileFacts, GenerationFacts, PictureFacts, RangeFacts,
    Role,
};
use super::{Elsewhere, Nowhere};
use crate::checkpoint::leftovers::{self, CheckpointFile};
use crate::store::hint::Hint;
use crate::store::installed::{InstalledCheckpoint, PictureCheckpoint};
use crate::store::manifest::{Generation, Manifest};
use crate::store::names::{
    ARCHIVE_FOLDER, FOLDER, HINT, LEASES, LOCK, MANIFEST, MANIFEST_NEW, PageFileName, PartName, RESERVE,
    SegmentFile, SegmentName, checkpointer_of, log_folder, logger_of,
};
use crate::store::whose::expect_manifest;
use crate::{DurabilityError, Recoverable};

/// An examination under way.
pub(super) struct Judge<'a> {
    disk: &'a dyn Disk,
    target: &'a dyn Recoverable,
    covered: Epoch,
    hint: Option<Hint>,
    pub(super) found: Examination,
    /// What counts of each log of each generation, in the order in which it stands there.
    pub(super) logs: Vec<Vec<LogPiece>>,
    /// The logs of the generation over which no recovery has decided.
    pub(super) open_chains: Vec<Chain>,
    /// The largest epoch that anything shows, damaged or not (L4).
    pub(super) seen: Epoch,
    /// The largest in what is this database's: chains that go together, and the checkpoint (L6).
    shown: Epoch,
}

impl<'a> Judge<'a> {
    pub(super) fn new(disk: &'a Arc<dyn Disk>, target: &'a dyn Recoverable) -> Self {
        Self {
            disk: &**disk,
            target,
            covered: Epoch::ZERO,
            hint: None,
            found: Examination::default(),
            logs: Vec::new(),
            open_chains: Vec::new(),
            seen: Epoch::ZERO,
            shown: Epoch::ZERO,
        }
    }

    /// An epoch was used.
    fn saw(&mut self, epoch: Epoch) {
        self.seen = self.seen.max(epoch);
    }

    /// What a file shows, also where it does not belong to its log's chain.
    fn saw_file(&mut self, file: &FileChain) {
        self.saw(file.seen.max(file.published));
        self.saw(file.tail.epochs.map_or(Epoch::ZERO, |(_, high)| high));
    }

    pub(super) fn look(&mut self) -> Result<(), DurabilityError> {
        self.list_root()?;
        let Some(manifest) = self.found.note(expect_manifest(self.disk))? else { return Ok(()) };
        self.found.backup = BackupFacts::of(&manifest);
        self.hint = judgement::hint(self.disk, &manifest, &mut self.found)?;
        let Some(inventory) = Inventory::take(self.disk, &manifest, &mut self.found)? else {
            return Ok(());
        };
        let Inventory { mut listed, unlisted, unfinished, load, .. } = inventory;
        let Manifest { checkpoint, generations, .. } = &manifest;
        self.saw(self.hint.as_ref().map_or(Epoch::ZERO, |hint| hint.durable));
        self.load(&manifest, load)?;
        for generation in generations {
            self.saw(generation.first.previous().max(generation.durable.unwrap_or_default()));
            self.generation(generation, checkpoint.as_ref(), &mut listed)?;
        }
        for file in unlisted.values().flatten() {
            if let Some(chain) = self.found.note(FileChain::read(self.disk, *file, None))? {
                self.saw_file(&chain);
            }
            self.add_file(file.to_string(), Role::Discarded("of a generation that is not needed any more"))?;
        }
        for file in unfinished {
            self.add_file(file.to_string(), Role::Discarded("of a merge that had not ended"))?;
        }
        self.list_foreign()?;
        judgement::reserved(&manifest, self.hint.as_ref(), self.shown, &mut self.found)?;
        if self.found.is_whole() {
            // As a recovery says it once nothing is left (L8).
            self.target.passed(Epoch::MAX);
            assert_eq!(self.found.generations.len(), generations.len(), "each generation is judged");
            let durable = self.found.generations.last().and_then(|last| last.durable);
            self.found.durable_epoch = durable;
            self.found.backup.iter_mut().for_each(|facts| facts.is_whole_up_to(durable));
        }
        Ok(())
    }

    /// Lists a file. One that is none of ours may be unreadable, or a link to nothing: it is not needed.
    fn add_file(&mut self, name: String, role: Role) -> Result<(), DurabilityError> {
        let length = self.disk.open_to_read(&name).and_then(|file| file.len());
        let length = if role == Role::Foreign { Some(length.unwrap_or(0)) } else { self.length(length)? };
        let bytes = length.unwrap_or(0);
        self.found.files.push(FileFacts { name, role, bytes, whole_bytes: None, entries: 0, epochs: None });
        Ok(())
    }

    fn length(&mut self, length: Result<u64, DiskError>) -> Result<Option<u64>, DurabilityError> {
        self.found.note(length.map_err(DurabilityError::from))
    }

    fn list_root(&mut self) -> Result<(), DurabilityError> {
        for name in self.disk.list("")? {
            // A link to a folder is one of the folders that hold the files.
            if logger_of(&name).is_some() || checkpointer_of(&name).is_some() || name == ARCHIVE_FOLDER {
                continue;
            }
            let role = match &*name {
                MANIFEST => Role::Manifest,
                HINT => Role::Hint,
                RESERVE => Role::Reserve,
                MANIFEST_NEW => Role::Discarded("a manifest that was being written"),
                LOCK | LEASES => Role::Lock,
                _ => Role::Foreign,
            };
            self.add_file(name, role)?;
        }
        Ok(())
    }

    /// Files in the logs' folders that no log has.
    fn list_foreign(&mut self) -> Result<(), DurabilityError> {
        let loggers = self.found.generations.iter().map(|generation| generation.logs).max().unwrap_or(0);
        for logger in 0..loggers {
            let folder = log_folder(logger);
            if !self.disk.exists(&folder)? {
                continue;
            }
            for name in self.disk.list(&folder)? {
                if SegmentFile::parse(logger, &name).is_none() {
                    let role = match &*name {
                        FOLDER => Role::Folder,
                        RESERVE => Role::Reserve,
                        _ => Role::Foreign,
                    };
                    self.add_file(format!("{folder}/{name}"), role)?;
                }
            }
        }
        Ok(())
    }

    /// Loads the checkpoint, all files of it, whichever are damaged.
    fn load(&mut self, manifest: &Manifest, load: Option<Load>) -> Result<(), DurabilityError> {
        let installed = manifest.checkpoint.as_ref();
        let number = installed.map_or(0, InstalledCheckpoint::number);
        for part in leftovers::list::<PartName>(self.disk, manifest)? {
            let is_installed = part.is_installed(manifest);
            let other = Role::Discarded("of a checkpoint that is not installed");
            let own = Role::Checkpoint { number: part.checkpoint };
            self.add_file(part.to_string(), if is_installed { own } else { other })?;
        }
        for file in leftovers::list::<PageFileName>(self.disk, manifest)? {
            let is_installed = file.is_installed(manifest);
            let other = Role::Discarded("of a picture that is not installed");
            self.add_file(file.to_string(), if is_installed { Role::Checkpoint { number } } else { other })?;
        }
        let Some(installed) = installed else { return Ok(()) };
        assert!(installed.is_whole(), "a manifest that is read is whole");
        let (low, high) = (installed.covered(), installed.durable_min());
        self.covered = low;
        self.saw(high);
        self.shown = self.shown.max(high);
        self.found.checkpoint = Some(CheckpointFacts {
            number: installed.number(),
            low,
            high,
            files: installed.files().len() as u64,
            entries: installed.entries(),
            bytes: installed.bytes(),
            ranges: installed.walked().into_iter().filter_map(RangeFacts::of).collect(),
            picture: None,
        });
        if let Some(load) = load {
            for item in load.items() {
                self.found.note(load.load(item, self.disk, self.target))?;
            }
            if let Some(facts) = &mut self.found.checkpoint {
                facts.picture = load.picture().map(PictureFacts::of);
            }
        }
        manifest.kept.iter().try_for_each(|picture| self.kept(picture))
    }

    /// Reads an older picture of a backup, as a restore of it would. What damages the newest one too is noted once.
    fn kept(&mut self, picture: &PictureCheckpoint) -> Result<(), DurabilityError> {
        let older = |error| match error {
            DurabilityError::Damaged { file, offset, detail } => {
                let detail = format!(
                    "{detail} (in an older picture, of epoch {}; the newest does not need it)",
                    picture.epoch
                );
                DurabilityError::Damaged { file, offset, detail }
            }
            other => other,
        };
        let is_known = |found: &Examination, error: &DurabilityError| match error {
            DurabilityError::Damaged { file, offset, .. } => {
                found.damage.iter().any(|damage| (&damage.file, damage.offset) == (file, *offset))
            }
            _ => false,
        };
        let mut note = |outcome: Result<(), DurabilityError>| match outcome {
            Err(error) if is_known(&self.found, &error) => Ok(()),
            outcome => self.found.note(outcome.map_err(older)).map(drop),
        };
        let load = match Load::new(self.disk, Some(InstalledCheckpoint::Picture(picture.clone()))) {
            Ok(load) => load,
            Err(error) => return note(Err(error)),
        };
        load.items().try_for_each(|item| note(load.load(item, self.disk, &Elsewhere(self.target))))
    }

    fn generation(
        &mut self,
        generation: &Generation,
        installed: Option<&InstalledCheckpoint>,
        files: &mut Files,
    ) -> Result<(), DurabilityError> {
        let mut chains = Vec::new();
        for logger in 0..generation.logs {
            if let Some(files) = files.remove(&(generation.number, logger)) {
                chains.extend(self.chain(&files, generation)?);
            }
        }
        assert!(chains.len() <= generation.logs as usize, "a log has one chain");
        let mut facts = GenerationFacts {
            number: generation.number,
            first: generation.first,
            logs: generation.logs,
            is_closed: generation.durable.is_some(),
            durable: None,
            entries: 0,
            ignored_entries: 0,
            covered_entries: 0,
        };
        let Self { hint, found, .. } = self;
        if chains.len() == generation.logs as usize
            && let Some(verdict) =
                judgement::generation(generation, &chains, hint.as_ref(), installed, found)?
        {
            facts.durable = Some(verdict.durable);
            found.torn_tails.extend(verdict.torn);
            found.unfinished_epochs = verdict.unfinished;
        }
        let durable = facts.durable.unwrap_or(Epoch::MAX);
        let bounds = Bounds { first: generation.first, covered: self.covered, durable };
        self.payloads(&chains, bounds, &mut facts)?;
        self.found.generations.push(facts);
        if generation.durable.is_none() {
            self.open_chains = chains;
        }
        Ok(())
    }

    /// Puts a log together from its files.
    fn chain(
        &mut self,
        files: &[SegmentFile],
        generation: &Generation,
    ) -> Result<Option<Chain>, DurabilityError> {
        let mut read = Vec::new();
        for (index, file) in files.iter().enumerate() {
            let next = files.get(index + 1).copied();
            let Some(chain) = self.found.note(FileChain::read(self.disk, *file, next))? else { continue };
            self.add_log_file(&chain)?;
            self.saw_file(&chain);
            if chain.opening.is_none() {
                // What it holds shows which epochs were used, whatever became of its first block.
                let mut behind = chain.clone();
                if self.found.note(behind.look_with(self.disk, generation.salt))?.is_some() {
                    self.saw_file(&behind);
                }
            }
            read.push(chain);
        }
        if read.len() < files.len() {
            // One contradicts itself or cannot be read, which is noted: what stands behind it cannot be judged.
            return Ok(None);
        }
        let chain = judgement::log(self.disk, generation, read, self.covered, &mut self.found)?;
        self.saw(chain.as_ref().map_or(Epoch::ZERO, |chain| chain.seen.max(chain.published)));
        self.shown = self.shown.max(chain.as_ref().map_or(Epoch::ZERO, |chain| chain.seen));
        for file in chain.iter().flat_map(|chain| &chain.discarded) {
            let name = file.to_string();
            let facts = self.found.files.iter_mut().filter(|facts| facts.name == name);
            facts.for_each(|facts| facts.role = Role::Discarded("the checkpoint covers it"));
        }
        Ok(chain)
    }

    fn add_log_file(&mut self, chain: &FileChain) -> Result<(), DurabilityError> {
        let SegmentName { generation, logger, .. } = chain.file.name;
        let name = chain.file.to_string();
        let length = self.disk.open_to_read(&name).and_then(|file| file.len());
        let Some(bytes) = self.length(length)? else { return Ok(()) };
        assert!(chain.end <= bytes, "the whole part of {name} is in it");
        self.found.files.push(FileFacts {
            name,
            role: Role::Log { generation, logger },
            bytes,
            whole_bytes: Some(chain.end),
            entries: chain.runs.iter().map(|run| run.entries).sum(),
            epochs: chain.epochs(),
        });
        Ok(())
    }

    /// Hands over the entries of a generation's logs that count, the oldest first, and checks those that do not.
    fn payloads(
        &mut self,
        chains: &[Chain],
        bounds: Bounds,
        facts: &mut GenerationFacts,
    ) -> Result<(), DurabilityError> {
        let mut buffers = ReadBuffers::default();
        // Of each log what does not count, and its pieces.
        let mut skipped = vec![RecoveryReport::default(); chains.len()];
        let logs = chains.iter().zip(&mut skipped).map(|(chain, report)| replay::cut(chain, bounds, report));
        let logs: Vec<_> = logs.collect();
        let mut in_turn = Vec::new();
        for (log, pieces) in logs.iter().enumerate() {
            in_turn.extend(pieces.iter().map(|piece| (log, piece)));
        }
        in_turn.sort_by_key(|(_, piece)| (piece.oldest, piece.newest));
        for (at, (log, piece)) in in_turn.iter().enumerate() {
            let replayed = replay::replay(self.disk, piece, &mut buffers, self.target);
            if let Some(counts) = self.found.note(replayed)? {
                facts.entries += counts.entries;
                skipped[*log].ignored_entries += counts.ignored;
                skipped[*log].covered_entries += counts.covered;
            }
            // Each piece is read once, whatever came of it. So no entry below the next one's oldest comes any more
            // (L8).
            if let Some((_, next)) = in_turn.get(at + 1) {
                assert!(next.oldest >= piece.oldest, "L8: the oldest come first");
                self.target.passed(next.oldest);
            }
        }
        self.logs.extend(logs);
        for (chain, report) in chains.iter().zip(&skipped) {
            facts.ignored_entries += report.ignored_entries;
            facts.covered_entries += report.covered_entries;
            if report.ignored_entries + report.covered_entries > 0 {
                self.check_everything(chain, bounds.first, &mut buffers)?;
            }
        }
        Ok(())
    }

    /// Checks a log once more with nothing left out; what was found before is not reported twice.
    fn check_everything(
        &mut self,
        chain: &Chain,
        first: Epoch,
        buffers: &mut ReadBuffers,
    ) -> Result<(), DurabilityError> {
        let everything = Bounds { first, covered: Epoch::ZERO, durable: Epoch::MAX };
        for piece in replay::cut(chain, everything, &mut RecoveryReport::default()) {
            match replay::replay(self.disk, &piece, buffers, &Nowhere(piece.kind)).map_err(Damage::of) {
                Ok(_) => {}
                Err(Ok(found)) if self.found.damage.contains(&found) => {}
                Err(Ok(found)) => self.found.unneeded.push(found),
                Err(Err(error)) => self.found.found(error)?,
            }
        }
        Ok(())
    }
}
