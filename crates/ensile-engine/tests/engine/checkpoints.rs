//! Checkpoints of the whole engine on the simulated disk: what a walk beside writers leaves, in lives that lose power
//! at any call of the disk, and in each case of K1 by name.

use ensile_engine::checkpoint::{
    AdaptiveThreshold, CheckpointHandle, CheckpointReason, CheckpointStep, ThresholdMeasure,
};

use crate::prelude::*;

type State = BTreeMap<u64, Vec<u8>>;
type State64 = BTreeMap<u64, u64>;

/// One life of a database that the test steps.
struct Life {
    db: Database,
    clock: Clock,
    rows: Table<u64, Vec<u8>>,
    strategy: Strategy,
}

const ALL: [Strategy; 3] = [Strategy::Fuzzy, Strategy::Cycling, Strategy::Pictures];
const CHECKPOINTERS: usize = 2;

impl Life {
    fn try_open(disk: &SimDisk) -> Result<Self> {
        Self::try_open_for(disk, Strategy::Fuzzy)
    }

    fn try_open_for(disk: &SimDisk, strategy: Strategy) -> Result<Self> {
        Self::try_open_with(disk, strategy, true)
    }

    fn try_open_with(disk: &SimDisk, strategy: Strategy, semi_fuzzy: bool) -> Result<Self> {
        Self::try_open_tuned(disk, strategy, Tuning { semi_fuzzy, ..Tuning::default() })
    }

    fn try_open_tuned(disk: &SimDisk, strategy: Strategy, tuning: Tuning) -> Result<Self> {
        Self::try_open_scheduled(disk, strategy, tuning, Schedule::on_demand())
    }

    /// Turn follows turn, each of one of three ranges, if the checkpoints go round by ranges.
    fn try_open_for_turns(disk: &SimDisk, strategy: Strategy, semi_fuzzy: bool) -> Result<Self> {
        let is_cycling = strategy == Strategy::Cycling;
        let schedule = if is_cycling { Schedule::on_demand().log_bytes(0) } else { Schedule::on_demand() };
        let tuning = Tuning { checkpoint_ranges: 3, semi_fuzzy, ..Tuning::default() };
        Self::try_open_scheduled(disk, strategy, tuning, schedule)
    }

    fn try_open_scheduled(
        disk: &SimDisk,
        strategy: Strategy,
        tuning: Tuning,
        schedule: Schedule,
    ) -> Result<Self> {
        let clock = Clock::manual();
        let builder = Database::builder("unused")
            .disk(Arc::new(disk.mounted()))
            .manual_clock(clock.clone())
            .durability(Durability::Relaxed)
            .checkpoints(schedule)
            .tuning(Tuning {
                loggers: Some(2),
                log_file_bytes: 4096,
                checkpointers: Some(CHECKPOINTERS),
                checkpoint_files: 2,
                checkpoint_sync_bytes: 512,
                checkpoint_strategy: Some(strategy),
                checkpoint_page_bytes: 4 << 10,
                recovery_threads: 1,
                ..tuning
            })
            .without_threads();
        let db = builder.open()?;
        let rows = db.table("rows")?;
        Ok(Self { db, clock, rows, strategy })
    }

    fn open(disk: &SimDisk) -> Self {
        Self::try_open(disk).expect("opens")
    }

    fn open_for(disk: &SimDisk, strategy: Strategy) -> Self {
        Self::try_open_for(disk, strategy).expect("opens")
    }

    /// One whose keys 0 to 49 are there, and durable.
    fn with_rows(disk: &SimDisk, strategy: Strategy) -> Self {
        let life = Self::open_for(disk, strategy);
        for key in 0..50 {
            life.put(key, &[1; 100]);
        }
        life.settle();
        life
    }

    fn put(&self, key: u64, value: &[u8]) -> Epoch {
        let ((), receipt) = self.db.submit(|tx| tx.put(&self.rows, &key, &value.to_vec())).expect("commits");
        receipt.epoch()
    }

    /// Changes `rows` rows of 1,000 bytes, in a transaction each.
    fn put_large(&self, rows: u64) {
        for key in 0..rows {
            self.put(key, &[7; 1000]);
        }
    }

    fn delete(&self, key: u64) -> Epoch {
        let (_, receipt) = self.db.submit(|tx| tx.delete(&self.rows, &key)).expect("commits");
        receipt.epoch()
    }

    fn beat(&self) {
        self.clock.advance(Duration::from_millis(40));
        self.db.heartbeat_step();
    }

    /// An epoch closes, and what it holds becomes durable.
    fn settle(&self) {
        self.beat();
        for _ in 0..2 {
            for logger in 0..2 {
                self.db.logger_step(logger);
            }
        }
    }

