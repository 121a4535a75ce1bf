//! The open: the folder is recovered into a state, and log and checkpoints go on from there.
//!
//! Neighbours: `settings` has an application's settings; `threads` drives the result; the durability crate recovers.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::sync::{Arc, AtomicBool, Mutex};
use ensile_disk::{Disk, RealDisk};
use ensile_durability::{
    CheckpointConfig, Checkpoints, DurabilityError, EntryKind, Log, LogConfig, LogScan, Naming, OpenStore,
    Phase, Recovered, RecoveryWatch, Shipper, ShippingConfig, Strategy, UserCode, application_name,
    check_shipping, expect_entries,
};
use ensile_epoch::{EpochConfig, Epochs};

use super::close::OpenRuntime;
use super::object_state::ObjectState;
use super::open_folder::{DriverLocks, EntryMarks, HeartbeatStop, Runtime, RuntimeMode};
use super::threads::share;
use super::worker::LogWorkers;
use crate::error::ObjectsResult as Result;

/// Objects have no snapshots, so boundaries are as rare as allowed.
const SNAPSHOT_INTERVAL: Duration = Duration::from_secs(3600);

/// Check that a key, by its bytes, is of the program. The error is the reason for a refusal.
type CheckOfKey = dyn Fn(&[u8]) -> std::result::Result<(), String> + Send + Sync;

/// Check of the keys that a collection may have.
#[derive(Clone)]
pub(crate) struct KeyCheck(pub(crate) StdArc<CheckOfKey>);

impl fmt::Debug for KeyCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyCheck").finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ObjectsSettings {
    pub(crate) folder: PathBuf,
    /// Name of the folder's application (I5), not checked yet.
    pub(crate) application: Option<String>,
    pub(crate) accepts: Option<KeyCheck>,
    pub(crate) marks_lives: bool,
    pub(crate) opens_poisoned: bool,
    /// Another disk than the machine's.
    pub(crate) disk: Option<StdArc<dyn Disk>>,
    pub(crate) clock: Clock,
    pub(crate) own_threads: bool,
    pub(crate) is_strict: bool,
    /// False: changes are not logged, and only checkpoints keep changes.
    pub(crate) is_logged: bool,
    pub(crate) recovery_threads: usize,
    pub(crate) log: LogConfig,
    pub(crate) checkpoints: CheckpointConfig,
    pub(crate) shipping: Option<ShippingConfig>,
}

impl ObjectsSettings {
    /// Recovers the folder into this state, and goes on from there.
    pub(crate) fn open(self, state: StdArc<dyn ObjectState>) -> Result<OpenRuntime> {
        assert_eq!(self.checkpoints.strategy, Strategy::Fuzzy, "pictures are not made of objects");
        UserCode::check_outside()?;
        self.checkpoints.check()?;
        if let Some(shipping) = &self.shipping {
            check_shipping(shipping, self.log.loggers)?;
        }
        // Checked before a folder is made.
        self.log_config()?.check()?;
        let disk: StdArc<dyn Disk> = match &self.disk {
            Some(disk) => StdArc::clone(disk),
            None => StdArc::new(RealDisk::open(&self.folder)?),
        };
        // Checked before folders are made in it. The contents are checked once more under the locks.
        expect_entries(&*disk, EntryKind::Operations)?;
        let process = disk.process();
        let Recovered { report, store, log, checkpoints } = self.recover(disk, &*state)?;
        let config = EpochConfig { first: report.first_epoch, snapshot_interval: SNAPSHOT_INTERVAL };
        let epochs = Arc::new(Epochs::new(&config));
        let store = OpenStore::start(store, Arc::clone(&epochs), self.clock.clone())?;
        let log = Log::start(log, &store);
        let config = CheckpointConfig { recovery_threads: self.threads(), ..self.checkpoints.clone() };
        let checkpoints = Checkpoints::start(&store, &log, config, checkpoints)?;
        let shipping = Shipper::start_with(&store, &log, self.shipping)?;
        debug_assert!(log.durable_epoch() < epochs.now(), "R1: no entry of the first epoch is durable");
        let mode = RuntimeMode {
            is_strict: self.is_strict,
            is_logged: self.is_logged,
            epoch_interval: self.log.epoch_interval,
            has_threads: self.own_threads,
            is_driven: !self.own_threads && !self.clock.is_manual(),
        };
        let runtime = StdArc::new(Runtime {
            applied: StdArc::clone(state.applied_time()),
            state,
            log,
            checkpoints,
            shipping,
            epochs,
            clock: self.clock,
            workers: LogWorkers::new(process.clone(), mode.is_driven),
            process,
            mode,
            marks: EntryMarks { closed: AtomicBool::new(false), detour: AtomicBool::new(false) },
            stop: HeartbeatStop::default(),
            driver: DriverLocks::default(),
            checkpoint_config: Mutex::new(self.checkpoints),
            report,
        });
        // From here on a failure closes the folder, as the drop of the last handle does.
        OpenRuntime::start(runtime, self.own_threads)
    }

    /// Log settings with the checkpointers, their folders and the application's name, all checked before anything is
    /// changed.
    fn log_config(&self) -> Result<LogConfig> {
        let CheckpointConfig { checkpointers, folders, .. } = &self.checkpoints;
        let naming = match &self.application {
            Some(name) => Naming::Named(application_name(name)?),
            None => Naming::Nameless,
        };
        let (checkpointers, checkpoint_folders) = (*checkpointers, folders.clone());
        Ok(LogConfig { checkpointers, checkpoint_folders, naming, ..self.log.clone() })
    }

    fn recover(&self, disk: StdArc<dyn Disk>, state: &dyn ObjectState) -> Result<Recovered> {
        let threads = self.threads();
        let mut watch = RecoveryWatch::new(&self.clock);
        let scan = LogScan::begin(disk, self.log_config()?)?;
        share(threads, || scan.step())?;
        let recovery = scan.finish()?;
        watch.end(Phase::Scan, threads);
        share(threads, || recovery.load_step(state))?;
        watch.end(Phase::Load, threads);
        share(threads, || recovery.replay_step(state))?;
        state.check_recovered()?;
        watch.end(Phase::Replay, threads);
        let told = |error| match error {
            DurabilityError::Disk(disk) if disk.is_full() => {
                DurabilityError::NoRoomToOpen(disk.to_string().into())
            }
            error => error,
        };
        let mut recovered = recovery.finish(state).map_err(told)?;
        watch.end(Phase::Finish, 1);
        recovered.report.passed_over_entries = state.passed_over();
        recovered.report.phases = watch.reports(&recovered.report);
        recovered.learn(state.replayed_nanos());
        Ok(recovered)
    }

    fn threads(&self) -> usize {
        if self.own_threads { self.recovery_threads } else { 1 }
    }
}
