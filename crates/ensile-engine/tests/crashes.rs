//! Crash, recover, write, crash again: the whole engine on the simulated disk, against a model.
//!
//! One seed drives a life: transactions on several workers, beats, logger steps in any order, then a crash that drops
//! or tears what was not synced, or a clean close. What recovery brings back must be exactly the state after some
//! epoch: at least the durable epoch that was announced, no part of a transaction, and nothing that an earlier
//! recovery left out. Primary rows, a unique and a plain secondary index and a snapshot are all read back.
//!
//! `ENSILE_CRASHES=10000 cargo test --release -p ensile-engine --test crashes` runs longer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_engine::{Database, Durability, Epoch, Error, Index, Readable, Result, Table};
use ensile_sim::SimDisk;

const KEYS: u64 = 40;

/// A row: a number that stands in the plain index, and bytes to make records outgrow each other.
type Row = Vec<u8>;
type State = BTreeMap<u64, Row>;

/// One life of the database.
struct Life {
    db: Database,
    clock: Clock,
    loggers: usize,
    rows: Table<u64, Row>,
    by_length: Index<u64, u64, Row>,
    by_name: Index<Vec<u8>, u64, Row>,
}

impl Life {
    fn open(disk: &SimDisk, loggers: usize) -> Result<Self> {
        let clock = Clock::manual();
        let db = Database::builder("unused")
            .disk(Arc::new(disk.clone()))
            .manual_clock(clock.clone())
            .durability(Durability::Relaxed)
            .loggers(loggers)
            .recovery_threads(1)
            .without_threads()
            .open()?;
        let rows = db
            .define::<u64, Row>("rows")
            .index("by_length", 1, |_: &u64, row: &Row| row.len() as u64)
            .unique_index("by_name", 1, |key: &u64, row: &Row| name(*key, row))
            .open()?;
        let (by_length, by_name) = (rows.index("by_length")?, rows.index("by_name")?);
        Ok(Self { db, clock, loggers, rows, by_length, by_name })
    }

    fn beat(&self) {
        self.clock.advance(Duration::from_millis(40));
        self.db.heartbeat_step();
    }

    /// Everything that the database shows, by every way of looking at it.
    fn read_back(&self) -> Result<State> {
        let mut tx = self.db.begin();
        let state: State = tx.range(&self.rows, ..).collect::<Result<_>>()?;
        let mut through_index: Vec<(u64, Row)> = tx.range_by(&self.by_length, ..).collect::<Result<_>>()?;
        through_index.sort_unstable();
        assert!(through_index.into_iter().eq(state.clone()), "the plain index shows other rows");
        for (key, row) in &state {
            let found = tx.get_by(&self.by_name, &name(*key, row))?;
            assert_eq!(found.as_ref(), Some(&(*key, row.clone())), "the unique index");
        }
        drop(tx);
        let mut snapshot = self.db.snapshot_latest()?;
        let shown: State = snapshot.range(&self.rows, ..).collect::<Result<_>>()?;
        assert_eq!(shown, state, "a snapshot of everything shows something else");
        Ok(state)
    }
}

/// A row's unique name.
fn name(key: u64, row: &[u8]) -> Vec<u8> {
    [&row[..row.len().min(3)], &key.to_be_bytes()].concat()
}

/// A transaction that committed: its epoch, and what it wrote.
type Committed = (Epoch, Vec<(u64, Option<Row>)>);

