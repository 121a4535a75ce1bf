//! What a worker thread does: transactions of all kinds, recorded as they ran.
//!
//! Neighbours: `life` starts clients; histories are `ensile_sim`'s.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use ensile_base::Tid;
use ensile_base::random::Random;
use ensile_engine::{Error, Readable, Receipt, Result, Transaction};
use ensile_sim::history::{Predicate, Recorder, Trace, Value};
use shuttle::thread::{self, Thread};

use crate::life::{GROUPS, Life, Row, number, whole};
use crate::plan::{Kind, Operation, Plan};

/// Before how many of a hundred transactions a late table is opened.
const LATE_TABLES_PERCENT: u64 = 20;

/// Of a hundred tasks, how many commit in a turn.
const TURNS_PERCENT: u64 = 25;
/// The longest turn of a task, by the simulated clock.
const TURN_MAX: Duration = Duration::from_millis(50);

/// One session.
pub(crate) struct Client {
    life: Arc<Life>,
    recorder: Recorder,
    random: Random,
    values: Values,
}

/// A task of an event loop, which sleeps until its waker is called.
struct Task {
    is_woken: Arc<AtomicBool>,
    waker: Waker,
}

/// Wakes the thread of a task.
struct WakesThread {
    is_woken: Arc<AtomicBool>,
    thread: Thread,
}

impl Wake for WakesThread {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

impl Task {
    fn new() -> Self {
        let is_woken = Arc::new(AtomicBool::new(false));
        let wakes = WakesThread { is_woken: Arc::clone(&is_woken), thread: thread::current() };
        Self { is_woken, waker: Waker::from(Arc::new(wakes)) }
    }

    /// Tries until there is a result. Sleeps between two tries, for ever if nobody calls the waker.
    fn wait<R>(&self, mut attempt: impl FnMut(&Waker) -> Result<Option<R>>) -> Result<R> {
        loop {
            self.is_woken.store(false, Ordering::SeqCst);
            if let Some(result) = attempt(&self.waker)? {
                return Ok(result);
            }
            while !self.is_woken.load(Ordering::SeqCst) {
                thread::park();
            }
        }
    }
}

/// Values that nobody else writes.
struct Values {
    session: u64,
    next: u64,
}

impl Values {
    fn next(&mut self) -> Value {
        self.next += 1;
        self.session << 32 | self.next
    }
}

impl Client {
    pub(crate) fn new(life: Arc<Life>, session: u32, seed: u64) -> Self {
        let values = Values { session: u64::from(session) + 1, next: 0 };
        Self { life, recorder: Recorder::new(session), random: Random::from_seed(seed), values }
    }

    pub(crate) fn into_recorder(self) -> Recorder {
        self.recorder
    }

    /// All of a worker's transactions; a database that stops ends them.
    pub(crate) fn work(&mut self) {
        for _ in 0..self.life.plan.transactions {
            if self.life.plan.late_tables > 0 && self.random.percent(LATE_TABLES_PERCENT) {
                let late = self.random.next_below(self.life.plan.late_tables);
                match self.life.open_late_table(self.life.plan.keys + late) {
                    Err(Error::Storage(_)) => return,
                    Err(error) if !error.is_retryable() => panic!("a table cannot be opened: {error}"),
                    _ => {}
                }
            }
            let kind = self.life.plan.kind(&mut self.random);
            let ended = match kind {
                Kind::Closure => self.closure(false),
                Kind::Failing => self.closure(true),
                Kind::Open => self.open(false),
                Kind::ReadOnly => self.open(true),
                Kind::Snapshot => self.snapshot(),
            };
            match ended {
                Ok(()) => {}
                Err(error) if error.is_retryable() => {}
                Err(Error::Storage(_)) => return,
                Err(error) => panic!("a transaction failed: {error}"),
            }
        }
    }

    /// Puts half of the rows there.
    pub(crate) fn fill(&mut self) {
        let life = self.life.clone();
        let mut trace = self.recorder.begin(life.now());
        let mut tx = life.db.begin();
        for number in (0..life.plan.keys).filter(|number| (number + 1) % life.plan.filled_every == 0) {
            let value = self.values.next();
            tx.put(&life.rows, &life.key(number), &row(&life, value, &mut self.random))
                .expect("nobody else is here");
            trace.write(number, value);
        }
        let receipt = tx.submit().expect("nobody else is here");
        self.recorder.commit(trace, Some(receipt.tid()), life.now());
    }

