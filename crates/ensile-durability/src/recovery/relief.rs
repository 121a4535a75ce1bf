//! A crash on a full disk opens: what is void goes before the next generation is begun, then the reserve; and if even that
//! does not do, what was recovered can be read.
//!
//! Invariants:
//! - Nothing goes before the manifest that makes it void is durable. The folder is synced first: the manifest that was read
//!   may be a rename that only the system's cache has.
//! - L4, L5: what decides which epochs count stays. A torn tail may go: nothing in it was durable, and its bytes never come
//!   back. It stays where a file stands behind it, as that file shows that it was closed.
//! - What was recovered is written again before it counts as durable; where not even that finds space, it is told up to
//!   where it
//!   is proven.
//! - A disk that is not full is left as it is: all this is done only once a step has found no space.
//!
//! Neighbours: `super` begins the generation; `docs/protocols/durability.md` ("A crash on a full disk") has the argument.

use std::cell::Cell;
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_disk::{DiskError, Operation};

use super::chain::Chain;
use super::unproven::{self, Pieces};
use super::{Recovered, Recovery, RecoveryReport};
use crate::DurabilityError;
use crate::block::origin::Origin;
use crate::checkpoint::parts;
use crate::log::segments::Segments;
use crate::store::Locks;
use crate::store::hint::HintWriter;
use crate::store::manifest::{Manifest, NotReplaced};
use crate::store::names::{SegmentName, log_folder};
use crate::store::reserve::Reserve;

/// What a recovery came to.
#[derive(Debug)]
pub enum Finished {
    /// The next generation has begun.
    Open(Box<Recovered>),
    /// The disk is too full for that.
    ReadOnly(Box<ReadOnly>),
}

/// A recovery whose state can be read, and nothing else: the folder is as it was, but for what was void.
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

impl Recovery {
    /// Writes again what may be in the system's cache only, in place. A file system that copies on write needs space
    /// for that.
    ///
    /// # Errors
    /// The disk's. If it is full nothing was changed but what is void: the state can be read, as far as it is proven.
    pub(super) fn write_unproven(&mut self, reserve: &Reserve) -> Result<(), DurabilityError> {
        let write = |this: &Self, pieces| {
            this.open_chains.iter().try_for_each(|chain| unproven::rewrite(&*this.disk, chain, pieces))
        };
        let lacks_space = |written: &Result<(), DurabilityError>| matches!(written, Err(DurabilityError::Disk(error)) if wants_space(error));
        // What a failed sync should have written may be read as it was before. It cannot be written again then, for
        // want of space.
        let again = |this: &Self, before| match write(this, Pieces::Small) {
            Err(DurabilityError::Damaged { .. }) => before,
            written => written,
        };
        let mut written = write(self, Pieces::Whole);
        if lacks_space(&written) {
            self.free_what_is_void()?;
            written = again(self, written);
        }
        if lacks_space(&written) && reserve.give_up()? {
            written = again(self, written);
        }
        written?;
        self.proven = self.report.durable_epoch;
        Ok(())
    }

    /// Makes the files of the next generation, and then the manifest that lists them; what it takes is freed where the disk is full.
    ///
    /// # Errors
    /// [`NotReplaced::OldStands`]: the new files are gone again.
    pub(super) fn begin_generation(
        &mut self,
        manifest: &Manifest,
        origin: Origin,
        reserve: &Reserve,
    ) -> Result<(Vec<Segments>, HintWriter), NotReplaced> {
        // The files first, each with its synced mark, then the manifest that lists them: a listed log that is missing
        // is damage, and an unlisted one holds no entry.
        let attempts = Cell::new(0);
        let segments = self.with_relief(reserve, |this| {
            attempts.set(attempts.get() + 1);
            this.make_logs(manifest, origin, attempts.get() > 1).map_err(NotReplaced::OldStands)
        });
        // An attempt that failed may have put the manifest there all the same: what a later one says does not take that
        // back.
        let may_stand = Cell::new(false);
        let replace = |this: &mut Self| {
            let replaced = this.keeper.replace(manifest.clone());
            may_stand.set(may_stand.get() || matches!(replaced, Err(NotReplaced::Unknown(_))));
            replaced
        };
        let begun = segments.and_then(|mut segments| {
            let mut replaced = self.with_relief(reserve, replace);
            if finds_no_space(&replaced) {
                // What the logs set aside may be all that there was.
                segments.iter_mut().try_for_each(Segments::trim).map_err(NotReplaced::OldStands)?;
                replaced = replace(self);
            }
            replaced.map(|()| segments)
        });
        let segments = match begun {
            Err(NotReplaced::OldStands(error)) if may_stand.get() => return Err(NotReplaced::Unknown(error)),
            Err(error @ NotReplaced::OldStands(_)) => {
                self.remove_logs(manifest);
                return Err(error);
            }
            begun => begun?,
        };
        let (database, number) = (origin.identity, manifest.generations.last().map_or(0, |open| open.number));
        let hint = self.with_relief(reserve, |this| {
            // The manifest lists the generation: nothing is undone any more.
            HintWriter::create(&*this.disk, database, number).map_err(NotReplaced::Unknown)
        });
        // Nor by what was to free space for it.
        let hint = hint.map_err(|(NotReplaced::OldStands(error) | NotReplaced::Unknown(error))| {
            NotReplaced::Unknown(error)
        })?;
        Ok((segments, hint))
    }

