//! Lives of one database: open, run threads, crash or close, and again; then the verdict on all of it.
//!
//! Neighbours: `client` is what a worker thread does; `plan` says how much of what.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::limits::EPOCH_MICROS_CLOSE;
use ensile_base::random::Random;
use ensile_base::sync::next_u64;
use ensile_base::{Epoch, Tid};
use ensile_engine::checkpoint::{CheckpointStep, Schedule, Strategy};
use ensile_engine::recovery::RecoveryReport;
use ensile_engine::{Database, Durability, Index, Result, Table, Tuning};
use ensile_sim::SimDisk;
use ensile_sim::checker;
use ensile_sim::history::{History, Operation, Outcome, Predicate, Recorder, Value};
use shuttle::thread;

use crate::client::Client;
use crate::picture_pages::LastPicture;
use crate::plan::{Pictures, Plan};
use crate::{pictures, recovered, seen};

/// Far more steps than any run takes that goes well.
pub(crate) const STEPS_MAX: usize = 3_000_000;
const LOG_FILE_BYTES: u64 = 4 << 10;
/// Of a hundred steps of a checkpointer, how many ask for a checkpoint first.
const DEMANDS_PERCENT: u64 = 20;
/// The folder of the first checkpointer.
const CHECKPOINT_DEVICE: &str = "checkpoint0";
/// Groups of rows, for the index.
pub(crate) const GROUPS: u64 = 3;

/// Of a hundred steps of one whose checkpoints go round: a demand takes all ranges.
const DEMANDS_BESIDE_TURNS_PERCENT: u64 = 1;
/// Of a hundred turns that are installed, how many are looked at as a power cut leaves them.
const TURNS_LOOKED_AT_PERCENT: u64 = 25;

/// A row: its value, and bytes that make rows outgrow each other.
pub(crate) type Row = Vec<u8>;

/// The value of a row.
pub(crate) fn value_of(row: &[u8]) -> Value {
    u64::from_le_bytes(row[..8].try_into().expect("a row begins with its value"))
}

/// The number of a row's key.
pub(crate) fn number(key: &[u8]) -> u64 {
    u64::from_be_bytes(key[key.len() - 8..].try_into().expect("a key ends in its number"))
}

/// The value of a row, which must be whole.
pub(crate) fn whole(row: &[u8]) -> Value {
    let value = value_of(row);
    assert!(row[8..].iter().all(|byte| *byte == value as u8), "a torn row of {value:x}: {row:?}");
    value
}

/// One open database and what its threads share. What is not the engine's own is std's: it is no step of the program.
pub(crate) struct Life {
    pub(crate) plan: Plan,
    strategy: Strategy,
    pub(crate) db: Database,
    pub(crate) rows: Table<Vec<u8>, Row>,
    pub(crate) by_group: Option<Index<u64, Vec<u8>, Row>>,
    late_tables: Mutex<BTreeMap<u64, Table<Vec<u8>, Row>>>,
    disk: SimDisk,
    /// The number of the newest checkpoint that a checkpointer has seen installed.
    newest_installed: AtomicU64,
    /// The disk as a power cut left it soon after a checkpoint of this number was installed.
    crashed_behind: Mutex<Vec<(u64, SimDisk)>>,
    clock: Clock,
    instants: Arc<AtomicU64>,
    is_over: AtomicBool,
}

