//! Transactions of all kinds on real threads, recorded, and judged by the checker: is there a serial order?
//!
//! Threads work on one small block of keys at a time, so that they conflict all the time, and come back to it many
//! transactions later: what was deleted there has been unhooked by then, so keys are missing from the index and not
//! only absent. Rows (registers) have three secondary indexes, one of them unique, one with keys that may be too large;
//! lists grow by appends.
//!
//! Closures fail by themselves too, some with the refusal of a call as their error. What such a closure was told is in
//! the history, as what a read-only transaction saw (R2). A transaction that is rolled back was told guesses.
//!
//! `ENSILE_TRANSACTIONS` is how many are begun per seed, `ENSILE_SEEDS` how many seeds, `ENSILE_THREADS` how many
//! threads; `ci/histories.sh` has the long runs.
//!
//! Neighbours: `found_bugs` has single runs that hit their spot every time; `crashes` has what recovery brings back.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use ensile_base::limits::INDEX_KEY_BYTES_MAX;
use ensile_sim::checker::{Summary, check_matching};
use ensile_sim::environment;
use ensile_sim::history::{History, Key, Predicate, Recorder, Trace, Value};

use crate::prelude::*;

/// Rows, groups, badges and lists of one block; none belongs to two blocks.
const ROWS: u64 = 8;
const GROUPS: u64 = 3;
const BADGES: u64 = 6;
const LISTS: u64 = 3;
const BLOCKS: u64 = 64;
/// Transactions on one block before all threads go on to the next.
const PER_BLOCK: u64 = 96;
/// Transactions that a thread has open at a time.
const OPEN: usize = 3;
/// Lists are keys of the history from here on.
const FIRST_LIST: Key = 1 << 32;
/// Rows of values from here on have an index key that is too large.
const TOO_LARGE: Value = 1 << 63;
/// A list of this many elements is deleted.
const ELEMENTS_MAX: usize = 12;

/// Predicates over rows: of this group, of a group within `argument / 16 .. argument % 16`, of this badge, of any.
const OF_GROUP: u32 = 0;
const OF_GROUPS: u32 = 1;
const OF_BADGE: u32 = 2;
const OF_ANY_BADGE: u32 = 3;

fn mixed(id: Value, salt: u64) -> u64 {
    Random::from_seed(id ^ salt).next_u64()
}

/// A row's group within its block.
fn group_of(id: Value) -> u64 {
    mixed(id, 1 << 60) % GROUPS
}

/// A row's badge within its block, unique among rows, if it has one.
fn badge_of(id: Value) -> Option<u64> {
    Some(mixed(id, 2 << 60) % (2 * BADGES)).filter(|badge| *badge < BADGES)
}

fn matches(Predicate { name, argument }: Predicate, id: Value) -> bool {
    match name {
        OF_GROUP => group_of(id) == argument,
        OF_GROUPS => (argument / 16..argument % 16).contains(&group_of(id)),
        OF_BADGE => badge_of(id) == Some(argument),
        OF_ANY_BADGE => badge_of(id).is_some(),
        _ => unreachable!("no such predicate"),
    }
}

/// What an application stores: the value that names the write, and a tail of its own length, so that records are
/// outgrown.
fn encode(key: Key, id: Value) -> Vec<u8> {
    let mut bytes = [key.to_le_bytes(), id.to_le_bytes()].concat();
    bytes.resize(16 + (mixed(id, 3 << 60) % 120) as usize, id as u8);
    bytes
}

/// Fails on bytes that nobody wrote: torn ones, or of a block that was freed.
fn decode(bytes: &[u8]) -> Value {
    let word = |at: usize| u64::from_le_bytes(bytes[8 * at..8 * at + 8].try_into().expect("eight bytes"));
    assert_eq!(encode(word(0), word(1)), bytes, "nobody wrote such a row");
    word(1)
}

fn decode_list(bytes: &[u8]) -> Vec<Value> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect()
}