    /// Looks at all rows of all tables.
    pub(crate) fn look_at_all_tables(&mut self) {
        let Plan { keys, late_tables, .. } = self.life.plan;
        (keys..keys + late_tables)
            .for_each(|number| self.life.open_late_table(number).expect("nobody else is here"));
        self.look();
    }

    /// Looks at all rows, in every way; of the late tables at those that are open.
    pub(crate) fn look(&mut self) {
        let life = self.life.clone();
        let mut trace = self.recorder.begin(life.now());
        let mut tx = life.db.begin();
        let all = 0..life.plan.keys;
        read(&life, &mut tx, &mut trace, Operation::Scan, all.clone()).expect("nobody else is here");
        (life.plan.keys..life.plan.keys + life.plan.late_tables)
            .try_for_each(|number| read_late(&life, &mut tx, &mut trace, number))
            .expect("nobody else is here");
        if life.by_group.is_some() {
            (0..GROUPS).for_each(|group| {
                scan_index(&life, &mut tx, &mut trace, group).expect("nobody else is here");
            });
        }
        let receipt = tx.submit().expect("nobody else is here");
        self.recorder.commit(trace, Some(receipt.tid()), life.now());
        if !life.plan.snapshots {
            return;
        }
        let mut trace = self.recorder.begin(life.now());
        let mut snapshot = life.db.snapshot_latest().expect("it is open");
        read(&life, &mut snapshot, &mut trace, Operation::ScanReverse, all).expect("nobody else is here");
        self.recorder.snapshot(trace, snapshot.epoch(), life.now());
    }

    /// A closure that is run until it commits. One that fails shows what it was told all the same.
    fn closure(&mut self, fails: bool) -> Result<()> {
        let Self { life, recorder, random, values } = self;
        let seed = random.next_u64();
        let mut trace = None;
        let strict = random.percent(life.plan.strict_percent);
        let reads_only = fails && random.percent(life.plan.failing_reads_percent);
        let mut attempt = |tx: &mut Transaction<'_>| {
            if let Some(failed) = trace.take() {
                assert!(!life.plan.undisturbed, "a transaction failed though nobody was in its way");
                recorder.abort(failed, life.now());
            }
            let trace = trace.insert(recorder.begin(life.now()));
            operations(life, tx, trace, values, &mut Random::from_seed(seed), reads_only)?;
            if fails { Err(Error::Misuse("given up".to_owned())) } else { Ok(()) }
        };
        if fails {
            let durability =
                if strict { ensile_engine::Durability::Strict } else { ensile_engine::Durability::Relaxed };
            let outcome = life.db.run(|tx| {
                tx.set_durability(durability);
                attempt(tx)
            });
            let trace = trace.expect("it ran");
            let is_shown = matches!(outcome, Err(Error::Misuse(_)));
            if !is_shown {
                recorder.abort(trace, life.now());
                return outcome;
            }
            recorder.answer(trace, life.now());
            if strict {
                recorder.acknowledge();
            }
            return Ok(());
        }
        let outcome = life.db.submit(&mut attempt);
        let trace = trace.expect("it ran");
        finish(life, recorder, trace, outcome.map(|((), receipt)| receipt), strict)
    }

