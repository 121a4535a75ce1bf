//! Ships the finished files of an open database, a piece at a step, on a thread that nothing else waits for.
//!
//! ```text
//! find its place in the store --> a piece of a file --> the manifest of what is there --> what no manifest names goes
//!        log files first; between two pieces of a checkpoint's file, which is held open, log files and manifests too
//! ```
//! Invariants:
//! - H1: an upload has ended, and is durable in the store, before a manifest names its object.
//! - H4: an object goes once no manifest of this shipper has named it for the grace, and only if it is this database's
//!   or of one that it has taken over from. Of the manifests only those before its own go.
//! - H5: the store of the database hears what is shipped before a log file may go.
//! - H6: a manifest of another term ends the shipping for good.
//! - I4: in a forked process every call is empty.
//!
//! Neighbours: `state` decides what the store has, `chain` installs manifests; the log has the closed files.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::checksum::crc32c_append;
use ensile_base::random::Random;
use ensile_base::sync::{Mutex, sleep};
use ensile_disk::DiskFile;

use super::chain::{self, Installed, unusable};
use super::config::{ShipStep, ShippingConfig, ShippingStats, WhenFenced};
use super::log_file::{self, LookedFile};
use super::shared::{SharedStore, SharedUpload};
use super::state::{Base, ComposedState, ShippedFiles, ShippedLog, lacking, parts_of};
use crate::DurabilityError;
use crate::block::Salt;
use crate::control::pace::WritePace;
use crate::error::unless_missing;
use crate::identity::Identity;
use crate::log::Log;
use crate::number;
use crate::store::closed_files::ClosedFile;
use crate::store::handle::OpenStore;
use crate::store::installed::InstalledCheckpoint;
use crate::store::lineage::Lineage;
use crate::store::manifest::{Generation, Manifest};
use crate::store::names::PartName;
use crate::store::shared_manifest::{
    MANIFESTS, SHARED_MANIFEST_BYTES_MAX, SharedFile, SharedManifest, manifest_name, manifest_number,
};
use crate::store::ships_to::ShipsTo;
use crate::wake_up::WakeUp;

/// Bytes that are read and written in one step.
const STEP_BYTES: usize = 1 << 20;
/// Between two attempts.
const PAUSE: Duration = Duration::from_secs(1);
/// How often an idle shipper looks whether another machine has taken over.
const LOOK_NANOS: u64 = 10_000_000_000;
/// A caller that waits for its shipping asks for new files this often, and looks this often.
const ASK_AGAIN_NANOS: u64 = 200_000_000;
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How often it installs a manifest although more is to be shipped.
const PUBLISH_NANOS: u64 = 10_000_000_000;
/// How often it looks for objects that no manifest names.
const CLEAR_NANOS: u64 = 60_000_000_000;

/// The shipping of an open database. Any thread may step it, one at a time.
#[derive(Debug)]
pub struct Shipper {
    store: Arc<OpenStore>,
    log: Arc<Log>,
    config: ShippingConfig,
    database: Identity,
    wake_up: WakeUp,
    /// A step that panicked ends the shipping: what was under way is not known.
    work: Mutex<ShipWork>,
    stats: Mutex<ShippingStats>,
}

/// What the steps go on from.
#[derive(Debug)]
struct ShipWork {
    pace: WritePace,
    /// Its place in the chain, once it was found.
    place: Option<ManifestPlace>,
    inventory: ShippedFiles,
    /// What the newest manifest is of, and where it may grow.
    base: Base,
    /// A newer checkpoint on its way.
    under_way: Option<CheckpointUnderWay>,
    /// A log file, and a checkpoint's file: log files go first, between two pieces of the other one.
    log_upload: Option<Upload>,
    part_upload: Option<Upload>,
    /// Objects under this database's name, with their lengths: what a life before has put.
    left: BTreeMap<String, u64>,
    /// Not before this, by the log's clock.
    not_before: u64,
    looked_at: u64,
    look_at: u64,
    publish_at: u64,
    clear_at: u64,
    ask_at: u64,
    /// Objects that no manifest names, since when; and what is about to go.
    unnamed: BTreeMap<String, u64>,
    going: VecDeque<String>,
    /// The last step cleared: that says nothing of what failed before.
    is_clearing: bool,
}

/// Where the shipper stands in the chain of manifests.
#[derive(Debug)]
struct ManifestPlace {
    store: Identity,
    /// Of the newest manifest.
    number: u64,
    term: u64,
    fenced: Vec<Identity>,
    /// What that manifest says; `None` while there is none.
    newest: Option<SharedManifest>,
    /// A manifest that was offered, and of which no answer has come.
    offered: Option<SharedManifest>,
}

/// An installed checkpoint whose files are shipped. They are held open: the next checkpoint may remove their names.
#[derive(Debug)]
struct CheckpointUnderWay {
    base: Base,
    parts: BTreeMap<PartName, (Salt, Arc<dyn DiskFile>)>,
}

