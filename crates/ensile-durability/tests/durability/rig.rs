//! A database reduced to its durability: epochs, a log, workers, and a map that replay fills.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use ensile_base::limits::STATUS_BITS;
use ensile_epoch::{Advance, CommitHandle, EpochConfig, Epochs};

use crate::prelude::*;

/// Bytes of the block that opens a file, and of a mark.
pub(crate) const OPENING_BYTES: u64 = 128;
pub(crate) const MARK_BYTES: u64 = 80;

/// Bytes of a body that are the key.
pub(crate) const KEY_BYTES: usize = 8;

pub(crate) type Rows = HashMap<u64, (Tid, Vec<u8>)>;

/// The largest TID wins, in any order.
#[derive(Debug, Default)]
pub(crate) struct Map {
    pub(crate) rows: Mutex<Rows>,
}

impl Recoverable for Map {
    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        for (at, entry) in entries.iter().enumerate() {
            let (key, value) = entry
                .body
                .split_at_checked(KEY_BYTES)
                .ok_or_else(|| Refused { entry: at, detail: "a body without a key".to_owned() })?;
            let key = u64::from_le_bytes(key.try_into().expect("eight bytes"));
            put(&mut self.rows.lock().expect("no panic"), key, entry.tid, value);
        }
        Ok(())
    }

    fn load(&self, _section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.replay(entries)
    }
}

pub(crate) fn put(rows: &mut Rows, key: u64, tid: Tid, value: &[u8]) {
    let row = rows.entry(key).or_default();
    if row.0 < tid {
        *row = (tid, value.to_vec());
    }
}

pub(crate) fn config(loggers: usize) -> LogConfig {
    let mut config = LogConfig { segment_bytes: 16 << 10, buffer_bytes_max: 1 << 30, ..LogConfig::default() };
    config.loggers = loggers;
    config
}

/// One life of a database.
pub(crate) struct Rig {
    pub(crate) store: Arc<OpenStore>,
    /// Taken by the checkpoints, if there are any.
    pub(crate) checkpoints: CheckpointStart,
    pub(crate) log: Arc<Log>,
    pub(crate) epochs: ensile_base::sync::Arc<Epochs>,
    pub(crate) clock: Clock,
    pub(crate) rows: Rows,
    pub(crate) report: RecoveryReport,
    pub(crate) first: Epoch,
    workers: AtomicU64,
}

impl Rig {
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        config: LogConfig,
        clock: Clock,
    ) -> Result<Self, DurabilityError> {
        let map = Map::default();
        let mut rig = Self::open_into(disk, config, clock, &map)?;
        rig.rows = map.rows.into_inner().expect("no panic");
        Ok(rig)
    }

    /// Recovers into `target`; the rig's own rows stay empty.
    pub(crate) fn open_into(
        disk: Arc<dyn Disk>,
        config: LogConfig,
        clock: Clock,
        target: &dyn Recoverable,
    ) -> Result<Self, DurabilityError> {
        let Recovered { report, store, log, checkpoints } = recover(disk, config, target)?;
        let first = report.first_epoch;
        let config_of_epochs = EpochConfig { first, snapshot_interval: Duration::from_secs(1) };
        let epochs = ensile_base::sync::Arc::new(Epochs::new(&config_of_epochs));
        let store = OpenStore::start(store, epochs.clone(), clock.clone())?;
        let log = Log::start(log, &store);
        let rows = Rows::new();
        Ok(Self { store, log, checkpoints, epochs, clock, rows, report, first, workers: AtomicU64::new(0) })
    }

    /// On a simulated disk, with a clock moved by hand.
    pub(crate) fn simulated(disk: &SimDisk, loggers: usize) -> Self {
        Self::open(Arc::new(disk.clone()), config(loggers), Clock::manual()).expect("recovers")
    }

    /// The first life on a new disk.
    pub(crate) fn first_life(loggers: usize) -> (SimDisk, Self) {
        let disk = SimDisk::new();
        let rig = Self::simulated(&disk, loggers);
        (disk, rig)
    }

    pub(crate) fn first_life_with_worker(loggers: usize) -> (SimDisk, Self, Worker) {
        let (disk, rig) = Self::first_life(loggers);
        let worker = rig.worker();
        (disk, rig, worker)
    }

    /// Commits a row, closes its epoch and lets every logger do what it can.
    pub(crate) fn commit_epoch(&self, worker: &mut Worker, key: u64, value: &[u8]) -> Tid {
        let tid = worker.commit(&self.epochs, key, value).expect("runs");
        self.settle();
        tid
    }

    pub(crate) fn worker(&self) -> Worker {
        let commit = self.epochs.register_worker();
        let has_loggers = self.log.has_loggers();
        let attached = has_loggers.then(|| self.log.attach(commit.slot().clone()));
        let appender = Entries { attached, log: Arc::clone(&self.log) };
        // Relaxed: only hands out numbers; no partner.
        let lane = self.workers.fetch_add(1, Ordering::Relaxed);
        Worker { appender, commit, last: Tid::ZERO, lane }
    }

    /// Workers that have been attached to a log since the open.
    pub(crate) fn attached(&self) -> u64 {
        // Relaxed: a figure.
        self.workers.load(Ordering::Relaxed)
    }

    pub(crate) fn advance(&self) -> bool {
        self.clock.advance(Duration::from_millis(1));
        matches!(self.epochs.try_advance(self.clock.nanos()), Advance::Advanced(_))
    }

    pub(crate) fn step_all(&self) {
        (0..self.log.loggers()).for_each(|logger| {
            self.log.logger_step(logger);
        });
    }

    /// Closes the epoch and lets every logger do what it can.
    pub(crate) fn settle(&self) {
        self.advance();
        self.step_all();
        self.step_all();
    }

    /// Commits the keys `0..keys`, a row of a kilobyte and an epoch each: the log rolls after every few of them.
    pub(crate) fn fill_files(&self, worker: &mut Worker, keys: u64) {
        for key in 0..keys {
            worker.commit(&self.epochs, key, &[1; 1000]).expect("runs");
            self.settle();
        }
    }
}

