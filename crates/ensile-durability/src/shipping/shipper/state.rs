//! State of the shipping of an open database: the place in the chain of manifests, the files on their way, and the
//! questions that every part of the shipping asks.
//!
//! Invariants:
//! - H2: the next manifest has the next number, and the term of the place.
//! - A failed object is put again from its beginning; earlier objects of its file stay.
//! - A panic in a step ends the shipping, because the state of the running work is unknown.
//!
//! Neighbours: the files beside this file have the steps; [`super::calls`] has the calls of the owner.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::random::Random;
use ensile_base::sync::Mutex;
use ensile_disk::DiskFile;

use crate::DurabilityError;
use crate::control::pace::WritePace;
use crate::entry_type::EntryType;
use crate::files::block::Salt;
use crate::files::manifest::Manifest;
use crate::files::manifest::application::ApplicationName;
use crate::files::manifest::generation::Generation;
use crate::files::manifest::installed_checkpoint::InstalledCheckpoint;
use crate::files::names::{PartName, SegmentFile};
use crate::files::shared_manifest::{SharedFile, SharedManifest, SharedPiece, file_of};
use crate::identity::Identity;
use crate::log::Log;
use crate::number;
use crate::shipping::chain;
use crate::shipping::config::{ShippingConfig, ShippingStats};
use crate::shipping::log_file::LookedFile;
use crate::shipping::shared_store::{SharedStore, SharedUpload};
use crate::shipping::state_composition::{Base, ComposedState, LogSources, ShippedFiles};
use crate::store::closed_files::ClosedFile;
use crate::store::open_store::OpenStore;
use crate::wake_up::WakeUp;

/// Pause between two attempts.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// The shipping of an open database. Any thread may step the shipper, but only one thread at a time.
#[derive(Debug)]
pub struct Shipper {
    pub(super) store: Arc<OpenStore>,
    pub(super) log: Arc<Log>,
    pub(super) config: ShippingConfig,
    pub(super) database: Identity,
    pub(super) wake_up: WakeUp,
    /// State between two steps. A panic in a step ends the shipping, because the state of the running work is unknown.
    pub(super) work: Mutex<ShipWork>,
    pub(super) stats: Mutex<ShippingStats>,
    pub(super) steps: Mutex<ShipSteps>,
    /// Outcome of the end, once a caller has waited for the end.
    pub(super) ended: Mutex<Option<Result<(), DurabilityError>>>,
}

/// State from which the next step goes on.
#[derive(Debug)]
pub(super) struct ShipWork {
    pub(super) pace: WritePace,
    /// Place in the chain of manifests; `None` until the place is found.
    pub(super) place: Option<ManifestPlace>,
    pub(super) inventory: ShippedFiles,
    /// Base of the newest manifest: its checkpoint, and the generations that may still grow.
    pub(super) base: Base,
    /// Newer checkpoint whose files are on their way to the store.
    pub(super) under_way: Option<CheckpointUnderWay>,
    /// Upload of a log file. Log files go first, between two pieces of a checkpoint's file.
    pub(super) log_upload: Option<Upload>,
    /// Upload of a checkpoint's file.
    pub(super) part_upload: Option<Upload>,
    /// Closed log files that could not be read, each with the time until which other files go first.
    pub(super) passed_over: BTreeMap<SegmentFile, u64>,
    /// Objects under this database's name that an upload may find, with their lengths in bytes: from an earlier life,
    /// or from an upload that was given up.
    pub(super) left: BTreeMap<String, u64>,
    /// Time before which no step works, because the last step failed. This time and the next five are nanoseconds of
    /// the clock of the log.
    pub(super) not_before: u64,
    /// Time of the last check for a take-over; `look_at` is the time of the next check.
    pub(super) looked_at: u64,
    pub(super) look_at: u64,
    /// Time of the next manifest while more files wait to be shipped.
    pub(super) publish_at: u64,
    /// Time of the next search for unnamed objects.
    pub(super) clear_at: u64,
    /// Time of the next request to the log to close its files, for a checkpoint that waits for a mark of its e_h.
    pub(super) ask_at: u64,
    /// Objects that no manifest names, each with the time of the first sighting in nanoseconds.
    pub(super) unnamed: BTreeMap<String, u64>,
    /// Unnamed objects that are to be removed next.
    pub(super) going: VecDeque<String>,
    /// True if the last step cleared. Success of a clearing step says nothing about earlier failures.
    pub(super) is_clearing: bool,
}

/// Place of the shipper in the chain of manifests.
#[derive(Debug)]
pub(super) struct ManifestPlace {
    pub(super) store: Identity,
    /// Number of the newest manifest; 0 in an empty store.
    pub(super) number: u64,
    /// Term of the newest manifest; 1 in an empty store.
    pub(super) term: u64,
    /// Databases from which this database and its predecessors have taken over.
    pub(super) fenced: Vec<Identity>,
    /// Newest manifest; `None` in an empty store.
    pub(super) newest: Option<SharedManifest>,
    /// Manifest that was offered and has no answer yet.
    pub(super) offered: Option<OfferedManifest>,
}