fn encode_list(list: &[Value]) -> Vec<u8> {
    list.iter().flat_map(|element| element.to_le_bytes()).collect()
}

/// The key of a row in the third index: most rows are not in it.
fn wide_key(id: Value) -> Option<Vec<u8>> {
    (id >= TOO_LARGE).then(|| vec![0; INDEX_KEY_BYTES_MAX])
}

type Rows = Vec<(Key, Vec<u8>)>;

fn decoded(rows: Rows) -> Vec<(Key, Value)> {
    rows.into_iter().map(|(key, bytes)| (key, decode(&bytes))).collect()
}

struct Tables {
    rows: Table<u64, Vec<u8>>,
    by_group: Index<u64, u64, Vec<u8>>,
    by_badge: Index<u64, u64, Vec<u8>>,
    lists: Table<u64, Vec<u8>>,
}

impl Tables {
    fn open(db: &Database) -> Result<Self> {
        let rows = db
            .define::<u64, Vec<u8>>("rows")
            .index("by_group", 1, |key, bytes: &Vec<u8>| key / ROWS * GROUPS + group_of(decode(bytes)))
            .unique_index_some("by_badge", 1, |key, bytes: &Vec<u8>| {
                Some(key / ROWS * BADGES + badge_of(decode(bytes))?)
            })
            .index_some("wide", 1, |_, bytes: &Vec<u8>| wide_key(decode(bytes)))
            .open()?;
        let (by_group, by_badge) = (rows.index("by_group")?, rows.index("by_badge")?);
        Ok(Self { by_group, by_badge, rows, lists: db.table("lists")? })
    }
}

/// The keys of a block.
fn rows_of(block: u64) -> Range<Key> {
    block * ROWS..(block + 1) * ROWS
}

/// A transaction as it runs: what is recorded, and what it must not have seen if it commits.
struct Running {
    trace: Trace,
    block: u64,
    /// Two rows with one badge in one scan, or a badge that is taken and nobody's.
    impossible: Option<String>,
    /// A call that refuses ends the closure, with its error.
    hands_on_refusals: bool,
    /// The closure has ended with an error of its own.
    has_failed: bool,
}

impl Running {
    fn new(trace: Trace, block: u64) -> Self {
        Self { trace, block, impossible: None, hands_on_refusals: false, has_failed: false }
    }

    /// A call has refused, and the transaction goes on: so does the closure, or it fails with that.
    fn refused(&mut self, error: Error) -> Result<()> {
        self.has_failed = self.hands_on_refusals;
        if self.has_failed { Err(error) } else { Ok(()) }
    }

    fn look_for_twins(&mut self, rows: &[(Key, Value)]) {
        let mut seen = BTreeSet::new();
        let twin = rows
            .iter()
            .find(|(key, id)| badge_of(*id).is_some_and(|badge| !seen.insert((key / ROWS, badge))));
        if twin.is_some() {
            self.impossible = Some(format!("{rows:?}"));
        }
    }

    fn note_scan(&mut self, range: Range<Key>, rows: Vec<(Key, Value)>) {
        self.look_for_twins(&rows);
        self.trace.scan(range, rows);
    }

    fn note_matching(&mut self, name: u32, argument: u64, rows: Vec<(Key, Value)>) {
        self.trace.scan_matching(rows_of(self.block), Predicate { name, argument }, rows);
    }
}

