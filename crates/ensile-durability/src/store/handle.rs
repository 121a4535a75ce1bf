//! The store of an open database: what its log and its checkpoints share while it runs.
//!
//! A recovery hands it over when the manifest lists the open generation; it ends when the folders are let go of.
//!
//! Invariants:
//! - I3: the folders are locked until nothing writes to them any more.
//! - I4: in a forked process nobody changes a file: each public call of the log and of the checkpoints asks first.
//! - L4, L6: E begins above D of the life before, and below the end of the reserved epochs.
//! - The manifest is replaced by one thread at a time, and `release` waits for it.
//!
//! Neighbours: `open` has the folders while a recovery works, and its `finish` hands them over; `Log` and `Checkpoints`
//! hold this together; `renewal` reserves epochs here.

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
use super::hint::HintWriter;
use super::hold::ShippingHold;
use super::leases::{Clearance, Leases};
use super::locks::Locks;
use super::manifest::ManifestKeeper;
use super::names::log_folder;
use super::reserve::Reserve;
use super::reserved_epochs::ReservedEpochs;
use crate::DurabilityError;

/// What a store starts from: the folders of the generation that a recovery has begun, with all that guards them.
#[derive(Debug)]
pub struct StoreStart {
    pub(crate) disk: StdArc<dyn Disk>,
    pub(crate) keeper: ManifestKeeper,
    pub(crate) locks: Locks,
    pub(crate) hint: HintWriter,
    pub(crate) reserve: Reserve,
    /// Files that closed generations keep.
    pub(crate) older: Vec<ClosedFile>,
    /// Where files are archived before they are removed.
    pub(crate) archive: Option<Archive>,
    /// How long an epoch is to last.
    pub(crate) epoch_interval: Duration,
    /// Bytes of log that the recovery replayed, and that the next one would replay again.
    pub(crate) replayed_bytes: u64,
}

/// The store of an open database: its folders and their manifest, and the epochs and the clock that it runs by.
#[derive(Debug)]
pub struct OpenStore {
    disk: StdArc<dyn Disk>,
    /// The process that opened the database: no other one uses it (I4).
    process: Process,
    epochs: Arc<Epochs>,
    clock: Clock,
    /// The keeper holds a manifest that stood on disk.
    manifest: Mutex<ManifestKeeper>,
    /// Nothing under this lock leaves it half changed.
    pub(super) reserved_epochs: Mutex<ReservedEpochs>,
    /// One that a panic cut short says nothing.
    hint: Mutex<HintWriter>,
    reserve: Reserve,
    /// The leases that a removal waits for.
    leases: Leases,
    /// Files of closed generations, which the next checkpoint covers.
    older: ClosedFiles,
    archive: Option<Archive>,
    hold: ShippingHold,
    replayed_bytes: u64,
    /// Keeps other processes out until this is released. Locks are only added and taken as a whole.
    locks: Mutex<Option<Locks>>,
}

