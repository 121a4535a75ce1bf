//! The last part of a recovery: the decision is made durable and the next generation begins (L4).
//!
//! In this order: what may be in the system's cache only is written again; small generations are merged; the next
//! generation's files and the manifest that lists them; what is not needed any more is removed.
//!
//! Invariants:
//! - L4: before anything is served, the manifest says what counts in each generation and where the next begins.
//! - I3: no lease begins while files go.
//! - Nothing is removed before the manifest that makes it unneeded is durable; `relief` has the exceptions of a full
//!   disk.
//!
//! Neighbours: `plan` decides, `unproven` and `relief` write, `merge` merges, `clearing` removes; then the log starts.

use std::collections::BTreeMap;
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_base::random::Random;
use ensile_disk::DiskError;

use super::merge;
use super::plan::{self, Plan};
use super::replay::LogPiece;
use super::replaying::Recovery;
use super::report::RecoveryReport;
use crate::block::Salt;
use crate::block::origin::Origin;
use crate::checkpoint::parts;
use crate::log::LogStart;
use crate::log::segments::{ClosedFile, Segments};
use crate::store::hint::HintWriter;
use crate::store::reserve::Reserve;
use crate::store::{Locks, leases};
use crate::{DurabilityError, EntryKind, Recoverable};

/// What a recovery came to.
#[derive(Debug)]
pub enum Finished {
    /// The next generation has begun.
    Open(Box<Recovered>),
    /// The disk is too full for that.
    ReadOnly(Box<ReadOnly>),
}

/// A recovery whose state can be read, and nothing else: the folder is as it was, but for what was not needed.
#[derive(Debug)]
pub struct ReadOnly {
    /// Above every epoch that was recovered: `EpochConfig::first`.
    pub next_first_epoch: Epoch,
    /// What was found.
    pub report: RecoveryReport,
    /// What is shown is on the medium up to this epoch. Smaller than the report's D if the disk had no space to write
    /// again what no block proves.
    pub durable: Epoch,
    /// What the disk said.
    pub reason: Arc<str>,
    /// Keeps others out until it is dropped.
    pub locks: Locks,
}

/// A finished recovery: what [`crate::Log::start`] goes on from.
#[derive(Debug)]
pub struct Recovered {
    /// The first epoch in which transactions may commit: `EpochConfig::first`.
    pub next_first_epoch: Epoch,
    /// What was found and done.
    pub report: RecoveryReport,
    log: LogStart,
}

impl From<Recovered> for LogStart {
    fn from(recovered: Recovered) -> Self {
        recovered.log
    }
}

/// What the next generation begins with.
struct NextGeneration {
    segments: Vec<Segments>,
    hint: HintWriter,
    /// Files that closed generations keep.
    older: Vec<ClosedFile>,
}

impl Recovery {
    /// Makes the decision durable and begins the next generation (L4), of entries of the target's kind.
    ///
    /// # Errors
    /// When a piece is not replayed, or the disk refuses; nothing was promised yet, and opening again starts over.
    pub fn finish(self, target: &dyn Recoverable) -> Result<Recovered, DurabilityError> {
        match self.finish_or_read(target)? {
            Finished::Open(recovered) => Ok(*recovered),
            Finished::ReadOnly(read_only) => Err(DurabilityError::NoRoomToOpen(read_only.reason)),
        }
    }

    /// As [`Recovery::finish`], but on a disk that is too full to begin the next generation what was recovered can be
    /// read.
    ///
    /// # Errors
    /// As for [`Recovery::finish`].
    pub fn finish_or_read(mut self, target: &dyn Recoverable) -> Result<Finished, DurabilityError> {
        if !self.watermark.has_ended() || !self.load.has_ended() {
            return Err(DurabilityError::config(
                "every piece must be replayed before a recovery is finished",
            ));
        }
        let has_earlier = self.report.generation > 1;
        let (mut plan, kind) = (self.plan()?, target.entries());
        let first = plan.first;
        let reserve = Reserve::of(&self.disk, self.config.loggers as u32)?;
        let NextGeneration { segments, hint, older } = match self.begin_next(&mut plan, &reserve, kind) {
            Ok(begun) => begun,
            // There is something to read, whichever of the two manifests stands, and whatever of the unneeded files
            // is there.
            Err(DurabilityError::Disk(error)) if error.is_full() && has_earlier => {
                return Ok(Finished::ReadOnly(Box::new(self.into_read_only(first, &error))));
            }
            Err(error) => return Err(error),
        };
        assert_eq!(self.proven, self.report.durable_epoch, "what is served survives a power failure");
        let report = self.final_report(first);
        let replayed_bytes = report.bytes;
        let Self { disk, keeper, config, locks, .. } = self;
        assert_eq!(keeper.manifest().generations.last().map(|open| open.first), Some(first), "L4");
        assert_eq!(segments.len(), config.loggers, "a log for each logger");
        let log = LogStart {
            next_first_epoch: first,
            config,
            disk,
            segments,
            keeper,
            hint,
            older,
            locks,
            reserve,
            replayed_bytes,
        };
        Ok(Finished::Open(Box::new(Recovered { next_first_epoch: first, report, log })))
    }

