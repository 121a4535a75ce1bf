//! Random transactions of several threads over few keys, and whether some serial order explains all that they saw.
//!
//! Every row written is unique, so a read names the write that it saw. Threads run in short rounds. After a round the
//! dependency graph of its committed transactions is built and must have no cycle:
//! - ww: versions of a key in the order of their TIDs, which is the order that recovery relies on;
//! - wr, rw: from the writer of the version that was read, and to the writer of the next one;
//! - a transaction that ended before another began comes before it (Silo's order is strict).
//!
//! A scan reads every key of its range, the absent ones too. An absence does not say which of a key's absences it was,
//! nor does a key that a secondary index did not return say which other version it had. Such a read is kept as the set
//! of versions that it may have seen; those that the graph so far rules out are struck off until one is left (edges are
//! added) or none (a failure). That can miss a violation and never invents one.
//!
//! Snapshots of boundary S must show of each key the version with the largest TID of an epoch below S.
//!
//! All threads of a round work on one block of keys. When they come back to it many rounds later, what was deleted
//! there has been unhooked: so keys are missing from the index, and not only absent.
//!
//! Seen to catch, planted one at a time: no validation of records or of leaves, in writers or in readers; TIDs not above
//! what was read or overwritten; no check of the latest bit (C2) or of an insert's absence; absent records left out of
//! the read-set; versions freed early, snapshots' registrations overlooked, boundaries off by one in writers or readers
//! (S1); records freed under pins (E3); keys unhooked before snapshots have passed (U2); a replaced record not kept.
//!
//! Neighbours: `found_bugs` has single runs that hit their spot every time.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use ensile_base::random::Random;
use ensile_engine::{Database, Error, Index, Readable, Result, Snapshot, Table, Tid, Transaction};

/// Keys, groups and badges of one block; none belongs to two blocks.
const KEYS: u64 = 8;
const GROUPS: u64 = 3;
const BADGES: u64 = 6;
const BLOCKS: u64 = 64;
const THREADS: u64 = 4;
const ROUNDS: usize = 6000;
/// Transactions that a thread begins in one round, and how many of them it has open at a time.
const PER_ROUND: usize = 12;
const OPEN: usize = 3;

/// What an application writes: id, group, badge, and a tail of random length, so that records are outgrown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    id: u64,
    group: u64,
    /// Unique among rows, if there is one.
    badge: Option<u64>,
}

impl Row {
    fn random(id: u64, block: u64, random: &mut Random) -> Self {
        let badge = random.below(2 * BADGES);
        Self {
            id,
            group: block * GROUPS + random.below(GROUPS),
            badge: (badge < BADGES).then_some(block * BADGES + badge),
        }
    }

    fn encode(self) -> Vec<u8> {
        let words = [self.id, self.group, self.badge.unwrap_or(u64::MAX)];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(24 + (self.id * 37 % 120) as usize, self.id as u8);
        bytes
    }

    /// Fails on bytes that nobody wrote: torn ones, or of a block that was freed.
    fn decode(bytes: &[u8]) -> Self {
        let word = |at: usize| u64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().expect("eight bytes"));
        let row =
            Self { id: word(0), group: word(1), badge: Some(word(2)).filter(|badge| *badge != u64::MAX) };
        assert_eq!(row.encode(), bytes, "nobody wrote such a row");
        row
    }
}

struct Tables {
    rows: Table<u64, Vec<u8>>,
    by_group: Index<u64, u64, Vec<u8>>,
    by_badge: Index<u64, u64, Vec<u8>>,
}

fn open_tables(db: &Database) -> Result<Tables> {
    let rows = db
        .define::<u64, Vec<u8>>("rows")
        .index("by_group", 1, |_key, bytes: &Vec<u8>| Row::decode(bytes).group)
        .unique_index_some("by_badge", 1, |_key, bytes: &Vec<u8>| Row::decode(bytes).badge)
        .open()?;
    Ok(Tables { by_group: rows.index("by_group")?, by_badge: rows.index("by_badge")?, rows })
}

