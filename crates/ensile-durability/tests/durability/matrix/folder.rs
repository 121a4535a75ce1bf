//! A data folder with everything in it: a checkpoint, a closed generation, and an open one that was being written when
//! it stopped; and the verdict on what recovery makes of it once it is damaged.

use crate::prelude::*;

/// What is kept of the space that is set aside behind the last block.
const SPACE_BYTES: usize = 64;

/// The longest value of a large picture, and of what is written behind it.
const LARGE_BYTES: u64 = 11_000;
const LATER_BYTES: u64 = 400;
/// Of so many keys one has a short value when a large picture begins. All are of the first worker.
const SHORT_APART: usize = 6;

/// What was committed: by which TID, which key, and its value unless it was deleted.
pub(super) type History = Vec<(Tid, u64, Option<Vec<u8>>)>;

/// The folder before it is damaged.
pub(crate) struct Folder {
    pub(crate) disk: SimDisk,
    /// Copies from earlier on, oldest first.
    pub(crate) earlier: Vec<SimDisk>,
    history: History,
    /// D of the open generation.
    pub(crate) durable: Epoch,
    /// What was durable before the last sync of each log, which no other block tells of.
    pub(crate) witnessed: Epoch,
    /// Entries above the D of their generation.
    ignored: u64,
    /// Epochs behind D that a log has marks of, and no log has entries of.
    unfinished: Option<(Epoch, Epoch)>,
    /// The longest value.
    pub(crate) bytes: u64,
    settings: CheckpointConfig,
    /// Logs of the open that judges it; 0: it has none.
    loggers: usize,
    has_large_pictures: bool,
}

/// What recovery made of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// An error that names this place.
    Damaged { file: String, offset: u64 },
    /// The state at D, whole; `told`: of something behind it that is torn.
    Whole { told: bool },
    /// The state at an earlier epoch that nothing shows to have been durable, and it is told: of a torn tail, of
    /// entries above that epoch, or of marks of later ones.
    Earlier,
}

struct Writing<'l> {
    life: &'l Life,
    workers: Vec<Worker>,
    history: &'l mut History,
    bytes: u64,
}

impl Writing<'_> {
    fn commit(&mut self, random: &mut Random, which: usize) {
        // Each worker has keys of its own, as there are no locks here.
        let workers = self.workers.len() as u64;
        let key = random.next_below(KEYS / workers) * workers + which as u64;
        let value = (!random.percent(15)).then(|| self.value(random));
        self.change(which, key, value);
    }

    fn value(&self, random: &mut Random) -> Vec<u8> {
        let mut value = vec![0; random.next_below(self.bytes) as usize];
        random.fill(&mut value);
        value
    }

    fn change(&mut self, which: usize, key: u64, value: Option<Vec<u8>>) {
        let tid = self.life.commit(&mut self.workers[which], key, value.as_deref());
        self.history.push((tid, key, value));
    }

    fn rounds(&mut self, random: &mut Random, count: usize) {
        for _ in 0..count {
            for which in 0..self.workers.len() {
                self.commit(random, which);
            }
            self.life.rig.settle();
        }
    }

    /// A value for every key.
    fn fill(&mut self, random: &mut Random) {
        for key in 0..KEYS {
            let value = self.value(random);
            self.change((key % self.workers.len() as u64) as usize, key, Some(value));
        }
        self.life.rig.settle();
    }

    /// Short values for some keys: as versions they fit into tails of pages.
    fn shorten(&mut self, random: &mut Random) {
        for key in (0..KEYS).step_by(SHORT_APART) {
            let mut value = vec![0; 20 + random.next_below(80) as usize];
            random.fill(&mut value);
            self.change(0, key, Some(value));
        }
        self.life.rig.settle();
    }

    /// A picture, with commits before each step of it: some leave the versions that they displace beside its pages, and
    /// some of these are short.
    fn picture(&mut self, random: &mut Random) {
        let handle = self.life.checkpoints.demand();
        for _ in 0..100 {
            if let Some(outcome) = handle.outcome() {
                outcome.expect("nothing is in its way");
                return;
            }
            self.commit(random, 0);
            let (key, value) = (random.next_below(KEYS / SHORT_APART as u64), self.value(random));
            self.change(0, key * SHORT_APART as u64, Some(value));
            (0..2).for_each(|checkpointer| {
                self.life.step(checkpointer);
            });
            self.life.rig.settle();
        }
        panic!("no picture ends: {:?}", self.life.checkpoints.stats());
    }
}

pub(super) fn open(disk: &SimDisk, loggers: usize) -> Life {
    open_with(disk, loggers, settings())
}

fn open_with(disk: &SimDisk, loggers: usize, settings: CheckpointConfig) -> Life {
    Life::open(disk, loggers, settings).expect("the folder is whole")
}

/// Walks most of the next turn: its files are there, and no manifest names them.
fn begin_turn(life: &Life) {
    let is_walked = || life.checkpoints.stats().running.is_some_and(|running| running.bytes > 0);
    for _ in 0..100 {
        if is_walked() {
            return;
        }
        (0..2).for_each(|checkpointer| {
            life.step(checkpointer);
        });
        life.rig.settle();
    }
    panic!("no turn begins: {:?}", life.checkpoints.stats());
}