    fn step(&self, checkpointer: usize) -> CheckpointStep {
        self.db.checkpoint_step(checkpointer).expect("it has a folder")
    }

    fn step_all(&self) {
        for checkpointer in 0..CHECKPOINTERS {
            self.step(checkpointer);
        }
    }

    /// Begins a checkpoint, and goes on until its walk may begin.
    fn begin(&self) -> CheckpointHandle {
        let handle = self.db.checkpoint().expect("is open");
        assert_eq!(self.step(0), CheckpointStep::Worked, "e_l is read");
        if self.strategy == Strategy::Pictures {
            assert_eq!(self.step(0), CheckpointStep::Worked, "pages are published");
            self.pass("N1: E has to be two above the publication before the freeze is announced");
        }
        self.pass("K1, N2: E has to pass e_l before slices are cut");
        handle
    }

    /// The checkpoint waits for epochs, which end, and goes on.
    fn pass(&self, why: &str) {
        assert_eq!(self.step(0), CheckpointStep::Waiting, "{why}");
        self.beat();
        while self.step(0) == CheckpointStep::Waiting {
            self.beat();
        }
    }

    /// Goes on until the checkpoint has an outcome.
    fn end(&self, handle: &CheckpointHandle) {
        for _ in 0..1000 {
            if let Some(outcome) = handle.outcome() {
                outcome.expect("is installed");
                return;
            }
            (0..CHECKPOINTERS).for_each(|checkpointer| {
                self.step(checkpointer);
            });
            self.settle();
        }
        panic!("the checkpoint does not end: {:?}", self.db.stats().checkpoints);
    }

    fn checkpoint(&self) {
        let handle = self.begin();
        self.end(&handle);
    }

    fn state(&self) -> State {
        self.db.begin().range(&self.rows, ..).collect::<Result<_>>().expect("reads")
    }
}

/// The files of checkpoints on the disk.
fn parts(disk: &SimDisk) -> Vec<String> {
    disk.files().into_iter().filter(|name| name.contains("ckpt-") || name.contains("/pages-")).collect()
}

fn crash(disk: &SimDisk, life: Life) -> Life {
    disk.crash(1);
    let strategy = life.strategy;
    drop(life);
    Life::open_for(disk, strategy)
}

/// Looks at a life beside which nothing is under way: it keeps no displaced version.
fn assert_nothing_displaced(life: &Life) {
    assert_eq!(life.db.stats().displaced_bytes, 0);
}

#[test]
fn what_a_checkpoint_holds_comes_back_without_the_log_before_it() {
    ALL.into_iter().for_each(check_what_a_checkpoint_holds_comes_back_without_the_log_before_it);
}

fn check_what_a_checkpoint_holds_comes_back_without_the_log_before_it(strategy: Strategy) {
    let disk = SimDisk::new();
    let life = Life::open_for(&disk, strategy);
    let other = life.db.table::<u64, u64>("other").expect("opens");
    for key in 0..300 {
        life.put(key, &[key as u8; 100]);
        life.db.run(|tx| tx.put(&other, &key, &(key * 2))).expect("commits");
        life.settle();
    }
    let before: usize = disk.files().iter().filter(|name| name.contains("log-")).count();
    let expected = life.state();
    life.checkpoint();
    let report = life.db.stats().checkpoints.and_then(|stats| stats.last).expect("was installed");
    assert!(report.entries >= 600, "{report:?}");
    assert_eq!(report.picture_epoch().is_some(), strategy == Strategy::Pictures);
    assert_nothing_displaced(&life);
    let after: usize = disk.files().iter().filter(|name| name.contains("log-")).count();
    assert!(after < before / 2, "{before} log files became {after}");
    let life = crash(&disk, life);
    let found = life.db.recovery_report().expect("has a log");
    assert_eq!(found.checkpoint, Some((report.low, report.high)));
    assert_eq!(found.checkpoint_entries, report.entries);
    assert_eq!(life.state(), expected);
    // Nobody has opened the other table in this life: the next checkpoint holds it all the same.
    life.checkpoint();
    let life = crash(&disk, life);
    let other = life.db.table::<u64, u64>("other").expect("opens");
    let rows: Vec<(u64, u64)> = life.db.begin().range(&other, ..).collect::<Result<_>>().expect("reads");
    assert!(rows.into_iter().eq((0..300).map(|key| (key, key * 2))));
}

/// Several tables with rows of all sizes, over lives each of which loses power behind a checkpoint.
#[test]
fn rows_longer_than_a_block_come_back_from_checkpoints_beside_short_ones() {
    ALL.into_iter().for_each(check_rows_longer_than_a_block_come_back_from_checkpoints_beside_short_ones);
}

