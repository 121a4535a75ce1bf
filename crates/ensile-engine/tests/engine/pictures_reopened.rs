//! Pictures over opens: the first one of a life writes the pages that load, replay and commits have marked, and keeps
//! the others (N10, N13, N14). What is found at each open is the state at the end of D, whatever the lives before were.
//!
//! Epochs, loggers and checkpointers move when the test says so, on the simulated disk.
//!
//! Neighbours: `pictures` has pages without files; `checkpoints` has one life at a time.

use crate::prelude::*;

type Rows = Table<u64, Vec<u8>>;
/// By table and key.
type State = BTreeMap<(usize, u64), Vec<u8>>;
/// What was committed, in order: a delete leaves no row.
type History = Vec<(Epoch, (usize, u64), Option<Vec<u8>>)>;
type Write = ((usize, u64), Option<Vec<u8>>);

const TABLES: [&str; 3] = ["rows", "more", "late"];
const ROWS: usize = 0;

/// How a life is opened.
#[derive(Clone, Debug)]
struct Plan {
    loggers: usize,
    checkpointers: usize,
    strategy: Strategy,
    semi_fuzzy: bool,
    page_bytes: usize,
}

impl Plan {
    fn usual() -> Self {
        Self {
            loggers: 1,
            checkpointers: 2,
            strategy: Strategy::Pictures,
            semi_fuzzy: true,
            page_bytes: 4 << 10,
        }
    }

    fn drawn(random: &mut Random) -> Self {
        let loggers = random.next_below(3) as usize;
        let strategy = match loggers {
            1.. if random.percent(20) => [Strategy::Fuzzy, Strategy::Cycling][random.next_below(2) as usize],
            _ => Strategy::Pictures,
        };
        Self {
            loggers,
            checkpointers: if random.percent(70) { 2 } else { random.next_between(1, 3) as usize },
            strategy,
            semi_fuzzy: random.percent(60),
            page_bytes: if random.percent(80) { 4 << 10 } else { 16 << 10 },
        }
    }
}

/// One life of a database that the test steps.
struct Life {
    db: Database,
    clock: Clock,
    plan: Plan,
    tables: Vec<Option<Rows>>,
}

impl Life {
    fn open(disk: &SimDisk, plan: &Plan) -> Self {
        Self::try_open(disk, plan).unwrap_or_else(|error| panic!("{plan:?}: {error}"))
    }

    fn try_open(disk: &SimDisk, plan: &Plan) -> Result<Self> {
        let clock = Clock::manual();
        let builder = Database::builder("unused").disk(Arc::new(disk.mounted()));
        let builder = if plan.loggers == 0 { builder.without_log() } else { builder };
        let is_cycling = plan.strategy == Strategy::Cycling;
        let builder = builder
            .manual_clock(clock.clone())
            .durability(Durability::Relaxed)
            // Turn follows turn where checkpoints go round by ranges.
            .checkpoints(if is_cycling { Schedule::on_demand().log_bytes(0) } else { Schedule::on_demand() })
            .tuning(Tuning {
                loggers: (plan.loggers > 0).then_some(plan.loggers),
                log_file_bytes: 16 << 10,
                checkpointers: Some(plan.checkpointers),
                checkpoint_strategy: Some(plan.strategy),
                checkpoint_ranges: 4,
                checkpoint_page_bytes: plan.page_bytes,
                semi_fuzzy: plan.semi_fuzzy,
                recovery_threads: 1,
                ..Tuning::default()
            })
            .without_threads();
        let db = builder.open()?;
        let tables = TABLES.iter().map(|_| None).collect();
        Ok(Self { db, clock, plan: plan.clone(), tables })
    }

    fn table(&mut self, at: usize) -> Rows {
        let db = &self.db;
        self.tables[at].get_or_insert_with(|| db.table(TABLES[at]).expect("opens")).clone()
    }

    /// A transaction of these writes.
    fn commit(&mut self, history: &mut History, writes: Vec<Write>) {
        let tables: Vec<Rows> = writes.iter().map(|((table, _), _)| self.table(*table)).collect();
        let ((), receipt) = self
            .db
            .submit(|tx| {
                for (((_, key), row), table) in writes.iter().zip(&tables) {
                    match row {
                        Some(row) => tx.put(table, key, row)?,
                        None => drop(tx.delete(table, key)?),
                    }
                }
                Ok(())
            })
            .expect("commits");
        history.extend(writes.into_iter().map(|(key, row)| (receipt.epoch(), key, row)));
    }