    /// What the next life begins with.
    fn plan(&mut self) -> Result<Plan, DurabilityError> {
        let recovered = plan::Decided {
            generations: std::mem::take(&mut self.generations),
            with_entries: &self.with_entries,
            log_bytes: &self.log_bytes,
            number: self.report.generation,
            seen: self.seen,
            ended: self.ended,
        };
        Plan::new(recovered, self.keeper.manifest(), self.config.epoch_interval).ok_or_else(|| {
            DurabilityError::config(
                "its epochs, or the numbers of its generations, are used up: copy the data into a new database",
            )
        })
    }

    /// Everything that the next generation needs on disk, and what it makes unneeded is gone.
    fn begin_next(
        &mut self,
        plan: &mut Plan,
        reserve: &Reserve,
        entries: EntryKind,
    ) -> Result<NextGeneration, DurabilityError> {
        // Held to the end, so that no lease begins while files go. An open does not wait for leases that are held (I3).
        let _clearance = leases::try_lock(&*self.disk)?;
        self.write_unproven(reserve)?;
        self.remove_unlisted()?;
        let merged = self.merge_generations(plan)?;
        let salt = Salt::draw(&mut Random::unpredictable());
        let logs = self.config.loggers as u32;
        let manifest = plan.manifest(self.keeper.manifest(), salt, entries, logs);
        let origin = Origin { identity: manifest.identity, salt, entries };
        let (segments, hint) = self.begin_generation(&manifest, origin, reserve)?;
        assert_eq!(self.keeper.manifest(), &manifest, "L4: nothing goes before the manifest is durable");
        assert_eq!(manifest.generations.last().map(|open| open.number), Some(plan.number));
        let installed = self.load.checkpoint().map(|checkpoint| checkpoint.number);
        parts::remove(&*self.disk, self.keeper.manifest(), |part| Some(part.checkpoint) != installed)?;
        let mut older = self.clear(plan)?;
        older.extend(merged);
        self.disk.sync_folder("")?;
        reserve.make()?;
        Ok(NextGeneration { segments, hint, older })
    }

    /// Merges closed generations if there are many, into a file that the next manifest lists in their place.
    fn merge_generations(&mut self, plan: &mut Plan) -> Result<Option<ClosedFile>, DurabilityError> {
        let merging = plan.merging();
        if merging.is_empty() {
            return Ok(None);
        }
        let mut logs: BTreeMap<(u64, u32), Vec<LogPiece>> = BTreeMap::new();
        let is_merged = |piece: &&LogPiece| {
            merging.iter().any(|generation| generation.number == piece.file.name.generation)
        };
        for piece in self.turns.pieces().iter().filter(is_merged) {
            let name = piece.file.name;
            logs.entry((name.generation, name.logger)).or_default().push(piece.clone());
        }
        for log in logs.values_mut() {
            log.sort_by_key(|piece| (piece.file.name.number, piece.offset));
        }
        let own = (self.keeper.manifest().identity, plan.number);
        let logs: Vec<_> = logs.into_values().collect();
        assert!(self.turns.pieces().is_empty() || !logs.is_empty(), "a generation that stays has entries");
        let merged = merge::write(&self.disk, &self.config, own, merging, logs)?;
        let Some((generation, file)) = merged else { return Ok(None) };
        self.report.merged_generations = merging.len() as u64;
        plan.merged(generation);
        self.report.generation = plan.number;
        Ok(Some(file))
    }

    /// What can be read of a recovery that could not begin the next generation.
    fn into_read_only(mut self, next_first_epoch: Epoch, error: &DiskError) -> ReadOnly {
        let report = self.final_report(next_first_epoch);
        let durable = self.proven.min(report.durable_epoch);
        ReadOnly { next_first_epoch, report, durable, reason: error.to_string().into(), locks: self.locks }
    }
}
