//! Reads a folder from the manifest to the last block, and notes damage instead of ending at it.
//!
//! Neighbours: [`super::examine`] asks; what is read with stands in `recovery`.

use std::sync::Arc as StdArc;

use ensile_base::Epoch;
use ensile_disk::Disk;

use super::super::chain::{self, Chain};
use super::super::file::FileChain;
use super::super::listing::{self, Files};
use super::super::load::{Load, LoadStep};
use super::super::reading::Buffers;
use super::super::replay::{self, Bounds, Piece};
use super::super::{RecoveryReport, check_high, verdict};
use super::facts::{CheckpointFacts, Damage, Examination, FileFacts, GenerationFacts, Role};
use super::{Nowhere, widened};
use crate::checkpoint::void::list_parts;
use crate::store::hint::Hint;
use crate::store::manifest::{Generation, Installed, Manifest};
use crate::store::names::{FOLDER, HINT, LOCK, MANIFEST, MANIFEST_NEW, SegmentFile, SegmentName, log_folder};
use crate::{DurabilityError, Recoverable};

/// An examination under way.
pub(super) struct Judge<'a> {
    disk: &'a dyn Disk,
    target: &'a dyn Recoverable,
    covered: Epoch,
    hint: Option<Hint>,
    pub(super) found: Examination,
    /// What counts of each log of each generation, in the order in which it stands there.
    pub(super) logs: Vec<Vec<Piece>>,
    /// The logs of the generation over which no recovery has decided.
    pub(super) open_chains: Vec<Chain>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(disk: &'a StdArc<dyn Disk>, target: &'a dyn Recoverable) -> Self {
        Self {
            disk: &**disk,
            target,
            covered: Epoch::ZERO,
            hint: None,
            found: Examination::default(),
            logs: Vec::new(),
            open_chains: Vec::new(),
        }
    }

    /// Notes damage; `None` then. Any other error ends the examination.
    fn note<T>(&mut self, result: Result<T, DurabilityError>) -> Result<Option<T>, DurabilityError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                let damage = Damage::of(error)?;
                if !self.found.damage.contains(&damage) {
                    self.found.damage.push(damage);
                }
                Ok(None)
            }
        }
    }

    pub(super) fn look(&mut self) -> Result<(), DurabilityError> {
        self.list_root()?;
        self.hint = Hint::read(self.disk)?;
        let Some(manifest) = self.note(Manifest::expect(self.disk))? else { return Ok(()) };
        let Manifest { checkpoint, generations, .. } = &manifest;
        // More loggers than are listed may have left files: as many as there are folders are looked at.
        let Some(mut files) = self.note(listing::find(self.disk, &manifest))? else { return Ok(()) };
        self.load(&manifest)?;
        for generation in generations {
            self.generation(generation, checkpoint.as_ref(), &mut files)?;
        }
        let last = generations.last().map_or(0, |last| last.number);
        let unlisted = listing::check_unlisted(self.disk, &manifest, &files, last);
        self.note(unlisted)?;
        for file in files.values().flatten() {
            self.add_file(file.to_string(), Role::Void("of a generation that left nothing"))?;
        }
        self.list_foreign()?;
        if self.found.damage.is_empty() {
            self.found.durable_epoch = self.found.generations.last().and_then(|last| last.durable);
        }
        Ok(())
    }

    fn add_file(&mut self, name: String, role: Role) -> Result<(), DurabilityError> {
        let bytes = self.disk.open_to_read(&name)?.len()?;
        self.found.files.push(FileFacts { name, role, bytes, whole_bytes: None, entries: 0, epochs: None });
        Ok(())
    }

    fn list_root(&mut self) -> Result<(), DurabilityError> {
        for name in self.disk.list("")? {
            let role = match &*name {
                MANIFEST => Role::Manifest,
                HINT => Role::Hint,
                MANIFEST_NEW => Role::Void("a manifest that was being written"),
                LOCK => Role::Lock,
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
                    let role = if name == FOLDER { Role::Folder } else { Role::Foreign };
                    self.add_file(format!("{folder}/{name}"), role)?;
                }
            }
        }
        Ok(())
    }

    /// Loads the checkpoint, all files of it, whichever are damaged.
    fn load(&mut self, manifest: &Manifest) -> Result<(), DurabilityError> {
        let installed = manifest.checkpoint.as_ref();
        for part in list_parts(self.disk, manifest)? {
            let number = part.checkpoint;
            let is_installed = installed.is_some_and(|installed| installed.number == number);
            let role = if is_installed {
                Role::Checkpoint { number }
            } else {
                Role::Void("of a checkpoint that is not installed")
            };
            self.add_file(part.to_string(), role)?;
        }
        let Some(installed) = installed else { return Ok(()) };
        self.covered = installed.low;
        self.found.checkpoint = Some(CheckpointFacts {
            number: installed.number,
            low: installed.low,
            high: installed.high,
            files: u64::from(installed.checkpointers) * u64::from(installed.files),
            entries: installed.entries,
            bytes: installed.bytes,
            plain_bytes: 0,
        });
        let Some(load) = self.note(Load::new(self.disk, Some(installed.clone())))? else { return Ok(()) };
        while let Some(LoadStep::Loaded) | None = self.note(load.step(self.disk, self.target))? {}
        if let Some(facts) = &mut self.found.checkpoint {
            facts.plain_bytes = load.plain_bytes();
        }
        Ok(())
    }

    fn generation(
        &mut self,
        generation: &Generation,
        installed: Option<&Installed>,
        files: &mut Files,
    ) -> Result<(), DurabilityError> {
        let mut chains = Vec::new();
        for logger in 0..generation.logs {
            let Some(files) = files.remove(&(generation.number, logger)) else {
                let name = SegmentName { generation: generation.number, logger, number: 0 };
                self.note(Err::<(), _>(listing::missing_file(name)))?;
                continue;
            };
            chains.extend(self.chain(&files, generation)?);
        }
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
        let hint = self.hint.clone().filter(|hint| hint.generation == generation.number);
        if chains.len() == generation.logs as usize
            && let Some(verdict) = self.note(verdict::decide(generation, &chains, hint.as_ref()))?
        {
            let durable = verdict.durable;
            facts.durable = Some(durable);
            self.found.torn_tails.extend(verdict.torn);
            if let Some(installed) = installed.filter(|installed| installed.generation == generation.number) {
                self.note(check_high(installed, durable, &chains))?;
            }
        }
        let durable = facts.durable.unwrap_or(Epoch::MAX);
        for chain in &chains {
            self.payloads(chain, generation.first, durable, &mut facts)?;
        }
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
            let Some(chain) = self.note(FileChain::read(self.disk, *file, next))? else { continue };
            let whole_bytes = Some(chain.end);
            let SegmentName { generation, logger, .. } = file.name;
            let bytes = self.disk.open_to_read(&file.to_string())?.len()?;
            self.found.files.push(FileFacts {
                name: file.to_string(),
                role: Role::Log { generation, logger },
                bytes,
                whole_bytes,
                entries: chain.runs.iter().map(|run| run.entries).sum(),
                epochs: chain
                    .runs
                    .iter()
                    .fold(None, |range, run| widened(range, run.epoch_min, run.epoch_max)),
            });
            read.push(chain);
        }
        if read.len() < files.len() {
            // One contradicts itself, which is noted: what stands behind it cannot be judged.
            return Ok(None);
        }
        for file in &read {
            if self.note(chain::check_origin(generation, file))?.is_none() {
                return Ok(None);
            }
        }
        let chain = self.note(Chain::stitch(self.disk, read, self.covered))?;
        for file in chain.iter().flat_map(|chain| &chain.void) {
            let name = file.to_string();
            let facts = self.found.files.iter_mut().filter(|facts| facts.name == name);
            facts.for_each(|facts| facts.role = Role::Void("the checkpoint covers it"));
        }
        Ok(chain)
    }

    /// Hands over the entries of a log that count, and checks those that do not.
    fn payloads(
        &mut self,
        chain: &Chain,
        first: Epoch,
        durable: Epoch,
        facts: &mut GenerationFacts,
    ) -> Result<(), DurabilityError> {
        let (mut report, mut buffers) = (RecoveryReport::default(), Buffers::default());
        let bounds = Bounds { first, covered: self.covered, durable };
        let pieces = replay::cut(chain, bounds, &mut report);
        for piece in &pieces {
            let Some(counts) = self.note(replay::replay(self.disk, piece, &mut buffers, self.target))? else {
                continue;
            };
            facts.entries += counts.entries;
            report.ignored_entries += counts.ignored;
            report.covered_entries += counts.covered;
        }
        self.logs.push(pieces);
        facts.ignored_entries += report.ignored_entries;
        facts.covered_entries += report.covered_entries;
        if report.ignored_entries + report.covered_entries == 0 {
            return Ok(());
        }
        // Once more with nothing left out; what was found before is not told twice.
        let everything = Bounds { first, covered: Epoch::ZERO, durable: Epoch::MAX };
        for piece in replay::cut(chain, everything, &mut RecoveryReport::default()) {
            if let Err(error) = replay::replay(self.disk, &piece, &mut buffers, &Nowhere) {
                let found = Damage::of(error)?;
                if !self.found.damage.contains(&found) {
                    self.found.unneeded.push(found);
                }
            }
        }
        Ok(())
    }
}