    fn put_all(&mut self, history: &mut History, keys: impl IntoIterator<Item = u64>, row: &[u8]) {
        let keys: Vec<u64> = keys.into_iter().collect();
        for keys in keys.chunks(100) {
            self.commit(history, keys.iter().map(|key| ((ROWS, *key), Some(row.to_vec()))).collect());
        }
    }

    fn delete_all(&mut self, history: &mut History, keys: impl IntoIterator<Item = u64>) {
        self.commit(history, keys.into_iter().map(|key| ((ROWS, key), None)).collect());
    }

    /// An epoch closes, and what it holds becomes durable, if there is a log.
    fn settle(&self) {
        self.clock.advance(Duration::from_millis(40));
        self.db.heartbeat_step();
        for logger in (0..self.plan.loggers).chain(0..self.plan.loggers) {
            self.db.logger_step(logger);
        }
    }

    /// A checkpoint, with `between` before each step.
    fn checkpoint(&mut self, mut between: impl FnMut(&mut Self)) -> CheckpointReport {
        let handle = self.db.checkpoint().expect("is open");
        for _ in 0..10_000 {
            if let Some(outcome) = handle.outcome() {
                return outcome.expect("is installed");
            }
            for checkpointer in 0..self.plan.checkpointers {
                between(self);
                let _step = self.db.checkpoint_step(checkpointer);
            }
            self.settle();
        }
        panic!("it does not end");
    }

    /// What is found, in tables that are there.
    fn state(&mut self, history: &History) -> State {
        let used = |at: usize| history.iter().any(|(_, (table, _), _)| *table == at);
        let mut state = State::new();
        for at in (0..TABLES.len()).filter(|at| used(*at)) {
            let table = self.table(at);
            let mut tx = self.db.begin();
            let rows: BTreeMap<u64, Vec<u8>> = tx.range(&table, ..).collect::<Result<_>>().expect("reads");
            state.extend(rows.into_iter().map(|(key, row)| ((at, key), row)));
        }
        state
    }

    /// The power fails.
    fn end_settled(self, disk: &SimDisk) {
        self.settle();
        self.end(disk);
    }

    fn end(self, disk: &SimDisk) {
        drop(self);
        disk.crash(1);
    }
}

/// What is there by these changes.
fn at_end_of(history: &History, epoch: Epoch) -> State {
    let mut state = State::new();
    for (_, key, row) in history.iter().filter(|(at, ..)| *at <= epoch) {
        match row {
            Some(row) => state.insert(*key, row.clone()),
            None => state.remove(key),
        };
    }
    state
}

/// Opens, and finds what the history says.
fn reopen(disk: &SimDisk, plan: &Plan, history: &mut History) -> Life {
    let mut life = Life::open(disk, plan);
    let durable = life.db.recovery_report().expect("has a folder").durable_epoch;
    history.retain(|(epoch, ..)| *epoch <= durable);
    let (found, expected) = (life.state(history), at_end_of(history, durable));
    let other = found.iter().zip(&expected).find(|(found, expected)| found != expected);
    assert!(found == expected, "{} rows and not {}: {other:?}", found.len(), expected.len());
    life
}

/// Ends this life, and opens the next one.
fn reopened(life: Life, disk: &SimDisk, plan: &Plan, history: &mut History) -> Life {
    life.end(disk);
    reopen(disk, plan, history)
}

/// A database of 5,000 rows of 100 bytes, with a picture of them.
fn with_picture(plan: &Plan) -> (SimDisk, History, u64) {
    let (disk, mut history) = (SimDisk::new(), History::new());
    let mut life = Life::open(&disk, plan);
    life.put_all(&mut history, 0..5000, &[1; 100]);
    let report = life.checkpoint(|_| {});
    assert_eq!(report.pages_kept, 0, "the first picture has all pages");
    assert!(report.pages_written > 100, "{report:?}");
    life.end_settled(&disk);
    (disk, history, report.pages_written)
}