    /// A transaction that stays open for some steps between its operations.
    fn open(&mut self, reads_only: bool) -> Result<()> {
        let Self { life, recorder, random, values } = self;
        let task = Task::new();
        let is_task = life.plan.tasks_percent > 0 && random.percent(life.plan.tasks_percent);
        let mut request =
            (is_task && random.percent(TURNS_PERCENT)).then(|| life.db.request_turn(TURN_MAX, &task.waker));
        let turn = request.as_mut().map(|request| task.wait(|waker| request.try_begin(waker))).transpose()?;
        let mut trace = recorder.begin(life.now());
        let mut tx = life.db.begin();
        let strict = random.percent(life.plan.strict_percent);
        for _ in 0..random.next_between(1, 3) {
            if let Err(error) = operations(life, &mut tx, &mut trace, values, random, reads_only) {
                recorder.abort(trace, life.now());
                return Err(error);
            }
            for _ in 0..random.next_below(20) {
                thread::yield_now();
            }
        }
        if !reads_only && random.percent(10) {
            tx.rollback();
            recorder.abort(trace, life.now());
            return Ok(());
        }
        let outcome = if is_task {
            task.wait(|waker| match tx.try_commit(waker) {
                Err(Error::Busy) => Ok(None),
                tried => tried.map(Some),
            })
        } else {
            tx.submit()
        };
        drop(turn);
        finish(life, recorder, trace, outcome, strict)
    }

    fn snapshot(&mut self) -> Result<()> {
        let Self { life, recorder, random, .. } = self;
        let mut trace = recorder.begin(life.now());
        let mut snapshot = life.db.snapshot()?;
        for _ in 0..random.next_between(1, life.plan.snapshot_reads_max) {
            let (operation, range) = some_read(life, random);
            if let Err(error) = read(life, &mut snapshot, &mut trace, operation, range) {
                recorder.abort(trace, life.now());
                return Err(error);
            }
            for _ in 0..random.next_below(10) {
                thread::yield_now();
            }
        }
        let is_shown = random.percent(life.plan.strict_percent) && snapshot.durable().is_ok();
        recorder.snapshot(trace, snapshot.epoch(), life.now());
        if is_shown {
            recorder.acknowledge();
        }
        Ok(())
    }
}

/// Records how a transaction ended, and waits for its result if that is to be shown.
fn finish(
    life: &Life,
    recorder: &mut Recorder,
    trace: Trace,
    outcome: Result<Receipt<'_>>,
    strict: bool,
) -> Result<()> {
    let receipt = match outcome {
        Ok(receipt) => receipt,
        Err(error) => {
            recorder.abort(trace, life.now());
            return Err(error);
        }
    };
    // A read may rest on a delete whose record is gone (N19): its receipt covers that, and no TID tells.
    let is_covered = receipt.epoch() == receipt.tid().epoch();
    let tid = if is_covered { receipt.tid() } else { Tid::first_of(receipt.epoch()) };
    if !strict {
        recorder.commit(trace, Some(tid), life.now());
        return Ok(());
    }
    let shown = receipt.durable();
    if shown.is_ok() {
        recorder.commit(trace, Some(tid), life.now());
        recorder.acknowledge();
    } else {
        recorder.unknown(trace, Some(tid), life.now());
    }
    shown
}

/// A row of this value.
fn row(life: &Life, value: Value, random: &mut Random) -> Row {
    let filler = life.plan.fillers[random.next_below(life.plan.fillers.len() as u64) as usize];
    let mut row = value.to_le_bytes().to_vec();
    // The filler is the value's, so that a torn row shows.
    row.resize(8 + filler, value as u8);
    row
}

/// A read of some keys, drawn.
fn some_read(life: &Life, random: &mut Random) -> (Operation, std::ops::Range<u64>) {
    let low = random.next_below(life.plan.keys);
    let high = random.next_between(low + 1, life.plan.keys);
    match life.plan.operation(random) {
        operation @ (Operation::Scan | Operation::ScanReverse | Operation::ScanIndex) => {
            (operation, low..high)
        }
        _ => (Operation::Get, low..low + 1),
    }
}