    /// The files with their synced marks; `is_tight` leaves what they would set aside to what comes next.
    fn make_logs(
        &self,
        manifest: &Manifest,
        origin: Origin,
        is_tight: bool,
    ) -> Result<Vec<Segments>, DiskError> {
        let Some(open) = manifest.generations.last() else { return Ok(Vec::new()) };
        let make = |logger| {
            let name = SegmentName { generation: open.number, logger, number: 0 };
            let mut segments =
                Segments::create(&self.disk, name, &self.config, open.first.previous(), origin)?;
            if is_tight {
                segments.trim()?;
            }
            self.disk.sync_folder(&log_folder(logger))?;
            Ok(segments)
        };
        (0..open.logs).map(make).collect()
    }

    /// Takes files away that no manifest lists.
    fn remove_logs(&self, manifest: &Manifest) {
        let Some(open) = manifest.generations.last() else { return };
        for logger in 0..open.logs {
            let name = SegmentName { generation: open.number, logger, number: 0 };
            // The next open removes what stays.
            let _ = self.disk.remove(&name.to_string());
        }
    }

    /// Takes a step; where it finds no space, again after each thing that frees some.
    fn with_relief<T>(
        &mut self,
        reserve: &Reserve,
        step: impl Fn(&mut Self) -> Result<T, NotReplaced>,
    ) -> Result<T, NotReplaced> {
        let mut result = step(self);
        if finds_no_space(&result) {
            self.free_what_is_void().map_err(NotReplaced::OldStands)?;
            result = step(self);
        }
        if finds_no_space(&result) && reserve.give_up().map_err(NotReplaced::OldStands)? {
            result = step(self);
        }
        result
    }

    /// Frees what the manifest that was read has made void, and the torn tails of the logs that it lists as open.
    fn free_what_is_void(&mut self) -> Result<(), DiskError> {
        self.disk.sync_folder("")?;
        let installed = self.load.checkpoint().map(|checkpoint| checkpoint.number);
        // What cannot be removed, or is not ours, is told by the same call behind the manifest.
        let _ = parts::remove(&*self.disk, self.keeper.manifest(), |part| Some(part.checkpoint) != installed);
        if !self.given_up.is_empty() || !self.cuts.is_empty() {
            // A repair's files tell which epochs were used, until its manifest does (L4).
            return Ok(());
        }
        for chain in &self.closed_chains {
            self.remove_unread(chain)?;
            self.cut_tail(chain)?;
            self.disk.sync_folder(&log_folder(chain.logger))?;
        }
        for chain in self.open_chains.iter().filter(|chain| chain.beyond.is_empty()) {
            self.cut_tail(chain)?;
        }
        let covered = self.load.low();
        let mut chains = std::mem::take(&mut self.closed_chains);
        let freed = chains.iter_mut().try_for_each(|chain| self.free_covered(chain, covered));
        self.closed_chains = chains;
        freed?;
        let mut chains = std::mem::take(&mut self.open_chains);
        let freed = chains.iter_mut().try_for_each(|chain| self.free_covered(chain, covered));
        self.open_chains = chains;
        freed
    }

    /// Removes files at the beginning of a log whose entries the installed checkpoint holds, as a checkpoint does once it is
    /// installed (K1).
    fn free_covered(&self, chain: &mut Chain, covered: Epoch) -> Result<(), DiskError> {
        while chain.links.len() > 1 && chain.links[0].largest < covered {
            self.disk.remove(&chain.links[0].file.to_string())?;
            // Each for good before the next: a crash must not leave a gap.
            self.disk.sync_folder(&log_folder(chain.logger))?;
            chain.links.remove(0);
        }
        Ok(())
    }

    /// What can be read of a recovery that could not begin the next generation.
    pub(super) fn into_read_only(mut self, next_first_epoch: Epoch, error: &DiskError) -> ReadOnly {
        let report = self.final_report(next_first_epoch);
        let durable = self.proven.min(report.durable_epoch);
        ReadOnly { next_first_epoch, report, durable, reason: error.to_string().into(), locks: self.locks }
    }
}

fn finds_no_space<T>(result: &Result<T, NotReplaced>) -> bool {
    match result {
        Err(NotReplaced::OldStands(error) | NotReplaced::Unknown(error)) => wants_space(error),
        Ok(_) => false,
    }
}

/// Does the disk lack space for what was to be made, so that a second attempt may find some? Not after a folder's sync:
/// nothing is known of its names then, and making them once more changes none of them. Files are made anew before they
/// are synced again.
fn wants_space(error: &DiskError) -> bool {
    error.is_full() && !matches!(error, DiskError::Io { operation: Operation::SyncFolder, .. })
}