fn check_rows_longer_than_a_block_come_back_from_checkpoints_beside_short_ones(strategy: Strategy) {
    let (disk, mut random) = (SimDisk::new(), Random::from_seed(9));
    let (mut noise, mut texts) = (State::new(), BTreeMap::<u64, String>::new());
    for round in 0..3 {
        let life = Life::open_for(&disk, strategy);
        let table = life.db.table::<u64, String>("texts").expect("opens");
        let found: BTreeMap<u64, String> =
            life.db.begin().range(&table, ..).collect::<Result<_>>().expect("reads");
        assert!(life.state() == noise && found == texts, "before round {round}");
        for key in 0..120 {
            let mut bytes = vec![0; 200];
            random.fill(&mut bytes);
            life.put(key, &bytes);
            noise.insert(key, bytes);
            let text = format!("a row as others, number {key}, ").repeat(4 + random.next_below(4) as usize);
            life.db.run(|tx| tx.put(&table, &key, &text)).expect("commits");
            texts.insert(key, text);
        }
        // Longer than a block usually is.
        let text = "long ".repeat(80_000);
        life.db.run(|tx| tx.put(&table, &1_000, &text)).expect("commits");
        texts.insert(1_000, text);
        life.settle();
        life.checkpoint();
        life.delete(3);
        noise.remove(&3);
        life.settle();
        disk.crash(1);
    }
    assert!(crash(&disk, Life::open_for(&disk, strategy)).state() == noise);
}

#[test]
fn k1_a_delete_whose_log_file_is_gone_stays_deleted() {
    ALL.into_iter().for_each(check_k1_a_delete_whose_log_file_is_gone_stays_deleted);
}

fn check_k1_a_delete_whose_log_file_is_gone_stays_deleted(strategy: Strategy) {
    let disk = SimDisk::new();
    let life = Life::open_for(&disk, strategy);
    // Neither comes back from where it was: the durability crate's lives have one file gone and the other not.
    let put = life.put(1, b"put");
    life.settle();
    std::thread::scope(|scope| {
        // Another thread's worker, and so the other log.
        let worker = scope.spawn(|| {
            let deleted = life.delete(1);
            for key in 100..200 {
                life.put(key, &[7; 100]);
                life.settle();
            }
            deleted
        });
        assert!(worker.join().expect("no panic") > put);
    });
    life.checkpoint();
    let life = crash(&disk, life);
    assert!(life.db.recovery_report().expect("has a log").checkpoint.is_some());
    assert!(!life.state().contains_key(&1));
}

#[test]
fn k1_changes_during_the_walk_come_from_the_log() {
    ALL.into_iter().for_each(check_k1_changes_during_the_walk_come_from_the_log);
}

fn check_k1_changes_during_the_walk_come_from_the_log(strategy: Strategy) {
    let disk = SimDisk::new();
    let life = Life::open_for(&disk, strategy);
    for key in 0..64 {
        life.put(key, b"before");
    }
    life.settle();
    let handle = life.begin();
    // Some slices are walked, some are not; each kind of change comes to both.
    for _ in 0..8 {
        life.step(0);
    }
    for key in (0..64).step_by(4) {
        life.put(key, b"during");
        life.put(key + 1, &[9; 2000]);
        life.delete(key + 2);
    }
    life.delete(0);
    life.put(0, b"again");
    let late: Table<u64, u64> = life.db.table("late").expect("opens");
    life.db.run(|tx| tx.put(&late, &5, &55)).expect("commits");
    let expected = life.state();
    life.end(&handle);
    assert_nothing_displaced(&life);
    let life = crash(&disk, life);
    assert!(life.db.recovery_report().expect("has a log").checkpoint.is_some());
    assert_eq!(life.state(), expected);
    let late: Table<u64, u64> = life.db.table("late").expect("opens");
    assert_eq!(life.db.run(|tx| tx.get(&late, &5)).expect("reads"), Some(55));
}

/// K3: the attempt fails, and no commit does.
/// Begins a picture, and displaces more than a megabyte. The device takes nothing meanwhile: only the heartbeat looks.
fn begin_and_displace(life: &Life) -> CheckpointHandle {
    let handle = life.begin();
    for key in 0..64 {
        life.put(key, &[2; 20_000]);
    }
    life.settle();
    handle
}

fn step_to_the_end(life: &Life, handle: &CheckpointHandle) {
    while handle.outcome().is_none() {
        for checkpointer in 0..CHECKPOINTERS {
            life.step(checkpointer);
        }
        life.settle();
    }
}

