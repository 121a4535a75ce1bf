//! Store of an open database, shared by its log and its checkpoints, until the release of the folders.
//!
//! Invariants:
//! - I3: the folders are locked until the last write to the folders has ended.
//! - I4: every public call of the log and of the checkpoints checks the process first.
//! - L4, L6: E begins above D of the life before, and below the end of the reserved epochs.
//! - A single thread at a time replaces the manifest, and `release` waits for this thread.
//!
//! Neighbours: a recovery's `finish` hands the folders over. `Log`, `Checkpoints` and the `Shipper` share the store.

use std::collections::BTreeSet;
use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_base::sync::{Arc, Mutex, MutexGuard};
use ensile_disk::{Disk, DiskError, Process};
use ensile_epoch::Epochs;

use super::archive::Archive;
use super::closed_files::{ClosedFile, ClosedFiles};
use super::disk_reserve::Reserve;
use super::leases::{Clearance, Leases};
use super::locks::Locks;
use super::reserved_epochs::ReservedEpochs;
use super::ship_retention::ShippingHold;
use super::space_reclaim::ReturnedSpace;
use crate::files::hint::HintWriter;
use crate::files::manifest::ManifestKeeper;
use crate::files::names::log_folder;
use crate::{DurabilityError, Result};

/// Parts of a new store: the folders of the generation that a recovery has begun, and their guards.
#[derive(Debug)]
pub struct StoreStart {
    pub(crate) disk: StdArc<dyn Disk>,
    pub(crate) keeper: ManifestKeeper,
    pub(crate) locks: Locks,
    pub(crate) hint: HintWriter,
    pub(crate) reserve: Reserve,
    pub(crate) older: Vec<ClosedFile>,
    /// Archive that receives files before their removal; `None` without an archive.
    pub(crate) archive: Option<Archive>,
    pub(crate) epoch_interval: Duration,
    /// Bytes of log that the recovery replayed, and that the next recovery would replay again.
    pub(crate) replayed_bytes: u64,
}

/// Store of an open database: the folders, the manifest, the epochs and the clock.
#[derive(Debug)]
pub struct OpenStore {
    disk: StdArc<dyn Disk>,
    /// Process that opened the database. No other process uses the store (I4).
    pub(crate) process: Process,
    epochs: Arc<Epochs>,
    clock: Clock,
    manifest: Mutex<ManifestKeeper>,
    /// Reserved epochs. No panic under this lock leaves a half-changed value.
    pub(super) reserved_epochs: Mutex<ReservedEpochs>,
    /// Hint of D. A half-written hint after a panic has no effect.
    hint: Mutex<HintWriter>,
    reserve: Reserve,
    /// State for the leases of other processes, for which removals wait.
    leases: Leases,
    /// Log files of closed generations. The next checkpoint covers the files.
    older: ClosedFiles,
    archive: Option<Archive>,
    hold: ShippingHold,
    returned: ReturnedSpace,
    /// See [`StoreStart`].
    pub(crate) replayed_bytes: u64,
    /// Locks that keep other processes out; `None` after the release. Locks are only added, or taken as a whole.
    locks: Mutex<Option<Locks>>,
}

impl OpenStore {
    /// Creates the store of the life that a recovery has begun. The caller has made `epochs` with the first epoch
    /// `first = recovered.report.first_epoch` (L4). From here on E stays below the end that the manifest reserves (L6).
    ///
    /// # Errors
    /// [`DurabilityError::Config`] for epochs that begin too low.
    pub fn start(start: StoreStart, epochs: Arc<Epochs>, clock: Clock) -> Result<StdArc<Self>> {
        let StoreStart { disk, keeper, locks, hint, reserve, older, archive, epoch_interval, replayed_bytes } =
            start;
        let (first, reserved) = (keeper.manifest().open_generation().first, keeper.manifest().reserved);
        if epochs.now() < first {
            return Err(DurabilityError::config(
                "epochs must begin at the first epoch of the recovery's report (L4)",
            ));
        }
        assert!(epochs.now() <= reserved, "E begins within what is reserved (L6)");
        let open = keeper.manifest().open_generation().number;
        debug_assert!(
            older.iter().all(|closed| closed.file.name.generation < open),
            "K5: the files of the open generation {open} get more blocks"
        );
        let reserved_epochs = ReservedEpochs::new(reserved, epoch_interval, clock.nanos(), epochs.now());
        epochs.set_limit(reserved_epochs.limit());
        Ok(StdArc::new(Self {
            process: disk.process(),
            disk,
            epochs,
            clock,
            manifest: Mutex::new(keeper),
            reserved_epochs: Mutex::new(reserved_epochs),
            hint: Mutex::new(hint),
            reserve,
            leases: Leases::default(),
            older: older.into(),
            archive,
            hold: ShippingHold::default(),
            returned: ReturnedSpace::default(),
            replayed_bytes,
            locks: Mutex::new(Some(locks)),
        }))
    }

