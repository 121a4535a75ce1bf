//! Ships the finished files of an open database, one piece in each step, on a thread for which no other thread waits.
//!
//! ```text
//! find the place in the chain --> upload a piece of a file --> install a manifest --> remove unnamed objects
//!    log files go first, also between two pieces of a checkpoint's file, which is held open; so do manifests
//! ```
//! Invariants:
//! - H1: A manifest names an object only after the upload of the object has ended and is durable in the store.
//! - H3: S does not go back from one manifest to the next, unless an object of the newest manifest is gone.
//! - H5: The database's open store learns of a shipped log file before the file may be removed.
//! - H4, H6: see `object_removal` and `chain_position`.
//! - I4: In a forked process every call does nothing.
//!
//! Neighbours: `state_composition` decides which state the store has, `chain` installs manifests, and the log has the
//! closed files. Submodules: `chain_position` in the chain of manifests, `uploads`, `object_removal`, and the
//! `shutdown`.

mod chain_position;
mod object_removal;
mod shutdown;
mod uploads;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::sync::{Mutex, sleep};
use ensile_disk::DiskFile;

use self::chain_position::{ManifestPlace, OfferedManifest, ShipperFacts, fenced_before};
use self::shutdown::{CANCELLED, ShipSteps, StepUnderWay};
use self::uploads::{Upload, UploadOf};
use super::chain::{self, Installed};
use super::config::{ShipStep, ShippingConfig, ShippingStats, WhenFenced, check_shipping};
use super::shared_store::SharedStore;
use super::state_composition::{Base, LogSources, ShippedFiles, parts_of};
use crate::DurabilityError;
use crate::block::Salt;
use crate::control::pace::WritePace;
use crate::error::unless_missing;
use crate::identity::Identity;
use crate::log::Log;
use crate::store::closed_files::ClosedFile;
use crate::store::installed_checkpoint::InstalledCheckpoint;
use crate::store::manifest::{Generation, Manifest};
use crate::store::names::{PartName, SegmentFile};
use crate::store::open_store::OpenStore;
use crate::store::shared_manifest::{SHARED_MANIFEST_BYTES_MAX, SharedFile, SharedManifest, file_of};
use crate::store::shipping_target::ShipsTo;
use crate::wake_up::WakeUp;

/// Bytes that one step reads and writes.
const STEP_BYTES: usize = 1 << 20;
/// Niceness of the shipping thread: about a third of the weight of a normal thread.
const NICENESS: u8 = 5;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);
/// Nanoseconds between two checks for a take-over by another machine.
const LOOK_NANOS: u64 = 10_000_000_000;
/// Nanoseconds after which a caller that waits for its shipping requests new files again.
const ASK_AGAIN_NANOS: u64 = 200_000_000;
/// Pause of a waiting caller between two looks at the figures.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Nanoseconds between two manifests while more files wait to be shipped.
const PUBLISH_NANOS: u64 = 10_000_000_000;
/// Longest time, in nanoseconds, between two searches for objects that no manifest names.
const CLEAR_NANOS: u64 = 60_000_000_000;
/// Nanoseconds until the next attempt at an unreadable log file. Later files are shipped meanwhile.
const PASS_OVER_NANOS: u64 = 10_000_000_000;

/// The shipping of an open database. Any thread may step the shipper, but only one thread at a time.
#[derive(Debug)]
pub struct Shipper {
    store: Arc<OpenStore>,
    log: Arc<Log>,
    config: ShippingConfig,
    database: Identity,
    wake_up: WakeUp,
    /// State between two steps. A panic in a step ends the shipping, because the state of the running work is unknown.
    work: Mutex<ShipWork>,
    stats: Mutex<ShippingStats>,
    steps: Mutex<ShipSteps>,
    /// Outcome of the end, once a caller has waited for the end.
    ended: Mutex<Option<Result<(), DurabilityError>>>,
}

