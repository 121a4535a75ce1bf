//! Ships the finished files of an open database, a piece at a step, on a thread that nothing else waits for.
//!
//! ```text
//! find its place in the store --> a piece of a file --> the manifest of what is there --> what no manifest names goes
//!        log files first; between two pieces of a checkpoint's file, which is held open, log files and manifests too
//! ```
//! Invariants:
//! - H1: an upload has ended, and is durable in the store, before a manifest names its object.
//! - H3: S does not go back from one manifest to the next, unless something of what the newest one names is gone.
//! - H5: the store of the database hears what is shipped before a log file may go.
//! - H4, H6: see `clearing` and `place`.
//! - I4: in a forked process every call is empty.
//!
//! Neighbours: `state` decides what the store has, `chain` installs manifests; the log has the closed files. Its parts:
//! `place` in the chain, `uploads`, `clearing`, and how it ends.

mod clearing;
mod ending;
mod place;
mod uploads;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::sync::{Mutex, sleep};
use ensile_disk::DiskFile;

use self::ending::{CANCELLED, ShipSteps, StepUnderWay};
use self::place::{ManifestPlace, OfferedManifest, fenced_before};
use self::uploads::{Upload, UploadOf};
use super::chain::{self, Installed};
use super::config::{ShipStep, ShippingConfig, ShippingStats, WhenFenced};
use super::shared::SharedStore;
use super::state::{Base, ShippedFiles, lacking, parts_of};
use crate::DurabilityError;
use crate::block::Salt;
use crate::control::pace::WritePace;
use crate::error::unless_missing;
use crate::identity::Identity;
use crate::log::Log;
use crate::store::closed_files::ClosedFile;
use crate::store::handle::OpenStore;
use crate::store::installed::InstalledCheckpoint;
use crate::store::manifest::{Generation, Manifest};
use crate::store::names::{PartName, SegmentFile};
use crate::store::shared_manifest::{SHARED_MANIFEST_BYTES_MAX, SharedFile, SharedManifest, file_of};
use crate::store::ships_to::ShipsTo;
use crate::wake_up::WakeUp;

/// Bytes that are read and written in one step.
const STEP_BYTES: usize = 1 << 20;
/// How much the thread that ships gives way: about a third of the weight of a thread that does not.
const NICENESS: u8 = 5;
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
/// A log file that cannot be read is tried again after this: what is behind it is shipped meanwhile.
const PASS_OVER_NANOS: u64 = 10_000_000_000;

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
    steps: Mutex<ShipSteps>,
    /// What the end came to, once it was waited for.
    ended: Mutex<Option<Result<(), DurabilityError>>>,
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
    /// Closed log files that could not be read, each until when others go first.
    passed_over: BTreeMap<SegmentFile, u64>,
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

/// An installed checkpoint whose files are shipped. They are held open: the next checkpoint may remove their names.
#[derive(Debug)]
struct CheckpointUnderWay {
    base: Base,
    parts: BTreeMap<PartName, (Salt, Arc<dyn DiskFile>)>,
}

impl ShipWork {
    /// The files that are being put, by their names in the store.
    fn under_way_names(&self) -> impl Iterator<Item = String> + '_ {
        self.log_upload.iter().chain(&self.part_upload).map(Upload::shared_name)
    }

    /// Is this object, or what is written of it, of a file that is being put?
    fn is_under_way(&self, object: &str) -> bool {
        self.under_way_names().any(|name| name == file_of(object))
    }
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

/// True if this configuration ships to another store than the one where the database is fenced. A store that cannot be
/// read may be that one (H6).
fn is_elsewhere(config: &ShippingConfig, ships_to: ShipsTo) -> bool {
    let is_other =
        |newest: Option<SharedManifest>| newest.is_none_or(|newest| newest.store != ships_to.store);
    config.is_new_place && chain::newest(&*config.to).is_ok_and(is_other)
}