impl CheckpointUnderWay {
    /// A file that the store lacks still.
    fn next_part(&self, inventory: &ShippedFiles) -> Option<(PartName, Salt, Arc<dyn DiskFile>)> {
        let is_here =
            |part, salt| inventory.parts.get(part).is_some_and(|shared: &SharedFile| shared.salt == salt);
        let next = self.parts.iter().find(|(part, (salt, _))| !is_here(part, *salt));
        next.map(|(part, (salt, file))| (*part, *salt, Arc::clone(file)))
    }
}

/// What an upload is of.
#[derive(Debug)]
enum UploadOf {
    Part(PartName),
    Log(ClosedFile, LookedFile),
}

/// A file on its way.
#[derive(Debug)]
struct Upload {
    of: UploadOf,
    name: String,
    object: String,
    salt: Salt,
    file: Arc<dyn DiskFile>,
    /// `None`: the object is there whole, and its checksum is wanted only.
    to: Option<Box<dyn SharedUpload>>,
    offset: u64,
    bytes: u64,
    crc: u32,
}

impl Shipper {
    /// Begins to ship the files of this open database. From here on its log files are held.
    ///
    /// # Errors
    /// [`DurabilityError::Config`] for settings that cannot work, and for a database without a log.
    pub fn start(
        store: &Arc<OpenStore>,
        log: &Arc<Log>,
        config: ShippingConfig,
    ) -> Result<Arc<Self>, DurabilityError> {
        config.check(log.loggers())?;
        let (database, ships_to) = {
            let keeper = store.manifest();
            (keeper.manifest().identity, keeper.manifest().ships_to)
        };
        let fenced = ships_to.filter(|ships_to| ships_to.is_fenced && !config.is_new_place);
        let stats = ShippingStats { fenced: fenced.map(fenced_before), ..ShippingStats::default() };
        match stats.fenced.clone() {
            None => store.hold().begin(config.hold),
            Some(detail) if config.when_fenced == WhenFenced::Stop => {
                log.stop(&DurabilityError::Fenced { detail }.to_string());
            }
            Some(_) => {}
        }
        let work = ShipWork {
            pace: WritePace::new(config.bytes_per_second),
            place: None,
            inventory: ShippedFiles::default(),
            base: Base::default(),
            under_way: None,
            log_upload: None,
            part_upload: None,
            left: BTreeMap::new(),
            not_before: 0,
            looked_at: 0,
            look_at: 0,
            publish_at: 0,
            clear_at: 0,
            ask_at: 0,
            unnamed: BTreeMap::new(),
            going: VecDeque::new(),
            is_clearing: false,
        };
        Ok(Arc::new(Self {
            store: Arc::clone(store),
            log: Arc::clone(log),
            config,
            database,
            wake_up: WakeUp::new(),
            work: Mutex::new(work),
            stats: Mutex::new(stats),
        }))
    }

    /// What shipping has come to.
    #[must_use]
    pub fn stats(&self) -> ShippingStats {
        if self.store.is_forked() {
            return ShippingStats::default();
        }
        ShippingStats { overruns: self.store.hold().overruns(), ..self.stats.lock().clone() }
    }

    /// Has another machine taken over?
    ///
    /// # Errors
    /// [`DurabilityError::Fenced`].
    pub fn check(&self) -> Result<(), DurabilityError> {
        match &self.stats.lock().fenced {
            Some(by) => Err(DurabilityError::Fenced { detail: Arc::clone(by) }),
            None => Ok(()),
        }
    }

    /// Closes the log files that are written, so that they can be shipped.
    pub fn request(&self) {
        self.log.request_roll();
        self.wake();
    }

    /// Waits until the store has all that is logged by now, at most for so long once it is durable; another thread
    /// steps. The epoch up to which the store is complete.
    ///
    /// # Errors
    /// [`DurabilityError::Fenced`], [`DurabilityError::NotShipped`], [`DurabilityError::Stopped`]; as for
    /// [`Log::wait_durable`].
    pub fn ship(&self, timeout: Duration) -> Result<Epoch, DurabilityError> {
        let now = self.store.epochs().now();
        self.log.wait_durable(now)?;
        // Epochs behind the last entry's need no mark in any log (L3).
        let wanted = self.log.logged_epoch().min(now);
        let clock = self.store.clock();
        let until = clock.nanos().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let mut asked_at = None;
        loop {
            self.check()?;
            self.log.check()?;
            let stats = self.stats();
            if stats.shipped_epoch >= wanted {
                return Ok(stats.shipped_epoch);
            }
            let now = clock.nanos();
            if now >= until {
                let why = stats.last_error.map_or_else(String::new, |error| format!("; {error}"));
                return Err(DurabilityError::NotShipped {
                    shipped: stats.shipped_epoch,
                    wanted,
                    why: why.into(),
                });
            }
            // Again and again: a log may have got the mark that counts behind the last request.
            if asked_at.is_none_or(|asked| now.saturating_sub(asked) >= ASK_AGAIN_NANOS) {
                asked_at = Some(now);
                self.request();
            }
            sleep(LOOK_AGAIN);
        }
    }