#[test]
fn health_tells_of_three_pictures_in_a_row_that_gave_way() {
    let disk = SimDisk::new();
    let tuning = Tuning { displaced_bytes_max: 1 << 20, ..Tuning::default() };
    let life = Life::try_open_tuned(&disk, Strategy::Pictures, tuning).expect("opens");
    (0..64).for_each(|key| _ = life.put(key, &[1; 20_000]));
    life.settle();
    for attempt in 1..=3 {
        assert_eq!(life.db.health().checkpoint_failing, None, "attempt {attempt}");
        let handle = begin_and_displace(&life);
        step_to_the_end(&life, &handle);
        assert!(handle.outcome().is_some_and(|outcome| outcome.is_err()), "attempt {attempt} gave way");
    }
    let health = life.db.health();
    let why = health.checkpoint_failing.clone().expect("it is told");
    assert!(why.contains("3 times in a row") && why.contains("displaced_bytes_max"), "{why}");
    assert!(!health.is_well());
    life.checkpoint();
    assert_eq!(life.db.health().checkpoint_failing, None, "one was made");
}

#[test]
fn a_picture_that_gave_way_to_commits_says_so_and_the_next_one_is_installed() {
    for semi_fuzzy in [false, true] {
        let disk = SimDisk::new();
        let tuning = Tuning { semi_fuzzy, displaced_bytes_max: 1 << 20, ..Tuning::default() };
        let life = Life::try_open_tuned(&disk, Strategy::Pictures, tuning).expect("opens");
        for key in 0..64 {
            life.put(key, &[1; 20_000]);
        }
        life.settle();
        let handle = begin_and_displace(&life);
        let peak = life.db.stats().displaced_bytes_peak;
        assert!(peak > 64 * 20_000);
        assert_nothing_displaced(&life);
        step_to_the_end(&life, &handle);
        let error = handle.outcome().expect("it has ended").expect_err("it gave way").to_string();
        assert!(
            error.contains("displaced_bytes_max is 1048576") && error.contains(&peak.to_string()),
            "{error}"
        );
        let stats = life.db.stats();
        let checkpoints = stats.checkpoints.expect("it has a log");
        assert_eq!((checkpoints.installed, checkpoints.failed, stats.aborts), (0, 1, 0));
        assert!(checkpoints.last_error.is_some_and(|error| error.contains("displaced_bytes_max")));
        assert!(parts(&disk).is_empty(), "its files are removed");
        life.checkpoint();
        let expected = life.state();
        assert_eq!(crash(&disk, life).state(), expected);
    }
}

#[test]
fn what_commits_displace_is_written_beside_the_pages_or_with_them() {
    for semi_fuzzy in [false, true] {
        let disk = SimDisk::new();
        let life = Life::try_open_with(&disk, Strategy::Pictures, semi_fuzzy).expect("opens");
        for key in 0..64 {
            life.put(key, &[1; 1000]);
        }
        life.settle();
        let handle = life.begin();
        let mut changed = 0;
        while handle.outcome().is_none() {
            for checkpointer in 0..CHECKPOINTERS {
                // From the end of the table, where pages are taken last.
                life.put(63 - changed % 64, &[2; 3000]);
                changed += 1;
                life.step(checkpointer);
            }
            life.settle();
        }
        let report = handle.outcome().expect("it has ended").expect("is installed");
        assert_eq!(report.displaced > 0, semi_fuzzy, "{report:?}");
        assert!(report.entries - report.displaced <= 66, "64 rows, and what the catalogue has: {report:?}");
        let expected = life.state();
        life.settle();
        assert_nothing_displaced(&life);
        let life = crash(&disk, life);
        let recovered = life.db.recovery_report().expect("has a log");
        assert_eq!(recovered.checkpoint_entries, report.entries);
        assert_eq!(life.state(), expected);
    }
}

#[test]
fn k1_a_checkpoint_above_d_does_not_exist_after_a_crash() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    life.put(1, b"first");
    life.settle();
    life.checkpoint();
    let installed = parts(&disk);
    life.put(2, b"second");
    life.settle();
    let handle = life.begin();
    life.put(1, b"changed and never durable");
    for _ in 0..200 {
        (0..CHECKPOINTERS).for_each(|checkpointer| {
            life.step(checkpointer);
        });
    }
    assert!(handle.outcome().is_none(), "K1: D has not reached e_h");
    assert!(parts(&disk).len() > installed.len(), "its files are all there");
    let life = crash(&disk, life);
    assert_eq!(parts(&disk), installed, "what was not installed is removed");
    let state = life.state();
    assert_eq!(state.get(&1).map(Vec::as_slice), Some(&b"first"[..]));
    assert_eq!(state.get(&2).map(Vec::as_slice), Some(&b"second"[..]));
}

#[test]
fn a_crash_between_the_manifest_and_the_removal_leaves_one_checkpoint() {
    ALL.into_iter().for_each(check_a_crash_between_the_manifest_and_the_removal_leaves_one_checkpoint);
}