/// What a read says of the version that it saw of a key.
#[derive(Clone, Copy, Debug)]
enum Saw {
    Row(u64),
    Absent,
    Present,
    OtherGroup(u64),
    OtherBadge(u64),
}

impl Saw {
    fn may_be(self, row: Option<Row>) -> bool {
        match self {
            Self::Row(id) => row.is_some_and(|row| row.id == id),
            Self::Absent => row.is_none(),
            Self::Present => row.is_some(),
            Self::OtherGroup(group) => row.is_none_or(|row| row.group != group),
            Self::OtherBadge(badge) => row.is_none_or(|row| row.badge != Some(badge)),
        }
    }
}

/// What one transaction did so far.
#[derive(Default)]
struct Trace {
    block: u64,
    start: u64,
    saw: Vec<(u64, Saw)>,
    wrote: BTreeMap<u64, Option<Row>>,
    /// A contradiction to its own writes, allowed to a transaction that will not commit.
    broken: Option<String>,
}

/// A committed transaction.
struct Done {
    trace: Trace,
    end: u64,
    tid: Tid,
}

impl Trace {
    /// Notes what a read saw of `key`, or holds it against the transaction's own write.
    fn note(&mut self, key: u64, saw: Saw) {
        match self.wrote.get(&key) {
            None => self.saw.push((key, saw)),
            Some(own) if saw.may_be(*own) => {}
            Some(own) => self.broken = Some(format!("key {key}: own write {own:?}, saw {saw:?}")),
        }
    }

    fn note_row(&mut self, key: u64, row: Option<Row>) {
        self.note(key, row.map_or(Saw::Absent, |row| Saw::Row(row.id)));
    }

    /// Whether the key was there for this transaction, before its own writes: if it knows.
    fn existed(&self, key: u64) -> Option<bool> {
        self.saw.iter().filter(|(seen, _)| *seen == key).find_map(|(_, saw)| match saw {
            Saw::Row(_) | Saw::Present => Some(true),
            Saw::Absent => Some(false),
            Saw::OtherGroup(_) | Saw::OtherBadge(_) => None,
        })
    }

    /// Notes a whole range: the keys found, and the others as absent.
    fn note_range(&mut self, keys: std::ops::Range<u64>, found: &BTreeMap<u64, Row>) {
        keys.for_each(|key| self.note_row(key, found.get(&key).copied()));
    }
}

fn decoded(rows: Vec<(u64, Vec<u8>)>) -> Vec<(u64, Row)> {
    rows.into_iter().map(|(key, bytes)| (key, Row::decode(&bytes))).collect()
}