#[test]
fn a_lifes_first_picture_writes_the_pages_of_what_has_changed_in_the_log_and_since() {
    for semi_fuzzy in [false, true] {
        let plan = Plan { semi_fuzzy, ..Plan::usual() };
        let (disk, mut history, pages) = with_picture(&plan);
        // Two lives without a picture: what they changed is in the log.
        for first in [1000, 3000] {
            let mut life = reopen(&disk, &plan, &mut history);
            life.put_all(&mut history, first..first + 25, &[2; 100]);
            life.end_settled(&disk);
        }
        let mut life = reopen(&disk, &plan, &mut history);
        let report = life.checkpoint(|_| {});
        assert!((2..=6).contains(&report.pages_written), "{report:?} of {pages}");
        assert!(report.pages_kept + 6 >= pages, "{report:?} of {pages}");
        life.end(&disk);
        // Nothing was replayed, and one row is changed.
        let mut life = reopen(&disk, &plan, &mut history);
        life.put_all(&mut history, [4000], &[3; 100]);
        assert_eq!(life.checkpoint(|_| {}).pages_written, 1);
        life.put_all(&mut history, [10], &[3; 100]);
        assert_eq!(life.checkpoint(|_| {}).pages_written, 1);
        life.settle();
        let mut life = reopened(life, &disk, &plan, &mut history);
        assert_eq!(life.checkpoint(|_| {}).pages_written, 0, "nothing has changed since");
    }
}

#[test]
fn n14_what_the_log_deletes_is_in_no_picture_behind_it() {
    for semi_fuzzy in [false, true] {
        let plan = Plan { semi_fuzzy, ..Plan::usual() };
        let (disk, mut history, _) = with_picture(&plan);
        let mut life = reopen(&disk, &plan, &mut history);
        life.delete_all(&mut history, 2000..2100);
        // A key that comes and goes above e_c, and one that the picture does not have.
        life.put_all(&mut history, 7000..7010, &[2; 50]);
        life.settle();
        life.delete_all(&mut history, 7000..7010);
        life.delete_all(&mut history, [9000]);
        life.settle();
        let mut life = reopened(life, &disk, &plan, &mut history);
        let report = life.checkpoint(|_| {});
        assert!(report.pages_kept > 10 * report.pages_written, "{report:?}");
        life.end(&disk);
        // What was deleted does not come back with the pages.
        let mut life = reopen(&disk, &plan, &mut history);
        life.put_all(&mut history, [2050], &[9; 10]);
        life.checkpoint(|_| {});
        life.end(&disk);
        reopen(&disk, &plan, &mut history);
    }
}

/// Without a log nothing but the picture says what was displaced beside it.
#[test]
fn n10_rows_that_stood_beside_pages_are_in_the_next_picture() {
    let plan = Plan { loggers: 0, ..Plan::usual() };
    let (disk, mut history, pages) = with_picture(&plan);
    let mut life = reopen(&disk, &plan, &mut history);
    life.put_all(&mut history, 0..5000, &[2; 100]);
    let mut random = Random::from_seed(4);
    let mut beside = History::new();
    let report = life.checkpoint(|life| {
        let first = random.next_below(4990);
        life.delete_all(&mut beside, first..first + 5);
        life.put_all(&mut beside, first + 5..first + 10, &[3; 90]);
    });
    assert!(report.displaced > 20 && report.displaced_tail_bytes > 0, "{report:?}");
    history.extend(beside);
    life.end(&disk);
    for _ in 0..2 {
        let mut life = reopen(&disk, &plan, &mut history);
        let next = life.checkpoint(|_| {});
        assert!(next.pages_kept > pages / 3 && next.displaced == 0, "{next:?} of {pages}");
        life.end(&disk);
    }
    reopen(&disk, &plan, &mut history);
}

#[test]
fn tables_that_the_log_has_added_and_that_are_added_since_are_in_the_first_picture() {
    let plan = Plan::usual();
    let (disk, mut history, pages) = with_picture(&plan);
    let mut life = reopen(&disk, &plan, &mut history);
    life.commit(&mut history, (0..100).map(|key| ((1, key), Some(vec![1; 100]))).collect());
    life.settle();
    let mut life = reopened(life, &disk, &plan, &mut history);
    life.commit(&mut history, (0..100).map(|key| ((2, key), Some(vec![2; 100]))).collect());
    let report = life.checkpoint(|_| {});
    // Three pages or so of each, and the catalogue's.
    assert!((5..=9).contains(&report.pages_written) && report.pages_kept + 1 >= pages, "{report:?}");
    life.end_settled(&disk);
    // All of a table's rows go. Its pages stay until they are joined.
    let mut life = reopen(&disk, &plan, &mut history);
    life.commit(&mut history, (0..100).map(|key| ((1, key), None)).collect());
    life.checkpoint(|_| {});
    let mut life = reopened(life, &disk, &plan, &mut history);
    assert_eq!(life.checkpoint(|_| {}).pages_written, 0);
    life.commit(&mut history, vec![((1, 5), Some(vec![5; 10]))]);
    assert_eq!(life.checkpoint(|_| {}).pages_written, 1);
    life.end(&disk);
    reopen(&disk, &plan, &mut history);
}