fn check_a_crash_between_the_manifest_and_the_removal_leaves_one_checkpoint(strategy: Strategy) {
    let disk = SimDisk::new();
    let life = Life::open_for(&disk, strategy);
    for round in 0..2_u8 {
        for key in 0..50 {
            life.put(key, &[round; 100]);
        }
        life.settle();
        if round == 0 {
            life.checkpoint();
        }
    }
    let expected = life.state();
    let first = parts(&disk);
    let handle = life.begin();
    let installed = || life.db.stats().checkpoints.map_or(0, |stats| stats.installed);
    // The one step that installs is not followed by another, which would remove.
    for step in 0.. {
        life.step(step % CHECKPOINTERS);
        if installed() == 2 {
            break;
        }
        life.settle();
    }
    assert!(handle.outcome().is_none(), "not all of it is done");
    assert!(first.iter().all(|name| parts(&disk).contains(name)), "the first one's files are still there");
    let life = crash(&disk, life);
    let left = parts(&disk);
    assert_eq!(left.len(), first.len());
    // Pictures of one life stand in the same files.
    let is_new = left.iter().all(|name| !first.contains(name));
    assert_eq!(is_new, strategy != Strategy::Pictures, "the second one counts: {left:?}");
    assert_eq!(life.state(), expected);
}

#[test]
fn a_closed_database_leaves_nothing_of_an_interrupted_checkpoint() {
    ALL.into_iter().for_each(check_a_closed_database_leaves_nothing_of_an_interrupted_checkpoint);
}

fn check_a_closed_database_leaves_nothing_of_an_interrupted_checkpoint(strategy: Strategy) {
    let disk = SimDisk::new();
    let life = Life::with_rows(&disk, strategy);
    let handle = life.begin();
    (0..6).for_each(|step| {
        life.step(step % CHECKPOINTERS);
    });
    assert!(!parts(&disk).is_empty());
    life.put(49, b"displaces");
    life.settle();
    let expected = life.state();
    life.db.close().expect("closes");
    assert_nothing_displaced(&life);
    assert!(parts(&disk).is_empty(), "{:?}", parts(&disk));
    assert!(handle.outcome().is_some_and(|outcome| outcome.is_err()), "who asked is told");
    assert!(life.db.checkpoint().is_err());
    drop(life);
    assert_eq!(Life::open_for(&disk, strategy).state(), expected);
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_told_and_tried_again() {
    ALL.into_iter().for_each(check_a_checkpoint_that_cannot_be_written_is_told_and_tried_again);
}

fn check_a_checkpoint_that_cannot_be_written_is_told_and_tried_again(strategy: Strategy) {
    let disk = SimDisk::new();
    let life = Life::with_rows(&disk, strategy);
    let handle = life.begin();
    life.put(49, b"displaces");
    life.settle();
    life.step(0);
    life.step(1);
    disk.fail_write(1);
    for step in 0..400 {
        life.step(step % CHECKPOINTERS);
    }
    let error = handle.outcome().expect("it is over").expect_err("a write failed").to_string();
    assert!(error.contains("no checkpoint was made"), "{error}");
    assert!(parts(&disk).is_empty());
    assert_nothing_displaced(&life);
    let stats = life.db.stats().checkpoints.expect("has them");
    assert_eq!((stats.failed, stats.installed), (1, 0));
    life.put(51, b"the log goes on");
    life.settle();
    life.checkpoint();
    let life = crash(&disk, life);
    assert_eq!(life.state().len(), 51);
}

#[test]
fn a_missing_or_damaged_checkpoint_file_is_damage_and_names_it() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    for key in 0..50 {
        life.put(key, &[1; 100]);
    }
    life.checkpoint();
    life.db.close().expect("closes");
    drop(life);
    for name in parts(&disk) {
        let bytes = disk.bytes(&name);
        let lost = disk.fork();
        lost.lose(&name);
        let error = Life::try_open(&lost).err().expect("damage").to_string();
        assert!(error.contains(&name), "{error}");
        for at in (0..bytes.len()).step_by(7) {
            let flipped = disk.fork();
            flipped.flip(&name, at as u64, 4);
            let error = Life::try_open(&flipped).err().expect("damage").to_string();
            assert!(error.contains(&name), "byte {at}: {error}");
        }
        for other in parts(&disk) {
            if disk.bytes(&other) != bytes {
                let exchanged = disk.fork();
                exchanged.put(&name, disk.bytes(&other));
                assert!(Life::try_open(&exchanged).is_err(), "{other} in the place of {name}");
            }
        }
    }
    assert_eq!(Life::open(&disk).state().len(), 50);
}

