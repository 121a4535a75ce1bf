//! Last part of a recovery: makes the decision durable and begins the next generation (L4), as `commit_plan` says.
//!
//! Invariants: I3: no lease begins while files are removed. Recovered results are written again before the results
//! count as durable; without space for that, the open reports the epoch up to which the results are proven.
//!
//! Neighbours: `commit_plan` and `generation_plan` decide, `resync_tail` and `merge` write, `cleanup` removes. An open
//! and a repair call `finish`.

use std::collections::BTreeMap;
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_base::random::Random;
use ensile_disk::{BootId, DiskError, DiskLock};

use super::commit_plan::{Ending, EndingAction, EndingOutcome, EndingStep};
use super::generation_plan::{self, Plan};
use super::merge;
use super::replay::LogPiece;
use super::replay_state::Recovery;
use super::report::RecoveryReport;
use super::resync_tail::{self, AtOnce};
use crate::checkpoint::CheckpointStart;
use crate::files::block::Salt;
use crate::files::block::origin::Origin;
use crate::files::hint::HintWriter;
use crate::files::manifest::archive_seal::ArchiveSeal;
use crate::files::manifest::shipping_target::RememberedStore;
use crate::files::manifest::types::StatedTypes;
use crate::files::manifest::{Manifest, NotReplaced};
use crate::files::names::{SegmentName, log_folder, logger_of};
use crate::log::LogStart;
use crate::log::segments::Segments;
use crate::log::start::MappedStart;
use crate::store::archive::Archive;
use crate::store::boot_scope::{run_of, unknown_mounts};
use crate::store::closed_files::ClosedFile;
use crate::store::disk_reserve::Reserve;
use crate::store::mapped_buffers::{self, BufferOwner};
use crate::store::open_store::StoreStart;
use crate::store::{Locks, NameGiven, Naming, leases};
use crate::{DurabilityError, EntryKind, Recoverable, Result};

/// Result of a recovery.
#[derive(Debug)]
pub enum Finished {
    /// The next generation has begun.
    Open(Box<Recovered>),
    /// The disk is too full for the next generation.
    ReadOnly(Box<ReadOnly>),
}

/// Recovery whose state can only be read. The folder is unchanged, except that unneeded files may be gone.
#[derive(Debug)]
pub struct ReadOnly {
    /// Findings of the recovery. `EpochConfig::first` is the report's `first_epoch`.
    pub report: RecoveryReport,
    /// Last epoch of the shown state that is proven to be on the medium, at most the report's D.
    pub durable: Epoch,
    /// Error of the full disk.
    pub reason: Arc<str>,
    /// Locks that keep other processes out until dropped.
    pub locks: Locks,
}

/// Finished recovery, from which the next life starts.
#[derive(Debug)]
pub struct Recovered {
    /// Findings and actions of the recovery. `EpochConfig::first` is the report's `first_epoch`.
    pub report: RecoveryReport,
    /// Input of [`crate::OpenStore::start`]. `store` keeps other processes out until dropped.
    pub store: StoreStart,
    /// Input of [`crate::Log::start`], after the start of the store.
    pub log: LogStart,
    /// Input of [`crate::Checkpoints::start`], after the start of store and log.
    pub checkpoints: CheckpointStart,
}

struct NextLife {
    plan: Plan,
    salt: Salt,
    entries: EntryKind,
    /// Name of the application that owns the folder from now on (I5).
    naming: Naming,
    /// Types of the program's entries (I6).
    types: StatedTypes,
    reserve: Reserve,
    /// Lock, held to the end, against new leases while files are removed (I3). An open waits for no lease.
    clearance: Option<Box<dyn DiskLock>>,
    merged: Option<ClosedFile>,
    segments: Vec<Segments>,
    boot: Option<BootId>,
    mapped: Vec<MappedStart>,
    hint: Option<HintWriter>,
    /// Files that closed generations keep.
    older: Vec<ClosedFile>,
}