/// What a life leaves of epochs above `durable` is void.
pub(super) fn void_above(history: &mut History, durable: Epoch) {
    history.retain(|(tid, ..)| tid.epoch() <= durable);
}

impl Folder {
    /// A folder drawn from `seed`, with values of up to `bytes` bytes; `closed`: its last life was closed cleanly.
    pub(crate) fn build(seed: u64, bytes: u64, closed: bool) -> Self {
        Self::build_with(seed, bytes, closed, &settings())
    }

    /// The same with a picture that was written in several increments.
    pub(crate) fn with_pictures(seed: u64, bytes: u64, closed: bool) -> Self {
        Self::build_with(seed, bytes, closed, &pictures())
    }

    /// The same with ranges of several lives, in the midst of a turn.
    pub(crate) fn with_ranges(seed: u64, bytes: u64, closed: bool) -> Self {
        Self::build_with(seed, bytes, closed, &cycling())
    }

    /// Another one of the same kind, whose last life was not closed.
    pub(crate) fn another(&self, seed: u64) -> Self {
        if self.has_large_pictures {
            return Self::with_large_pictures(seed, self.loggers, false);
        }
        Self::build_with(seed, self.bytes, false, &self.settings)
    }

    /// A folder with a picture of 256 KiB, of several lives and increments, with versions beside its pages, and little
    /// else. It has two logs, or none: then what is committed behind a picture is void.
    pub(crate) fn with_large_pictures(seed: u64, loggers: usize, closed: bool) -> Self {
        let (disk, mut random, mut history) = (SimDisk::new(), Random::from_seed(seed), Vec::new());
        let (mut earlier, mut witnessed) = (Vec::new(), Epoch::ZERO);
        for number in 0..3 {
            let life = open_with(&disk, loggers, pictures());
            let workers = (0..2).map(|_| life.rig.worker()).collect();
            let mut writing = Writing { life: &life, workers, history: &mut history, bytes: LARGE_BYTES };
            if number == 0 {
                writing.fill(&mut random);
            }
            for _ in 0..2 {
                writing.rounds(&mut random, 2);
                writing.shorten(&mut random);
                writing.picture(&mut random);
            }
            earlier.push(disk.fork());
            writing.bytes = LATER_BYTES;
            writing.rounds(&mut random, 8);
            witnessed = life.rig.log.durable_epoch();
            writing.rounds(&mut random, 1);
            if closed && number == 2 {
                drop(writing);
                life.checkpoints.close(&life.store);
                life.rig.log.close().expect("closes");
                witnessed = life.rig.log.durable_epoch();
                break;
            }
            // Synced in log 0, and void, as the other never gets so far.
            writing.commit(&mut random, 0);
            life.rig.advance();
            if loggers > 0 {
                life.rig.log.logger_step(0);
            }
            void_above(&mut history, life.rig.log.durable_epoch());
            disk.crash_with(Survival::Everything, 0);
        }
        let folder = Self::of(disk, earlier, history, witnessed, LARGE_BYTES);
        Self { settings: pictures(), loggers, has_large_pictures: true, ..folder }
    }

    /// Bytes of page files that the installed picture has.
    pub(crate) fn picture_bytes(&self) -> u64 {
        let found = examine(&handle(self.copy()), &Store::default()).expect("the folder is whole");
        let picture = found.checkpoint.and_then(|checkpoint| checkpoint.picture).expect("it has one");
        assert!(
            picture.displaced > 0 && picture.displaced_tails > 0 && picture.ages.len() > 2,
            "versions beside pages, some of them in tails, and increments: {picture:?}"
        );
        picture.files.iter().map(|file| file.used_bytes).sum()
    }

    fn build_with(seed: u64, bytes: u64, closed: bool, settings: &CheckpointConfig) -> Self {
        let (disk, mut random, mut history) = (SimDisk::new(), Random::from_seed(seed), Vec::new());
        let mut earlier = Vec::new();
        for (number, loggers) in [(0, 2), (1, 3)] {
            let life = open_with(&disk, loggers, settings.clone());
            let workers = (0..loggers).map(|_| life.rig.worker()).collect();
            let mut writing = Writing { life: &life, workers, history: &mut history, bytes };
            writing.rounds(&mut random, 10);
            earlier.push(disk.fork());
            if number == 1 {
                let increments = if settings.strategy == Strategy::Pictures { 3 } else { 0 };
                for _ in 0..increments {
                    life.checkpoint().expect("nothing is in its way");
                    writing.rounds(&mut random, 2);
                }
                life.checkpoint().expect("nothing is in its way");
                if settings.strategy == Strategy::Cycling {
                    writing.rounds(&mut random, 4);
                    assert_eq!(life.turn().turn.map(|turn| (turn.taken, turn.ranges)), Some((1, 4)));
                }
                writing.rounds(&mut random, 20);
            }
            earlier.push(disk.fork());
            // Synced in log 0, and void, as the others never get so far.
            writing.commit(&mut random, 0);
            life.rig.advance();
            life.rig.log.logger_step(0);
            void_above(&mut history, life.rig.log.durable_epoch());
            disk.crash_with(Survival::Everything, 0);
        }
        let life = open_with(&disk, 3, settings.clone());
        let workers = (0..3).map(|_| life.rig.worker()).collect();
        let mut writing = Writing { life: &life, workers, history: &mut history, bytes };
        writing.rounds(&mut random, 20);
        if settings.strategy == Strategy::Cycling {
            life.turn();
            begin_turn(&life);
        }
        earlier.push(disk.fork());
        writing.rounds(&mut random, 19);
        let mut witnessed = life.rig.log.durable_epoch();
        earlier.push(disk.fork());
        writing.rounds(&mut random, 1);
        if closed {
            drop(writing);
            life.checkpoints.close(&life.store);
            life.rig.log.close().expect("closes");
            witnessed = life.rig.log.durable_epoch();
        } else {
            writing.commit(&mut random, 0);
            life.rig.advance();
            life.rig.log.logger_step(0);
        }
        Self { settings: settings.clone(), ..Self::of(disk, earlier, history, witnessed, bytes) }
    }