/// One random step of a transaction. Errors that leave it alive are part of the step.
fn step(
    tables: &Tables,
    tx: &mut Transaction<'_>,
    trace: &mut Trace,
    id: u64,
    random: &mut Random,
) -> Result<()> {
    let rows = &tables.rows;
    let base = trace.block * KEYS;
    let key = base + random.below(KEYS);
    let row = Row::random(id, trace.block, random);
    match random.below(100) {
        0..20 => {
            let seen = tx.get(rows, &key)?.map(|bytes| Row::decode(&bytes));
            trace.note_row(key, seen);
        }
        20..26 => {
            let keys = [key, base + random.below(KEYS), base + random.below(KEYS)];
            for (key, bytes) in keys.iter().zip(tx.get_many(rows, &keys)?) {
                trace.note_row(*key, bytes.map(|bytes| Row::decode(&bytes)));
            }
        }
        26..40 => match tx.put(rows, &key, &row.encode()) {
            Ok(()) => drop(trace.wrote.insert(key, Some(row))),
            Err(Error::NotUnique { .. }) => {}
            Err(error) => return Err(error),
        },
        40..52 => {
            let mut old = None;
            let updated = tx.update(rows, &key, |bytes| {
                old = Some(Row::decode(bytes));
                *bytes = row.encode();
            });
            match updated {
                Ok(true) => {
                    trace.note_row(key, old);
                    trace.wrote.insert(key, Some(row));
                }
                Ok(false) => trace.note(key, Saw::Absent),
                Err(Error::NotUnique { .. }) => trace.note_row(key, old),
                Err(error) => return Err(error),
            }
        }
        52..64 => match tx.insert(rows, &key, &row.encode()) {
            Ok(()) => {
                trace.note(key, Saw::Absent);
                trace.wrote.insert(key, Some(row));
            }
            Err(Error::KeyExists { .. }) => trace.note(key, Saw::Present),
            Err(Error::NotUnique { .. }) => trace.note(key, Saw::Absent),
            Err(error) => return Err(error),
        },
        64..76 => {
            let own = trace.wrote.get(&key);
            if own.is_some_and(Option::is_some) && trace.existed(key).is_none() {
                // Whether this delete makes a version or takes back a put of a key that was absent could not be told.
                return Ok(());
            }
            if tx.delete(rows, &key)? {
                trace.note(key, Saw::Present);
                trace.wrote.insert(key, None);
            } else {
                trace.note(key, Saw::Absent);
            }
        }
        76..86 => {
            let (from, to) = (key, random.between(key, base + KEYS));
            let mut found = Vec::new();
            let mut visit = |key, bytes: Vec<u8>| {
                found.push((key, Row::decode(&bytes)));
                ControlFlow::Continue(())
            };
            let reverse = random.percent(50);
            if reverse {
                tx.scan_reverse(rows, from..to, &mut visit)?
            } else {
                tx.scan(rows, from..to, &mut visit)?
            }
            assert!(found.is_sorted_by(|a, b| if reverse { a.0 > b.0 } else { a.0 < b.0 }), "{found:?}");
            trace.note_range(from..to, &found.into_iter().collect());
        }
        86..94 => {
            let group = row.group;
            let found = decoded(tx.find_by(&tables.by_group, &group).collect::<Result<Vec<_>>>()?);
            note_found(trace, &found, Saw::OtherGroup(group));
        }
        _ => {
            let badge = trace.block * BADGES + random.below(BADGES);
            let found = decoded(tx.get_by(&tables.by_badge, &badge)?.into_iter().collect());
            note_found(trace, &found, Saw::OtherBadge(badge));
        }
    }
    Ok(())
}

fn note_found(trace: &mut Trace, found: &[(u64, Row)], others: Saw) {
    assert!(found.iter().all(|(key, _)| key / KEYS == trace.block), "{found:?}");
    for key in trace.block * KEYS..(trace.block + 1) * KEYS {
        match found.iter().find(|(found, _)| *found == key) {
            Some((_, row)) => trace.note(key, Saw::Row(row.id)),
            None => trace.note(key, others),
        }
    }
}

/// What a snapshot showed, to be held against history once the round's commits are all known.
struct Shown {
    block: u64,
    boundary: u64,
    group: Option<u64>,
    rows: Vec<(u64, Row)>,
}

fn look(tables: &Tables, snapshot: &mut Snapshot<'_>, block: u64, random: &mut Random) -> Result<Shown> {
    let boundary = snapshot.epoch().number();
    let group = random.percent(40).then(|| block * GROUPS + random.below(GROUPS));
    let base = block * KEYS;
    let rows = match group {
        Some(group) => snapshot.find_by(&tables.by_group, &group).collect::<Result<Vec<_>>>()?,
        None if random.percent(50) => {
            let keys: Vec<u64> = (base..base + KEYS).collect();
            let rows = snapshot.get_many(&tables.rows, &keys)?;
            keys.into_iter().zip(rows).filter_map(|(key, row)| Some((key, row?))).collect()
        }
        None => snapshot.range(&tables.rows, base..base + KEYS).collect::<Result<Vec<_>>>()?,
    };
    Ok(Shown { block, boundary, group, rows: decoded(rows) })
}

/// A committed version. `writer` is its transaction's place in the round, if it is of the round that is checked.
#[derive(Clone, Copy, Debug)]
struct Version {
    tid: Tid,
    row: Option<Row>,
    writer: Option<usize>,
}

/// All versions of all keys, each key's in the order of TIDs.
struct History {
    keys: Vec<Vec<Version>>,
    commits: usize,
}