/// Reads that transactions and snapshots have in common.
fn read_step(
    tables: &Tables,
    reader: &mut impl Readable,
    running: &mut Running,
    random: &mut Random,
) -> Result<()> {
    let all = rows_of(running.block);
    let key = all.start + random.next_below(ROWS);
    let group = random.next_below(GROUPS);
    let (groups, badges) = (running.block * GROUPS, running.block * BADGES);
    match random.next_below(100) {
        0..20 => {
            let seen = reader.get(&tables.rows, &key)?;
            running.trace.read(key, seen.map(|bytes| decode(&bytes)));
        }
        20..26 => {
            let keys = [key, all.start + random.next_below(ROWS), all.start + random.next_below(ROWS)];
            for (key, bytes) in keys.iter().zip(reader.get_many(&tables.rows, &keys)?) {
                running.trace.read(*key, bytes.map(|bytes| decode(&bytes)));
            }
        }
        26..50 => scan_step(tables, reader, running, random)?,
        50..64 => {
            let rows = reader.find(&tables.by_group, &(groups + group)).collect::<Result<Rows>>()?;
            running.note_matching(OF_GROUP, group, decoded(rows));
        }
        64..70 => {
            let upper = random.next_between(group, GROUPS);
            let range = groups + group..groups + upper;
            let rows = if random.percent(50) {
                reader.range(&tables.by_group, range).collect::<Result<Rows>>()?
            } else {
                reader.range(&tables.by_group, range).rev().collect::<Result<Rows>>()?
            };
            running.note_matching(OF_GROUPS, group * 16 + upper, decoded(rows));
        }
        70..76 => {
            let mut keys = Vec::new();
            reader.scan_keys(&tables.by_group, groups + group..groups + group + 1, |key| {
                keys.push(key);
                ControlFlow::Continue(())
            })?;
            running.trace.scan_keys_matching(all, Predicate { name: OF_GROUP, argument: group }, keys);
        }
        76..84 => {
            let badge = random.next_below(BADGES);
            let row = reader.get(&tables.by_badge, &(badges + badge))?;
            running.note_matching(OF_BADGE, badge, decoded(row.into_iter().collect()));
        }
        84..88 => {
            let rows = reader.range(&tables.by_badge, badges..badges + BADGES).collect::<Result<Rows>>()?;
            let rows = decoded(rows);
            running.look_for_twins(&rows);
            running.note_matching(OF_ANY_BADGE, 0, rows);
        }
        _ => list_scan(&tables.lists, reader, running)?,
    }
    Ok(())
}