/// Runs one random transaction; it may be rolled back.
fn transaction(life: &Life, random: &mut Random) -> Result<Option<Committed>> {
    let mut writes = Vec::new();
    let count = random.between(1, 5);
    let seed = random.next_u64();
    let outcome = life.db.submit(|tx| {
        let mut random = Random::seeded(seed);
        writes.clear();
        for _ in 0..count {
            let key = random.below(KEYS);
            if random.percent(30) {
                tx.delete(&life.rows, &key)?;
                writes.push((key, None));
                continue;
            }
            let longest = if random.percent(10) { 3_000 } else { 60 };
            let mut row = vec![0; random.below(longest) as usize];
            random.fill(&mut row);
            match random.below(3) {
                0 => match tx.insert(&life.rows, &key, &row) {
                    Err(Error::KeyExists { .. }) => continue,
                    inserted => inserted?,
                },
                1 => {
                    if !tx.update(&life.rows, &key, |value: &mut Row| value.clone_from(&row))? {
                        continue;
                    }
                }
                _ => tx.put(&life.rows, &key, &row)?,
            }
            writes.push((key, Some(row)));
        }
        if random.percent(10) { Err(Error::RolledBack) } else { Ok(()) }
    });
    match outcome {
        Ok(((), receipt)) => Ok((!writes.is_empty()).then(|| (receipt.epoch(), writes.clone()))),
        Err(Error::RolledBack) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The state after every committed transaction of an epoch up to `durable`.
fn state_after(before: &State, history: &[Committed], durable: Epoch) -> State {
    let mut state = before.clone();
    for (_, writes) in history.iter().filter(|(epoch, _)| *epoch <= durable) {
        for (key, row) in writes {
            match row {
                Some(row) => state.insert(*key, row.clone()),
                None => state.remove(key),
            };
        }
    }
    state
}

/// Lives one life on the disk and leaves it crashed or closed. Returns what may be there afterwards.
fn live(life: &Life, random: &mut Random) -> Result<(Vec<Committed>, Epoch, bool)> {
    let mut history = Vec::new();
    let mut open = Vec::new();
    for _ in 0..random.between(3, 60) {
        match random.below(10) {
            0..=3 => history.extend(transaction(life, random)?),
            4 => {
                // Another thread's worker, which ends with its buffer part-filled.
                let seed = random.next_u64();
                let committed = std::thread::scope(|scope| {
                    let worker = scope.spawn(|| transaction(life, &mut Random::seeded(seed)));
                    worker.join().expect("no panic")
                })?;
                history.extend(committed);
            }
            5 | 6 => life.beat(),
            7 | 8 => {
                life.db.logger_step(random.below(life.loggers as u64) as usize);
            }
            _ => {
                let mut tx = life.db.begin();
                tx.put(&life.rows, &random.below(KEYS), &vec![7; 7])?;
                open.push(tx);
            }
        }
    }
    let announced = life.db.durable_epoch();
    drop(open);
    let close = random.percent(10);
    if close {
        life.db.close()?;
    }
    Ok((history, announced, close))
}

#[test]
fn whatever_crashes_an_epochs_state_comes_back() {
    let crashes: u64 =
        std::env::var("ENSILE_CRASHES").map_or(Ok(150), |count| count.parse()).expect("a number");
    let lives_per_disk = 12;
    for disk_seed in 0..crashes.div_ceil(lives_per_disk) {
        let mut random = Random::seeded(disk_seed);
        let disk = SimDisk::new();
        let mut state = State::new();
        let loggers = random.between(1, 3) as usize;
        for number in 0..lives_per_disk {
            let context = format!("disk {disk_seed}, life {number}, {loggers} loggers");
            let life = Life::open(&disk, loggers).unwrap_or_else(|error| panic!("{context}: {error}"));
            let recovered = life.read_back().unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(recovered, state, "{context}: what came back is not what was judged");
            let (history, announced, closed) =
                live(&life, &mut random).unwrap_or_else(|error| panic!("{context}: {error}"));
            if !closed {
                disk.crash(random.next_u64());
            }
            drop(life);
            // Look at what recovery decides, then judge it; the next life starts from there.
            let look = Life::open(&disk, loggers).unwrap_or_else(|error| panic!("{context}: {error}"));
            let report = look.db.recovery_report().expect("there is a log");
            let durable = report.durable_epoch;
            // Epochs that left no entry anywhere need no mark, so the announced epoch itself may not come back, and a
            // transaction that undid its own writes has an epoch and no entry: what counts is what they left.
            let promised = state_after(&state, &history, announced.max(durable));
            let kept = state_after(&state, &history, durable);
            assert_eq!(kept, promised, "{context}: epoch {announced} was announced, {durable} came back");
            if closed {
                let all = state_after(&state, &history, Epoch::MAX);
                assert_eq!(kept, all, "{context}: it was closed, and only epoch {durable} came back");
            }
            state = kept;
            let shown = look.read_back().unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(shown, state, "{context}: not the state after epoch {durable}");
            // Half of the looks crash too, before they wrote anything.
            if random.percent(50) {
                disk.crash(random.next_u64());
            }
            drop(look);
        }
    }
}