    /// The folder of a life that has just stopped.
    pub(super) fn of(
        disk: SimDisk,
        earlier: Vec<SimDisk>,
        history: History,
        witnessed: Epoch,
        bytes: u64,
    ) -> Self {
        disk.crash_with(Survival::Everything, 0);
        trim(&disk);
        let (durable, ignored, settings) = (Epoch::ZERO, 0, settings());
        let (unfinished, loggers, has_large_pictures) = (None, 2, false);
        let mut folder = Self {
            disk,
            earlier,
            history,
            durable,
            witnessed,
            ignored,
            unfinished,
            bytes,
            settings,
            loggers,
            has_large_pictures,
        };
        // Of a close the last epochs hold no entry, and need not come back.
        let (report, ..) = folder.recover(&folder.disk).expect("the folder is whole");
        folder.durable = report.durable_epoch;
        folder.ignored = report.ignored_entries;
        folder.unfinished = report.unfinished_epochs;
        folder.witnessed = folder.witnessed.min(folder.durable);
        folder
    }

    /// The state at `durable`.
    fn state(&self, durable: Epoch) -> Changes {
        let mut changes = Changes::new();
        for (tid, key, value) in self.history.iter().filter(|(tid, ..)| tid.epoch() <= durable) {
            change(&mut changes, *key, *tid, value.as_deref());
        }
        present(&changes)
    }

    /// A copy to damage.
    pub(crate) fn copy(&self) -> SimDisk {
        self.disk.fork()
    }

    fn recover(&self, disk: &SimDisk) -> Result<(RecoveryReport, Changes), DurabilityError> {
        let store = Store::default();
        let report = recover(Arc::new(disk.fork()), config(self.loggers), &store)?.report;
        Ok((report, store.present()))
    }

    /// Recovers the damaged copy.
    ///
    /// # Errors
    /// What is wrong, or was passed over in silence.
    pub(crate) fn judge(&self, damaged: &SimDisk) -> Result<Verdict, String> {
        let (report, rows) = match self.recover(damaged) {
            Ok(recovered) => recovered,
            Err(error) => {
                let (file, offset) = match error {
                    DurabilityError::Damaged { file, offset, .. } => (file, offset),
                    DurabilityError::Replay { file, offset, .. } => (file.into(), offset),
                    DurabilityError::NotOurs { file, .. } => {
                        return Ok(Verdict::Damaged { file: file.into(), offset: 0 });
                    }
                    error => return Err(format!("an error that does not say where: {error}")),
                };
                let length = damaged.files().contains(&file).then(|| damaged.bytes(&file).len() as u64);
                return if file.is_empty() || length.is_some_and(|length| offset > length) {
                    Err(format!("byte {offset} of {file:?} is said to be damaged"))
                } else {
                    Ok(Verdict::Damaged { file, offset })
                };
            }
        };
        let (durable, is_torn) = (report.durable_epoch, !report.torn_tails.is_empty());
        let has_marks = report.unfinished_epochs.is_some() && report.unfinished_epochs != self.unfinished;
        if rows == self.state(self.durable) {
            return Ok(Verdict::Whole { told: is_torn });
        }
        if durable >= self.durable || rows != self.state(durable) {
            return Err(format!("wrong: not the state at {durable}; D was {}", self.durable));
        }
        if durable < self.witnessed {
            return Err(format!("silent: {} was shown to be durable, {durable} came back", self.witnessed));
        }
        if !is_torn && report.ignored_entries <= self.ignored && !has_marks {
            return Err(format!("silent: {durable} came back, and nothing is told"));
        }
        Ok(Verdict::Earlier)
    }
}

/// Leaves little of the space that was set aside: there is nothing in it to damage.
fn trim(disk: &SimDisk) {
    for name in disk.files().into_iter().filter(|name| name.contains("log-")) {
        let mut bytes = disk.bytes(&name);
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        bytes.truncate(used + SPACE_BYTES);
        disk.put(&name, bytes);
    }
}