/// A scan either way of a part of the block, that may stop early.
fn scan_step(
    tables: &Tables,
    reader: &mut impl Readable,
    running: &mut Running,
    random: &mut Random,
) -> Result<()> {
    let all = rows_of(running.block);
    let from = random.next_between(all.start, all.end - 1);
    let mut range = from..random.next_between(from, all.end);
    let most = if random.percent(30) { random.next_between(1, 3) as usize } else { usize::MAX };
    let is_reverse = random.percent(50);
    let mut found = Vec::new();
    let visit = |key, bytes: &Vec<u8>| {
        found.push((key, decode(bytes)));
        if found.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    if is_reverse {
        reader.scan_reverse(&tables.rows, range.clone(), visit)?;
    } else {
        reader.scan(&tables.rows, range.clone(), visit)?;
    }
    assert!(found.is_sorted_by(|a, b| if is_reverse { a.0 > b.0 } else { a.0 < b.0 }), "{found:?}");
    if let Some((last, _)) = found.last().filter(|_| found.len() >= most) {
        range = if is_reverse { *last..range.end } else { range.start..last + 1 };
    }
    running.note_scan(range, found);
    Ok(())
}

/// One random step of a transaction. Errors that leave it alive are part of the step.
fn step(
    tables: &Tables,
    tx: &mut Transaction<'_>,
    running: &mut Running,
    id: Value,
    random: &mut Random,
) -> Result<()> {
    let rows = &tables.rows;
    let key = rows_of(running.block).start + random.next_below(ROWS);
    let id = if random.percent(4) { id | TOO_LARGE } else { id };
    let new = encode(key, id);
    let trace = &mut running.trace;
    match random.next_below(100) {
        0..14 => match tx.put(rows, &key, &new) {
            Err(error @ Error::TooLarge { .. }) => running.refused(error)?,
            Err(error @ Error::NotUnique { .. }) => badge_is_taken(tables, tx, running, (key, id), error)?,
            put => {
                put?;
                trace.write(key, id);
            }
        },
        14..26 => {
            let mut old = None;
            let updated = tx.update(rows, &key, |bytes| {
                old = Some(decode(bytes));
                bytes.clone_from(&new);
            });
            match updated {
                Ok(found) => {
                    trace.read(key, old);
                    if found {
                        trace.write(key, id);
                    }
                }
                Err(error @ Error::TooLarge { .. }) => {
                    trace.read(key, old);
                    running.refused(error)?;
                }
                Err(error @ Error::NotUnique { .. }) => {
                    trace.read(key, old);
                    badge_is_taken(tables, tx, running, (key, id), error)?;
                }
                Err(error) => return Err(error),
            }
        }
        26..38 => match tx.insert(rows, &key, &new) {
            Ok(()) => {
                trace.read(key, None);
                trace.write(key, id);
            }
            Err(error @ Error::KeyExists { .. }) => {
                trace.read_present(key);
                running.refused(error)?;
            }
            // It found the key free.
            Err(error @ Error::TooLarge { .. }) => {
                trace.read(key, None);
                running.refused(error)?;
            }
            Err(error @ Error::NotUnique { .. }) => {
                trace.read(key, None);
                badge_is_taken(tables, tx, running, (key, id), error)?;
            }
            Err(error) => return Err(error),
        },
        38..50 => {
            if trace.own(key).is_some_and(|own| own.is_some()) && trace.existed(key).is_none() {
                // Whether this makes a version or takes back a put of a key that was absent could not be told.
                return Ok(());
            }
            if tx.delete(rows, &key)? {
                trace.read_present(key);
                trace.delete(key);
            } else {
                trace.read(key, None);
            }
        }
        50..62 => list_step(tables, tx, running, id & !TOO_LARGE, random)?,
        62..64 => match tx.get(&tables.by_group, &running.block) {
            Err(error @ Error::Misuse(_)) => running.refused(error)?,
            got => panic!("an index that is not unique was read as one: {got:?}"),
        },
        64..67 => {
            let keys = rows_of(running.block);
            tx.prefetch(|prefetch| keys.for_each(|key| prefetch.key(rows, &key)))?;
        }
        _ => read_step(tables, tx, running, random)?,
    }
    Ok(())
}

/// A call has refused a row since its badge is another row's. So that row must be there, unless the transaction comes
/// to nothing.
fn badge_is_taken(
    tables: &Tables,
    tx: &mut Transaction<'_>,
    running: &mut Running,
    (key, id): (Key, Value),
    error: Error,
) -> Result<()> {
    let Some(badge) = badge_of(id) else { panic!("a row without a badge was refused for it: {error}") };
    let owner = tx.get(&tables.by_badge, &(running.block * BADGES + badge))?;
    if owner.as_ref().is_none_or(|(owner, _)| *owner == key) {
        running.impossible = Some(format!("badge {badge}, refused to row {key}, is that of {owner:?}"));
    }
    running.note_matching(OF_BADGE, badge, decoded(owner.into_iter().collect()));
    running.refused(error)
}

/// A list is read and grows, or has grown enough and goes.
fn list_step(
    tables: &Tables,
    tx: &mut Transaction<'_>,
    running: &mut Running,
    id: Value,
    random: &mut Random,
) -> Result<()> {
    let key = running.block * LISTS + random.next_below(LISTS);
    let mut list = tx.get(&tables.lists, &key)?.map_or(Vec::new(), |bytes| decode_list(&bytes));
    running.trace.read_list(FIRST_LIST + key, &list);
    if list.len() >= ELEMENTS_MAX {
        if tx.delete(&tables.lists, &key)? {
            running.trace.delete(FIRST_LIST + key);
        } else {
            // It was there a moment ago: such a transaction must not commit.
            running.trace.read_list(FIRST_LIST + key, &[]);
        }
    } else if random.percent(80) {
        list.push(id);
        tx.put(&tables.lists, &key, &encode_list(&list))?;
        running.trace.append(FIRST_LIST + key, id);
    }
    Ok(())
}

/// What all threads of a run share.
struct Run<'r> {
    db: &'r Database,
    tables: &'r Tables,
    clock: Clock,
    /// Transactions begun, and how many there are to be.
    begun: AtomicU64,
    transactions: u64,
    threads: u64,
}