#[test]
fn a_first_attempt_that_fails_hands_its_marks_on() {
    let plan = Plan::usual();
    // Behind any number of steps: before its marks are carried over, and behind that.
    for steps in 0..16 {
        let (disk, mut history, _) = with_picture(&plan);
        let mut life = reopen(&disk, &plan, &mut history);
        life.put_all(&mut history, 1000..1020, &[2; 100]);
        life.delete_all(&mut history, 2000..2010);
        life.settle();
        let mut life = reopened(life, &disk, &plan, &mut history);
        life.put_all(&mut history, 3000..3010, &[3; 100]);
        let handle = life.db.checkpoint().expect("is open");
        for step in 0..steps {
            let _step = life.db.checkpoint_step(step % 2);
            life.settle();
        }
        let calls = disk.calls().all;
        disk.fail_calls(calls + 1.., ensile_sim::Fault::INPUT_OUTPUT);
        for step in 0..40 {
            let _step = life.db.checkpoint_step(step % 2);
            // Without the loggers: the log goes on.
            life.clock.advance(Duration::from_millis(40));
            life.db.heartbeat_step();
        }
        disk.heal();
        let first = handle.outcome();
        let report = life.checkpoint(|_| {});
        assert!(report.pages_kept > 10 * report.pages_written.max(1), "{steps} steps: {first:?}, {report:?}");
        life.end_settled(&disk);
        reopen(&disk, &plan, &mut history);
    }
}

#[test]
fn another_size_of_pages_cuts_marked_runs_anew_and_keeps_the_others() {
    let (disk, mut history, pages) = with_picture(&Plan::usual());
    for (page_bytes, first) in [(16 << 10, 500), (4 << 10, 600), (64 << 10, 700)] {
        let plan = Plan { page_bytes, ..Plan::usual() };
        let mut life = reopen(&disk, &plan, &mut history);
        life.put_all(&mut history, first..first + 300, &[2; 100]);
        let report = life.checkpoint(|_| {});
        assert!(report.pages_kept > pages / 2, "{report:?}");
        assert!((1..40).contains(&report.pages_written), "{report:?}");
        life.end_settled(&disk);
    }
    reopen(&disk, &Plan::usual(), &mut history);
}

#[test]
fn n12_pages_in_folders_that_are_left_out_are_written_and_the_others_kept() {
    for (before, now) in [(3, 2), (2, 1), (3, 1)] {
        let plan = Plan { checkpointers: before, ..Plan::usual() };
        let (disk, mut history, pages) = with_picture(&plan);
        let fewer = Plan { checkpointers: now, ..Plan::usual() };
        let mut life = reopen(&disk, &fewer, &mut history);
        life.put_all(&mut history, [10], &[2; 100]);
        let report = life.checkpoint(|_| {});
        assert!(report.pages_written > 10 && report.pages_kept > pages / 8, "{report:?} of {pages}");
        assert!(!disk.files().iter().any(|name| name.starts_with(&format!("checkpoint{now}/pages-"))));
        life.put_all(&mut history, [4000], &[3; 100]);
        assert!(life.checkpoint(|_| {}).pages_written <= 2);
        life.end_settled(&disk);
        reopen(&disk, &plan, &mut history);
    }
}