impl OpenStore {
    /// The store of the life that recovery has begun. `epochs` must have been made with
    /// `first = recovered.report.first_epoch` (L4); from here on E stays below what the manifest reserves (L6).
    ///
    /// # Errors
    /// [`DurabilityError::Config`] for epochs that begin too low.
    pub fn start(
        start: StoreStart,
        epochs: Arc<Epochs>,
        clock: Clock,
    ) -> Result<StdArc<Self>, DurabilityError> {
        let StoreStart { disk, keeper, locks, hint, reserve, older, archive, epoch_interval, replayed_bytes } =
            start;
        let (first, reserved) = (keeper.manifest().open_generation().first, keeper.manifest().reserved);
        if epochs.now() < first {
            return Err(DurabilityError::config(
                "epochs must begin at the first epoch of the recovery's report (L4)",
            ));
        }
        assert!(epochs.now() <= reserved, "E begins within what is reserved (L6)");
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
            replayed_bytes,
            locks: Mutex::new(Some(locks)),
        }))
    }

    /// The disk with the database's folder.
    pub(crate) fn disk(&self) -> &StdArc<dyn Disk> {
        &self.disk
    }

    /// E, and all that is counted by it.
    pub(crate) fn epochs(&self) -> &Arc<Epochs> {
        &self.epochs
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Bytes of log that recovery replayed, and would again.
    pub(crate) fn replayed_bytes(&self) -> u64 {
        self.replayed_bytes
    }

    /// The process that opened the database.
    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    /// Is this a process that was forked from the one that opened the database (I4)?
    pub(crate) fn is_forked(&self) -> bool {
        !self.process.is_this()
    }

    /// Fails in a process that was forked from the one that opened the database (I4).
    pub(crate) fn check_process(&self) -> Result<(), DurabilityError> {
        if self.is_forked() { Err(DurabilityError::Forked) } else { Ok(()) }
    }

    /// The manifest, for a thread that reads or replaces it.
    pub(crate) fn manifest(&self) -> MutexGuard<'_, ManifestKeeper> {
        self.manifest.lock()
    }

    /// The space that is kept for a full disk.
    pub(crate) fn reserve(&self) -> &Reserve {
        &self.reserve
    }

    /// Writes the hint of D if the last one is old; it waits for no sync.
    pub(crate) fn write_hint(&self, durable: Epoch) {
        self.hint.lock().step(self.clock.nanos(), durable);
    }

    /// Writes and syncs the last hint of a clean close: how many blocks each log has, and where E stands.
    pub(crate) fn close_hint(&self, durable: Epoch, blocks: Vec<u64>, ended: Epoch) {
        self.hint.lock().close(durable, blocks, ended);
    }

    /// The leases, for their figures.
    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    /// May covered files be removed now (I3)? `None`: not before a lease has ended.
    ///
    /// # Errors
    /// The disk's.
    pub(crate) fn ask_leases(&self) -> Result<Option<Clearance>, DiskError> {
        self.leases.ask(&*self.disk, self.clock.nanos())
    }

    /// The files of closed generations: how many there are, and their bytes.
    pub(crate) fn older_figures(&self) -> (u64, u64) {
        self.older.figures()
    }

    /// Removes the files of closed generations whose entries all have epochs below `covered`, once they are archived,
    /// and the manifest does not list their generation any more. So they have no order to keep. `note` is called with
    /// each that was removed.
    ///
    /// # Errors
    /// The disk's, and the archive's: a later call tries again.
    pub(crate) fn remove_older_below(
        &self,
        covered: Epoch,
        _clearance: &Clearance,
        mut note: impl FnMut(&ClosedFile),
    ) -> Result<(), DurabilityError> {
        let mut folders = BTreeSet::new();
        let listed = self.manifest().manifest().generations.first().map_or(0, |oldest| oldest.number);
        // Of a generation that is listed each log has a file, whatever of it is covered (K5).
        let is_listed = |closed: &ClosedFile| closed.file.name.generation >= listed;
        let now = self.clock.nanos();
        let is_kept = |closed: &ClosedFile| is_listed(closed) || self.hold.keeps(closed, now);
        let from = (&*self.disk, self.archive());
        let removed = self.older.remove_below(from, covered, is_kept, |file| {
            folders.insert(file.file.name.logger);
            note(file);
        });
        folders.into_iter().try_for_each(|logger| self.disk.sync_folder(&log_folder(logger)))?;
        removed
    }

    /// Where closed files are archived, if they are.
    pub(crate) fn archive(&self) -> Option<&Archive> {
        self.archive.as_ref()
    }

    /// What is kept until it is shipped.
    pub(crate) fn hold(&self) -> &ShippingHold {
        &self.hold
    }

    /// Has the archive, if there is one, say what the manifest says of its generations (A3). The next manifest
    /// remembers that it does (A2).
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn note_in_archive(&self) -> Result<(), DurabilityError> {
        let Some(archive) = &self.archive else { return Ok(()) };
        let manifest = self.manifest.lock().manifest().clone();
        archive.note(&manifest)?;
        // Before the manifest's lock: a file may be on its way into the archive.
        if let Some(seal) = archive.seal() {
            self.manifest.lock().remember(seal);
        }
        Ok(())
    }

    /// The files of closed generations.
    pub(crate) fn older(&self) -> &ClosedFiles {
        &self.older
    }

    /// Keeps these locks until the store is released.
    pub(crate) fn keep_locks(&self, more: Locks) {
        if let Some(locks) = &mut *self.locks.lock() {
            locks.extend(more);
        }
    }

    /// Asks whether the main folder and those of this number of logs still have names: a removed folder takes its files
    /// with it.
    ///
    /// # Errors
    /// [`DiskError::Removed`]; the disk's.
    pub(crate) fn check_named(&self, logs: usize) -> Result<(), DiskError> {
        self.locks.lock().as_ref().map_or(Ok(()), |locks| locks.check_named(logs))
    }

    /// Lets go of the folders, for a caller after whom nothing is written. A thread may be replacing the manifest
    /// still: that is waited for.
    pub(crate) fn release(&self) {
        drop(self.manifest.lock());
        self.locks.lock().take();
    }
}