/// One thread of a run.
struct Session<'r> {
    run: &'r Run<'r>,
    number: u64,
    random: RefCell<Random>,
    recorder: RefCell<Recorder>,
    writes: Cell<u64>,
}

impl<'r> Session<'r> {
    fn new(run: &'r Run<'r>, seed: u64, number: u64) -> Self {
        let random = RefCell::new(Random::from_seed(seed * 1_000 + number));
        let recorder = RefCell::new(Recorder::new(number as u32));
        Self { run, number, random, recorder, writes: Cell::new(0) }
    }

    /// A value that nobody else writes.
    fn id(&self) -> Value {
        let writes = self.writes.get();
        self.writes.set(writes + 1);
        writes * (self.run.threads + 1) + self.number
    }

    /// Takes `count` of the transactions that are left, and tells the block that they are to work on.
    fn take(&self, count: u64) -> Option<u64> {
        // Relaxed: a count; it orders nothing.
        let begun = self.run.begun.fetch_add(count, Ordering::Relaxed);
        (begun < self.run.transactions).then_some(begun / PER_BLOCK % BLOCKS)
    }

    fn begin(&self, block: u64) -> Running {
        Running::new(self.recorder.borrow_mut().begin(self.run.clock.nanos()), block)
    }

    fn committed(&self, running: Running, tid: ensile_engine::receipt::Tid) {
        assert_eq!(
            running.impossible, None,
            "two rows with one badge, or a badge that is taken and nobody's"
        );
        self.recorder.borrow_mut().commit(running.trace, Some(tid), self.run.clock.nanos());
    }

    fn answered(&self, running: Running) {
        assert_eq!(running.impossible, None, "two rows with one badge, or one that is nobody's, in an error");
        self.recorder.borrow_mut().answer(running.trace, self.run.clock.nanos());
    }

    fn aborted(&self, running: Running) {
        self.recorder.borrow_mut().abort(running.trace, self.run.clock.nanos());
    }

