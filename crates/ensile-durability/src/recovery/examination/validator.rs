//! Examination of a folder in steps. A step reads a file or a piece of a file, and notes findings in an open's order.
//!
//! ```text
//! Folder -> Load, Load, .. -> Loaded -> Kept, .. -> Generation, .. -> End      an older state is one step
//! Generation -> LogFile, .. -> Log, .. (each log) -> Verdict -> Piece, .. -> Counted -> Check, .. -> GenerationEnd
//! ```
//! Neighbours: [`super::examine`] and an adoption run all steps, and a copy takes one step at a time;
//! `recovery::validation` judges; `generation_steps` has line two.

use std::sync::Arc;

use ensile_base::Epoch;

use super::super::load::Load;
use super::super::mapped_tail::{self, JudgedLife};
use super::super::validation::{self, Findings as _, Inventory};
use super::facts::{
    BackupFacts, CheckpointFacts, Damage, FileFacts, NOT_OF_NEWEST, PictureFacts, RangeFacts, Role,
};
use super::judge::{Judge, KeyRules, Work};
use crate::checkpoint::orphans::{self, CheckpointFile};
use crate::files::log::file_chain::FileChain;
use crate::files::manifest::Manifest;
use crate::files::manifest::backup_states::{FilesState, KeptState};
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::files::manifest::shipping_target::RememberedStore;
use crate::files::names::{
    ARCHIVE_FOLDER, BufferListName, BufferName, FOLDER, HINT, LEASES, LOCK, MAIN, MANIFEST, MANIFEST_NEW,
    PageFileName, PartName, RATES, RESERVE, SegmentFile, SegmentName, checkpointer_of, log_folder, logger_of,
};
use crate::store::mark_renewal::{is_renewable, lost_mark};
use crate::store::ownership::{check_entries, expect_manifest, is_needed};
use crate::store::{Shipping, ShippingOpen};
use crate::unproven_tail::NotProven;
use crate::{DurabilityError, Recoverable, Result};

/// Approximate number of bytes of a checkpoint's file that one step reads.
const STEP_BYTES: u64 = 1 << 20;

impl Judge {
    /// Runs the whole examination, for callers that need no steps.
    pub(super) fn run_to_end(&mut self, target: &dyn Recoverable) -> Result<()> {
        while self.step(target)?.is_some() {}
        self.left_unproven()
    }

