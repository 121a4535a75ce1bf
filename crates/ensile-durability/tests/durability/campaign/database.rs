//! Databases drawn from seeds, of known contents: one to three log folders, plain or linked, with and without
//! checkpoints, of several lives, closed or left open.

use std::path::PathBuf;

use crate::prelude::*;

/// What is kept of the space that is set aside behind the last block of a log file.
const SPACE_BYTES: usize = 64;
const SEGMENT_BYTES: u64 = 4096;

/// A database that is not open, and what it holds.
pub(super) struct Database {
    pub(super) disk: SimDisk,
    /// Copies from earlier on, oldest first.
    pub(super) earlier: Vec<SimDisk>,
    /// What was committed and is not void, in the order of commits.
    history: Vec<(Tid, u64, Option<Vec<u8>>)>,
    /// D of the last life.
    pub(super) durable: Epoch,
    /// What more than the last blocks of the logs show to have been durable.
    pub(super) witnessed: Epoch,
    /// What the hint shows to have been durable.
    pub(super) hinted: Epoch,
    /// Entries above the D of their generation.
    pub(super) ignored: u64,
    /// Epochs that some logs have finished and others not.
    pub(super) unfinished: Option<(Epoch, Epoch)>,
    /// The last life was closed.
    pub(super) is_closed: bool,
    /// The last life's.
    pub(super) loggers: usize,
    is_linked: bool,
}

/// A database while it is being made.
struct Making {
    disk: SimDisk,
    random: Random,
    earlier: Vec<SimDisk>,
    history: Vec<(Tid, u64, Option<Vec<u8>>)>,
    is_linked: bool,
    witnessed: Epoch,
    hinted: Epoch,
}

impl Making {
    fn log_config(&mut self, loggers: usize) -> LogConfig {
        let link = |logger: usize| PathBuf::from(format!("/device{logger}"));
        let folders = (0..if self.is_linked { loggers } else { 0 }).map(link).collect();
        LogConfig { segment_bytes: SEGMENT_BYTES, folders, ..config(loggers) }
    }

    fn commit(&mut self, life: &Life, workers: &mut [Worker], which: usize, bytes: u64) {
        // Each worker has keys of its own, as there are no locks here.
        let count = workers.len() as u64;
        let key = self.random.next_below(KEYS / count) * count + which as u64;
        let value = (!self.random.percent(15)).then(|| {
            let mut value = vec![0; self.random.next_below(bytes) as usize];
            // Half of it is zeros, as a torn block may have.
            let half = value.len() / 2;
            self.random.fill(&mut value[..half]);
            value
        });
        let tid = life.commit(&mut workers[which], key, value.as_deref());
        self.history.push((tid, key, value));
    }

    /// An epoch in which some of the workers commit.
    fn round(&mut self, life: &Life, workers: &mut [Worker], bytes: u64) {
        let durable = life.rig.log.durable_epoch();
        for which in 0..workers.len() {
            if self.random.percent(75) {
                self.commit(life, workers, which, bytes);
                // Its block, or the mark behind it, repeats what was durable before.
                self.witnessed = durable;
            }
        }
        life.rig.settle();
    }

    /// From an open to a close, or to where the power fails.
    fn live(&mut self, loggers: usize, is_closed: bool) {
        self.hinted = Epoch::ZERO;
        let log = self.log_config(loggers);
        let settings = match self.random.next_below(100) {
            0..40 => pictures(),
            40..65 => cycling(),
            _ => settings(),
        };
        let strategy = settings.strategy;
        let life = Life::open_with(&self.disk, log, settings).expect("the folder is whole");
        let mut workers: Vec<Worker> = (0..loggers).map(|_| life.rig.worker()).collect();
        let bytes = [60, 400, 1500][self.random.next_below(3) as usize];
        let rounds = 1 + self.random.next_below(14);
        let checkpoint_at = self.random.percent(50).then(|| self.random.next_below(rounds));
        for round in 0..rounds {
            self.round(&life, &mut workers, bytes);
            // In some rounds behind that too: of pictures an increment, of cycling ones turns of a range.
            let is_due = checkpoint_at.is_some_and(|first| round == first || round > first && round % 3 == 0);
            if is_due && (strategy == Strategy::Pictures || checkpoint_at == Some(round)) {
                life.checkpoint().expect("nothing is in its way");
            } else if is_due && strategy == Strategy::Cycling {
                life.turn();
            }
            if self.random.percent(30) {
                self.earlier.push(self.disk.fork());
            }
        }
        if strategy == Strategy::Cycling && checkpoint_at.is_some() {
            // It ends in the midst of a turn.
            for _ in 0..self.random.next_below(12) {
                (0..2).for_each(|checkpointer| {
                    life.step(checkpointer);
                });
                life.rig.settle();
            }
        }
        if is_closed {
            drop(workers);
            life.checkpoints.close(&life.store);
            life.rig.log.close().expect("closes");
            self.witnessed = life.rig.log.durable_epoch();
            self.hinted = self.witnessed;
        } else {
            if self.random.percent(50) {
                // Synced in log 0, and void where the others never get so far.
                self.commit(&life, &mut workers, 0, bytes);
                life.rig.advance();
                life.rig.log.logger_step(0);
            }
            if self.random.percent(50) {
                life.rig.log.hint_step();
                self.witnessed = life.rig.log.durable_epoch();
                self.hinted = self.witnessed;
            }
        }
        let durable = life.rig.log.durable_epoch();
        self.history.retain(|(tid, ..)| tid.epoch() <= durable);
        drop(life);
        self.disk.crash_with(Survival::Everything, 0);
        self.earlier.push(self.disk.fork());
    }
}