    /// A few transactions open side by side, in steps at random.
    fn interleaved(&self, block: u64, count: usize) -> Result<()> {
        let random = &mut *self.random.borrow_mut();
        let mut open: Vec<(Transaction<'r>, Running, u64)> = Vec::new();
        let mut left = count;
        while left > 0 || !open.is_empty() {
            if left > 0 && open.len() < OPEN {
                let running = self.begin(block);
                open.push((self.run.db.begin(), running, random.next_between(1, 5)));
                left -= 1;
            }
            let at = random.next_below(open.len() as u64) as usize;
            let (tx, running, steps) = &mut open[at];
            if *steps > 0 {
                *steps -= 1;
                let done = step(self.run.tables, tx, running, self.id(), random);
                if random.percent(10) {
                    std::thread::yield_now();
                }
                match done {
                    Ok(()) => continue,
                    Err(error) if error.is_retryable() => {}
                    Err(error) => return Err(error),
                }
            }
            let (tx, running, steps) = open.swap_remove(at);
            if steps > 0 || random.percent(5) {
                tx.rollback();
                self.aborted(running);
                continue;
            }
            match tx.submit() {
                Ok(receipt) => self.committed(running, receipt.tid()),
                Err(error) if error.is_retryable() => self.aborted(running),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// One attempt of a closure: what an earlier attempt of it did is aborted.
    fn attempt(
        &self,
        tx: &mut Transaction<'_>,
        block: u64,
        seed: u64,
        current: &RefCell<Option<Running>>,
    ) -> Result<()> {
        if let Some(before) = current.borrow_mut().take() {
            self.aborted(before);
        }
        let mut current = current.borrow_mut();
        let running = current.insert(self.begin(block));
        let mut random = Random::from_seed(seed);
        running.hands_on_refusals = random.percent(20);
        let fails = random.percent(25);
        for _ in 0..random.next_between(1, if fails { 6 } else { 4 }) {
            step(self.run.tables, tx, running, self.id(), &mut random)?;
            if random.percent(10) {
                std::thread::yield_now();
            }
        }
        running.has_failed = fails;
        if fails { Err(Error::Misuse("given up".to_owned())) } else { Ok(()) }
    }

    /// The attempt that was the last one has ended.
    fn ended(&self, current: &RefCell<Option<Running>>, outcome: Result<ensile_engine::receipt::Tid>) {
        let running = current.borrow_mut().take().expect("it ran");
        match outcome {
            Ok(tid) => self.committed(running, tid),
            Err(_) if running.has_failed => self.answered(running),
            Err(error) => panic!("{error}"),
        }
    }

    /// A batch of closures that announce keys, with retries.
    fn batch(&self, block: u64, count: u64) {
        let requests: Vec<u64> = (0..count).map(|_| self.random.borrow_mut().next_u64()).collect();
        let current = RefCell::new(None);
        let announce = |seed: &u64, prefetch: &mut Prefetch<'_>| {
            prefetch.key(&self.run.tables.rows, &(rows_of(block).start + seed % ROWS));
            prefetch.key(&self.run.tables.lists, &(block * LISTS + seed % LISTS));
        };
        self.run.db.run_batch_with(
            &requests,
            announce,
            |tx, seed| self.attempt(tx, block, *seed, &current),
            |result| self.ended(&current, result.map(|((), receipt)| receipt.tid())),
        );
    }

    /// One closure, with retries.
    fn closure(&self, block: u64) {
        let current = RefCell::new(None);
        let seed = self.random.borrow_mut().next_u64();
        let outcome = self.run.db.submit(|tx| self.attempt(tx, block, seed, &current));
        self.ended(&current, outcome.map(|((), receipt)| receipt.tid()));
    }

    /// Looks at a block, this one or any, through a snapshot that may be old.
    fn look(&self, snapshot: &mut Snapshot<'_>, block: u64) -> Result<()> {
        let random = &mut *self.random.borrow_mut();
        let block = if random.percent(70) { block } else { random.next_below(BLOCKS) };
        let mut running = self.begin(block);
        for _ in 0..random.next_between(1, 3) {
            match read_step(self.run.tables, snapshot, &mut running, random) {
                Ok(()) => {}
                Err(error) if error.is_retryable() => {
                    self.aborted(running);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        assert_eq!(running.impossible, None, "a badge belongs to two rows of a snapshot");
        let now = self.run.clock.nanos();
        self.recorder.borrow_mut().snapshot(running.trace, snapshot.epoch(), now);
        Ok(())
    }

    fn work(self) -> Result<Recorder> {
        let mut snapshot: Option<Snapshot<'r>> = None;
        loop {
            let kind = self.random.borrow_mut().next_below(100);
            let count = if kind < 75 { self.random.borrow_mut().next_between(1, 12) } else { 1 };
            let Some(block) = self.take(count) else { break };
            match kind {
                0..55 => self.interleaved(block, count as usize)?,
                55..75 => self.batch(block, count),
                75..92 => self.closure(block),
                _ => {
                    if snapshot.is_none() || kind < 95 {
                        snapshot = Some(self.run.db.snapshot()?);
                    }
                    self.look(snapshot.as_mut().expect("just opened"), block)?;
                }
            }
        }
        Ok(self.recorder.into_inner())
    }

    /// All rows and lists in the end, by key and through both indexes, a block in one transaction.
    fn last_look(self) -> Result<Recorder> {
        let current = RefCell::new(None);
        for block in 0..BLOCKS {
            let outcome = self.run.db.submit(|tx| {
                if let Some(before) = current.replace(Some(self.begin(block))) {
                    self.aborted(before);
                }
                let mut current = current.borrow_mut();
                let running = current.as_mut().expect("just put there");
                look_at_all(self.run.tables, tx, running)
            });
            self.ended(&current, outcome.map(|((), receipt)| receipt.tid()));
        }
        Ok(self.recorder.into_inner())
    }
}

fn look_at_all(tables: &Tables, tx: &mut Transaction<'_>, running: &mut Running) -> Result<()> {
    let Tables { rows, by_group, by_badge, lists } = tables;
    let block = running.block;
    let found = tx.range(rows, rows_of(block)).collect::<Result<Rows>>()?;
    running.note_scan(rows_of(block), decoded(found));
    let found = tx.range(by_group, block * GROUPS..(block + 1) * GROUPS).collect::<Result<Rows>>()?;
    running.note_matching(OF_GROUPS, GROUPS, decoded(found));
    let found = tx.range(by_badge, block * BADGES..(block + 1) * BADGES).collect::<Result<Rows>>()?;
    running.note_matching(OF_ANY_BADGE, 0, decoded(found));
    list_scan(lists, tx, running)
}

/// All lists of the block.
fn list_scan(lists: &Table<u64, Vec<u8>>, reader: &mut impl Readable, running: &mut Running) -> Result<()> {
    let keys = running.block * LISTS..(running.block + 1) * LISTS;
    let found = reader.range(lists, keys.clone()).collect::<Result<Rows>>()?;
    let found = found.iter().map(|(key, bytes)| (FIRST_LIST + key, decode_list(bytes)));
    running.trace.scan_lists(FIRST_LIST + keys.start..FIRST_LIST + keys.end, found);
    Ok(())
}

/// Runs and judges one seed.
fn judge(seed: u64, transactions: u64, threads: u64) -> Result<Summary> {
    let db = Database::builder_in_memory()
        .epoch_interval(Duration::from_millis(1))
        .tuning(Tuning { snapshot_interval: Duration::from_millis(3), ..Tuning::default() })
        .open()?;
    let tables = Tables::open(&db)?;
    let clock = Clock::machine();
    let run = Run {
        db: &db,
        tables: &tables,
        clock: clock.clone(),
        begun: AtomicU64::new(0),
        transactions,
        threads,
    };
    let mut recorders = std::thread::scope(|scope| {
        let start = |number| {
            let session = (&run, seed, number);
            scope.spawn(move || Session::new(session.0, session.1, session.2).work())
        };
        let running: Vec<_> = (0..threads).map(start).collect();
        running.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Result<Vec<_>>>()
    })?;
    recorders.push(Session::new(&run, seed, threads).last_look()?);
    let ran = clock.nanos();
    let history = History::merge(recorders);
    let verdict = check_matching(&history, matches);
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    match verdict {
        Ok(summary) => {
            let (run, checked) = (seconds(ran), seconds(clock.nanos() - ran));
            println!(
                "seed {seed}, {threads} threads: no anomaly; ran {run:.1} s, checked {checked:.1} s; {summary}"
            );
            Ok(summary)
        }
        Err(report) => panic!("seed {seed}, {threads} threads, {transactions} transactions: {report}"),
    }
}

#[test]
fn what_threads_saw_has_a_serial_order() -> Result<()> {
    let (transactions, seeds) =
        (environment::count("ENSILE_TRANSACTIONS", 300_000), environment::count("ENSILE_SEEDS", 1));
    let (first, threads) = (environment::number("ENSILE_SEED", 0), environment::count("ENSILE_THREADS", 4));
    let (mut all, mut committed, mut answered) = (0, 0, 0);
    for seed in first..first + seeds {
        let summary = judge(seed, transactions, threads)?;
        assert!(summary.committed > summary.transactions / 4, "too few commits to mean anything: {summary}");
        all += summary.transactions;
        committed += summary.committed;
        assert!(summary.answered > summary.transactions / 40, "too few errors to mean anything: {summary}");
        answered += summary.answered;
    }
    println!(
        "{seeds} seeds: {all} transactions checked, {committed} committed, {answered} errors handed out, no anomaly"
    );
    Ok(())
}