/// A worker's way into the log, if anything is logged.
pub(crate) struct Entries {
    attached: Option<Appender>,
    log: Arc<Log>,
}

impl Entries {
    pub(crate) fn check(&self) -> Result<(), DurabilityError> {
        self.attached.as_ref().map_or_else(|| self.log.check(), Appender::check)
    }

    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), DurabilityError> {
        match &mut self.attached {
            Some(appender) => appender.reserve(bytes),
            None => self.log.check(),
        }
    }

    pub(crate) fn append(&mut self, tid: Tid, encode: impl FnOnce(&mut Vec<u8>)) {
        if let Some(appender) = &mut self.attached {
            appender.append(tid, encode);
        }
    }

    /// # Panics
    /// If nothing is logged.
    pub(crate) fn append_at_once(&mut self, body: &[u8], tid: impl FnOnce() -> Option<Tid>) -> Option<Tid> {
        self.attached.as_mut().expect("something is logged").append_at_once(body, tid)
    }

    pub(crate) fn release(&mut self) {
        if let Some(appender) = &mut self.attached {
            appender.release();
        }
    }
}

/// A worker and its appender.
pub(crate) struct Worker {
    pub(crate) appender: Entries,
    pub(crate) commit: CommitHandle,
    last: Tid,
    lane: u64,
}

impl Worker {
    /// The next TID in the epoch that is read now: to be called while bound.
    pub(crate) fn stamp(&mut self, epochs: &Epochs) -> Tid {
        // Workers share keys but no lane of sequence numbers, so no two commits have one TID.
        let lane = Tid::from_word(Tid::first_of(epochs.now()).bits() | self.lane << (STATUS_BITS + 11));
        self.last = lane.max(self.last).successor().expect("not that many commits");
        assert_eq!((self.last.bits() >> (STATUS_BITS + 11)) & 0x3f, self.lane, "a lane is full");
        self.last
    }

    /// A whole commit of one row.
    pub(crate) fn commit(&mut self, epochs: &Epochs, key: u64, value: &[u8]) -> Result<Tid, DurabilityError> {
        self.appender.reserve(KEY_BYTES + value.len())?;
        self.commit.bind(epochs.now());
        let tid = self.stamp(epochs);
        self.appender.append(tid, |body| {
            body.extend_from_slice(&key.to_le_bytes());
            body.extend_from_slice(value);
        });
        self.appender.release();
        self.commit.unbind();
        Ok(tid)
    }
}

/// A way to this disk, as the durability takes it.
pub(crate) fn handle(disk: impl Disk + 'static) -> Arc<dyn Disk> {
    Arc::new(disk)
}

/// A process's way to this disk.
pub(crate) fn on(disk: &SimDisk) -> Arc<dyn Disk> {
    handle(disk.mounted())
}

/// A copy of the disk on which no process runs.
pub(crate) fn copy_at_rest(disk: &SimDisk) -> SimDisk {
    let copy = disk.fork();
    copy.kill();
    copy
}

/// Waits until a call stands still at a stalled disk.
pub(crate) fn await_stall(disk: &SimDisk) {
    while disk.waiting() == 0 {
        std::thread::yield_now();
    }
}

/// The disk of this moment behind a power cut.
pub(crate) fn crashed(moment: &Moment, survival: Survival) -> SimDisk {
    let copy = moment.disk.fork();
    copy.crash_with(survival, moment.number);
    copy
}

/// A machine, and its folder `original`.
pub(crate) fn machine_with_original() -> (SimDisk, SimDisk) {
    let machine = SimDisk::new();
    let original = machine.at("original");
    (machine, original)
}

/// True if the tests of damages try all of them, and no sample.
pub(crate) fn damages_all() -> bool {
    std::env::var("ENSILE_DAMAGE").is_ok_and(|wish| wish == "all")
}

/// A folder of the machine's own, removed when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let base = std::env::var_os("ENSILE_TEST_FOLDER").map_or_else(std::env::temp_dir, PathBuf::from);
        Self(base.join(format!("ensile-{name}-{}", std::process::id())))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Asks, with this waker, whether an epoch is durable; the question stands until the future is dropped.
pub(crate) fn ask(
    log: &Arc<Log>,
    epoch: Epoch,
    waker: &Waker,
) -> (Durable, Poll<Result<(), DurabilityError>>) {
    let mut question = log.durable(epoch);
    let answer = Pin::new(&mut question).poll(&mut Context::from_waker(waker));
    (question, answer)
}

/// As [`ask`], of which only the answer counts.
pub(crate) fn is_durable(log: &Arc<Log>, epoch: Epoch) -> Poll<Result<(), DurabilityError>> {
    ask(log, epoch, Waker::noop()).1
}