/// State from which the next step goes on.
#[derive(Debug)]
struct ShipWork {
    pace: WritePace,
    /// Place in the chain of manifests; `None` until the place is found.
    place: Option<ManifestPlace>,
    inventory: ShippedFiles,
    /// Base of the newest manifest: its checkpoint, and the generations that may still grow.
    base: Base,
    /// Newer checkpoint whose files are on their way to the store.
    under_way: Option<CheckpointUnderWay>,
    /// Upload of a log file. Log files go first, between two pieces of a checkpoint's file.
    log_upload: Option<Upload>,
    /// Upload of a checkpoint's file.
    part_upload: Option<Upload>,
    /// Closed log files that could not be read, each with the time until which other files go first.
    passed_over: BTreeMap<SegmentFile, u64>,
    /// Objects under this database's name that an upload may find, with their lengths in bytes: from an earlier life,
    /// or from an upload that was given up.
    left: BTreeMap<String, u64>,
    /// Time before which no step works, because the last step failed. This time and the next five are nanoseconds of
    /// the clock of the log.
    not_before: u64,
    /// Time of the last check for a take-over; `look_at` is the time of the next check.
    looked_at: u64,
    look_at: u64,
    /// Time of the next manifest while more files wait to be shipped.
    publish_at: u64,
    /// Time of the next search for unnamed objects.
    clear_at: u64,
    /// Time of the next request to the log to close its files, for a checkpoint that waits for a mark of its e_h.
    ask_at: u64,
    /// Objects that no manifest names, each with the time of the first sighting in nanoseconds.
    unnamed: BTreeMap<String, u64>,
    /// Unnamed objects that are to be removed next.
    going: VecDeque<String>,
    /// True if the last step cleared. Success of a clearing step says nothing about earlier failures.
    is_clearing: bool,
}

/// An installed checkpoint whose files are being shipped. The files are held open, because the next checkpoint may
/// remove their names.
#[derive(Debug)]
struct CheckpointUnderWay {
    base: Base,
    /// Files that the store lacked at the beginning, with their salts.
    parts: BTreeMap<PartName, (Salt, Arc<dyn DiskFile>)>,
}

impl ShipWork {
    /// Names in the store of the files that are being uploaded.
    fn under_way_names(&self) -> impl Iterator<Item = String> + '_ {
        self.log_upload.iter().chain(&self.part_upload).map(Upload::shared_name)
    }

    /// True if this object, whole or partly written, belongs to a file that is being uploaded.
    fn is_under_way(&self, object: &str) -> bool {
        self.under_way_names().any(|name| name == file_of(object))
    }
}

impl CheckpointUnderWay {
    /// A file that the store still lacks.
    fn next_part(&self, inventory: &ShippedFiles) -> Option<(PartName, Salt, Arc<dyn DiskFile>)> {
        let is_shipped =
            |part, salt| inventory.parts.get(part).is_some_and(|shared: &SharedFile| shared.salt == salt);
        let next = self.parts.iter().find(|(part, (salt, _))| !is_shipped(part, *salt));
        next.map(|(part, (salt, file))| (*part, *salt, Arc::clone(file)))
    }
}

/// True if this configuration ships to another store than the store in which the database is fenced. False for an
/// unreadable store, which may be the fenced store (H6).
fn is_elsewhere(config: &ShippingConfig, ships_to: ShipsTo) -> bool {
    let is_other =
        |newest: Option<SharedManifest>| newest.is_none_or(|newest| newest.store != ships_to.store);
    config.is_new_place && chain::newest(&*config.to).is_ok_and(is_other)
}

impl Shipper {
    /// As [`Shipper::start`], if `config` is given. Without a configuration, the log of a fenced database takes no
    /// entry: its folder is open for reads only (H6).
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