#[test]
fn checkpoints_beside_threads_that_move_money_keep_its_sum() {
    ALL.into_iter().for_each(move_money);
}

fn move_money(strategy: Strategy) {
    const ACCOUNTS: u64 = 20_000;
    /// Accounts below this one take no part: each walk finds them in an epoch before its own, however slow the machine.
    const IDLE: u64 = ACCOUNTS / 2;
    let folder = std::env::temp_dir().join(format!("ensile-checkpoints-{strategy:?}-{}", std::process::id()));
    let open = || {
        let builder = Database::builder(&folder).durability(Durability::Relaxed);
        let builder = builder.tuning(Tuning {
            checkpointers: Some(2),
            checkpoint_strategy: Some(strategy),
            checkpoint_page_bytes: 4 << 10,
            ..Tuning::default()
        });
        builder.checkpoints(Schedule::on_demand()).epoch_interval(Duration::from_millis(2)).open()
    };
    let db = open().expect("opens");
    let accounts = db.table::<u64, u64>("accounts").expect("opens");
    for first in (0..ACCOUNTS).step_by(1000) {
        db.run(|tx| (first..first + 1000).try_for_each(|key| tx.put(&accounts, &key, &100)))
            .expect("commits");
    }
    let mut last = db.begin();
    last.put(&accounts, &0, &100).expect("writes");
    last.commit().expect("commits").durable().expect("syncs");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (db, accounts, stop) = (&db, &accounts, &stop);
            scope.spawn(move || {
                let mut random = Random::from_seed(thread);
                // Relaxed: only tells when to stop.
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let mut busy = || IDLE + random.next_below(ACCOUNTS - IDLE);
                    let (from, to) = (busy(), busy());
                    let moved = db.run(|tx| {
                        let Some(have) = tx.get(accounts, &from)? else { return Ok(()) };
                        // An empty account goes, and comes back with what it is given.
                        if have > 1 {
                            tx.put(accounts, &from, &(have - 1))?;
                        } else {
                            tx.delete(accounts, &from)?;
                        }
                        let there = tx.get(accounts, &to)?.unwrap_or(0);
                        tx.put(accounts, &to, &(there + 1))
                    });
                    moved.expect("commits");
                }
            });
        }
        let reports: Vec<_> = (0..8).map(|_| db.checkpoint().and_then(|asked| asked.wait())).collect();
        // Relaxed: the threads are joined before their work is judged.
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for report in reports {
            let entries = report.expect("is installed").entries;
            assert!(entries >= IDLE, "{entries} entries");
        }
    });
    let sum = |db: &Database| {
        let accounts = db.table::<u64, u64>("accounts").expect("opens");
        let rows: State64 = db.begin().range(&accounts, ..).collect::<Result<_>>().expect("reads");
        assert_eq!(rows.values().sum::<u64>(), 100 * ACCOUNTS);
        rows
    };
    let expected = sum(&db);
    // Versions that came behind their page's turn go at one of the next ticks.
    for _ in 0..12_000 {
        if db.stats().displaced_bytes == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(db.stats().displaced_bytes, 0);
    db.close().expect("closes");
    drop((accounts, db));
    let db = open().expect("opens");
    let report = db.recovery_report().expect("has a log");
    assert!(report.checkpoint_entries >= IDLE, "{report:?}");
    assert_eq!(sum(&db), expected);
    drop(db);
    std::fs::remove_dir_all(&folder).expect("removes");
}

/// What each key became; `None`: deleted.
type Writes = Vec<(u64, Option<Vec<u8>>)>;

/// A transaction of random writes: its epoch, and what it wrote.
fn transaction(life: &Life, random: &mut Random) -> Option<(Epoch, Writes)> {
    let count = random.next_between(1, 4);
    let writes: Vec<_> = (0..count)
        .map(|_| {
            let size = if random.percent(10) { 3000 } else { random.next_below(200) };
            let value = (!random.percent(30)).then(|| vec![random.next_u64() as u8; size as usize]);
            (random.next_below(48), value)
        })
        .collect();
    let outcome = life.db.submit(|tx| {
        writes.iter().try_for_each(|(key, value)| match value {
            Some(value) => tx.put(&life.rows, key, value),
            None => tx.delete(&life.rows, key).map(drop),
        })
    });
    outcome.ok().map(|((), receipt)| (receipt.epoch(), writes.clone()))
}

fn apply(state: &mut State, writes: &[(u64, Option<Vec<u8>>)]) {
    for (key, value) in writes {
        match value {
            Some(value) => state.insert(*key, value.clone()),
            None => state.remove(key),
        };
    }
}