impl Life {
    /// The database's life of this number.
    pub(crate) fn open(
        plan: &Plan,
        number: usize,
        disk: &SimDisk,
        instants: &Arc<AtomicU64>,
    ) -> Result<Self> {
        let clock = Clock::manual();
        let mut tuning =
            Tuning { snapshot_interval: Duration::from_micros(plan.snapshot_micros), ..Tuning::default() };
        let strategy = plan.strategy_of(number);
        let schedule = match strategy {
            // Turn follows turn.
            Strategy::Cycling => Schedule::on_demand().log_bytes(0),
            _ => Schedule::on_demand(),
        };
        let builder = if plan.loggers == 0 {
            Database::builder_in_memory()
        } else {
            tuning = Tuning {
                loggers: (!plan.is_without_log(number)).then_some(plan.loggers),
                checkpointers: Some(plan.checkpointers.max(1)),
                checkpoint_files: 2,
                checkpoint_strategy: Some(strategy),
                checkpoint_ranges: plan.ranges,
                checkpoint_page_bytes: plan.page_bytes,
                recovery_threads: 1,
                semi_fuzzy: plan.pictures == Some(Pictures::SemiFuzzy),
                displaced_bytes_max: plan.displaced_bytes_max,
                // Small, so that logs get new files.
                log_file_bytes: LOG_FILE_BYTES,
                log_buffer_bytes_max: plan.log_buffer_bytes_max.unwrap_or(tuning.log_buffer_bytes_max),
                ..tuning
            };
            let builder = Database::builder("unused").disk(Arc::new(disk.mounted()));
            let builder = builder.checkpoints(schedule);
            if plan.is_without_log(number) { builder.without_log() } else { builder }
        };
        let db = builder
            .manual_clock(clock.clone())
            .durability(Durability::Relaxed)
            // Part of the runs with a log, without a draw that would make other runs of all known seeds.
            .before_images(plan.loggers_of(number) == 2)
            .garbage_bytes_max(plan.garbage_bytes_max)
            .snapshots(plan.snapshots)
            .tuning(tuning)
            .without_threads()
            .open()?;
        let mut table = db.define::<Vec<u8>, Row>(pictures::ROWS);
        if plan.indexed {
            table = table.index("by_group", 1, |_: &Vec<u8>, row: &Row| value_of(row) % GROUPS);
        }
        let rows = table.open()?;
        let by_group = plan.indexed.then(|| rows.index("by_group")).transpose()?;
        let (plan, instants) = (plan.clone(), instants.clone());
        Ok(Self {
            plan,
            strategy,
            db,
            rows,
            by_group,
            late_tables: Mutex::default(),
            disk: disk.clone(),
            newest_installed: AtomicU64::new(0),
            crashed_behind: Mutex::default(),
            clock,
            instants,
            is_over: AtomicBool::new(false),
        })
    }

    /// The table of this key; none if it is a late one that nobody has opened in this life.
    pub(crate) fn table(&self, number: u64) -> Option<Table<Vec<u8>, Row>> {
        if number < self.plan.keys {
            return Some(self.rows.clone());
        }
        self.late_tables.lock().expect("no panic").get(&number).cloned()
    }

    /// Opens the late table of this key, and makes it if it is not there.
    pub(crate) fn open_late_table(&self, number: u64) -> Result<()> {
        let late = number - self.plan.keys;
        let table = self.db.define::<Vec<u8>, Row>(&format!("{}{late}", pictures::LATE)).open()?;
        self.late_tables.lock().expect("no panic").insert(number, table);
        Ok(())
    }

    /// An instant: each call's is later than the one before.
    pub(crate) fn now(&self) -> u64 {
        self.instants.fetch_add(1, Ordering::SeqCst)
    }