    pub(crate) fn disk(&self) -> &StdArc<dyn Disk> {
        &self.disk
    }

    pub(crate) fn epochs(&self) -> &Arc<Epochs> {
        &self.epochs
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// True if this process was forked from the process that opened the database (I4).
    pub(crate) fn is_forked(&self) -> bool {
        !self.process.is_this()
    }

    /// Fails in a process that was forked from the process that opened the database (I4).
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.is_forked() { Err(DurabilityError::Forked) } else { Ok(()) }
    }

    /// Locks the manifest, for a thread that reads or replaces the manifest.
    pub(crate) fn manifest(&self) -> MutexGuard<'_, ManifestKeeper> {
        self.manifest.lock()
    }

    pub(crate) fn reserve(&self) -> &Reserve {
        &self.reserve
    }

    /// Writes the hint of D if the last hint is old. The call waits for no sync.
    pub(crate) fn write_hint(&self, durable: Epoch) {
        self.hint.lock().step(self.clock.nanos(), durable);
    }

    /// Writes and syncs the last hint of a clean close, with the number of blocks of every log, and with E.
    pub(crate) fn close_hint(&self, durable: Epoch, blocks: Vec<u64>, ended: Epoch) {
        self.hint.lock().close(durable, blocks, ended);
    }

    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Clearance to remove covered files (I3). `None` if a lease is held: the caller asks again later.
    pub(crate) fn ask_leases(&self) -> Result<Option<Clearance>, DiskError> {
        self.leases.ask(&*self.disk, self.clock.nanos())
    }

    /// Number and bytes of the files of closed generations.
    pub(crate) fn older_figures(&self) -> (u64, u64) {
        self.older.figures()
    }

    /// Removes the files of closed generations if their entries have epochs below `covered`, and if the manifest no
    /// longer lists their generation; so the order of the removals is free. Every file is archived first. `note` is
    /// called with every removed file. After an error, a later call tries again.
    pub(crate) fn remove_older_below(
        &self,
        covered: Epoch,
        _clearance: &Clearance,
        mut note: impl FnMut(&ClosedFile),
    ) -> Result<()> {
        let (mut folders, mut spaces) = (BTreeSet::new(), Vec::new());
        let listed = self.manifest().manifest().generations.first().map_or(0, |oldest| oldest.number);
        // A listed generation needs a file of every log, even if the file is covered (K5).
        let is_listed = |closed: &ClosedFile| closed.file.name.generation >= listed;
        let now = self.clock.nanos();
        let is_kept = |closed: &ClosedFile| is_listed(closed) || self.hold.keeps(closed, now);
        let (disk, archive) = (&*self.disk, self.archive());
        let removed = self.older.remove_below(disk, archive, covered, is_kept, |file, space| {
            debug_assert!(!is_listed(file), "K5: a listed generation keeps {}", file.file);
            folders.insert(file.file.name.logger);
            spaces.extend(space.map(|space| (file.file.name.logger, space)));
            note(file);
        });
        folders.into_iter().try_for_each(|logger| self.disk.sync_folder(&log_folder(logger)))?;
        for (logger, space) in spaces {
            self.returned.keep(&*self.disk, &log_folder(logger), vec![space]);
        }
        removed
    }

    pub(crate) fn returned_space(&self) -> &ReturnedSpace {
        &self.returned
    }

    pub(crate) fn archive(&self) -> Option<&Archive> {
        self.archive.as_ref()
    }

    pub(crate) fn hold(&self) -> &ShippingHold {
        &self.hold
    }

    /// Writes the manifest's generations to the archive, if present (A3). The next manifest has its seal (A2).
    pub(crate) fn note_in_archive(&self) -> Result<()> {
        let Some(archive) = &self.archive else { return Ok(()) };
        let manifest = self.manifest.lock().manifest().clone();
        archive.note(&manifest)?;
        // The seal is read before the manifest is locked, because a copy into the archive may hold the archive's lock.
        if let Some(seal) = archive.seal() {
            self.manifest.lock().remember(seal);
        }
        Ok(())
    }

    pub(crate) fn older(&self) -> &ClosedFiles {
        &self.older
    }

    pub(crate) fn keep_locks(&self, more: Locks) {
        if let Some(locks) = &mut *self.locks.lock() {
            locks.extend(more);
        }
    }

    /// Checks that the main folder and the folders of `logs` logs still have names: a removed folder takes its files.
    pub(crate) fn check_named(&self, logs: usize) -> Result<(), DiskError> {
        self.locks.lock().as_ref().map_or(Ok(()), |locks| locks.check_named(logs))
    }

    /// Releases the locks of the folders, at the end of a close. Waits for a thread that is replacing the manifest.
    pub(crate) fn release(&self) {
        drop(self.manifest.lock());
        self.locks.lock().take();
    }
}