/// Reads and records; a scan through the index is of the group that `range` begins with.
fn read(
    life: &Life,
    reader: &mut impl Readable,
    trace: &mut Trace,
    operation: Operation,
    range: std::ops::Range<u64>,
) -> Result<()> {
    let mut seen = Vec::new();
    let bounds = life.key(range.start)..life.key(range.end);
    let visit = |key: Vec<u8>, row: &Row| {
        seen.push((number(&key), whole(row)));
        ControlFlow::Continue(())
    };
    match operation {
        Operation::Scan => reader.scan(&life.rows, bounds, visit)?,
        Operation::ScanReverse => reader.scan_reverse(&life.rows, bounds, visit)?,
        Operation::ScanIndex if life.by_group.is_some() => {
            return scan_index(life, reader, trace, range.start % GROUPS);
        }
        _ if (range.end - range.start).is_multiple_of(2) => {
            let keys: Vec<u64> = range.collect();
            let encoded: Vec<Vec<u8>> = keys.iter().map(|key| life.key(*key)).collect();
            for (key, row) in keys.into_iter().zip(reader.get_many(&life.rows, &encoded)?) {
                trace.read(key, row.map(|row| whole(&row)));
            }
            return Ok(());
        }
        _ => {
            let row = reader.get(&life.rows, &bounds.start)?;
            trace.read(range.start, row.map(|row| whole(&row)));
            return Ok(());
        }
    }
    let is_in_order = |pair: &[(u64, Value)]| (pair[0].0 < pair[1].0) == (operation == Operation::Scan);
    assert!(seen.windows(2).all(is_in_order), "a scan out of order: {seen:?}");
    trace.scan(range, seen);
    Ok(())
}

/// Reads the row of a late table, if that is open.
fn read_late(life: &Life, reader: &mut impl Readable, trace: &mut Trace, number: u64) -> Result<()> {
    let Some(table) = life.table(number) else { return Ok(()) };
    let row = reader.get(&table, &life.key(number))?;
    trace.read(number, row.map(|row| whole(&row)));
    Ok(())
}

fn scan_index(life: &Life, reader: &mut impl Readable, trace: &mut Trace, group: u64) -> Result<()> {
    let Some(by_group) = &life.by_group else { return Ok(()) };
    let mut seen = Vec::new();
    reader.scan(by_group, group..=group, |key, row| {
        seen.push((number(&key), whole(&row)));
        ControlFlow::Continue(())
    })?;
    trace.scan_matching(0..life.plan.keys, Predicate { name: 0, argument: group }, seen);
    Ok(())
}

/// Some operations of one transaction.
fn operations(
    life: &Life,
    tx: &mut Transaction<'_>,
    trace: &mut Trace,
    values: &mut Values,
    random: &mut Random,
    reads_only: bool,
) -> Result<()> {
    for _ in 0..random.next_between(1, life.plan.operations_max) {
        let number = random.next_below(life.plan.keys + life.plan.late_tables);
        let operation = life.plan.operation(random);
        if reads_only
            || matches!(
                operation,
                Operation::Get | Operation::Scan | Operation::ScanReverse | Operation::ScanIndex
            )
        {
            if number >= life.plan.keys {
                read_late(life, tx, trace, number)?;
                continue;
            }
            let (operation, range) = some_read(life, random);
            read(life, tx, trace, operation, range)?;
        } else {
            write(life, tx, trace, (operation, number), values.next(), random)?;
        }
    }
    Ok(())
}

fn write(
    life: &Life,
    tx: &mut Transaction<'_>,
    trace: &mut Trace,
    (operation, number): (Operation, u64),
    value: Value,
    random: &mut Random,
) -> Result<()> {
    let (key, row) = (life.key(number), row(life, value, random));
    let Some(table) = life.table(number) else { return Ok(()) };
    match operation {
        Operation::Insert => match tx.insert(&table, &key, &row) {
            Ok(()) => {
                trace.read(number, None);
                trace.write(number, value);
            }
            Err(Error::KeyExists { .. }) => trace.read_present(number),
            Err(error) => return Err(error),
        },
        Operation::Update => {
            let mut seen = None;
            tx.update(&table, &key, |old: &mut Row| {
                seen = Some(whole(old));
                old.clone_from(&row);
            })?;
            trace.read(number, seen);
            if seen.is_some() {
                trace.write(number, value);
            }
        }
        Operation::Delete => {
            // Of a row of its own it could not be told what the delete left.
            if trace.own(number).is_none() {
                let found = tx.delete(&table, &key)?;
                if found {
                    trace.read_present(number);
                    trace.delete(number);
                } else {
                    trace.read(number, None);
                }
            }
        }
        _ => {
            tx.put(&table, &key, &row)?;
            trace.write(number, value);
        }
    }
    Ok(())
}