#[test]
fn lives_with_checkpoints_lose_power_at_any_call_and_nothing_that_was_durable() {
    let (mut installed, mut turns) = ([0; 3], 0);
    for seed in 0..120 {
        let mut random = Random::from_seed(seed);
        let disk = SimDisk::new();
        let mut state = State::new();
        for number in 0..6 {
            let context = format!("seed {seed}, life {number}");
            let strategy = ALL[random.next_below(3) as usize];
            let life = Life::try_open_for_turns(&disk, strategy, random.percent(50))
                .unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(life.state(), state, "{context}: what came back is not what was judged");
            if random.percent(80) {
                disk.cut_power_at(disk.calls().all + random.next_between(1, 250));
            }
            let (mut history, mut announced) = (Vec::new(), Epoch::ZERO);
            for _ in 0..random.next_between(10, 400) {
                match random.next_below(20) {
                    0..6 => history.extend(transaction(&life, &mut random)),
                    6 | 7 => {
                        let seed = random.next_u64();
                        history.extend(std::thread::scope(|scope| {
                            let other = scope.spawn(|| transaction(&life, &mut Random::from_seed(seed)));
                            other.join().expect("no panic")
                        }));
                    }
                    8..10 => life.beat(),
                    10..14 => {
                        life.db.logger_step(random.next_below(2) as usize);
                    }
                    // One that goes round by ranges takes all of them then.
                    14 if strategy != Strategy::Cycling || random.percent(5) => drop(life.db.checkpoint()),
                    _ => {
                        life.step(random.next_below(2) as usize);
                    }
                }
                if disk.is_without_power() {
                    break;
                }
                announced = life.db.durable_epoch();
            }
            let stats = life.db.stats().checkpoints;
            installed[strategy as usize] += stats.as_ref().map_or(0, |stats| stats.installed);
            let turn = stats.and_then(|stats| stats.last?.turn);
            turns += u64::from(turn.is_some_and(|turn| turn.taken < turn.ranges));
            disk.crash(random.next_u64());
            drop(life);
            let look = Life::try_open(&disk).unwrap_or_else(|error| panic!("{context}, after: {error}"));
            let durable = look.db.recovery_report().expect("has a log").durable_epoch;
            for (epoch, writes) in &history {
                assert!(
                    *epoch <= durable || *epoch > announced,
                    "{context}: {epoch} was announced and is lost"
                );
                if *epoch <= durable {
                    apply(&mut state, writes);
                }
            }
            assert_eq!(look.state(), state, "{context}: not the state after epoch {durable}");
            if random.percent(50) {
                disk.crash(random.next_u64());
            }
            drop(look);
        }
    }
    assert!(installed.iter().all(|count| *count > 20), "{installed:?} checkpoints were installed");
    assert!(turns > 10, "{turns} lives ended behind a turn of one range");
}

/// Commits `rows` rows of 1,000 bytes between two ticks of the heartbeat, until a checkpoint begins by itself, and ends
/// that. How many bytes of log there were when it began, and the threshold just before.
fn written_until_a_checkpoint(life: &Life, rows: u64) -> (u64, u64) {
    let log_bytes = || life.db.stats().log.expect("it has a log").bytes;
    let seen = || life.db.stats().checkpoints.expect("it has checkpoints");
    let installed = seen().installed;
    for _ in 0..10_000 {
        let (bytes, threshold) = (log_bytes(), seen().log_bytes_threshold.expect("it is adaptive"));
        life.step(0);
        if seen().running.is_some() {
            while seen().installed == installed {
                life.step_all();
                life.settle();
            }
            return (bytes, threshold);
        }
        life.put_large(rows);
        life.settle();
    }
    panic!("no checkpoint begins: {:?}", seen());
}

#[test]
fn a_busy_databases_log_grows_longer_before_a_checkpoint_begins() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    let (lower, upper) = (30_000, 600_000);
    let window = Duration::from_secs(1);
    let adaptive = AdaptiveThreshold { lower, upper, window, ..AdaptiveThreshold::of_capacity(1_000_000) };
    life.db.reschedule_checkpoints(Schedule::default().adaptive(adaptive)).expect("it can work");
    // 25 ticks a second: some 30 KB, then some 1.3 MB of log a second.
    let (quiet, threshold) = written_until_a_checkpoint(&life, 1);
    assert_eq!(threshold, lower, "the load is below the low watermark");
    assert!((lower..2 * lower).contains(&quiet), "{quiet} bytes of log");
    let last =
        || life.db.stats().checkpoints.and_then(|checkpoints| checkpoints.last).expect("one was installed");
    assert_eq!(last().reason, CheckpointReason::Adaptive);
    // The average has to learn of the load first.
    for _ in 0..300 {
        life.put_large(50);
        life.settle();
        life.step_all();
    }
    let before = last();
    let (_, threshold) = written_until_a_checkpoint(&life, 50);
    assert_eq!(threshold, upper, "the load is above the high watermark");
    assert!(last().number > before.number);
    life.db.reschedule_checkpoints(Schedule::on_demand()).expect("it can work");
    let stats = life.db.stats().checkpoints.expect("it has checkpoints");
    assert_eq!((stats.load, stats.log_bytes_threshold), (None, None));
    let wrong = AdaptiveThreshold { capacity: 0, ..adaptive };
    let refused = life.db.reschedule_checkpoints(Schedule::default().adaptive(wrong));
    assert!(matches!(&refused, Err(Error::Misuse(why)) if why.contains("capacity")), "{refused:?}");
}