impl NextLife {
    /// Manifest that lists the next generation and remembers this seal of the archive (A2).
    fn manifest(&self, before: &Manifest, logs: usize, archived: Option<ArchiveSeal>) -> Manifest {
        let manifest = self.plan.manifest(before, self.salt, self.entries, logs as u32);
        let application = self.naming.name(before.application.as_ref());
        // A folder without a generation is new.
        let types = self.types.at_open(&before.types, before.generations.is_empty());
        let archived = archived.or(before.archived);
        let manifest = Manifest { archived, mapped: self.boot, application, types, ..manifest };
        assert!(manifest.generations.last().is_some_and(|next| next.durable.is_none()), "the next is open");
        manifest
    }

    fn log(&self, logger: u32) -> SegmentName {
        SegmentName { generation: self.plan.number, logger, number: 0 }
    }
}

impl Recovery {
    /// Makes the decision durable and begins the next generation (L4), with entries of the target's kind.
    ///
    /// # Errors
    /// If a piece is not replayed, or if the disk refuses. Nothing was promised yet, and another open starts over.
    pub fn finish(self, target: &dyn Recoverable) -> Result<Recovered> {
        match self.finish_or_read(target)? {
            Finished::Open(recovered) => Ok(*recovered),
            Finished::ReadOnly(read_only) => Err(DurabilityError::NoRoomToOpen(read_only.reason)),
        }
    }

    /// As [`Recovery::finish`]. If the disk is too full for the next generation, the state can still be read.
    ///
    /// # Errors
    /// As for [`Recovery::finish`].
    pub fn finish_or_read(mut self, target: &dyn Recoverable) -> Result<Finished> {
        if !self.is_replayed() {
            return Err(DurabilityError::config(
                "every piece must be replayed before a recovery is finished",
            ));
        }
        self.check_entries(target)?;
        let mut ending = Ending::new(self.report.generation > 1);
        let mut next = NextLife {
            plan: self.plan()?,
            salt: Salt::draw(&mut Random::unpredictable()),
            entries: target.entries(),
            naming: self.config.naming.clone(),
            types: self.config.types.clone(),
            reserve: Reserve::new(&self.disk, self.config.loggers as u32)?,
            clearance: None,
            merged: None,
            segments: Vec::new(),
            boot: self.life_run()?,
            mapped: Vec::new(),
            hint: None,
            older: Vec::new(),
        };
        loop {
            match ending.next() {
                EndingStep::Do(action) => ending.record_outcome(self.carry_out(action, &mut next)),
                EndingStep::Open => return Ok(Finished::Open(Box::new(self.into_recovered(next)))),
                EndingStep::Read(reason) => {
                    return Ok(Finished::ReadOnly(Box::new(self.into_read_only(next.plan.first, reason))));
                }
                EndingStep::Fail(error) => return Err(error),
            }
        }
    }

    fn plan(&mut self) -> Result<Plan> {
        let recovered = generation_plan::Decided {
            generations: std::mem::take(&mut self.judged.generations),
            number: self.report.generation,
            seen: self.judged.seen,
            ended: self.judged.ended,
        };
        Plan::new(recovered, self.keeper.manifest(), self.config.epoch_interval).ok_or_else(|| {
            DurabilityError::config(
                "its epochs, or the numbers of its generations, are used up: copy the data into a new database",
            )
        })
    }

    fn carry_out(&mut self, action: EndingAction, next: &mut NextLife) -> EndingOutcome {
        let carried_out = match action {
            EndingAction::HoldLeases => {
                leases::try_lock(&*self.disk).map(|lock| next.clearance = lock).map_err(Into::into)
            }
            EndingAction::RewriteTail(at_once) => self.rewrite_tail(at_once),
            EndingAction::RemoveUnlisted => {
                self.note_in_archive(&mut next.plan);
                self.remove_unlisted(&mut next.older)
            }
            EndingAction::Merge => self.merge_generations(&mut next.plan).map(|merged| next.merged = merged),
            EndingAction::MakeLogs { is_tight } => self.make_logs(next, is_tight).map_err(Into::into),
            EndingAction::ReplaceManifest => return self.replace_manifest(next),
            EndingAction::TrimLogs => {
                next.segments.iter_mut().try_for_each(Segments::trim).map_err(Into::into)
            }
            EndingAction::RemoveLogs => {
                self.remove_logs(next);
                Ok(())
            }
            EndingAction::MakeHint => {
                let made = HintWriter::create(&*self.disk, self.keeper.manifest().identity, next.plan.number);
                made.map(|hint| next.hint = Some(hint)).map_err(Into::into)
            }
            EndingAction::Clear => self.clear_unneeded(next),
            EndingAction::MakeReserve => next.reserve.make().map_err(Into::into),
            EndingAction::FreeUnneeded => self.free_unneeded(next.clearance.is_some()).map_err(Into::into),
            EndingAction::GiveUpReserve => match next.reserve.give_up() {
                Ok(false) => return EndingOutcome::NothingKept,
                given_up => given_up.map(drop).map_err(Into::into),
            },
        };
        carried_out.map_or_else(EndingOutcome::Failed, |()| EndingOutcome::Done)
    }