impl Shipper {
    /// As [`Shipper::start`], if there is a configuration. Without one the log of a fenced database takes no entry: its
    /// folder is open to be read (H6).
    ///
    /// # Errors
    /// As for [`Shipper::start`].
    pub fn start_with(
        store: &Arc<OpenStore>,
        log: &Arc<Log>,
        config: Option<ShippingConfig>,
    ) -> Result<Option<Arc<Self>>, DurabilityError> {
        if let Some(config) = config {
            return Self::start(store, log, config).map(Some);
        }
        let ships_to = store.manifest().manifest().ships_to;
        if let Some(fenced) = ships_to.filter(|ships_to| ships_to.is_fenced) {
            log.fence(&fenced_before(fenced));
        }
        Ok(None)
    }

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
        let fenced = ships_to.filter(|ships_to| ships_to.is_fenced && !is_elsewhere(&config, *ships_to));
        let stats = ShippingStats { fenced: fenced.map(fenced_before), ..ShippingStats::default() };
        match stats.fenced.clone() {
            None => store.hold().begin(config.hold),
            Some(detail) if config.when_fenced == WhenFenced::Stop => log.fence(&detail),
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
            passed_over: BTreeMap::new(),
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
            steps: Mutex::default(),
            ended: Mutex::default(),
        }))
    }

    /// What shipping has come to.
    #[must_use]
    pub fn stats(&self) -> ShippingStats {
        if self.store.is_forked() {
            return ShippingStats::default();
        }
        let (overruns, durable_epoch) = (self.store.hold().overruns(), self.log.durable_epoch());
        let mut stats = ShippingStats { overruns, durable_epoch, ..self.stats.lock().clone() };
        if self.is_cancelled() {
            stats.last_error = Some(CANCELLED.into());
        }
        stats
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
        self.ship_by(timeout, |epoch| self.log.wait_durable(epoch), || sleep(LOOK_AGAIN))
    }

    /// As [`ship`](Self::ship), where there may be no other thread: `wait_durable` waits until an epoch is durable, and
    /// `pause` takes what steps are due, before it is looked at again.
    ///
    /// # Errors
    /// As there.
    pub fn ship_by(
        &self,
        timeout: Duration,
        wait_durable: impl FnOnce(Epoch) -> Result<(), DurabilityError>,
        pause: impl Fn(),
    ) -> Result<Epoch, DurabilityError> {
        let now = self.store.epochs().now();
        wait_durable(now).map_err(|stopped| self.why_stopped(stopped))?;
        let wanted = self.logged().min(now);
        let clock = self.store.clock();
        let until = clock.nanos().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let mut asked_at = None;
        loop {
            // The log stops a moment after that is known: a caller that is told finds it stopped.
            let stops = self.config.when_fenced == WhenFenced::Stop;
            match self.check() {
                Err(_) if stops && !self.log.health().has_ended() => {
                    pause();
                    continue;
                }
                fenced => fenced?,
            }
            self.log.check().map_err(|stopped| self.why_stopped(stopped))?;
            let stats = self.stats();
            if stats.shipped_epoch >= wanted {
                return Ok(stats.shipped_epoch);
            }
            let now = clock.nanos();
            if now >= until || self.is_cancelled() {
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
            pause();
        }
    }

    /// Error of a stopped log: that the database is fenced, if that is why.
    fn why_stopped(&self, stopped: DurabilityError) -> DurabilityError {
        self.check().err().unwrap_or(stopped)
    }

    /// The epoch up to which the store is to be complete to have all that is logged. Epochs behind the last entry's
    /// need no mark in any log (L3), and those of this life say nothing before its first one.
    fn logged(&self) -> Epoch {
        let (logged, listed) = (self.log.logged_epoch(), self.manifest());
        if logged >= listed.open_generation().first {
            return logged;
        }
        let closed = listed.generations.iter().filter_map(|generation| generation.durable).max();
        let checkpoint = listed.checkpoint.as_ref().map(InstalledCheckpoint::durable_min);
        closed.max(checkpoint).unwrap_or_default()
    }

    /// The calling thread gives way to others from now on: the thread that ships calls this once, as it begins. It
    /// compares and sums up what it ships, and nothing waits for it. Shipping that the system does not let give way is
    /// shipping all the same.
    pub fn give_way(&self) {
        let _ = ensile_disk::lower_priority(NICENESS);
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
        let Some(_step) = StepUnderWay::begin(self) else { return ShipStep::Stopped };
        let Some(mut work) = self.work.lock_unless_panicked() else { return ShipStep::Stopped };
        let now = self.store.clock().nanos();
        if now < work.not_before {
            return ShipStep::Paced(Duration::from_nanos(work.not_before - now));
        }
        let wait = work.pace.wait(now);
        let is_offered = work.place.as_ref().is_none_or(|place| place.offered.is_some());
        let outcome = match wait.is_zero() {
            true => self.work_on(&mut work, now),
            // A look for others waits for no rate (H6).
            false if now >= work.look_at && !is_offered => {
                self.look_for_others(&mut work, now).map(|()| false)
            }
            false => return ShipStep::Paced(wait),
        };
        self.count_waiting(&work);
        match outcome {
            Ok(worked) => {
                if worked && !work.is_clearing && work.passed_over.is_empty() {
                    self.stats.lock().last_error = None;
                }
                if worked {
                    return ShipStep::Worked;
                }
                // What was passed over is to be shipped too.
                let again = work.passed_over.values().min().map_or(0, |until| until.saturating_sub(now));
                match wait.max(Duration::from_nanos(again)) {
                    Duration::ZERO => ShipStep::Idle,
                    wait => ShipStep::Paced(wait),
                }
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
        // Told first: a caller that finds the log stopped learns why.
        self.stats.lock().fenced = Some(Arc::clone(detail));
        if self.config.when_fenced == WhenFenced::Stop {
            self.log.stop(&error.to_string());
        }
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
            return self.offer(work, now).map(|()| true);
        }
        // These have their turns by the clock: shipping may have no end, and the store may be full.
        if now >= work.look_at {
            self.look_for_others(work, now)?;
        }
        if work.place.is_none() {
            return Ok(true);
        }
        work.is_clearing = self.clear(work, now)?;
        if work.is_clearing || self.ship_logs(work, now)? {
            return Ok(true);
        }
        if let Some(upload) = work.part_upload.take() {
            return self.go_on_with_part(work, upload).map(|()| true);
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

    /// Ships a piece of a closed log file, or installs a manifest; false if neither is to be done.
    fn ship_logs(&self, work: &mut ShipWork, now: u64) -> Result<bool, DurabilityError> {
        if let Some(upload) = work.log_upload.take() {
            return self.go_on_with_log(work, upload, now).map(|()| true);
        }
        let closed = self.log.closed_list();
        let lacking = self.lacking(work, &closed);
        work.passed_over.retain(|_, until| now < *until);
        let next = lacking.iter().find(|closed| !work.passed_over.contains_key(&closed.file)).cloned();
        if let Some(next) = next {
            // What is gone from the store may be put again first.
            if now >= work.publish_at && self.publish(work, (&closed, false), now)? == Published::Worked {
                return Ok(true);
            }
            let file = next.file;
            let begun = self.begin_log(work, next);
            return begun.map(|()| true).map_err(|error| passed_over(work, file, now, error));
        }
        match self.publish(work, (&closed, lacking.is_empty()), now)? {
            Published::Worked => return Ok(true),
            // A file that no manifest names is nothing to the next life (H5).
            Published::IsSaid if lacking.is_empty() => self.store.hold().caught_up(),
            Published::IsSaid | Published::Nothing => {}
        }
        Ok(false)
    }

    fn go_on_with_log(
        &self,
        work: &mut ShipWork,
        mut upload: Upload,
        now: u64,
    ) -> Result<(), DurabilityError> {
        match self.go_on(work, &mut upload) {
            Ok(true) => self.uploaded(work, upload),
            Ok(false) => work.log_upload = Some(upload),
            Err(error) if is_here(&error) => {
                let file = upload.log_file().expect("it is of a log file").file;
                return Err(passed_over(work, file, now, error));
            }
            Err(error) => {
                work.log_upload = Some(upload);
                return Err(error);
            }
        }
        Ok(())
    }

    fn go_on_with_part(&self, work: &mut ShipWork, mut upload: Upload) -> Result<(), DurabilityError> {
        match self.go_on(work, &mut upload) {
            Ok(true) => self.uploaded(work, upload),
            Ok(false) => work.part_upload = Some(upload),
            Err(error) => {
                match is_here(&error) {
                    // Another checkpoint may be installed by now.
                    true => work.under_way = None,
                    false => work.part_upload = Some(upload),
                }
                return Err(error);
            }
        }
        Ok(())
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

    /// Log files that the newest manifest names may go, and those that its checkpoint covers. One that is in the store
    /// and that no manifest names yet is nothing to the next life.
    fn release_hold(&self, work: &ShipWork) {
        let newest = work.place.as_ref().and_then(|place| place.newest.as_ref());
        let named = newest.into_iter().flat_map(|newest| &newest.logs).map(|log| log.file);
        let shipped: BTreeSet<_> = named.filter(|file| work.inventory.logs.contains_key(file)).collect();
        self.store.hold().release(shipped, work.base.covered());
    }

    /// Installs the manifest of what is in the store, if that is more than the newest one says; or less, if something
    /// of what this one names is gone, and it may be.
    fn publish(
        &self,
        work: &mut ShipWork,
        (closed, may_be_less): (&[ClosedFile], bool),
        now: u64,
    ) -> Result<Published, DurabilityError> {
        work.publish_at = now.saturating_add(PUBLISH_NANOS);
        let Manifest { reserved, application, .. } = self.manifest();
        let place = work.place.as_ref().expect("it was found");
        let newest = place.newest.as_ref();
        // H3: what was shipped stays so, unless something of it is gone.
        let is_kept = newest.is_some_and(|newest| !may_be_less || work.inventory.has_all_of(newest));
        let least = newest.filter(|_| is_kept).map_or(Epoch::ZERO, |newest| newest.state.epoch());
        let composed = |base: &Base| {
            let composed = base.compose(&work.inventory, closed, self.database)?;
            (composed.state.epoch() >= least).then_some(composed)
        };
        let newer = work.under_way.as_ref().and_then(|under_way| {
            let composed = composed(&under_way.base)?;
            Some((Some(under_way.base.clone()), composed))
        });
        let Some((base, composed)) = newer.or_else(|| Some((None, composed(&work.base)?))) else {
            return Ok(Published::Nothing);
        };
        let is_said = newest.is_some_and(|newest| {
            (&newest.state, newest.next, &newest.parts, &newest.logs)
                == (&composed.state, composed.next, &composed.parts, &composed.logs)
                // L6: who takes over begins above what was shown here.
                && newest.reserved >= reserved
                // I5: who takes over gets the name that the folder has.
                && newest.application == application
        });
        if is_said {
            let Some(base) = base else { return Ok(Published::IsSaid) };
            (work.base, work.under_way) = (base, None);
            return Ok(Published::Worked);
        }
        // H1: what is named is there still.
        self.look_for_others(work, now)?;
        let Some(place) = work.place.as_mut().filter(|_| !self.has_ended()) else {
            return Ok(Published::Worked);
        };
        let manifest = place.next(composed, (self.database, reserved, application))?;
        let bytes = manifest.to_string().len() as u64;
        if bytes > SHARED_MANIFEST_BYTES_MAX {
            return Err(DurabilityError::config(format!(
                "the manifest of what was shipped would have {bytes} bytes, and at most {SHARED_MANIFEST_BYTES_MAX} can \
                 be read: let checkpoints be installed more often, or larger log files be written"
            )));
        }
        place.offered = Some(OfferedManifest { manifest, base });
        self.offer(work, now).map(|()| Published::Worked)
    }

    /// Offers the manifest that waits for an answer.
    fn offer(&self, work: &mut ShipWork, now: u64) -> Result<(), DurabilityError> {
        let place = work.place.as_mut().expect("it was found");
        let OfferedManifest { manifest, base } = place.offered.clone().expect("one waits");
        let is_first = place.newest.is_none();
        let installed = chain::install(self.to(), &manifest).map_err(|error| match is_first {
            true => error,
            false => self.is_fenced_if_newer(error),
        });
        let installed = match installed {
            // The store may refuse this machine's manifests only: nobody else looks while this one waits (H6).
            Err(error) if now >= work.look_at => return self.look_past_offer(work, now, &manifest, error),
            installed => installed?,
        };
        match installed {
            Installed::Ours => {
                self.installed(&manifest);
                (place.number, place.term) = (manifest.number, manifest.term);
                let store = place.store;
                (place.newest, place.offered) = (Some(manifest), None);
                if let Some(base) = base {
                    (work.base, work.under_way) = (base, None);
                }
                self.release_hold(work);
                self.forget_unneeded(work);
                self.remember(ShipsTo { store, is_fenced: false })
            }
            Installed::Lost(newest) => self.lost_to(work, &newest),
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
        // Before the manifest is looked at: see `Base`.
        let closed = self.log.closed_list();
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
            let name = part.to_string();
            let Some(file) = unless_missing(self.store.disk().open_to_read(&name))? else {
                // The next checkpoint is installed: it is looked at in the next step.
                return match self.manifest().checkpoint == listed.checkpoint {
                    true => Err(DurabilityError::damaged(&name, 0, "it is missing, so it is not shipped")),
                    false => Ok(true),
                };
            };
            parts.insert(part, (salt, file.into()));
        }
        let base = Base::of_life(listed.checkpoint, &listed.generations, &closed);
        work.under_way = Some(CheckpointUnderWay { base, parts });
        Ok(true)
    }

    /// The next file of the checkpoint that is under way.
    fn begin_part(&self, work: &mut ShipWork) -> Result<bool, DurabilityError> {
        let Some(under_way) = &work.under_way else { return Ok(false) };
        let Some((part, salt, file)) = under_way.next_part(&work.inventory) else { return Ok(false) };
        let bytes = file.len()?;
        let of = UploadOf::Part(part);
        work.part_upload = Some(self.upload_of(of, (part.to_string(), bytes, salt), file));
        Ok(true)
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

/// What came of looking whether a manifest is to be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Published {
    /// One was offered, or something else was done.
    Worked,
    /// The newest one says all that is there.
    IsSaid,
    /// What is there makes up no state, or none that is as new.
    Nothing,
}

/// Is it this machine's disk that has failed, and not the store?
fn is_here(error: &DurabilityError) -> bool {
    matches!(error, DurabilityError::Damaged { .. } | DurabilityError::Disk(_))
}

/// A log file that cannot be read: others go first for a while.
fn passed_over(work: &mut ShipWork, file: SegmentFile, now: u64, error: DurabilityError) -> DurabilityError {
    if is_here(&error) {
        work.passed_over.insert(file, now.saturating_add(PASS_OVER_NANOS));
    }
    error
}