/// A manifest that waits for an answer.
#[derive(Clone, Debug)]
pub(super) struct OfferedManifest {
    pub(super) manifest: SharedManifest,
    /// Base of the manifest, if the manifest is of a newer checkpoint.
    pub(super) base: Option<Base>,
}

/// Facts of a shipping database that the next manifest states besides the shipped files.
#[derive(Debug)]
pub(super) struct ShipperFacts {
    pub(super) shipper: Identity,
    /// See [`SharedManifest::reserved`].
    pub(super) reserved: Epoch,
    /// See [`SharedManifest::durable`].
    pub(super) durable: Epoch,
    pub(super) application: Option<ApplicationName>,
    pub(super) types: Vec<EntryType>,
}

impl ManifestPlace {
    /// Databases with possible objects in the store: this database, and the databases it has taken over from.
    pub(super) fn writers(&self, own: Identity) -> Vec<Identity> {
        debug_assert!(!self.fenced.contains(&own), "H6: a fenced database ships no more");
        self.fenced.iter().copied().chain([own]).collect()
    }

    pub(super) fn from_manifest(newest: SharedManifest) -> Self {
        let SharedManifest { store, number, term, fenced, .. } = newest.clone();
        Self { store, number, term, fenced, newest: Some(newest), offered: None }
    }

    /// Place in an empty store, which gets a new identity.
    pub(super) fn of_empty_store() -> Self {
        Self { store: Identity::draw(), number: 0, term: 1, fenced: Vec::new(), newest: None, offered: None }
    }

    /// Next manifest in the chain, with this state.
    pub(super) fn next(
        &self,
        composed: ComposedState,
        of: ShipperFacts,
    ) -> Result<SharedManifest, DurabilityError> {
        debug_assert!(
            self.newest
                .as_ref()
                .is_none_or(|newest| (newest.number, newest.term) == (self.number, self.term)),
            "H2: the place is that of the newest manifest"
        );
        let ComposedState { state, next, parts, logs } = composed;
        let ShipperFacts { shipper, reserved, durable, application, types } = of;
        let used_up = || DurabilityError::config("the numbers of the shared store's manifests are used up");
        Ok(SharedManifest {
            store: self.store,
            number: number::next(self.number).ok_or_else(used_up)?,
            term: self.term,
            attempt: Random::unpredictable().next_u64(),
            shipper,
            reserved,
            durable: Some(durable.max(state.epoch())),
            application,
            types,
            fenced: self.fenced.clone(),
            next,
            parts,
            logs,
            state,
        })
    }
}

/// File of an upload.
#[derive(Debug)]
pub(super) enum UploadOf {
    Part(PartName),
    Log(ClosedFile, LookedFile),
}

impl UploadOf {
    /// Name of the file, without the end epoch of a closed file's name.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Part(part) => part.to_string(),
            Self::Log(closed, _) => closed.file.archive_name().to_string(),
        }
    }
}

/// State of the present object.
#[derive(Debug)]
pub(super) enum ObjectUnderWay {
    /// No work done yet.
    NotBegun,
    /// The object exists in the store. The shipper compares the object, and computes its checksum.
    Compared,
    /// The object is being written.
    Written(Box<dyn SharedUpload>),
}

/// A file on its way.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) of: UploadOf,
    pub(super) name: String,
    pub(super) file: Arc<dyn DiskFile>,
    /// Description of the file, with the checksum of its bytes before the present object.
    pub(super) shared: SharedFile,
    /// Objects that the store lacks; the first object is under way.
    pub(super) pieces: VecDeque<SharedPiece>,
    pub(super) object: ObjectUnderWay,
    pub(super) offset: u64,
    /// Checksum of all bytes up to `offset`.
    pub(super) crc: u32,
    /// True if an object of the file was written.
    pub(super) is_written: bool,
}

impl Upload {
    /// Name of the file in the store.
    pub(super) fn shared_name(&self) -> String {
        self.shared.object(&self.name)
    }

    /// The closed log file of the upload, if any.
    pub(super) fn log_file(&self) -> Option<&ClosedFile> {
        match &self.of {
            UploadOf::Log(closed, _) => Some(closed),
            UploadOf::Part(_) => None,
        }
    }

    /// Restarts the present object.
    pub(super) fn begin_object_again(&mut self) {
        self.object = ObjectUnderWay::NotBegun;
        (self.offset, self.crc) =
            (self.pieces.front().map_or(self.offset, |piece| piece.offset), self.shared.crc);
    }
}