impl History {
    fn new() -> Self {
        let never = Version { tid: Tid::ZERO, row: None, writer: None };
        Self { keys: vec![vec![never]; (BLOCKS * KEYS) as usize], commits: 0 }
    }

    /// Takes a round's commits in and checks that they can be put in a serial order.
    fn add(&mut self, block: u64, done: &[Done]) {
        let mut reaches = Reaches::new(done.len());
        for (b, second) in done.iter().enumerate() {
            assert_eq!(second.trace.broken, None, "a committed transaction contradicts its own writes");
            (0..done.len()).filter(|a| done[*a].end < second.trace.start).for_each(|a| reaches.add(a, b));
        }
        let mut windows = Vec::new();
        let keys = (block * KEYS) as usize..((block + 1) * KEYS) as usize;
        for (key, versions) in keys.clone().zip(&mut self.keys[keys.clone()]) {
            let first = versions.len() - 1;
            versions[first].writer = None;
            for (at, done) in done.iter().enumerate() {
                if let Some(row) = done.trace.wrote.get(&(key as u64)) {
                    versions.push(Version { tid: done.tid, row: *row, writer: Some(at) });
                }
            }
            let last = versions[first].tid;
            versions[first + 1..].sort_unstable_by_key(|version| version.tid);
            let back = versions[first + 1..].iter().find(|version| version.tid <= last);
            assert!(back.is_none(), "key {key}: {back:?} is older than what it overwrote ({last})");
            let now = &versions[first..];
            for pair in now.windows(2) {
                if let (Some(a), Some(b)) = (pair[0].writer, pair[1].writer) {
                    reaches.add(a, b);
                }
            }
            for (at, done) in done.iter().enumerate() {
                for (_, saw) in done.trace.saw.iter().filter(|(seen, _)| *seen == key as u64) {
                    let may: Vec<_> = (0..now.len())
                        .filter(|version| saw.may_be(now[*version].row) && now[*version].writer != Some(at))
                        .map(|version| {
                            (now[version].writer, now.get(version + 1).and_then(|next| next.writer))
                        })
                        .collect();
                    windows.push((at, key, *saw, may));
                }
            }
        }
        reaches.settle(windows);
        self.commits += done.len();
        self.keys[keys].iter_mut().flatten().for_each(|version| version.writer = None);
    }

    /// The rows of some blocks as a snapshot of `boundary` must show them.
    fn at(&self, blocks: std::ops::Range<u64>, boundary: u64) -> impl Iterator<Item = (u64, Row)> {
        (blocks.start * KEYS..blocks.end * KEYS).filter_map(move |key| {
            let versions = &self.keys[key as usize];
            let older = versions.partition_point(|version| version.tid.epoch().number() < boundary);
            Some((key, versions[older - 1].row?))
        })
    }

    fn check(&self, shown: &Shown) {
        let is_asked = |row: &Row| shown.group.is_none_or(|group| row.group == group);
        let expected: Vec<_> =
            self.at(shown.block..shown.block + 1, shown.boundary).filter(|(_, row)| is_asked(row)).collect();
        assert_eq!(shown.rows, expected, "snapshot {}, group {:?}", shown.boundary, shown.group);
    }
}

/// A read: whose, of which key, what it saw, and which (writer, next writer) it may have been between.
type Window = (usize, usize, Saw, Vec<(Option<usize>, Option<usize>)>);

/// Which transaction must come before which, transitively once closed.
struct Reaches {
    rows: Vec<Vec<u64>>,
}

impl Reaches {
    fn new(count: usize) -> Self {
        Self { rows: vec![vec![0; count.div_ceil(64)]; count] }
    }

    fn add(&mut self, before: usize, after: usize) {
        self.rows[before][after / 64] |= 1 << (after % 64);
    }

    fn has(&self, before: usize, after: usize) -> bool {
        self.rows[before][after / 64] & 1 << (after % 64) != 0
    }