    /// Ends the current or the next wait.
    pub fn wake(&self) {
        if !self.store.is_forked() {
            self.wake_up.wake();
        }
    }

    /// Waits until there is a reason to step, or `timeout`.
    pub fn wait(&self, timeout: Duration) {
        if !self.store.is_forked() {
            self.wake_up.wait(timeout);
        }
    }

    /// One step: a piece of a file, or a manifest.
    pub fn step(&self) -> ShipStep {
        if self.store.is_forked() || self.log.health().has_ended() || self.check().is_err() {
            return ShipStep::Stopped;
        }
        let Some(mut work) = self.work.lock_unless_panicked() else { return ShipStep::Stopped };
        let now = self.store.clock().nanos();
        if now < work.not_before {
            return ShipStep::Paced(Duration::from_nanos(work.not_before - now));
        }
        let wait = work.pace.wait(now);
        if !wait.is_zero() {
            return ShipStep::Paced(wait);
        }
        let outcome = self.work_on(&mut work, now);
        self.count_waiting(&work);
        match outcome {
            Ok(worked) => {
                if worked && !work.is_clearing {
                    self.stats.lock().last_error = None;
                }
                if worked { ShipStep::Worked } else { ShipStep::Idle }
            }
            Err(error) => self.failed(&mut work, &error, now),
        }
    }

    /// It pauses; where it was fenced, for good.
    fn failed(&self, work: &mut ShipWork, error: &DurabilityError, now: u64) -> ShipStep {
        work.not_before = now.saturating_add(PAUSE.as_nanos() as u64);
        let mut stats = self.stats.lock();
        stats.last_error = Some(error.to_string().into());
        let DurabilityError::Fenced { detail } = error else {
            stats.failures += 1;
            return ShipStep::Paced(PAUSE);
        };
        drop(stats);
        (work.log_upload, work.part_upload) = (None, None);
        let store = work.place.as_ref().map(|place| place.store);
        let store = store.or_else(|| self.manifest().ships_to.map(|ships_to| ships_to.store));
        // H6: for later lives too. Where it cannot be written, they ask the store.
        if let Some(Err(error)) = store.map(|store| self.remember(ShipsTo { store, is_fenced: true })) {
            self.stats.lock().last_error = Some(error.to_string().into());
        }
        self.store.hold().end();
        if self.config.when_fenced == WhenFenced::Stop {
            self.log.stop(&error.to_string());
        }
        // Told last: a caller that learns of it finds that the log has stopped.
        self.stats.lock().fenced = Some(Arc::clone(detail));
        ShipStep::Stopped
    }

    /// Does the next thing that is to be done; false if there is nothing.
    fn work_on(&self, work: &mut ShipWork, now: u64) -> Result<bool, DurabilityError> {
        work.is_clearing = false;
        if work.place.is_none() {
            self.find_place(work)?;
            return Ok(true);
        }
        if work.place.as_ref().is_some_and(|place| place.offered.is_some()) {
            return self.offer(work).map(|()| true);
        }
        // These have their turns by the clock: shipping may have no end, and the store may be full.
        if now >= work.look_at {
            self.look_for_others(work, now)?;
        }
        if work.place.is_none() {
            return Ok(true);
        }
        work.is_clearing = self.clear(work, now)?;
        if work.is_clearing {
            return Ok(true);
        }
        if let Some(upload) = work.log_upload.take() {
            work.log_upload = self.go_on(work, upload)?;
            return Ok(true);
        }
        let closed = self.log.closed_list();
        if let Some(next) = self.lacking(work, &closed).into_iter().next() {
            if now >= work.publish_at && self.publish(work, &closed, now)? {
                return Ok(true);
            }
            return self.begin_log(work, next).map(|()| true);
        }
        if self.publish(work, &closed, now)? {
            return Ok(true);
        }
        self.store.hold().caught_up();
        if let Some(upload) = work.part_upload.take() {
            work.part_upload = self.go_on(work, upload)?;
            return Ok(true);
        }
        if self.begin_checkpoint(work)? || self.begin_part(work)? {
            return Ok(true);
        }
        if work.under_way.is_some() && now >= work.ask_at {
            // All of the checkpoint is there, and no closed file has a mark of its e_h yet.
            work.ask_at = now.saturating_add(PAUSE.as_nanos() as u64);
            self.log.request_roll();
        }
        Ok(false)
    }