/// Commits this number of rows between two ticks of the heartbeat until a checkpoint has begun by itself and ended: its
/// report.
fn next_checkpoint(life: &Life, rows: u64) -> CheckpointReport {
    let seen = || life.db.stats().checkpoints.expect("it has checkpoints");
    let installed = seen().installed;
    for _ in 0..100_000 {
        if seen().running.is_none() {
            life.put_large(rows);
        }
        life.settle();
        life.step_all();
        if seen().installed > installed {
            return seen().last.expect("one was installed");
        }
    }
    panic!("no checkpoint begins: {:?}", seen());
}

#[test]
fn a_busy_databases_checkpoints_are_farther_apart_by_time() {
    let life = Life::open(&SimDisk::new());
    let (lower, upper) = (2_000, 16_000);
    let window = Duration::from_secs(1);
    // 25 ticks a second, and a transaction each: the capacity is far above, then below.
    let of = |capacity| AdaptiveThreshold { lower, upper, window, ..AdaptiveThreshold::of_time(capacity) };
    let read = |capacity, threshold| {
        life.db.reschedule_checkpoints(Schedule::default().adaptive(of(capacity))).expect("it can work");
        // The first one ends what was there before; the load has to be learned.
        let _ = next_checkpoint(&life, 50);
        let report = next_checkpoint(&life, 50);
        let reading = report.adaptive.expect("a threshold follows the load");
        assert_eq!((report.reason, reading.measure), (CheckpointReason::Adaptive, ThresholdMeasure::Time));
        assert_eq!((reading.threshold, reading.capacity), (threshold, capacity), "{reading:?}");
        assert!((threshold..threshold + 500).contains(&reading.reached), "{reading:?}");
        let stats = life.db.stats().checkpoints.expect("it has checkpoints");
        assert_eq!(stats.interval_threshold, Some(Duration::from_millis(threshold)));
        assert_eq!((stats.log_bytes_threshold, stats.log_records_threshold), (None, None));
        reading.load
    };
    assert!(read(1_000_000, lower) < 0.2);
    assert!(read(1, upper) > 0.85);
}

#[test]
fn so_many_transactions_begin_a_checkpoint() {
    let life = Life::open(&SimDisk::new());
    life.db.reschedule_checkpoints(Schedule::on_demand().log_records(20)).expect("it can work");
    let report = next_checkpoint(&life, 1);
    assert_eq!((report.reason, report.adaptive), (CheckpointReason::LogRecords, None));
    let logged = life.db.stats().log.expect("it has a log").entries;
    assert!((20..25).contains(&logged), "{logged} transactions");
}

/// Its pages are in no directory before, and the catalogue names it in some pictures before it has any.
#[test]
fn tables_that_are_added_beside_pictures_come_back() {
    for crash_behind in 0..3 {
        let disk = SimDisk::new();
        let life = Life::with_rows(&disk, Strategy::Pictures);
        life.checkpoint();
        let add = |name: &str| {
            let table = life.db.table::<u64, u64>(name).expect("opens");
            (0..20).for_each(|key| life.db.run(|tx| tx.put(&table, &key, &key)).expect("commits"));
        };
        let handle = life.begin();
        add("beside");
        life.end(&handle);
        life.settle();
        if crash_behind > 0 {
            add("between");
            life.settle();
            life.checkpoint();
        }
        if crash_behind > 1 {
            life.put(7, &[9; 100]);
            life.settle();
            life.checkpoint();
        }
        let expected = life.state();
        let life = crash(&disk, life);
        assert_eq!(life.state(), expected);
        for name in ["beside", "between"].into_iter().take(crash_behind.min(1) + 1) {
            let table = life.db.table::<u64, u64>(name).expect("opens");
            let rows: Vec<_> = life.db.begin().range(&table, ..).collect::<Result<_>>().expect("reads");
            assert!(rows.into_iter().eq((0..20).map(|key| (key, key))), "{name}, {crash_behind}");
        }
    }
}