    /// Begins to ship the files of this open database. From now on the removal of log files waits for shipping. Of a
    /// fenced database nothing is shipped, and the log stops or goes on as [`WhenFenced`] says.
    ///
    /// # Errors
    /// [`DurabilityError::Config`] for settings that cannot work, and for a database without a log.
    pub fn start(
        store: &Arc<OpenStore>,
        log: &Arc<Log>,
        config: ShippingConfig,
    ) -> Result<Arc<Self>, DurabilityError> {
        check_shipping(&config, log.loggers())?;
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

    /// Current figures of the shipping.
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

    /// Checks that no other machine has taken over.
    ///
    /// # Errors
    /// [`DurabilityError::Fenced`] after a take-over.
    pub fn check(&self) -> Result<(), DurabilityError> {
        match &self.stats.lock().fenced {
            Some(by) => Err(DurabilityError::Fenced { detail: Arc::clone(by) }),
            None => Ok(()),
        }
    }

    /// Asks the log to close its current files, so that the files can be shipped.
    pub fn request(&self) {
        self.log.request_roll();
        self.wake();
    }

    /// Waits until every entry logged before the call is durable, and then at most `timeout` until the shared store has
    /// the entries. Another thread must step the shipper. Returns the epoch up to which the store is complete.
    ///
    /// # Errors
    /// [`DurabilityError::Fenced`], [`DurabilityError::NotShipped`], [`DurabilityError::Stopped`]; as for
    /// [`Log::wait_durable`].
    pub fn ship(&self, timeout: Duration) -> Result<Epoch, DurabilityError> {
        self.ship_by(timeout, |epoch| self.log.wait_durable(epoch), || sleep(LOOK_AGAIN))
    }

    /// As [`ship`](Self::ship), for a process that may have no other thread. `wait_durable` waits until an epoch is
    /// durable. `pause` takes the due steps before the next look at the figures.
    ///
    /// # Errors
    /// As for [`ship`](Self::ship).
    pub fn ship_by(
        &self,
        timeout: Duration,
        wait_durable: impl FnOnce(Epoch) -> Result<(), DurabilityError>,
        pause: impl Fn(),
    ) -> Result<Epoch, DurabilityError> {
        let now = self.store.epochs().now();
        wait_durable(now).map_err(|stopped| self.why_stopped(stopped))?;
        let wanted = self.epoch_to_ship().min(now);
        let clock = self.store.clock();
        let until = clock.nanos().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
        let mut asked_at = None;
        loop {
            // The log stops a moment after the fence is known. The loop waits for the stop, so a caller that gets
            // `Fenced` finds the log stopped.
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
            // The request is repeated, because a log may have got the decisive mark after the last request.
            if asked_at.is_none_or(|asked| now.saturating_sub(asked) >= ASK_AGAIN_NANOS) {
                asked_at = Some(now);
                self.request();
            }
            pause();
        }
    }

    /// Error of a stopped log: [`DurabilityError::Fenced`] if the database is fenced, `stopped` otherwise.
    fn why_stopped(&self, stopped: DurabilityError) -> DurabilityError {
        self.check().err().unwrap_or(stopped)
    }

    /// Epoch up to which the store must be complete to have every logged entry. Epochs after the last entry need no
    /// mark in any log (L3). Epochs of this life say nothing before its first entry.
    fn epoch_to_ship(&self) -> Epoch {
        let (logged, listed) = (self.log.logged_epoch(), self.manifest());
        if logged >= listed.open_generation().first {
            return logged;
        }
        let closed = listed.generations.iter().filter_map(|generation| generation.durable).max();
        let checkpoint = listed.checkpoint.as_ref().map(InstalledCheckpoint::durable_min);
        closed.max(checkpoint).unwrap_or_default()
    }

    /// Lowers the priority of the calling thread. The shipping thread calls `give_way` once, at its begin: the thread
    /// spends time on comparisons and checksums, and no thread waits for the result. An error is ignored, because
    /// shipping works without the lower priority.
    pub fn give_way(&self) {
        let _ = ensile_disk::lower_priority(NICENESS);
    }

    /// Ends the current or the next [`wait`](Self::wait).
    pub fn wake(&self) {
        if !self.store.is_forked() {
            self.wake_up.wake();
        }
    }

    /// Waits until the shipper has a reason to step, at most for `timeout`.
    pub fn wait(&self, timeout: Duration) {
        if !self.store.is_forked() {
            self.wake_up.wait(timeout);
        }
    }

    /// Takes one step: a piece of a file, or a manifest. The shipping thread calls `step` again and again. The result
    /// tells the time of the next useful step.
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
            // The check for a take-over does not wait for the rate (H6).
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
                // The passed-over files are still to be shipped.
                let again = work.passed_over.values().min().map_or(0, |until| until.saturating_sub(now));
                match wait.max(Duration::from_nanos(again)) {
                    Duration::ZERO => ShipStep::Idle,
                    wait => ShipStep::Paced(wait),
                }
            }
            Err(error) => self.record_failure(&mut work, &error, now),
        }
    }

    /// Notes a failed step, and pauses the shipping; for good if the database is fenced.
    fn record_failure(&self, work: &mut ShipWork, error: &DurabilityError, now: u64) -> ShipStep {
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
        // H6: The folder tells later lives of the fence. If the folder cannot be written, later lives ask the store.
        if let Some(Err(error)) = store.map(|store| self.remember(ShipsTo { store, is_fenced: true })) {
            self.stats.lock().last_error = Some(error.to_string().into());
        }
        self.store.hold().end();
        // The fence is told before the log stops, so that a caller that finds the log stopped learns the reason.
        self.stats.lock().fenced = Some(Arc::clone(detail));
        if self.config.when_fenced == WhenFenced::Stop {
            self.log.stop(&error.to_string());
        }
        ShipStep::Stopped
    }

    /// Does the next due piece of work; false if nothing is due.
    fn work_on(&self, work: &mut ShipWork, now: u64) -> Result<bool, DurabilityError> {
        work.is_clearing = false;
        if work.place.is_none() {
            self.find_place(work)?;
            return Ok(true);
        }
        if work.place.as_ref().is_some_and(|place| place.offered.is_some()) {
            return self.offer(work, now).map(|()| true);
        }
        // The take-over check and the clearing run by the clock, because shipping may have no end, and the store may be
        // full.
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
            // The store has the whole checkpoint, and no closed log file has a mark of the checkpoint's e_h yet.
            work.ask_at = now.saturating_add(PAUSE.as_nanos() as u64);
            self.log.request_roll();
        }
        Ok(false)
    }

    /// Ships a piece of a closed log file, or installs a manifest; false if neither is due.
    fn ship_logs(&self, work: &mut ShipWork, now: u64) -> Result<bool, DurabilityError> {
        if let Some(upload) = work.log_upload.take() {
            return self.go_on_with_log(work, upload, now).map(|()| true);
        }
        let closed = self.log.closed_list();
        let lacking = self.unshipped_logs(work, &closed);
        work.passed_over.retain(|_, until| now < *until);
        let next = lacking.iter().find(|closed| !work.passed_over.contains_key(&closed.file)).cloned();
        if let Some(next) = next {
            // `false`: no older state now, because the shipper may first put the missing objects again.
            if now >= work.publish_at && self.publish(work, &closed, false, now)? == Published::Worked {
                return Ok(true);
            }
            let file = next.file;
            let begun = self.begin_log(work, next);
            return begun.map(|()| true).map_err(|error| passed_over(work, file, now, error));
        }
        match self.publish(work, &closed, lacking.is_empty(), now)? {
            Published::Worked => return Ok(true),
            // Only if the manifest names every file, because the next life ignores an unnamed file (H5).
            Published::IsSaid if lacking.is_empty() => self.store.hold().caught_up(),
            Published::IsSaid | Published::Nothing => {}
        }
        Ok(false)
    }

    /// Uploads the next piece of a log file. An unreadable file is passed over for a while.
    fn go_on_with_log(
        &self,
        work: &mut ShipWork,
        mut upload: Upload,
        now: u64,
    ) -> Result<(), DurabilityError> {
        match self.go_on(work, &mut upload) {
            Ok(true) => self.record_upload(work, upload),
            Ok(false) => work.log_upload = Some(upload),
            Err(error) if is_local_failure(&error) => {
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

    /// Uploads the next piece of a checkpoint's file. An unreadable file gives up the upload of the checkpoint.
    fn go_on_with_part(&self, work: &mut ShipWork, mut upload: Upload) -> Result<(), DurabilityError> {
        match self.go_on(work, &mut upload) {
            Ok(true) => self.record_upload(work, upload),
            Ok(false) => work.part_upload = Some(upload),
            Err(error) => {
                match is_local_failure(&error) {
                    // Another checkpoint may be installed by now.
                    true => work.under_way = None,
                    false => work.part_upload = Some(upload),
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn shared_store(&self) -> &dyn SharedStore {
        &*self.config.to
    }

    fn grace_nanos(&self) -> u64 {
        u64::try_from(self.config.grace.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Current manifest of the database's folder.
    fn manifest(&self) -> Manifest {
        self.store.manifest().manifest().clone()
    }

    /// Closed log files that the shared store lacks and that a state in the store may need, oldest first.
    fn unshipped_logs(&self, work: &ShipWork, closed: &[ClosedFile]) -> Vec<ClosedFile> {
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
    fn release_hold(&self, work: &ShipWork) {
        let newest = work.place.as_ref().and_then(|place| place.newest.as_ref());
        let named = newest.into_iter().flat_map(|newest| &newest.logs).map(|log| log.file);
        let shipped: BTreeSet<_> = named.filter(|file| work.inventory.logs.contains_key(file)).collect();
        self.store.hold().release(shipped, work.base.redo_epoch());
    }

    /// Installs the manifest of the state in the store, if the state is newer than the newest manifest. The state may
    /// be older if `may_be_less` is true and an object of the newest manifest is gone.
    fn publish(
        &self,
        work: &mut ShipWork,
        closed: &[ClosedFile],
        may_be_less: bool,
        now: u64,
    ) -> Result<Published, DurabilityError> {
        work.publish_at = now.saturating_add(PUBLISH_NANOS);
        // Later epochs may be durable, and have no entry that a take-over could lack. Reserved epochs are read after.
        let durable = self.epoch_to_ship().min(self.log.durable_epoch());
        let Manifest { reserved, application, types, .. } = self.manifest();
        let place = work.place.as_ref().expect("it was found");
        let newest = place.newest.as_ref();
        // H3: S does not go back, unless an object of the newest manifest is gone.
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
                // L6: A take-over begins above every epoch that was shown here.
                && newest.reserved >= reserved
                // I5, I6: A take-over gets the application name and the types of the folder.
                && (&newest.application, &newest.types) == (&application, &types)
        });
        if is_said {
            let Some(base) = base else { return Ok(Published::IsSaid) };
            (work.base, work.under_way) = (base, None);
            return Ok(Published::Worked);
        }
        // H1: The named objects are still in the store, unless another machine has taken over.
        self.look_for_others(work, now)?;
        let Some(place) = work.place.as_mut().filter(|_| !self.has_ended()) else {
            return Ok(Published::Worked);
        };
        let facts = ShipperFacts { shipper: self.database, reserved, durable, application, types };
        let manifest = place.next(composed, facts)?;
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

    /// Offers the store the manifest that waits for an answer.
    fn offer(&self, work: &mut ShipWork, now: u64) -> Result<(), DurabilityError> {
        let place = work.place.as_mut().expect("it was found");
        let OfferedManifest { manifest, base } = place.offered.clone().expect("one waits");
        let is_first = place.newest.is_none();
        let installed = chain::install(self.shared_store(), &manifest).map_err(|error| match is_first {
            true => error,
            false => self.fenced_if_newer_version(error),
        });
        let installed = match installed {
            // The store may refuse this machine's manifests only. No other code checks for a take-over while an offer
            // waits (H6).
            Err(error) if now >= work.look_at => return self.look_past_offer(work, now, &manifest, error),
            installed => installed?,
        };
        match installed {
            Installed::Ours => {
                self.record_manifest(&manifest);
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

    /// Shows the installed manifest in the figures.
    fn record_manifest(&self, manifest: &SharedManifest) {
        let mut stats = self.stats.lock();
        (stats.manifest, stats.term) = (manifest.number, manifest.term);
        stats.shipped_epoch = manifest.state.epoch();
    }

    /// Forgets files in the store that no state needs any more.
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
        let covered = work.base.redo_epoch();
        let logs: BTreeSet<_> = newest.logs.iter().map(|log| log.file).collect();
        work.inventory.logs.retain(|file, shipped| logs.contains(file) || shipped.largest >= covered);
        work.inventory.forget_marks_below(newest.state.epoch());
    }

    /// Opens all files of the installed checkpoint at once, if the store lacks the checkpoint. Returns false if the
    /// step has nothing to begin.
    fn begin_checkpoint(&self, work: &mut ShipWork) -> Result<bool, DurabilityError> {
        // The closed files are listed before the manifest is read: see [`Base::of_life`].
        let closed = self.log.closed_list();
        let listed = self.manifest();
        if let Some(under_way) = &work.under_way {
            // All parts were shipped, and an object of a part is gone from the store since.
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
                // If the manifest has changed, the next step looks at the newer checkpoint.
                return match self.manifest().checkpoint == listed.checkpoint {
                    true => {
                        Err(DurabilityError::damaged_file(&name, 0, "it is missing, so it is not shipped"))
                    }
                    false => Ok(true),
                };
            };
            parts.insert(part, (salt, file.into()));
        }
        let base = Base::of_life(listed.checkpoint, &listed.generations, &closed);
        work.under_way = Some(CheckpointUnderWay { base, parts });
        Ok(true)
    }

    /// Begins the upload of the next file of the checkpoint that is under way; false without such a file.
    fn begin_part(&self, work: &mut ShipWork) -> Result<bool, DurabilityError> {
        let Some(under_way) = &work.under_way else { return Ok(false) };
        let Some((part, salt, file)) = under_way.next_part(&work.inventory) else { return Ok(false) };
        let bytes = file.len()?;
        work.part_upload = Some(self.upload_of(UploadOf::Part(part), bytes, salt, file));
        Ok(true)
    }

    /// Counts the files that wait to be shipped, and their bytes.
    fn count_waiting(&self, work: &ShipWork) {
        let logs = self.unshipped_logs(work, &self.log.closed_list());
        let (mut files, mut bytes) = (logs.len() as u64, logs.iter().map(|closed| closed.bytes).sum::<u64>());
        let parts = work.under_way.iter().flat_map(|under_way| &under_way.parts);
        for (_, (_, file)) in parts.filter(|(part, _)| !work.inventory.parts.contains_key(*part)) {
            (files, bytes) = (files + 1, bytes + file.len().unwrap_or(0));
        }
        let mut stats = self.stats.lock();
        (stats.waiting_files, stats.waiting_bytes) = (files, bytes);
    }
}

/// Outcome of an attempt to install a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Published {
    /// A manifest was offered, or the attempt did other work.
    Worked,
    /// The newest manifest already describes the state in the store.
    IsSaid,
    /// The files in the store make up no state, or only a state older than the newest manifest.
    Nothing,
}

/// True if the disk of this machine has failed, and not the store.
fn is_local_failure(error: &DurabilityError) -> bool {
    matches!(error, DurabilityError::Damaged { .. } | DurabilityError::Disk(_))
}

/// Puts a log file that cannot be read behind the other files for a while. Returns the error.
fn passed_over(work: &mut ShipWork, file: SegmentFile, now: u64, error: DurabilityError) -> DurabilityError {
    if is_local_failure(&error) {
        work.passed_over.insert(file, now.saturating_add(PASS_OVER_NANOS));
    }
    error
}