/// An installed checkpoint whose files are being shipped. The files are held open, because the next checkpoint may
/// remove their names.
#[derive(Debug)]
pub(super) struct CheckpointUnderWay {
    pub(super) base: Base,
    /// Files that the store lacked at the beginning, with their salts.
    pub(super) parts: BTreeMap<PartName, (Salt, Arc<dyn DiskFile>)>,
}

/// Threads with a step under way, and the state of the end.
#[derive(Debug, Default)]
pub(super) struct ShipSteps {
    pub(super) threads: Vec<ThreadId>,
    pub(super) has_ended: bool,
    pub(super) is_cancelled: bool,
}

impl ShipWork {
    /// Names in the store of the files that are being uploaded.
    pub(super) fn under_way_names(&self) -> impl Iterator<Item = String> + '_ {
        self.log_upload.iter().chain(&self.part_upload).map(Upload::shared_name)
    }

    /// True if this object, whole or partly written, belongs to a file that is being uploaded.
    pub(super) fn is_under_way(&self, object: &str) -> bool {
        self.under_way_names().any(|name| name == file_of(object))
    }
}

impl CheckpointUnderWay {
    /// A file that the store still lacks.
    pub(super) fn next_part(&self, inventory: &ShippedFiles) -> Option<(PartName, Salt, Arc<dyn DiskFile>)> {
        let is_shipped =
            |part, salt| inventory.parts.get(part).is_some_and(|shared: &SharedFile| shared.salt == salt);
        let next = self.parts.iter().find(|(part, (salt, _))| !is_shipped(part, *salt));
        next.map(|(part, (salt, file))| (*part, *salt, Arc::clone(file)))
    }
}

impl Shipper {
    pub(super) fn shared_store(&self) -> &dyn SharedStore {
        &*self.config.to
    }

    /// Error for a shared store that cannot be used, with the reason.
    pub(super) fn unusable(&self, error: impl ToString) -> DurabilityError {
        chain::unusable(self.shared_store(), error)
    }

    pub(super) fn grace_nanos(&self) -> u64 {
        u64::try_from(self.config.grace.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Current manifest of the database's folder.
    pub(super) fn manifest(&self) -> Manifest {
        self.store.manifest().manifest().clone()
    }

    /// True if shipping has ended. The end may come during a call of the store, and the next life may have begun.
    pub(super) fn has_ended(&self) -> bool {
        self.steps.lock().has_ended
    }

    /// True if the owner has cancelled shipping: see [`Shipper::cancel`].
    pub(super) fn is_cancelled(&self) -> bool {
        self.steps.lock().is_cancelled
    }

    /// Epoch up to which the store must be complete to have every logged entry. Epochs after the last entry need no
    /// mark in any log (L3). Epochs of this life say nothing before its first entry.
    pub(super) fn epoch_to_ship(&self) -> Epoch {
        let (logged, listed) = (self.log.logged_epoch(), self.manifest());
        if logged >= listed.open_generation().first {
            return logged;
        }
        let closed = listed.generations.iter().filter_map(|generation| generation.durable).max();
        let checkpoint = listed.checkpoint.as_ref().map(InstalledCheckpoint::durable_min);
        closed.max(checkpoint).unwrap_or_default()
    }

    /// Closed log files that the shared store lacks and that a state in the store may need, oldest first.
    pub(super) fn unshipped_logs(&self, work: &ShipWork, closed: &[ClosedFile]) -> Vec<ClosedFile> {
        let listed = self.manifest();
        let covered = if work.base.live.is_empty() {
            listed.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::redo_epoch)
        } else {
            work.base.redo_epoch()
        };
        let is_listed = |older: &&Generation| !listed.lists(older.number);
        let older = work.base.live.iter().filter(is_listed).cloned();
        let generations: Vec<Generation> = older.chain(listed.generations.iter().cloned()).collect();
        LogSources { inventory: &work.inventory, closed }.unshipped_logs(&generations, covered)
    }

    /// Permits the removal of the log files that the newest shared manifest names, and of the files that its checkpoint
    /// covers. A file in the store that no manifest names stays held, because the next life ignores the file.
    pub(super) fn release_hold(&self, work: &ShipWork) {
        let newest = work.place.as_ref().and_then(|place| place.newest.as_ref());
        let named = newest.into_iter().flat_map(|newest| &newest.logs).map(|log| log.file);
        let shipped: BTreeSet<_> = named.filter(|file| work.inventory.logs.contains_key(file)).collect();
        self.store.hold().release(shipped, work.base.redo_epoch());
    }

    /// Shows the installed manifest in the figures.
    pub(super) fn record_manifest(&self, manifest: &SharedManifest) {
        let mut stats = self.stats.lock();
        (stats.manifest, stats.term) = (manifest.number, manifest.term);
        stats.shipped_epoch = manifest.state.epoch();
    }
}
