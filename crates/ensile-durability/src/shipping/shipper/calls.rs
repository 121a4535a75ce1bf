//! Calls of the database's owner: begin, figures, the wait for a shipped epoch, and the end.
//!
//! Invariants:
//! - H6: a fenced database ships nothing, and its log stops or goes on as [`WhenFenced`] says.
//! - No step begins after the end. A step inside a call of the store may still finish the call: put one object, install
//!   a manifest, or remove an object listed before. Such a step begins no further removal or offer, because the store
//!   may already hold objects of the next life.
//! - A close waits for the present step, for a limited time, and reports unshipped files.
//!
//! Neighbours: the engine and the objects call. [`super::steps`] has the steps.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::sync::{Mutex, sleep};

use super::chain_position::fenced_before;
use super::state::{ShipWork, Shipper};
use crate::DurabilityError;
use crate::control::pace::WritePace;
use crate::files::manifest::shipping_target::ShipsTo;
use crate::files::shared_manifest::SharedManifest;
use crate::log::Log;
use crate::shipping::chain;
use crate::shipping::config::{ShippingConfig, ShippingStats, WhenFenced, check_shipping};
use crate::shipping::state_composition::{Base, ShippedFiles};
use crate::store::open_store::OpenStore;
use crate::wake_up::WakeUp;

/// Niceness of the shipping thread: about a third of the weight of a normal thread.
const NICENESS: u8 = 5;
/// Nanoseconds after which a caller that waits for its shipping requests new files again.
const ASK_AGAIN_NANOS: u64 = 200_000_000;
/// Pause of a waiting caller between two looks at the figures, or at the present step.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Error text of cancelled shipping.
const CANCELLED: &str = "shipping was cancelled: nothing is shipped until the next open";

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

    /// Ends the shipping of a database whose log has ended. Waits for the present step, at most for
    /// [`close_wait`](crate::ShippingConfig::close_wait). Afterwards a stepping thread ends with its next step, or is
    /// in a call that does not return: the caller must not join such a thread. A second call returns the result of the
    /// first.
    ///
    /// # Errors
    /// [`DurabilityError::NotShipped`] if the present step has not ended in time.
    pub fn end(&self) -> Result<(), DurabilityError> {
        if self.store.is_forked() {
            return Ok(());
        }
        let mut ended = self.ended.lock();
        ended.get_or_insert_with(|| self.wait_for_step()).clone()
    }

    /// Stops shipping until the next open, and holds no log files. A waiting [`Shipper::end`] waits no more. The call
    /// itself waits for nothing.
    pub fn cancel(&self) {
        if self.store.is_forked() {
            return;
        }
        let mut steps = self.steps.lock();
        (steps.has_ended, steps.is_cancelled) = (true, true);
        drop(steps);
        self.store.hold().end();
        self.wake();
    }

    /// Ends shipping, and waits for the present step.
    fn wait_for_step(&self) -> Result<(), DurabilityError> {
        self.steps.lock().has_ended = true;
        self.wake();
        let looks = self.config.close_wait.as_nanos().div_ceil(LOOK_AGAIN.as_nanos());
        for _ in 0..looks {
            if !self.is_stepping() || self.is_cancelled() {
                break;
            }
            sleep(LOOK_AGAIN);
        }
        if !self.is_stepping() {
            return Ok(());
        }
        let stats = self.stats();
        let why = format!(
            "; a call of {} has not returned and is left to itself: {} files of {} bytes wait, which the next open \
             ships, and all of it is durable here",
            self.config.to.place(),
            stats.waiting_files,
            stats.waiting_bytes
        );
        let wanted = self.epoch_to_ship().min(self.store.epochs().now());
        Err(DurabilityError::NotShipped { shipped: stats.shipped_epoch, wanted, why: why.into() })
    }

    /// True if another thread takes a step. A step's own callee may end the database.
    fn is_stepping(&self) -> bool {
        let own = std::thread::current().id();
        self.steps.lock().threads.iter().any(|thread| *thread != own)
    }

    /// Error of a stopped log: [`DurabilityError::Fenced`] if the database is fenced, `stopped` otherwise.
    fn why_stopped(&self, stopped: DurabilityError) -> DurabilityError {
        self.check().err().unwrap_or(stopped)
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
}

/// True if this configuration ships to another store than the store in which the database is fenced. False for an
/// unreadable store, which may be the fenced store (H6).
fn is_elsewhere(config: &ShippingConfig, ships_to: ShipsTo) -> bool {
    let is_other =
        |newest: Option<SharedManifest>| newest.is_none_or(|newest| newest.store != ships_to.store);
    config.is_new_place && chain::newest(&*config.to).is_ok_and(is_other)
}

/// A step under way. A panic of the step is reported: shipping stops.
pub(super) struct StepUnderWay<'s>(&'s Shipper);

impl<'s> StepUnderWay<'s> {
    /// Begins a step on the calling thread; `None` after the end of shipping.
    pub(super) fn begin(shipper: &'s Shipper) -> Option<Self> {
        let mut steps = shipper.steps.lock();
        if steps.has_ended {
            return None;
        }
        let own = std::thread::current().id();
        debug_assert!(!steps.threads.contains(&own), "a step within a step");
        steps.threads.push(own);
        Some(Self(shipper))
    }
}

impl Drop for StepUnderWay<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let told = "a step of shipping panicked: nothing is shipped until the database is opened again";
            self.0.stats.lock().last_error = Some(Arc::from(told));
        }
        let own = std::thread::current().id();
        let mut steps = self.0.steps.lock();
        let at = steps.threads.iter().position(|thread| *thread == own);
        steps.threads.swap_remove(at.expect("it was begun here"));
    }
}