    /// Writes again, in place, the blocks that may be only in the cache. A disk that copies on write needs space.
    fn rewrite_tail(&mut self, at_once: AtOnce) -> Result<()> {
        let mut chains = self.judged.open_chains.iter();
        chains.try_for_each(|chain| resync_tail::rewrite(&*self.disk, chain, at_once))?;
        assert!(self.proven <= self.report.durable_epoch, "what is proven was durable");
        self.proven = self.report.durable_epoch;
        Ok(())
    }

    /// Merges closed generations, if there are many, into a file that the next manifest lists in their place.
    fn merge_generations(&mut self, plan: &mut Plan) -> Result<Option<ClosedFile>> {
        let merging = plan.merge_sources();
        if merging.is_empty() {
            return Ok(None);
        }
        let mut logs: BTreeMap<(u64, u32), Vec<LogPiece>> = BTreeMap::new();
        let is_merged = |piece: &&LogPiece| {
            merging.iter().any(|generation| generation.number == piece.file.name.generation)
        };
        for piece in self.pieces.iter().filter(is_merged) {
            let name = piece.file.name;
            logs.entry((name.generation, name.logger)).or_default().push(piece.clone());
        }
        for log in logs.values_mut() {
            log.sort_by_key(|piece| (piece.file.name.number, piece.offset));
        }
        let database = self.keeper.manifest().identity;
        let logs: Vec<_> = logs.into_values().collect();
        assert!(self.pieces.is_empty() || !logs.is_empty(), "a generation that stays has entries");
        let merged = merge::write(&self.disk, &self.config, database, plan.number, merging, logs)?;
        let Some((generation, file)) = merged else { return Ok(None) };
        self.report.merged_generations = merging.len() as u64;
        plan.replace_merged(generation);
        self.report.generation = plan.number;
        Ok(Some(file))
    }

    /// Makes the log files with their synced marks. With `is_tight`, the files leave reserved space to the next steps.
    fn make_logs(&self, next: &mut NextLife, is_tight: bool) -> Result<(), DiskError> {
        let (identity, before) = (self.keeper.manifest().identity, next.plan.first.previous());
        let origin = Origin { identity, salt: next.salt, entries: next.entries };
        next.segments.clear();
        next.mapped.clear();
        for logger in 0..self.config.loggers as u32 {
            let mut segments = Segments::create(&self.disk, next.log(logger), &self.config, before, origin)?;
            if is_tight {
                segments.trim()?;
            }
            // The file of the first buffer shows the kind of life from the beginning. The file needs no sync (B4).
            if self.config.process_safe {
                let boot = next.boot.expect("it was asked before the scan");
                let (generation, salt) = (next.plan.number, next.salt);
                let owner = BufferOwner { database: identity, boot, generation, salt, logger };
                next.mapped.push(MappedStart::make(&self.disk, owner, self.config.epoch_interval)?);
            }
            self.disk.sync_folder(&log_folder(logger))?;
            next.segments.push(segments);
        }
        assert_eq!(next.segments.len(), self.config.loggers, "a log for each logger");
        Ok(())
    }

    /// Run, that is boot and mounts, in which a process-safe life begins (B4); `None` for a life of another kind.
    fn life_run(&mut self) -> Result<Option<BootId>> {
        if self.config.boot(&*self.disk)?.is_none() {
            return Ok(None);
        }
        let logs = self.config.loggers as u32;
        self.report.unknown_mounts = unknown_mounts(&*self.disk, logs)?;
        Ok(run_of(&*self.disk, logs)?)
    }