    /// Looks for what no manifest names, or removes one object of what is due; false if neither is its turn.
    fn clear(&self, work: &mut ShipWork, now: u64) -> Result<bool, DurabilityError> {
        if let Some(object) = work.going.pop_front() {
            // The process may have slept since it looked.
            if now.saturating_sub(work.looked_at) >= PAUSE.as_nanos() as u64 {
                self.look_for_others(work, now)?;
            }
            if work.place.is_none() {
                return Ok(true);
            }
            self.to().remove(&object).map_err(|error| unusable(self.to(), error))?;
            work.unnamed.remove(&object);
            return Ok(true);
        }
        if now < work.clear_at {
            return Ok(false);
        }
        work.clear_at = now.saturating_add(CLEAR_NANOS.min(self.grace_nanos().max(1)));
        self.look_for_others(work, now)?;
        self.look_for_unnamed(work, now)?;
        Ok(true)
    }

    fn to(&self) -> &dyn SharedStore {
        &*self.config.to
    }

    fn grace_nanos(&self) -> u64 {
        u64::try_from(self.config.grace.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The manifest of the database's folder as it stands.
    fn manifest(&self) -> Manifest {
        self.store.manifest().manifest().clone()
    }

    /// Finds out whose the store is, and what is in it.
    fn find_place(&self, work: &mut ShipWork) -> Result<(), DurabilityError> {
        let newest = chain::newest(self.to())?;
        if let Some(newest) = &newest {
            self.check_term(newest, None)?;
            self.check_history(newest)?;
        }
        self.check_store(newest.as_ref())?;
        let failed = |error| unusable(self.to(), error);
        let own = self.database.to_string();
        self.to().remove_unfinished(&own).map_err(failed)?;
        work.left = self.listed(&[self.database])?;
        let listed = self.manifest();
        let mut missing = None;
        match newest {
            Some(newest) => {
                let known = ShippedFiles::of(&newest);
                for (name, part) in known.parts {
                    work.inventory.parts.entry(name).or_insert(part);
                }
                for (name, log) in known.logs {
                    work.inventory.logs.entry(name).or_insert(log);
                }
                work.base = Base::of_shared(&newest, &listed.generations);
                self.installed(&newest);
                let place = ManifestPlace::of(newest);
                let there = self.listed(&place.writers(self.database))?;
                work.place = Some(place);
                missing = work.inventory.keep_listed(&there);
            }
            None => {
                work.base = Base::of_life(None, &[]);
                work.place = Some(ManifestPlace::of_empty_store());
            }
        }
        self.release_hold(work);
        // It is told, and shipped again as far as it is here.
        missing.map_or(Ok(()), |missing| Err(self.is_missing(&missing)))
    }

    /// Is this the store that the folder remembers? One that it does not know yet is remembered.
    fn check_store(&self, newest: Option<&SharedManifest>) -> Result<(), DurabilityError> {
        let known = self.manifest().ships_to.map(|ships_to| ships_to.store);
        let found = newest.map(|newest| newest.store);
        match (known, found) {
            (None, Some(store)) => self.remember(ShipsTo { store, is_fenced: false }),
            (Some(known), found) if found != Some(known) && !self.config.is_new_place => {
                let what = found.map_or("it is empty".to_owned(), |found| format!("it is store {found}"));
                let detail = format!(
                    "{what}, and this database ships to store {known}: mount that, or say that it is a new place"
                );
                Err(unusable(self.to(), detail))
            }
            (Some(_), Some(store)) => self.remember(ShipsTo { store, is_fenced: false }),
            (_, None) => Ok(()),
        }
    }

    /// Has the database's folder remember this, if it does not.
    fn remember(&self, ships_to: ShipsTo) -> Result<(), DurabilityError> {
        let mut keeper = self.store.manifest();
        // Under this lock, for which a close waits: afterwards the manifest may be another's.
        if keeper.manifest().ships_to == Some(ships_to) || self.log.health().has_ended() {
            return Ok(());
        }
        let next = Manifest { ships_to: Some(ships_to), ..keeper.manifest().clone() };
        Ok(keeper.replace(next)?)
    }

    /// The objects of these databases, with their lengths.
    fn listed(&self, databases: &[Identity]) -> Result<BTreeMap<String, u64>, DurabilityError> {
        let mut there = BTreeMap::new();
        for database in databases {
            let listed = self.to().list(&database.to_string()).map_err(|error| unusable(self.to(), error))?;
            there.extend(listed.into_iter().map(|object| (object.name, object.bytes)));
        }
        Ok(there)
    }

    fn is_missing(&self, object: &str) -> DurabilityError {
        chain::damaged(self.to(), object, "it is missing, or not as long as it was when it was shipped")
    }

    /// Is this manifest, which this database has written, of its history? The database may be an older copy, or one
    /// that was put back.
    fn check_history(&self, newest: &SharedManifest) -> Result<(), DurabilityError> {
        let (number, salt) = newest.next;
        let listed = self.manifest();
        let shipped = Some(newest.state.epoch());
        let of = Generation { number, salt, durable: shipped, ..listed.open_generation().clone() };
        let mut before = Lineage::default();
        before.add(std::iter::once(&of));
        listed.lives().is_behind(&before).map_err(|why| {
            let detail = format!(
                "its newest manifest is of {why} Take over from this place into an empty folder, or give an empty place"
            );
            unusable(self.to(), detail)
        })
    }

    /// May this database, which has installed a manifest of this store, go on behind this larger one?
    fn check_next(&self, place: &ManifestPlace, newest: &SharedManifest) -> Result<(), DurabilityError> {
        if newest.store != place.store {
            let detail = "it is another store than the one that this database ships to: its files were removed, or \
                          another place is mounted there";
            return Err(unusable(self.to(), detail));
        }
        self.check_term(newest, Some(place.term))?;
        let listed = self.manifest();
        let open = listed.open_generation();
        if newest.next != (open.number, open.salt) {
            return self.check_history(newest);
        }
        let detail = format!(
            "manifest {} is of this database as it runs, and this process did not install it: does a copy of the \
             machine run?",
            newest.number
        );
        Err(unusable(self.to(), detail))
    }

    /// What is said of a manifest that a newer version of Ensile has installed behind this database's own: no process
    /// of this database did.
    fn is_fenced_if_newer(&self, error: DurabilityError) -> DurabilityError {
        let DurabilityError::Unknown { file, .. } = error else { return error };
        let place = self.to().place();
        let detail = format!("a newer version of Ensile has taken over with {file} of {place}");
        DurabilityError::Fenced { detail: detail.into() }
    }

    /// May this database go on behind this manifest? `term`: its own, once it has one.
    fn check_term(&self, newest: &SharedManifest, term: Option<u64>) -> Result<(), DurabilityError> {
        if newest.shipper == self.database && term.is_none_or(|term| term == newest.term) {
            return Ok(());
        }
        let SharedManifest { shipper, term: other, number, .. } = newest;
        if term.is_some() || newest.fenced.contains(&self.database) {
            let detail = format!(
                "database {shipper} has taken over in term {other} with manifest {number} of {}",
                self.to().place()
            );
            return Err(DurabilityError::Fenced { detail: detail.into() });
        }
        let detail = format!(
            "it has the files of database {shipper}, and this one is {}: give an empty place, or take over from it",
            self.database
        );
        Err(unusable(self.to(), detail))
    }

    /// The closed log files that are not in the store, and that a state there may need, oldest first.
    fn lacking(&self, work: &ShipWork, closed: &[ClosedFile]) -> Vec<ClosedFile> {
        let listed = self.manifest();
        let covered = if work.base.live.is_empty() {
            listed.checkpoint.as_ref().map_or(Epoch::ZERO, InstalledCheckpoint::covered)
        } else {
            work.base.covered()
        };
        let is_listed = |older: &&Generation| !listed.lists(older.number);
        let older = work.base.live.iter().filter(is_listed).cloned();
        let generations: Vec<Generation> = older.chain(listed.generations.iter().cloned()).collect();
        lacking(&generations, (&work.inventory, closed), covered)
    }

    fn begin_log(&self, work: &mut ShipWork, closed: ClosedFile) -> Result<(), DurabilityError> {
        let disk = self.store.disk();
        // It may have been removed beyond the hold since it was listed.
        let Some(file) = unless_missing(disk.open_to_read(&closed.file.to_string()))? else { return Ok(()) };
        let looked = log_file::look(disk.open_to_read(&closed.file.to_string())?, &closed)?;
        let (name, bytes, salt) = (closed.file.archived().to_string(), closed.bytes, looked.salt);
        let of = UploadOf::Log(closed, looked);
        work.log_upload = Some(self.begin_upload(work, of, (name, bytes, salt), file.into())?);
        Ok(())
    }

    fn begin_upload(
        &self,
        work: &ShipWork,
        of: UploadOf,
        (name, bytes, salt): (String, u64, Salt),
        file: Arc<dyn DiskFile>,
    ) -> Result<Upload, DurabilityError> {
        let object = SharedFile { shipper: self.database, salt, bytes, crc: 0 }.object(&name);
        let is_there = work.left.get(&object) == Some(&bytes);
        let to = match is_there {
            true => None,
            false => Some(self.to().upload(&object).map_err(|error| unusable(self.to(), error))?),
        };
        Ok(Upload { of, name, object, salt, file, to, offset: 0, bytes, crc: 0 })
    }

    /// The next piece of a file that is under way; `None` once it is in the store. One that fails begins anew.
    fn go_on(&self, work: &mut ShipWork, mut upload: Upload) -> Result<Option<Upload>, DurabilityError> {
        let wanted = (upload.bytes - upload.offset).min(STEP_BYTES as u64) as usize;
        let mut bytes = vec![0; wanted];
        let read = upload.file.read_at(&mut bytes, upload.offset)?;
        if read < wanted {
            let at = upload.offset + read as u64;
            return Err(DurabilityError::damaged(&upload.name, at, "it ends before its last block"));
        }
        upload.crc = crc32c_append(upload.crc, &bytes);
        if let Some(to) = &mut upload.to {
            to.write(&bytes).map_err(|error| unusable(self.to(), error))?;
            work.pace.spend(wanted as u64);
        } else {
            self.compare(work, &upload, &bytes)?;
        }
        upload.offset += wanted as u64;
        if upload.offset < upload.bytes {
            return Ok(Some(upload));
        }
        let Upload { of, to, salt, bytes, crc, .. } = upload;
        if let Some(to) = to {
            to.finish().map_err(|error| unusable(self.to(), error))?;
            let mut stats = self.stats.lock();
            (stats.files, stats.bytes) = (stats.files + 1, stats.bytes + bytes);
        }
        let shared = SharedFile { shipper: self.database, salt, bytes, crc };
        match of {
            UploadOf::Part(part) => drop(work.inventory.parts.insert(part, shared)),
            UploadOf::Log(ClosedFile { file, largest, .. }, LookedFile { before, marks, .. }) => {
                work.inventory.logs.insert(file.archived(), ShippedLog { shared, largest, before, marks });
            }
        }
        Ok(None)
    }

    /// Has the object that is there the same bytes here?
    fn compare(&self, work: &mut ShipWork, upload: &Upload, bytes: &[u8]) -> Result<(), DurabilityError> {
        let mut there = vec![0; bytes.len()];
        let read = self.to().read_at(&upload.object, &mut there, upload.offset);
        work.pace.spend(bytes.len() as u64);
        match read.map_err(|error| unusable(self.to(), error))? {
            Some(read) if read == bytes.len() && there == bytes => Ok(()),
            Some(read) if read == bytes.len() => Err(chain::damaged(
                self.to(),
                &upload.object,
                "it has other bytes than the file here: if no copy of this database ships there too, remove it",
            )),
            _ => {
                // The next attempt puts it.
                work.left.remove(&upload.object);
                Err(self.is_missing(&upload.object))
            }
        }
    }

    /// Log files that the newest manifest names may go, and those that its checkpoint covers. One that is in the store
    /// and that no manifest names yet is nothing to the next life.
    fn release_hold(&self, work: &ShipWork) {
        let newest = work.place.as_ref().and_then(|place| place.newest.as_ref());
        let named = newest.into_iter().flat_map(|newest| &newest.logs).map(|log| log.file);
        let shipped: BTreeSet<_> = named.filter(|file| work.inventory.logs.contains_key(file)).collect();
        self.store.hold().release(shipped, work.base.covered());
    }

    /// Installs the manifest of what is in the store, if that is more than the newest one says.
    fn publish(&self, work: &mut ShipWork, closed: &[ClosedFile], now: u64) -> Result<bool, DurabilityError> {
        work.publish_at = now.saturating_add(PUBLISH_NANOS);
        let reserved = self.manifest().reserved;
        let newer = work.under_way.as_ref().and_then(|under_way| {
            let composed = under_way.base.compose(&work.inventory, closed, self.database)?;
            Some((under_way.base.clone(), composed))
        });
        let is_newer = newer.is_some();
        let grown = || work.base.compose(&work.inventory, closed, self.database);
        let Some((base, composed)) = newer.or_else(|| Some((work.base.clone(), grown()?))) else {
            return Ok(false);
        };
        let place = work.place.as_ref().expect("it was found");
        let is_said = place.newest.as_ref().is_some_and(|newest| {
            (&newest.state, newest.next, &newest.parts, &newest.logs)
                == (&composed.state, composed.next, &composed.parts, &composed.logs)
                // L6: who takes over begins above what was shown here.
                && newest.reserved >= reserved
        });
        if is_newer {
            (work.base, work.under_way) = (base, None);
        }
        if is_said {
            return Ok(is_newer);
        }
        // H1: what is named is there still.
        self.look_for_others(work, now)?;
        let Some(place) = work.place.as_mut() else { return Ok(true) };
        let next = place.next(composed, (self.database, reserved))?;
        let bytes = next.to_string().len() as u64;
        if bytes > SHARED_MANIFEST_BYTES_MAX {
            return Err(DurabilityError::config(format!(
                "the manifest of what was shipped would have {bytes} bytes, and at most {SHARED_MANIFEST_BYTES_MAX} can \
                 be read: let checkpoints be installed more often, or larger log files be written"
            )));
        }
        place.offered = Some(next);
        self.offer(work).map(|()| true)
    }

    /// Offers the manifest that waits for an answer.
    fn offer(&self, work: &mut ShipWork) -> Result<(), DurabilityError> {
        let place = work.place.as_mut().expect("it was found");
        let offered = place.offered.clone().expect("one waits");
        let is_first = place.newest.is_none();
        let installed = chain::install(self.to(), &offered).map_err(|error| match is_first {
            true => error,
            false => self.is_fenced_if_newer(error),
        });
        match installed? {
            Installed::Ours => {
                self.installed(&offered);
                (place.number, place.term) = (offered.number, offered.term);
                let store = place.store;
                (place.newest, place.offered) = (Some(offered), None);
                self.release_hold(work);
                self.forget_unneeded(work);
                self.remember(ShipsTo { store, is_fenced: false })
            }
            Installed::Lost(newest) => {
                if !is_first {
                    self.check_next(place, &newest)?;
                }
                // A process of this database that has died had offered another one: it goes on behind that.
                work.place = None;
                self.check_term(&newest, None)
            }
        }
    }

    fn installed(&self, manifest: &SharedManifest) {
        let mut stats = self.stats.lock();
        (stats.manifest, stats.term) = (manifest.number, manifest.term);
        stats.shipped_epoch = manifest.state.epoch();
    }

    /// Forgets what is in the store and in no state any more.
    fn forget_unneeded(&self, work: &mut ShipWork) {
        let Some(newest) = work.place.as_ref().and_then(|place| place.newest.as_ref()) else { return };
        let under_way = work.under_way.as_ref().map(|under_way| &under_way.base);
        let wanted: BTreeSet<PartName> = under_way
            .into_iter()
            .flat_map(|base| parts_of(base.checkpoint.as_ref()))
            .map(|(part, _)| part)
            .collect();
        let named: BTreeSet<PartName> = newest.parts.iter().map(|(part, _)| *part).collect();
        work.inventory.parts.retain(|part, _| named.contains(part) || wanted.contains(part));
        let covered = work.base.covered();
        let logs: BTreeSet<_> = newest.logs.iter().map(|log| log.file).collect();
        work.inventory.logs.retain(|file, shipped| logs.contains(file) || shipped.largest >= covered);
        work.inventory.forget_marks_below(newest.state.epoch());
    }

    /// A checkpoint that the store does not have is installed: its files are opened, all at once.
    fn begin_checkpoint(&self, work: &mut ShipWork) -> Result<bool, DurabilityError> {
        let listed = self.manifest();
        if let Some(under_way) = &work.under_way {
            // One that is here as a whole and does not count lacks log files, which may have gone beyond the hold.
            let is_over = under_way.next_part(&work.inventory).is_none();
            let is_lost = is_over && under_way.base.parts(&work.inventory).is_none();
            if !is_over || (under_way.base.checkpoint == listed.checkpoint && !is_lost) {
                return Ok(false);
            }
            work.under_way = None;
        }
        let has_parts = work.base.parts(&work.inventory).is_some();
        if listed.checkpoint == work.base.checkpoint && !work.base.live.is_empty() && has_parts {
            return Ok(false);
        }
        if listed.checkpoint.as_ref().is_some_and(InstalledCheckpoint::is_picture) {
            return Err(DurabilityError::config(
                "pictures are changed in place and cannot be shipped as files: use fuzzy or cycling checkpoints, or \
                 backups",
            ));
        }
        let mut parts = BTreeMap::new();
        for (part, salt) in parts_of(listed.checkpoint.as_ref()) {
            if work.inventory.parts.get(&part).is_some_and(|shared| shared.salt == salt) {
                continue;
            }
            // The next checkpoint is installed: it is looked at in the next step.
            let Some(file) = unless_missing(self.store.disk().open_to_read(&part.to_string()))? else {
                return Ok(true);
            };
            parts.insert(part, (salt, file.into()));
        }
        let base = Base::of_life(listed.checkpoint, &listed.generations);
        work.under_way = Some(CheckpointUnderWay { base, parts });
        Ok(true)
    }

    /// The next file of the checkpoint that is under way.
    fn begin_part(&self, work: &mut ShipWork) -> Result<bool, DurabilityError> {
        let Some(under_way) = &work.under_way else { return Ok(false) };
        let Some((part, salt, file)) = under_way.next_part(&work.inventory) else { return Ok(false) };
        let bytes = file.len()?;
        let of = UploadOf::Part(part);
        work.part_upload = Some(self.begin_upload(work, of, (part.to_string(), bytes, salt), file)?);
        Ok(true)
    }

    /// Looks for objects that no manifest names: those of this database, and of those that it has taken over from.
    fn look_for_unnamed(&self, work: &mut ShipWork, now: u64) -> Result<(), DurabilityError> {
        let Some(place @ ManifestPlace { number, newest: Some(newest), .. }) = &work.place else {
            return Ok(());
        };
        let failed = |error| unusable(self.to(), error);
        let mut named: BTreeSet<String> = newest.objects().chain(work.inventory.objects()).collect();
        named.insert(manifest_name(*number));
        let mut there: Vec<String> = Vec::new();
        let listed = self.listed(&place.writers(self.database))?;
        there.extend(listed.keys().cloned());
        // A larger one is of a machine that has taken over.
        let manifests = self.to().list(MANIFESTS).map_err(failed)?.into_iter().map(|object| object.name);
        there.extend(manifests.filter(|name| manifest_number(name).is_some_and(|older| older < *number)));
        let unnamed: BTreeSet<String> = there.into_iter().filter(|object| !named.contains(object)).collect();
        work.unnamed.retain(|object, _| unnamed.contains(object));
        for object in unnamed {
            work.unnamed.entry(object).or_insert(now);
        }
        let is_due = |since: &u64| now.saturating_sub(*since) >= self.grace_nanos();
        work.going = work
            .unnamed
            .iter()
            .filter(|(_, since)| is_due(since))
            .map(|(object, _)| object.clone())
            .collect();
        // It is told, and shipped again as far as it is here.
        match work.inventory.keep_listed(&listed) {
            Some(missing) => Err(self.is_missing(&missing)),
            None => Ok(()),
        }
    }

    /// Has another machine installed a manifest?
    fn look_for_others(&self, work: &mut ShipWork, now: u64) -> Result<(), DurabilityError> {
        let Some(place @ ManifestPlace { number, newest: Some(own), .. }) = &work.place else {
            return Ok(());
        };
        let largest = chain::numbers(self.to())?.into_iter().max().unwrap_or(0);
        if largest <= *number {
            let head = own.head().into_bytes();
            let mut there = vec![0; head.len()];
            let read = self.to().read_at(&manifest_name(*number), &mut there, 0);
            if read.map_err(|error| unusable(self.to(), error))? != Some(head.len()) || there != head {
                let detail = format!(
                    "manifest {number}, which this database has installed, is gone: the store's files were removed, or \
                     another store is mounted there"
                );
                return Err(unusable(self.to(), detail));
            }
        }
        if largest > *number {
            let newest = chain::newest(self.to()).map_err(|error| self.is_fenced_if_newer(error))?;
            if let Some(newest) = newest.filter(|newest| newest.number > *number) {
                self.check_next(place, &newest)?;
                // It is one of a process of this database that has died.
                work.place = None;
            }
        }
        // One that fails is tried again before anything is shipped.
        (work.looked_at, work.look_at) = (now, now.saturating_add(LOOK_NANOS));
        Ok(())
    }

    /// Counts what is to be shipped.
    fn count_waiting(&self, work: &ShipWork) {
        let logs = self.lacking(work, &self.log.closed_list());
        let (mut files, mut bytes) = (logs.len() as u64, logs.iter().map(|closed| closed.bytes).sum::<u64>());
        let parts = work.under_way.iter().flat_map(|under_way| &under_way.parts);
        for (_, (_, file)) in parts.filter(|(part, _)| !work.inventory.parts.contains_key(*part)) {
            (files, bytes) = (files + 1, bytes + file.len().unwrap_or(0));
        }
        let mut stats = self.stats.lock();
        (stats.waiting_files, stats.waiting_bytes) = (files, bytes);
    }
}

/// What is said of a database that was fenced in a life before.
fn fenced_before(ships_to: ShipsTo) -> Arc<str> {
    format!("another database has taken over in store {}, as this one's folder remembers", ships_to.store)
        .into()
}

impl ManifestPlace {
    /// The databases whose objects may be there: this one, and those that it has taken over from.
    fn writers(&self, own: Identity) -> Vec<Identity> {
        self.fenced.iter().copied().chain([own]).collect()
    }

    fn of(newest: SharedManifest) -> Self {
        let SharedManifest { store, number, term, fenced, .. } = newest.clone();
        Self { store, number, term, fenced, newest: Some(newest), offered: None }
    }

    fn of_empty_store() -> Self {
        Self { store: Identity::draw(), number: 0, term: 1, fenced: Vec::new(), newest: None, offered: None }
    }

    /// The manifest that comes next, of this state.
    fn next(
        &self,
        composed: ComposedState,
        (shipper, reserved): (Identity, Epoch),
    ) -> Result<SharedManifest, DurabilityError> {
        let ComposedState { state, next, parts, logs } = composed;
        let used_up = || DurabilityError::config("the numbers of the shared store's manifests are used up");
        Ok(SharedManifest {
            store: self.store,
            number: number::next(self.number).ok_or_else(used_up)?,
            term: self.term,
            attempt: Random::unpredictable().next_u64(),
            shipper,
            reserved,
            fenced: self.fenced.clone(),
            next,
            parts,
            logs,
            state,
        })
    }
}
