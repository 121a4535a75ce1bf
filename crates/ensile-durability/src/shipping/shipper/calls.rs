//! Calls of the database's owner: begin, figures, and the wait for a shipped epoch.
//!
//! Invariants:
//! - H6: a fenced database ships nothing, and its log stops or goes on as [`WhenFenced`] says.
//! - I4: in a forked process every call does nothing.
//!
//! Neighbours: the engine and the objects call. [`super::steps`] has the steps, and [`super::shutdown`] the end.

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
/// Pause of a waiting caller between two looks at the figures.
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