    fn replace_manifest(&mut self, next: &NextLife) -> EndingOutcome {
        assert_eq!(next.segments.len(), self.config.loggers, "L3: the files come before the manifest");
        let archived = self.archive.as_ref().and_then(Archive::seal);
        let before = self.keeper.manifest();
        let manifest = next.manifest(before, self.config.loggers, archived);
        let name_given = match NameGiven::from_naming(&next.naming, &*self.disk, before) {
            Ok(name_given) => name_given,
            Err(error) => return EndingOutcome::Failed(error),
        };
        assert!(name_given.is_none() || manifest.application.is_some(), "I5: it is the name that is written");
        match self.keeper.replace(manifest) {
            Ok(()) => {
                self.report.name_given = name_given;
                self.report.shared_store = self.keeper.manifest().ships_to.map(RememberedStore::from);
                EndingOutcome::Done
            }
            Err(NotReplaced::OldStands(error)) => EndingOutcome::Failed(error.into()),
            Err(NotReplaced::Unknown(error)) => EndingOutcome::Unknown(error.into()),
        }
    }

    /// Removes the new log files and mapped buffers, because no manifest lists them.
    fn remove_logs(&self, next: &NextLife) {
        let is_listed = self.keeper.manifest().lists(next.plan.number);
        assert!(!is_listed, "L3: files that a manifest lists stay");
        for logger in 0..self.config.loggers as u32 {
            // The next open removes the remaining files.
            let _ = self.disk.remove(&next.log(logger).to_string());
            let is_next = |generation| generation == next.plan.number;
            let _ = mapped_buffers::remove(&*self.disk, logger, self.keeper.manifest(), is_next);
        }
    }

    fn clear_unneeded(&self, next: &mut NextLife) -> Result<()> {
        let open = self.keeper.manifest().generations.last();
        assert_eq!(open.map(|open| open.number), Some(next.plan.number), "L4: the manifest comes first");
        self.remove_other_parts()?;
        if next.clearance.is_some() {
            self.cut_page_files()?;
        }
        next.older.extend(self.remove_unneeded_files(&next.plan)?);
        // The entries that count are in the logs: mapped buffers of earlier lives go (B5).
        for logger in self.keeper.manifest().folders.keys().filter_map(|folder| logger_of(folder)) {
            let is_older = |generation| generation != next.plan.number;
            mapped_buffers::remove(&*self.disk, logger, self.keeper.manifest(), is_older)?;
        }
        next.older.extend(next.merged.take());
        Ok(self.disk.sync_folder("")?)
    }

    fn into_recovered(mut self, next: NextLife) -> Recovered {
        let NextLife { plan: Plan { first, .. }, reserve, segments, mapped, hint, older, .. } = next;
        assert_eq!(self.proven, self.report.durable_epoch, "what is served survives a power failure");
        let report = self.final_report(first);
        let Self { disk, keeper, config, locks, archive, load, .. } = self;
        assert_eq!(keeper.manifest().open_generation().first, first, "L4");
        assert_eq!(segments.len(), config.loggers, "a log for each logger");
        let hint = hint.expect("it is made before anything is cleared");
        let (epoch_interval, replayed_bytes) = (config.epoch_interval, report.bytes);
        let picture = load.into_loaded_picture();
        let checkpoints = CheckpointStart { picture, ..CheckpointStart::default() };
        let store =
            StoreStart { disk, keeper, locks, hint, reserve, older, archive, epoch_interval, replayed_bytes };
        let log = LogStart { first_epoch: first, config, segments, mapped };
        Recovered { report, store, log, checkpoints }
    }

    /// Readable result of a recovery that could not begin the next generation.
    fn into_read_only(mut self, first: Epoch, reason: Arc<str>) -> ReadOnly {
        let mut report = self.final_report(first);
        report.shared_store = self.keeper.manifest().ships_to.map(RememberedStore::from);
        let durable = self.proven.min(report.durable_epoch);
        ReadOnly { report, durable, reason, locks: self.locks }
    }
}