    /// Fills in the results of a process-safe life that nothing proves here. Runs after the last step.
    fn left_unproven(&mut self) -> Result<()> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let Some(open) = manifest.generations.last() else { return Ok(()) };
        let left = mapped_tail::find(&*self.disk, manifest, open)?;
        let is_whole = self.found.is_whole();
        if !is_whole {
            // An open of a damaged folder ends before the open takes entries of buffers (L5).
            (self.missing, self.found.to_take) = (None, None);
        }
        let judged = self.found.generations.last().filter(|facts| facts.number == open.number);
        let life = JudgedLife {
            generation: open,
            chains: &self.open_chains,
            durable: judged.and_then(|facts| facts.durable),
            covered: self.covered,
            is_whole,
        };
        let Some(reason) = left.reason(is_whole) else { return Ok(()) };
        let told = self.found.note(mapped_tail::unproven_report(&*self.disk, &left, life, None))?;
        self.found.not_proven = told.unwrap_or_else(|| Some(NotProven::without_files(reason, life.proven())));
        Ok(())
    }

    /// Reads the next file, or a piece of a file. Returns the number of bytes read; `None` at the end.
    pub(crate) fn step(&mut self, target: &dyn Recoverable) -> Result<Option<u64>> {
        let Some(work) = self.work.pop_front() else { return Ok(None) };
        let mut read = 0;
        match work {
            Work::Folder => self.folder(target)?,
            Work::Load(item) => read = self.load(item, target)?,
            Work::Loaded => {
                if let (Some(facts), Some(load)) = (&mut self.found.checkpoint, &self.inventory.load) {
                    facts.picture = load.picture().map(PictureFacts::from_reader);
                }
            }
            Work::Kept(at) => read = self.check_backup_state(at, target)?,
            Work::Generation(at) => self.generation(at),
            Work::LogFile(file, next) => read = self.log_file(file, next)?,
            Work::Log(files) => self.log(files)?,
            Work::Verdict => self.verdict()?,
            Work::Piece(log, piece, passed) => read = self.piece(log, &piece, passed, target)?,
            Work::Counted => self.plan_recheck(),
            Work::Check(piece) => read = self.check_again(&piece)?,
            Work::GenerationEnd => self.generation_end(),
            Work::End => self.end(target)?,
        }
        Ok(Some(read))
    }

    /// First step: reads the manifest, lists the files by names, and queues all work.
    fn folder(&mut self, target: &dyn Recoverable) -> Result<()> {
        let disk = Arc::clone(&self.disk);
        assert!(self.found.files.is_empty(), "it is the first step");
        self.list_root()?;
        let given = self.manifest.take();
        // An examination with a given manifest is of the newest state only.
        let is_given = given.is_some();
        let manifest = if is_given { given } else { self.found.note(expect_manifest(&*disk))? };
        let Some(manifest) = manifest else { return Ok(()) };
        check_entries(&*disk, &manifest, target.entries())?;
        self.found.backup = BackupFacts::from_manifest(&manifest);
        self.found.application = manifest.application.as_ref().map(ToString::to_string);
        self.found.types.clone_from(&manifest.types);
        self.found.shared_store = manifest.ships_to.map(RememberedStore::from);
        for name in manifest.folders.keys().filter(|name| *name != MAIN && !is_needed(&manifest, name)) {
            if is_renewable(&*disk, &manifest, name)? {
                self.found.refused.push(lost_mark(name).to_string());
            }
        }
        let ships = ShippingOpen { shipping: Shipping::On, opens_fenced: false };
        self.found.refused.extend(ships.check(&*disk, &manifest).err().map(|why| why.to_string()));
        self.found.entries = manifest.generations.last().map(|open| open.entries);
        self.hint = validation::hint(&*disk, &manifest, &mut self.found)?;
        let Some(mut inventory) = Inventory::take(&*disk, &manifest, &mut self.found)? else {
            self.manifest = Some(manifest);
            return Ok(());
        };
        inventory.load = inventory.load.map(Load::with_version_check);
        self.saw(self.hint.as_ref().map_or(Epoch::ZERO, |hint| hint.durable));
        self.checkpoint(&manifest)?;
        let items = inventory.load.as_ref().map_or(0..0, Load::items);
        self.work.extend(items.map(Work::Load));
        self.work.push_back(Work::Loaded);
        let older = if is_given { 0 } else { manifest.kept.len() };
        self.work.extend((0..older).map(Work::Kept));
        self.work.extend((0..manifest.generations.len()).map(Work::Generation));
        self.work.push_back(Work::End);
        (self.manifest, self.inventory) = (Some(manifest), inventory);
        Ok(())
    }

    /// Lists the remaining files, after all data that counts was read.
    fn end(&mut self, target: &dyn Recoverable) -> Result<()> {
        let Inventory { unlisted, unfinished, older, left, .. } = std::mem::take(&mut self.inventory);
        for file in unlisted.values().flatten() {
            let read = FileChain::read(&*self.disk, *file, None);
            if let Some(chain) = self.found.note(read)? {
                self.saw_file(&chain);
            }
            self.add_file(file.to_string(), Role::Discarded("of a generation that is not needed any more"))?;
        }
        for file in unfinished {
            self.add_file(file.to_string(), Role::Discarded("of a merge that had not ended"))?;
        }
        for file in older {
            let SegmentName { generation, logger, .. } = file.name;
            self.add_file(file.to_string(), Role::Log { generation, logger })?;
        }
        for file in left {
            self.add_file(file.to_string(), Role::Discarded("of a backup that had not ended"))?;
        }
        self.list_foreign()?;
        let manifest = self.manifest.as_ref().expect("it was read");
        validation::check_reserved_epochs(manifest, self.hint.as_ref(), self.shown, &mut self.found)?;
        if self.found.is_whole() {
            // A recovery calls `advance_watermark` in the same way after the last entry (L8).
            target.advance_watermark(Epoch::MAX);
            let generations = &self.found.generations;
            assert_eq!(generations.len(), manifest.generations.len(), "each generation is judged");
            let durable = generations.last().and_then(|last| last.durable);
            self.found.durable_epoch = durable;
        }
        Ok(())
    }

    /// Lists a file. A foreign file may be unreadable, or a link without a target: the database does not need the file.
    fn add_file(&mut self, name: String, role: Role) -> Result<()> {
        let length = self.disk.open_to_read(&name).and_then(|file| file.len());
        let length = if role == Role::Foreign { Some(length.unwrap_or(0)) } else { self.length(length)? };
        let bytes = length.unwrap_or(0);
        self.found.files.push(FileFacts { name, role, bytes, whole_bytes: None, entries: 0, epochs: None });
        Ok(())
    }

    fn list_root(&mut self) -> Result<()> {
        for name in self.disk.list("")? {
            // A link to a folder may be a folder of logs or checkpoints.
            if logger_of(&name).is_some() || checkpointer_of(&name).is_some() || name == ARCHIVE_FOLDER {
                continue;
            }
            let role = match &*name {
                MANIFEST => Role::Manifest,
                HINT => Role::Hint,
                RATES => Role::Rates,
                RESERVE => Role::Reserve,
                MANIFEST_NEW => Role::Discarded("a manifest that was being written"),
                LOCK | LEASES => Role::Lock,
                _ => Role::Foreign,
            };
            self.add_file(name, role)?;
        }
        Ok(())
    }

    fn list_foreign(&mut self) -> Result<()> {
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
                        other if BufferName::parse(logger, other).is_some() => Role::Buffer,
                        other if BufferListName::parse(logger, other).is_some() => Role::Buffer,
                        _ => Role::Foreign,
                    };
                    self.add_file(format!("{folder}/{name}"), role)?;
                }
            }
        }
        Ok(())
    }

    /// Lists the files of checkpoints, by names, and notes the facts about the installed checkpoint.
    fn checkpoint(&mut self, manifest: &Manifest) -> Result<()> {
        let installed = manifest.checkpoint.as_ref();
        let number = installed.map_or(0, InstalledCheckpoint::number);
        for part in orphans::list::<PartName>(&*self.disk, manifest)? {
            let other = Role::Discarded("of a checkpoint that is not installed");
            let own = Role::Checkpoint { number: part.checkpoint };
            self.add_file(part.to_string(), if part.is_installed(manifest) { own } else { other })?;
        }
        for file in orphans::list::<PageFileName>(&*self.disk, manifest)? {
            let other = Role::Discarded("of a picture that is not installed");
            let own = Role::Checkpoint { number };
            self.add_file(file.to_string(), if file.is_installed(manifest) { own } else { other })?;
        }
        let Some(installed) = installed else { return Ok(()) };
        assert!(installed.is_whole(), "a manifest that is read is whole");
        let (low, high) = (installed.redo_epoch(), installed.durable_min());
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
            ranges: installed
                .completed_walks()
                .into_iter()
                .filter_map(|(walked, keys)| RangeFacts::from_manifest(walked, keys))
                .collect(),
            picture: None,
        });
        Ok(())
    }

    /// Loads a piece of the checkpoint, even if files of the checkpoint are damaged. Returns the number of bytes read.
    fn load(&mut self, item: usize, target: &dyn Recoverable) -> Result<u64> {
        let load = self.inventory.load.as_ref().expect("it has items");
        assert!(load.items().contains(&item) && load.remaining_items() > 0, "N10: not loaded yet");
        let before = load.loaded_totals().0;
        let more = load.load_more(item, &*self.disk, &mut self.part, STEP_BYTES, target);
        let read = load.loaded_totals().0 - before;
        // A state that keeps rows compares the rows too, and reports the same damage at the same place (N11).
        let is_said = more.as_ref().is_err_and(|error| self.found.has_damage_of(error));
        if !is_said && self.found.note(more)? == Some(false) {
            self.work.push_front(Work::Load(item));
        }
        Ok(read)
    }

    /// Reads an older state of a backup, as a restore does. Damage that the newest state shares is noted once.
    fn check_backup_state(&mut self, at: usize, target: &dyn Recoverable) -> Result<u64> {
        let kept = self.manifest().kept[at].clone();
        let (epoch, what) = match &kept {
            KeptState::Picture(picture) => (picture.epoch, "picture"),
            KeptState::Files(state) => (state.epoch(), "state"),
        };
        let older = |error| match error {
            DurabilityError::Damaged { file, offset, detail } => {
                let detail = format!("{detail} (in an older {what}, of epoch {epoch}{NOT_OF_NEWEST}");
                DurabilityError::Damaged { file, offset, detail }
            }
            other => other,
        };
        let disk = Arc::clone(&self.disk);
        let state = match kept {
            KeptState::Picture(picture) => InstalledCheckpoint::Picture(picture),
            KeptState::Files(state) => return self.kept_files(&state, &older, target),
        };
        let mut note = |outcome: Result<()>| match outcome {
            Err(error) if self.found.has_damage_of(&error) => Ok(()),
            outcome => self.found.note(outcome.map_err(older)).map(drop),
        };
        let load = match Load::new(&*disk, Some(state)) {
            Ok(load) => load.with_version_check(),
            Err(error) => return note(Err(error)).map(|()| 0),
        };
        load.items().try_for_each(|item| note(load.load(item, &*disk, &KeyRules(target))))?;
        Ok(load.loaded_totals().0)
    }

    /// Reads an older state of files, by the manifest that the state alone would have.
    fn kept_files(
        &mut self,
        state: &FilesState,
        older: &dyn Fn(DurabilityError) -> DurabilityError,
        target: &dyn Recoverable,
    ) -> Result<u64> {
        let alone = self.manifest().with_kept(state);
        let mut judge = Self::of_newest(&self.disk, &alone);
        let (mut bytes, target) = (0, KeyRules(target));
        while let Some(read) = judge.step(&target)? {
            bytes += read;
        }
        for Damage { file, offset, detail, is_refused } in judge.found.damage {
            let error = DurabilityError::Damaged { file, offset, detail };
            if !self.found.has_damage_of(&error) {
                self.found.damage.push(Damage { is_refused, ..Damage::from_error(older(error))? });
            }
        }
        for unread in judge.found.unread {
            if !self.found.unread.contains(&unread) {
                self.found.unread.push(unread);
            }
        }
        Ok(bytes)
    }
}