    /// Adds what follows from what is there (Warshall). A cycle is a failure.
    fn close(&mut self) {
        for through in 0..self.rows.len() {
            let behind = self.rows[through].clone();
            for before in 0..self.rows.len() {
                if self.has(before, through) {
                    self.rows[before].iter_mut().zip(&behind).for_each(|(word, more)| *word |= more);
                }
            }
        }
        let cycle = (0..self.rows.len()).find(|at| self.has(*at, *at));
        assert_eq!(cycle, None, "no serial order: this transaction of the round must come before itself");
    }

    fn settle(&mut self, mut windows: Vec<Window>) {
        loop {
            let mut added = false;
            windows.retain(|(reader, key, saw, may)| match may[..] {
                [] => {
                    panic!("transaction {reader} of the round saw {saw:?} of key {key}, which never was so")
                }
                [(writer, next)] => {
                    if let Some(writer) = writer {
                        self.add(writer, *reader);
                    }
                    if let Some(next) = next.filter(|next| next != reader) {
                        self.add(*reader, next);
                    }
                    added = true;
                    false
                }
                _ => true,
            });
            if added {
                self.close();
            }
            for (reader, _, _, may) in &mut windows {
                let before = may.len();
                may.retain(|(writer, next)| {
                    let too_early = writer.is_some_and(|writer| self.has(*reader, writer));
                    let too_late = next.is_some_and(|next| self.has(next, *reader));
                    !too_early && !too_late
                });
                added |= may.len() < before;
            }
            if !added {
                return;
            }
        }
    }
}

/// What all threads of a run share.
struct Run<'r> {
    db: &'r Database,
    tables: &'r Tables,
    /// Ticks at every begin and after every commit: the real order.
    ticks: AtomicU64,
    ids: AtomicU64,
    done: Mutex<Vec<Done>>,
    shown: Mutex<Vec<Shown>>,
}

impl<'r> Run<'r> {
    fn tick(&self) -> u64 {
        // SeqCst: the ticks are the clock that the threads' transactions are compared by.
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }

    fn id(&self) -> u64 {
        // Relaxed: only uniqueness matters.
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    fn trace(&self, block: u64) -> Trace {
        Trace { block, start: self.tick(), ..Trace::default() }
    }

    fn committed(&self, mut trace: Trace, tid: Tid) {
        // An own put that was taken back again left the absence before it as it was.
        let wrote = std::mem::take(&mut trace.wrote);
        trace.wrote = wrote
            .into_iter()
            .filter(|(key, row)| row.is_some() || trace.existed(*key) == Some(true))
            .collect();
        let done = Done { trace, end: self.tick(), tid };
        self.done.lock().expect("no panic").push(done);
    }

    /// One thread's share of a round: a few transactions open side by side, in steps at random.
    fn interleaved(&self, block: u64, random: &mut Random) -> Result<()> {
        let mut open: Vec<(Transaction<'r>, Trace, u64)> = Vec::new();
        let mut left = PER_ROUND;
        while left > 0 || !open.is_empty() {
            if left > 0 && open.len() < OPEN {
                let trace = self.trace(block);
                open.push((self.db.begin(), trace, random.between(1, 5)));
                left -= 1;
            }
            let at = random.below(open.len() as u64) as usize;
            let (tx, trace, steps) = &mut open[at];
            if *steps > 0 {
                *steps -= 1;
                step(self.tables, tx, trace, self.id(), random)?;
                if random.percent(20) {
                    std::thread::yield_now();
                }
                continue;
            }
            let (tx, trace, _) = open.swap_remove(at);
            match tx.submit() {
                Ok(receipt) => self.committed(trace, receipt.tid()),
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
        Ok(())
    }

    /// The same by a batch: requests that announce keys, with retries.
    fn batch(&self, block: u64, random: &mut Random) {
        let requests: Vec<u64> = (0..PER_ROUND).map(|_| random.next_u64()).collect();
        let trace = std::cell::RefCell::new(Trace::default());
        self.db.run_batch_with(
            &requests,
            |seed, touch| touch.key(&self.tables.rows, &(block * KEYS + seed % KEYS)),
            |tx, seed| {
                let mut random = Random::seeded(*seed);
                let mut now = self.trace(block);
                for _ in 0..random.between(1, 4) {
                    step(self.tables, tx, &mut now, self.id(), &mut random)?;
                }
                trace.replace(now);
                Ok(())
            },
            |result| {
                let ((), receipt) = result.expect("retried until it commits");
                self.committed(trace.take(), receipt.tid());
            },
        );
    }

    fn thread(&self, seed: u64, barrier: &Barrier, history: &Mutex<History>) -> Result<()> {
        let mut random = Random::seeded(seed);
        let mut snapshot: Option<Snapshot<'r>> = None;
        for round in 0..ROUNDS as u64 {
            let block = round / 2 % BLOCKS;
            let is_leader = barrier.wait().is_leader();
            if random.percent(15) {
                snapshot = Some(self.db.snapshot()?);
            }
            if random.percent(20) {
                self.batch(block, &mut random)
            } else {
                self.interleaved(block, &mut random)?
            }
            if let Some(snapshot) = &mut snapshot {
                let block = if random.percent(70) { block } else { random.below(BLOCKS) };
                let shown = look(self.tables, snapshot, block, &mut random)?;
                self.shown.lock().expect("no panic").push(shown);
            }
            barrier.wait();
            if is_leader {
                let blocks = if round % 64 == 0 { 0..BLOCKS } else { block..block + 1 };
                self.check(block, blocks, &mut history.lock().expect("no panic"))?;
            }
            barrier.wait();
        }
        Ok(())
    }

    /// Between rounds, alone: the round's block, and whether some blocks' rows are what the last versions say.
    fn check(&self, block: u64, blocks: std::ops::Range<u64>, history: &mut History) -> Result<()> {
        let mut done = std::mem::take(&mut *self.done.lock().expect("no panic"));
        done.sort_by_key(|done| done.trace.start);
        history.add(block, &done);
        for shown in self.shown.lock().expect("no panic").drain(..) {
            history.check(&shown);
        }
        let mut now: Vec<_> = history.at(blocks.clone(), u64::MAX).collect();
        let of = |count| blocks.start * count..blocks.end * count;
        let rows = &self.tables.rows;
        let by_key = self.db.run(|tx| tx.range(rows, of(KEYS)).collect::<Result<Vec<_>>>())?;
        assert_eq!(decoded(by_key), now, "by key");
        now.sort_unstable_by_key(|(key, row)| (row.group, *key));
        let index = &self.tables.by_group;
        let by_group = self.db.run(|tx| tx.range_by(index, of(GROUPS)).collect::<Result<Vec<_>>>())?;
        assert_eq!(decoded(by_group), now, "by group");
        now.retain(|(_, row)| row.badge.is_some());
        now.sort_unstable_by_key(|(_, row)| row.badge);
        assert!(now.is_sorted_by(|(_, a), (_, b)| a.badge < b.badge), "a badge is unique: {now:?}");
        let index = &self.tables.by_badge;
        let by_badge = self.db.run(|tx| tx.range_by(index, of(BADGES)).collect::<Result<Vec<_>>>())?;
        assert_eq!(decoded(by_badge), now, "by badge");
        Ok(())
    }
}

/// A thread that fails must not leave the others at the barrier for ever.
fn end_process_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        std::process::exit(101);
    }));
}

#[test]
fn what_threads_saw_has_a_serial_order() -> Result<()> {
    end_process_on_panic();
    let db = Database::builder_in_memory()
        .epoch_interval(Duration::from_millis(1))
        .snapshot_interval(Duration::from_millis(3))
        .open()?;
    let tables = open_tables(&db)?;
    let run = Run {
        db: &db,
        tables: &tables,
        ticks: AtomicU64::new(1),
        ids: AtomicU64::new(1),
        done: Mutex::default(),
        shown: Mutex::default(),
    };
    let history = Mutex::new(History::new());
    let barrier = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for seed in 0..THREADS {
            let (run, barrier, history) = (&run, &barrier, &history);
            scope.spawn(move || run.thread(seed, barrier, history).unwrap_or_else(|error| panic!("{error}")));
        }
    });
    let commits = history.into_inner().expect("no panic").commits;
    assert!(commits > ROUNDS * 10, "{commits} commits are too few to mean anything");
    Ok(())
}