    /// The row's key: a number, or behind a prefix that is longer than a slice of the index.
    pub(crate) fn key(&self, number: u64) -> Vec<u8> {
        let prefix: &[u8] = if self.plan.layered { b"prefix--" } else { b"" };
        [prefix, &number.to_be_bytes()].concat()
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn beat(&self, random: &mut Random) {
        self.clock.advance(Duration::from_micros(random.next_between(1, self.plan.beat_micros_max)));
        self.db.heartbeat_step();
        self.clock.advance(Duration::from_micros(EPOCH_MICROS_CLOSE));
        self.db.boundary_step();
    }

    /// A step of a checkpointer. Of each picture that is installed, and some turns, it keeps what a power cut leaves
    /// then.
    fn checkpoint(&self, checkpointer: usize, random: &mut Random) {
        let is_cycling = self.strategy == Strategy::Cycling;
        if random.percent(if is_cycling { DEMANDS_BESIDE_TURNS_PERCENT } else { DEMANDS_PERCENT }) {
            // Whatever comes of it: who asked does not wait.
            drop(self.db.checkpoint());
        }
        let step = self.db.checkpoint_step(checkpointer);
        // The manifest costs few steps, but may not be synced yet. Only a step that has done something installs.
        let is_new = || pictures::installed(&self.disk) > self.newest_installed.load(Ordering::SeqCst);
        if self.plan.pictures.is_none() || step != Some(CheckpointStep::Worked) || !is_new() {
            return;
        }
        let Some(report) = self.db.stats().checkpoints.and_then(|stats| stats.last) else { return };
        if self.newest_installed.fetch_max(report.number, Ordering::SeqCst) < report.number
            && (!is_cycling || random.percent(TURNS_LOOKED_AT_PERCENT))
        {
            let disk = self.disk.fork();
            disk.crash(random.next_u64());
            self.crashed_behind.lock().expect("no panic").push((report.number, disk));
        }
    }

    /// The first checkpointer's device is full for a while.
    fn fill_checkpoint_device(&self, random: &mut Random) {
        rest(random, 300);
        self.disk.set_device(CHECKPOINT_DEVICE, Some(random.next_below(1_000)));
        rest(random, 300);
        self.disk.set_device(CHECKPOINT_DEVICE, None);
    }
}

fn rest(random: &mut Random, most: u64) {
    for _ in 0..random.next_below(most) {
        thread::yield_now();
    }
}

/// Runs the life's threads to their end, or past a crash. Returns what the workers recorded.
fn live(life: &Arc<Life>, disk: &SimDisk, number: usize, random: &mut Random) -> Vec<Recorder> {
    let mut threads = Vec::new();
    let mut start = |work: fn(&Life, usize, &mut Random), index| {
        let (life, mut random) = (life.clone(), Random::from_seed(random.next_u64()));
        threads.push(thread::spawn(move || {
            while !life.is_over() {
                work(&life, index, &mut random);
            }
        }));
    };
    start(
        |life, _, random| {
            rest(random, life.plan.beat_rest_max);
            life.beat(random);
        },
        0,
    );
    for logger in 0..life.plan.loggers_of(number) {
        start(
            |life, logger, random| {
                rest(random, 20);
                life.db.logger_step(logger);
            },
            logger,
        );
    }
    for checkpointer in 0..life.plan.checkpointers {
        start(
            |life, checkpointer, random| {
                rest(random, if life.strategy == Strategy::Cycling { 4 } else { 20 });
                life.checkpoint(checkpointer, random);
            },
            checkpointer,
        );
    }
    if life.plan.fills_checkpoint_device {
        start(|life, _, random| life.fill_checkpoint_device(random), 0);
    }
    if life.plan.loggers > 0 && random.percent(life.plan.crash_percent) {
        let (disk, life, mut random) = (disk.clone(), life.clone(), Random::from_seed(random.next_u64()));
        threads.push(thread::spawn(move || {
            for _ in 0..random.next_below(life.plan.crash_rest_max) {
                if life.is_over() {
                    break;
                }
                thread::yield_now();
            }
            disk.crash(random.next_u64());
        }));
    }
    let workers: Vec<_> = (0..life.plan.workers)
        .map(|worker| {
            let session = (number * 100 + worker + 1) as u32;
            let mut client = Client::new(life.clone(), session, random.next_u64());
            thread::spawn(move || {
                client.work();
                client.into_recorder()
            })
        })
        .collect();
    let recorders = workers.into_iter().map(|worker| worker.join().expect("no panic")).collect();
    life.is_over.store(true, Ordering::SeqCst);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    if life.plan.checkpointers > 0 {
        seen::count(life.strategy, life.plan.snapshots, &life.db);
    }
    recorders
}

/// Opens the database, with power failing now and then while it recovers.
fn open(
    plan: &Plan,
    number: usize,
    disk: &SimDisk,
    instants: &Arc<AtomicU64>,
    random: &mut Random,
) -> Arc<Life> {
    while plan.loggers > 0 && random.percent(25) {
        let (power, mut seeds) = (disk.clone(), Random::from_seed(random.next_u64()));
        let power = thread::spawn(move || {
            rest(&mut seeds, 200);
            power.crash(seeds.next_u64());
        });
        // Failed, or never told of its success: all the same to what follows.
        let opened = Life::open(plan, number, disk, instants);
        power.join().expect("no panic");
        drop(opened);
    }
    let life = Life::open(plan, number, disk, instants);
    Arc::new(life.unwrap_or_else(|error| panic!("what a crash left cannot be recovered: {error}")))
}

/// A first or last client of a life: puts rows there, or looks at all of them.
fn alone(life: &Arc<Life>, session: u32, random: &mut Random, work: fn(&mut Client)) -> Recorder {
    let mut client = Client::new(life.clone(), session, random.next_u64());
    work(&mut client);
    client.into_recorder()
}

/// The manifest's text.
pub(crate) fn manifest(disk: &SimDisk) -> String {
    String::from_utf8(disk.bytes("MANIFEST")).expect("the manifest is text")
}

/// What recovery decided of the generation that `begun` tells the begin of: it is in the manifest for good, whichever
/// open found it. One of which nothing counts may be left out there; so may one of which only its checkpoint counts,
/// and then no entry that counts is above e_h, or e_c.
fn durable_of(disk: &SimDisk, begun: &RecoveryReport) -> Epoch {
    let manifest = manifest(disk);
    let epoch_in = |line: &str, name: &str| {
        let number = line.split_once(name).and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        Epoch::new(number.expect("an epoch"))
    };
    let of_it = format!("generation {} ", begun.generation);
    if let Some(line) = manifest.lines().find(|line| line.starts_with(&of_it)) {
        return epoch_in(line, " durable ");
    }
    let installed = |kind: &str, name| {
        let lines = manifest.lines().filter(|line| line.starts_with(kind) && line.contains(&of_it));
        lines.map(|line| epoch_in(line, name)).max()
    };
    installed("checkpoint ", " high ")
        .or_else(|| installed("range ", " high "))
        .or_else(|| installed("picture ", " epoch "))
        .unwrap_or(begun.durable_epoch)
}

/// The body of one run.
pub(crate) fn run(plan: impl Fn(&mut Random) -> Plan) {
    let mut random = Random::from_seed(next_u64());
    let plan = plan(&mut random);
    let disk = SimDisk::new();
    let instants = Arc::new(AtomicU64::new(1));
    let mut history = History::default();
    let (mut begun, mut newest_installed, mut last_picture) = (None, 0, LastPicture::default());
    for number in 0..plan.lives {
        let life = open(&plan, number, &disk, &instants, &mut random);
        if let Some(begun) = &begun {
            history.crash(durable_of(&disk, begun));
        }
        begun = life.db.recovery_report().cloned();
        let first = if number == 0 { Client::fill } else { Client::look };
        history.extend([alone(&life, number as u32 * 100, &mut random, first)]);
        history.extend(live(&life, &disk, number, &mut random));
        let crashed_behind = std::mem::take(&mut *life.crashed_behind.lock().expect("no panic"));
        for (installed, disk) in crashed_behind {
            pictures::check(&disk, &plan, installed, &history, &mut last_picture);
            if plan.has_turns() {
                recovered::check(&disk, &plan, number + 1, &history);
            }
        }
        newest_installed = newest_installed.max(life.newest_installed.load(Ordering::SeqCst));
        if plan.loggers > 0 && random.percent(60) {
            disk.crash(random.next_u64());
        } else if plan.loggers == 0 {
            history.extend([alone(&life, 99, &mut random, Client::look)]);
        }
        drop(Arc::into_inner(life).expect("its threads have ended"));
        if plan.pictures.is_some() {
            pictures::check(&disk, &plan, newest_installed, &history, &mut last_picture);
        }
        if plan.has_turns() {
            recovered::check(&disk.fork(), &plan, number + 1, &history);
        }
    }
    if let Some(begun) = &begun {
        let life = open(&plan, plan.lives, &disk, &instants, &mut random);
        history.crash(durable_of(&disk, begun));
        history.extend([alone(&life, plan.lives as u32 * 100, &mut random, Client::look_at_all_tables)]);
    }
    judge(&history);
}

/// The verdict on a whole history.
fn judge(history: &History) {
    let matches = |predicate: Predicate, value| value % GROUPS == predicate.argument;
    if let Err(report) = checker::check_matching(history, matches) {
        panic!("{report}");
    }
    check_sessions(history);
}

/// A worker's TIDs grow (Silo §4.2), which no history of reads and writes tells: each session here is one worker's.
fn check_sessions(history: &History) {
    let mut last: BTreeMap<u32, Tid> = BTreeMap::new();
    for (at, header) in history.headers().iter().enumerate() {
        let mut operations = history.operations(at);
        let writes = operations.any(|one| matches!(one, Operation::Write { .. } | Operation::Delete { .. }));
        if !writes || !matches!(header.outcome, Outcome::Committed | Outcome::Lost) {
            continue;
        }
        let before = last.insert(header.session, header.tid).unwrap_or_default();
        assert!(before < header.tid, "session {} was given {} after {before}", header.session, header.tid);
    }
}
