//! A crash on a full disk opens: what is not needed goes before the next generation is begun, then the reserve; and if
//! even that does not do, what was recovered can be read.
//!
//! Invariants:
//! - Nothing goes before the manifest that makes it unneeded is durable. The folder is synced first: the manifest that
//!   was read may be a rename that only the system's cache has.
//! - L4, L5: what decides which epochs count stays. A torn tail may go: nothing in it was durable, and its bytes never
//!   come back. It stays where a file stands behind it, as that file shows that it was closed.
//! - What was recovered is written again before it counts as durable. Where not even that finds space, the open says up
//!   to which epoch it is proven.
//! - A disk that is not full is left as it is: all this is done only once a step has found no space.
//!
//! Neighbours: `finish` begins the generation, `clearing` frees; `docs/protocols/durability.md` ("A crash on a full
//! disk") has the argument.

use std::cell::Cell;

use ensile_disk::{DiskError, Operation};

use super::replaying::Recovery;
use super::unproven::{self, AtOnce};
use crate::DurabilityError;
use crate::block::origin::Origin;
use crate::log::segments::Segments;
use crate::store::hint::HintWriter;
use crate::store::manifest::{Manifest, NotReplaced};
use crate::store::names::{SegmentName, log_folder};
use crate::store::reserve::Reserve;

/// A way to find space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relief {
    /// Free what the manifest that was read does not need.
    FreeUnneeded,
    /// Give up the reserve.
    GiveUpReserve,
}

impl Relief {
    /// What is tried after this: each way once, the one that costs nothing first.
    fn after(tried: Option<Self>) -> Option<Self> {
        match tried {
            None => Some(Self::FreeUnneeded),
            Some(Self::FreeUnneeded) => Some(Self::GiveUpReserve),
            Some(Self::GiveUpReserve) => None,
        }
    }
}

/// A failure that more space may cure.
trait SpaceError: From<DiskError> {
    fn lacks_space(&self) -> bool;
}

impl SpaceError for DurabilityError {
    fn lacks_space(&self) -> bool {
        matches!(self, Self::Disk(error) if lacks_space(error))
    }
}

impl SpaceError for NotReplaced {
    fn lacks_space(&self) -> bool {
        let (Self::OldStands(error) | Self::Unknown(error)) = self;
        lacks_space(error)
    }
}

/// While space is looked for the manifest stands as it was.
impl From<DiskError> for NotReplaced {
    fn from(error: DiskError) -> Self {
        Self::OldStands(error)
    }
}

impl Recovery {
    /// Writes again what may be in the system's cache only, in place. A file system that copies on write needs space
    /// for that.
    ///
    /// # Errors
    /// The disk's. If it is full nothing was changed but what is not needed: the state can be read, as far as it is
    /// proven.
    pub(super) fn write_unproven(&mut self, reserve: &Reserve) -> Result<(), DurabilityError> {
        let mut shortage: Option<DurabilityError> = None;
        self.with_relief(reserve, |this| {
            let at_once = if shortage.is_none() { AtOnce::File } else { AtOnce::Little };
            let mut chains = this.open_chains.iter();
            let written = chains.try_for_each(|chain| unproven::rewrite(&*this.disk, chain, at_once));
            match (written, &shortage) {
                // What a failed sync should have written may be read as it was before. It cannot be written again then,
                // for want of space.
                (Err(DurabilityError::Damaged { .. }), Some(before)) => Err(before.clone()),
                (Err(error), _) => {
                    shortage = Some(error.clone());
                    Err(error)
                }
                (Ok(()), _) => Ok(()),
            }
        })?;
        assert!(self.proven <= self.report.durable_epoch, "what is proven was durable");
        self.proven = self.report.durable_epoch;
        Ok(())
    }

    /// Makes the files of the next generation, and then the manifest that lists them; what it takes is freed where the
    /// disk is full.
    ///
    /// # Errors
    /// [`NotReplaced::OldStands`]: the new files are gone again.
    pub(super) fn begin_generation(
        &mut self,
        manifest: &Manifest,
        origin: Origin,
        reserve: &Reserve,
    ) -> Result<(Vec<Segments>, HintWriter), NotReplaced> {
        assert!(
            manifest.generations.last().is_some_and(|next| next.durable.is_none()),
            "the next one is open"
        );
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
            if replaced.as_ref().is_err_and(NotReplaced::lacks_space) {
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
        assert_eq!(Some(segments.len()), manifest.generations.last().map(|open| open.logs as usize));
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
        let mut listed = self.keeper.manifest().generations.iter();
        assert!(listed.all(|listed| listed.number != open.number), "L3: files that a manifest lists stay");
        for logger in 0..open.logs {
            let name = SegmentName { generation: open.number, logger, number: 0 };
            // The next open removes what stays.
            let _ = self.disk.remove(&name.to_string());
        }
    }

    /// Takes a step; where it finds no space, again after each way to find some.
    fn with_relief<T, E: SpaceError>(
        &mut self,
        reserve: &Reserve,
        mut step: impl FnMut(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let (mut result, mut tried) = (step(self), None);
        while result.as_ref().is_err_and(E::lacks_space)
            && let Some(relief) = Relief::after(tried)
        {
            tried = Some(relief);
            match relief {
                Relief::FreeUnneeded => self.free_unneeded()?,
                // Nothing was kept: another attempt would find what this one found.
                Relief::GiveUpReserve if !reserve.give_up()? => break,
                Relief::GiveUpReserve => {}
            }
            result = step(self);
        }
        result
    }
}

/// Does the disk lack space for what was to be made, so that a second attempt may find some? Not after a folder's sync:
/// nothing is known of its names then, and making them once more changes none of them. Files are made anew before they
/// are synced again.
fn lacks_space(error: &DiskError) -> bool {
    error.is_full() && !matches!(error, DiskError::Io { operation: Operation::SyncFolder, .. })
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::Relief;

    #[test]
    fn each_way_to_find_space_is_tried_once_and_the_reserve_last() {
        let ways: Vec<_> =
            std::iter::successors(Relief::after(None), |tried| Relief::after(Some(*tried))).collect();
        assert_eq!(ways, [Relief::FreeUnneeded, Relief::GiveUpReserve]);
    }
}