impl Database {
    /// The database of this seed.
    pub(super) fn build(seed: u64) -> Self {
        let mut random = Random::from_seed(seed);
        // Sometimes there are enough lives that an open merges their logs.
        let lives = if random.percent(15) { 9 + random.next_below(6) } else { 1 + random.next_below(4) };
        let is_linked = random.percent(30);
        let mut making = Making {
            disk: SimDisk::new(),
            random,
            earlier: Vec::new(),
            history: Vec::new(),
            is_linked,
            witnessed: Epoch::ZERO,
            hinted: Epoch::ZERO,
        };
        let (mut loggers, mut is_closed) = (1, false);
        for _ in 0..lives {
            loggers = 1 + making.random.next_below(3) as usize;
            is_closed = making.random.percent(50);
            making.live(loggers, is_closed);
        }
        // The last one is no copy from earlier on.
        let _ = making.earlier.pop();
        let Making { disk, earlier, history, witnessed, hinted, .. } = making;
        trim(&disk);
        let mut database = Self {
            disk,
            earlier,
            history,
            durable: Epoch::ZERO,
            witnessed,
            hinted,
            ignored: 0,
            unfinished: None,
            is_closed,
            loggers,
            is_linked,
        };
        let (report, rows) = database.recover(&database.disk).expect("the folder is whole");
        (database.durable, database.ignored) = (report.durable_epoch, report.ignored_entries);
        database.unfinished = report.unfinished_epochs;
        database.witnessed = database.witnessed.min(database.durable);
        assert_eq!(rows, database.state(database.durable));
        database
    }

    /// What the database holds at the end of an epoch.
    pub(super) fn state(&self, durable: Epoch) -> Changes {
        let mut changes = Changes::new();
        for (tid, key, value) in self.history.iter().filter(|(tid, ..)| tid.epoch() <= durable) {
            change(&mut changes, *key, *tid, value.as_deref());
        }
        present(&changes)
    }

    /// The largest epoch up to `to` in which something was committed.
    pub(super) fn last_commit(&self, to: Epoch) -> Epoch {
        self.history
            .iter()
            .map(|(tid, ..)| tid.epoch())
            .filter(|epoch| *epoch <= to)
            .max()
            .unwrap_or_default()
    }

    /// Opens a copy of `disk`.
    pub(super) fn recover(&self, disk: &SimDisk) -> Result<(RecoveryReport, Changes), DurabilityError> {
        let store = Store::default();
        let link = |logger: usize| PathBuf::from(format!("/device{logger}"));
        let folders = (0..if self.is_linked { self.loggers } else { 0 }).map(link).collect();
        let config = LogConfig { folders, segment_bytes: SEGMENT_BYTES, ..config(self.loggers) };
        let report = recover(Arc::new(disk.fork()), config, &store)?.report;
        Ok((report, store.present()))
    }

    /// The names of linked folders.
    pub(super) fn links(&self) -> Vec<String> {
        let count = if self.is_linked { self.loggers } else { 0 };
        (0..count).map(|logger| format!("log{logger}")).collect()
    }
}

/// Leaves little of the space that was set aside: there is nothing in it to damage.
fn trim(disk: &SimDisk) {
    for name in disk.files().into_iter().filter(|name| name.contains("/log-")) {
        let mut bytes = disk.bytes(&name);
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        bytes.truncate(used + SPACE_BYTES);
        disk.put(&name, bytes);
    }
}