/// A life whose checkpoints go round by ranges begins over a picture. It is stopped behind any number of steps: before
/// its first turn, which takes all ranges, is installed, and in the middle of a round. What its log and its turns have
/// is in the next picture, and what they have deleted is not.
#[test]
fn a_round_that_is_stopped_over_a_picture_hands_everything_on_to_the_next_picture() {
    let (mut over_a_picture, mut midst) = (0, 0);
    let steps = (0..40).step_by(4).chain((40..240).step_by(10));
    for (steps, is_busy) in steps.flat_map(|steps| [(steps, false), (steps, true)]) {
        let plan = Plan::usual();
        let (disk, mut history, pages) = with_picture(&plan);
        let mut life = reopen(&disk, &Plan { strategy: Strategy::Cycling, ..plan.clone() }, &mut history);
        life.put_all(&mut history, 1000..1020, &[2; 100]);
        life.delete_all(&mut history, 2000..2010);
        life.settle();
        for step in 0..steps {
            let _step = life.db.checkpoint_step(step % 2);
            if is_busy && step % 3 == 0 {
                let first = 100 * (step as u64 % 40);
                life.put_all(&mut history, first..first + 5, &[4; 120]);
                life.delete_all(&mut history, first + 5..first + 8);
            }
            life.settle();
        }
        let stats = life.db.stats().checkpoints.expect("it has checkpoints");
        let is_midst =
            stats.last.as_ref().and_then(|last| last.turn).is_some_and(|turn| turn.taken < turn.ranges);
        midst += u64::from(is_midst && stats.running.is_some());
        over_a_picture += u64::from(stats.installed == 0 && stats.running.is_some());
        let mut life = reopened(life, &disk, &plan, &mut history);
        life.put_all(&mut history, [3000], &[5; 100]);
        life.delete_all(&mut history, [2500]);
        let report = life.checkpoint(|_| {});
        let is_increment = report.pages_kept > pages / 2;
        assert_eq!(is_increment, stats.installed == 0, "behind {steps} steps, {stats:?}: {report:?}");
        life.end(&disk);
        // And back: the turns begin over that picture.
        let mut life = reopen(&disk, &Plan { strategy: Strategy::Cycling, ..plan.clone() }, &mut history);
        life.delete_all(&mut history, 3000..3004);
        assert!(life.checkpoint(|_| {}).turn.is_some_and(|turn| turn.taken == turn.ranges));
        life.end(&disk);
        reopen(&disk, &plan, &mut history);
    }
    assert!(
        over_a_picture > 3 && midst > 3,
        "{over_a_picture} over a picture, {midst} in the midst of a round"
    );
}

/// Anything in any order: what is found at an open is the state at the end of D.
#[test]
fn lives_with_any_settings_one_after_the_other_lose_nothing_and_bring_nothing_back() {
    let (mut kept, mut firsts, mut displaced, mut tail_bytes) = (0, 0, 0, 0);
    for seed in 0..60 {
        let mut random = Random::from_seed(seed);
        let (disk, mut history) = (SimDisk::new(), History::new());
        for _ in 0..8 {
            let plan = Plan::drawn(&mut random);
            let mut life = reopen(&disk, &plan, &mut history);
            let mut is_first = true;
            for _ in 0..random.next_below(4) {
                for _ in 0..random.next_below(20) {
                    change(&mut life, &mut history, &mut random);
                }
                if random.percent(50) {
                    life.settle();
                }
                if random.percent(50) {
                    let is_busy = random.percent(50);
                    let report = life.checkpoint(|life| {
                        if is_busy && random.percent(40) {
                            change(life, &mut history, &mut random);
                        }
                    });
                    kept += if is_first { report.pages_kept } else { 0 };
                    firsts += u64::from(is_first && report.pages_kept > 0);
                    displaced += report.displaced;
                    tail_bytes += report.displaced_tail_bytes;
                    is_first = false;
                }
            }
            life.end(&disk);
        }
        reopen(&disk, &Plan::usual(), &mut history);
    }
    assert!(kept > 400 && firsts > 60 && displaced > 300, "{kept}, {firsts}, {displaced}");
    assert!(tail_bytes > 1000, "{tail_bytes} bytes in tails of pages");
}

fn change(life: &mut Life, history: &mut History, random: &mut Random) {
    let table = [ROWS, ROWS, ROWS, 1, 2][random.next_below(5) as usize];
    let first = random.next_below(400);
    let writes = (first..first + 1 + random.next_below(12)).map(|key| {
        let row =
            (!random.percent(30)).then(|| vec![random.next_u64() as u8; random.next_below(400) as usize]);
        ((table, key), row)
    });
    life.commit(history, writes.collect());
}
