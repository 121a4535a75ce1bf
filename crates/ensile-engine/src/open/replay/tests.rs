//! Replay and load against a model: any order, any batches, several threads.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use ensile_base::Tid;
use ensile_base::limits::{REPLAY_WAITING_BYTES_MAX, STATUS_BITS};
use ensile_base::random::Random;
use ensile_index::{Direction, Range};
use ensile_memory::MemoryConfig;

use super::queue_log::Queue;
use super::*;
use crate::formats::log_entry;
use crate::record::tree::RecordVisitor;
use crate::record::{LeafWitness, Record, Scratch, Seen};

type Rows = BTreeMap<(u32, Vec<u8>), Vec<u8>>;

const TABLES: u32 = 3;

fn replay() -> Replay {
    Replay::new(&Memory::new(&MemoryConfig::default()), false)
}

/// What a finished replay holds.
fn rows(replay: Replay) -> Rows {
    struct Collect<'r> {
        table: u32,
        rows: &'r mut Rows,
        scratch: Scratch,
    }
    impl<'p> RecordVisitor<'p> for Collect<'_> {
        fn witness(&mut self, _witness: LeafWitness<'p>) {}

        fn entry(&mut self, key: &[u8], record: Record<'p>) -> ControlFlow<()> {
            assert!(matches!(record.read(&mut self.scratch), Seen::Present(_)), "a tombstone is left");
            self.rows.insert((self.table, key.to_vec()), self.scratch.bytes().to_vec());
            ControlFlow::Continue(())
        }
    }
    // The records live in it.
    let _memory = Arc::clone(&replay.memory);
    let mut trees = replay.finish().trees;
    let mut rows = Rows::new();
    for (&table, tree) in &mut trees {
        let tree = ensile_base::sync::Arc::get_mut(tree).expect("replay is over");
        let all = Range { lower: Bound::Unbounded, upper: Bound::Unbounded };
        let mut collect = Collect { table, rows: &mut rows, scratch: Scratch::default() };
        tree.scan_alone(all, Direction::Forward, &mut collect);
        check_points(tree, table, &rows);
    }
    rows
}

/// What a scan finds, a descent finds.
fn check_points(tree: &mut RecordTree, table: u32, rows: &Rows) {
    for ((_, key), _) in rows.iter().filter(|((of, _), _)| *of == table) {
        assert!(tree.word_alone(key).is_some(), "{key:?}");
    }
}

fn assert_same(found: &Rows, model: &Rows, seed: u64) {
    let other = found.iter().zip(model).find(|(found, model)| found != model);
    assert_eq!(other, None, "seed {seed}");
    assert_eq!(found.len(), model.len(), "seed {seed}");
}

fn tid(number: u64) -> Tid {
    // The first epoch belongs to what a checkpoint holds.
    (0..number % 50).fold(Tid::first_of(Epoch::new(2 + number / 50)), |tid, _| {
        tid.successor().expect("few TIDs to an epoch")
    })
}

/// Transactions of a few writes each, and what is left of them in the end.
fn history(random: &mut Random, keys: u64) -> (Vec<(Tid, Vec<u8>)>, Rows) {
    let (mut bodies, mut model) = (Vec::new(), Rows::new());
    for number in 0..3_000 {
        let mut body = Vec::new();
        for _ in 0..=random.next_below(3) {
            let table = random.next_below(u64::from(TABLES)) as u32;
            let mut key = random.next_below(keys).to_be_bytes().to_vec();
            if random.percent(40) {
                key.extend_from_slice(b"behind the slice");
            }
            // Within an entry too, the last write of a key must not be beaten by the first: they have one TID.
            if log_entry::Writes(&body).flatten().any(|write| (write.table, write.key) == (table, &key)) {
                continue;
            }
            let value = vec![number as u8; random.next_below(300) as usize];
            let value = (!random.percent(25)).then_some(value);
            log_entry::encode(&mut body, table, &key, value.as_deref(), log_entry::Image::NotRecorded);
            match value {
                Some(value) => model.insert((table, key), value),
                None => model.remove(&(table, key)),
            };
        }
        bodies.push((tid(number), body));
    }
    (bodies, model)
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.next_below(last as u64 + 1) as usize);
    }
}

#[test]
fn entries_in_any_order_and_batches_from_several_threads_leave_the_newest() {
    for seed in 0..12 {
        let mut random = Random::from_seed(seed);
        let (mut bodies, model) = history(&mut random, [20, 500, 20_000][seed as usize % 3]);
        shuffle(&mut bodies, &mut random);
        let entries: Vec<_> = bodies.iter().map(|(tid, body)| Entry { tid: *tid, body }).collect();
        let batches: Vec<_> = entries.chunks(1 + random.next_below(200) as usize).collect();
        let replay = replay();
        let threads = 1 + seed as usize % 3;
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (replay, batches) = (&replay, &batches);
                scope.spawn(move || {
                    for batch in batches.iter().skip(thread).step_by(threads) {
                        replay.replay(batch).expect("entries that were encoded");
                    }
                });
            }
        });
        assert_same(&rows(replay), &model, seed);
    }
}

#[test]
fn a_checkpoint_is_loaded_and_what_the_log_holds_wins() {
    for seed in 0..12 {
        let mut random = Random::from_seed(seed);
        let (bodies, mut model) = history(&mut random, 3_000);
        // What an earlier history left, as a checkpoint of epoch 0 keeps it: sorted, in blocks.
        let old: Rows = (0..5_000u64)
            .map(|key| ((key as u32 % TABLES, key.to_be_bytes().to_vec()), vec![7; key as usize % 200]))
            .collect();
        let body = |key: &[u8], value: &[u8]| [&(key.len() as u16).to_le_bytes(), key, value].concat();
        let old_tid = Tid::first_of(Epoch::new(1));
        let replay = replay();
        let threads = 1 + seed as usize % 3;
        let block = 1 + random.next_below(300) as usize;
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (replay, old) = (&replay, &old);
                scope.spawn(move || {
                    for table in 0..TABLES {
                        let of_table = old.iter().filter(|((of, _), _)| *of == table);
                        let loaded: Vec<_> = of_table.map(|((_, key), value)| body(key, value)).collect();
                        for block in loaded.chunks(block).skip(thread).step_by(threads) {
                            let entries: Vec<_> =
                                block.iter().map(|body| Entry { tid: old_tid, body }).collect();
                            replay.load(table, &entries).expect("entries in order");
                        }
                    }
                });
            }
        });
        let entries: Vec<_> = bodies.iter().rev().map(|(tid, body)| Entry { tid: *tid, body }).collect();
        let deleted: Vec<_> = entries
            .iter()
            .flat_map(|entry| log_entry::Writes(entry.body).flatten())
            .map(|write| (write.table, write.key.to_vec()))
            .collect();
        for batch in entries.chunks(100) {
            replay.replay(batch).expect("entries that were encoded");
        }
        for (key, value) in old {
            if !deleted.contains(&key) {
                model.insert(key, value);
            }
        }
        assert_same(&rows(replay), &model, seed);
    }
}

#[test]
fn what_cannot_be_understood_is_refused_by_its_place() {
    let replay = replay();
    let mut good = Vec::new();
    log_entry::encode(&mut good, 1, b"key", Some(b"value"), log_entry::Image::NotRecorded);
    let tid = tid(60);
    let (good, cut) = (Entry { tid, body: &good }, Entry { tid, body: &good[..good.len() - 1] });
    let place = |result: Result<(), Refused>| result.expect_err("a bad entry").entry;
    assert_eq!(place(replay.replay(&[good, good, cut])), 2);
    let (good, cut) = (Entry { tid, body: b"\x01\x00kv" }, Entry { tid, body: b"\x02\x00k" });
    assert_eq!(place(replay.load(1, &[good, cut])), 1);
    let other = Entry { tid: tid.successor().expect("the first"), ..good };
    assert_eq!(place(replay.load(2, &[good, other])), 1, "a key has one TID in a checkpoint (N11)");
    replay.load(2, &[good]).expect("a row may come from a page and from beside it (N11)");
}

/// The body of one write to table 1.
fn body(key: u64, value: Option<&[u8]>) -> Vec<u8> {
    let mut body = Vec::new();
    log_entry::encode(&mut body, 1, &key.to_be_bytes(), value, log_entry::Image::NotRecorded);
    body
}

fn replay_one(replay: &Replay, tid: Tid, body: &[u8]) {
    replay.replay(&[Entry { tid, body }]).expect("an entry that was encoded");
}

/// A TID of an epoch, by its sequence number.
fn tid_of(epoch: u64, sequence: u64) -> Tid {
    Tid::from_word(Tid::first_of(Epoch::new(epoch)).bits() + (sequence << STATUS_BITS))
}

#[test]
fn a_queues_log_leaves_no_tombstone_and_takes_memory_for_its_rows_only() {
    let replay = replay();
    let value = [7; 64];
    let (live, per_epoch) = (1_000, 2_000);
    let mut largest = 0;
    for number in 0..400_000_u64 {
        let tid = tid_of(2 + number / per_epoch, 2 * (number % per_epoch));
        replay_one(&replay, tid, &body(number, Some(&value)));
        if let Some(old) = number.checked_sub(live) {
            replay_one(&replay, tid.successor().expect("room"), &body(old, None));
        }
        if number % per_epoch == 0 {
            replay.advance_watermark(tid.epoch());
            assert!(replay.tombstones.count() as u64 <= 1, "only what this epoch deleted");
            let stats = replay.memory.stats();
            largest = largest.max(stats.chunk_bytes + stats.large_bytes);
        }
    }
    // All 400,000 records would be 40 MB.
    assert!(largest <= 8 << 20, "{largest} bytes");
    replay.advance_watermark(Epoch::MAX);
    assert_eq!(replay.tombstones.count(), 0);
    assert_eq!(rows(replay).len() as u64, live);
}

#[test]
fn a_delete_whose_put_is_in_a_slower_log_stays_deleted() {
    let replay = replay();
    let at = |epoch| Tid::first_of(Epoch::new(epoch));
    replay_one(&replay, at(5), &body(1, None));
    replay_one(&replay, at(5), &body(2, None));
    // The slower log is at epoch 4: its entries of 4 and 5 are yet to come.
    replay.advance_watermark(Epoch::new(4));
    replay_one(&replay, at(4), &body(1, Some(b"older than its delete")));
    replay.advance_watermark(Epoch::new(5));
    assert_eq!(replay.tombstones.count(), 2, "an entry of epoch 5 may yet come");
    let second = at(5).successor().expect("room");
    replay_one(&replay, second, &body(2, Some(b"newer than its delete")));
    replay.advance_watermark(Epoch::new(6));
    assert_eq!(replay.tombstones.count(), 0);
    let rows = rows(replay);
    let kept: Vec<_> = rows.iter().map(|((_, key), value)| (key.clone(), value.clone())).collect();
    assert_eq!(kept, [(2_u64.to_be_bytes().to_vec(), b"newer than its delete".to_vec())]);
}

#[test]
fn values_that_grow_are_replaced_and_the_old_records_are_freed_meanwhile() {
    let replay = replay();
    let mut largest = 0;
    // Each value is too long for the record before, twenty times over: 60 MB in all.
    for number in 0..60_000_u64 {
        let length = 100 + 90 * (number / 3_000) as usize;
        let tid = Tid::first_of(Epoch::new(2 + number / 1_000));
        replay_one(&replay, tid, &body(number % 3_000, Some(&vec![1; length])));
        if number % 1_000 == 0 {
            replay.advance_watermark(tid.epoch());
            let stats = replay.memory.stats();
            largest = largest.max(stats.chunk_bytes);
        }
    }
    // The rows end with 1,810 bytes each.
    assert!(largest <= 24 << 20, "{largest} bytes");
    assert_eq!(rows(replay).len(), 3_000);
}

#[test]
fn tombstones_are_removed_beside_threads_that_write_the_same_keys() {
    for seed in 0..12 {
        let mut random = Random::from_seed(100 + seed);
        let (bodies, model) = history(&mut random, [8, 40, 2_000][seed as usize % 3]);
        let batches: Vec<_> = bodies.chunks(1 + random.next_below(40) as usize).collect();
        let replay = replay();
        let next = std::sync::atomic::AtomicUsize::new(0);
        let outstanding =
            std::sync::Mutex::new((0..batches.len()).collect::<std::collections::BTreeSet<_>>());
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    loop {
                        // Relaxed: hands out numbers.
                        let turn = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        let Some(batch) = batches.get(turn) else { break };
                        let entries: Vec<_> =
                            batch.iter().map(|(tid, body)| Entry { tid: *tid, body }).collect();
                        replay.replay(&entries).expect("entries that were encoded");
                        let mut outstanding = outstanding.lock().expect("no panic");
                        outstanding.remove(&turn);
                        let first = outstanding.first().map(|first| batches[*first][0].0.epoch());
                        drop(outstanding);
                        replay.advance_watermark(first.unwrap_or(Epoch::MAX));
                    }
                });
            }
        });
        assert_eq!(replay.tombstones.count(), 0);
        assert_same(&rows(replay), &model, seed);
    }
}

fn memory_bytes(replay: &Replay) -> u64 {
    let stats = replay.memory.stats();
    stats.chunk_bytes + stats.large_bytes
}

#[test]
fn what_waits_is_told_in_the_bytes_that_it_takes_until_it_has_passed() {
    for value_bytes in [0, 500] {
        let replay = replay();
        let (before, deletes) = (memory_bytes(&replay), 50_000_u64);
        for number in 0..deletes {
            let tid = tid_of(2 + number / 1_000, 2 * (number % 1_000));
            // The room of a value stays with its record.
            if value_bytes > 0 {
                replay_one(&replay, tid, &body(number, Some(&vec![1; value_bytes])));
            }
            replay_one(&replay, tid.successor().expect("room"), &body(number, None));
        }
        // The notes stand beside: at least a TID, a table, a place and a key each.
        let taken = memory_bytes(&replay) - before + 32 * deletes;
        let waiting = replay.waiting_bytes();
        assert!((taken / 2..=taken * 2).contains(&waiting), "{waiting} bytes told, {taken} taken");
        replay.advance_watermark(Epoch::new(2 + 25));
        assert_eq!(replay.waiting_bytes(), waiting / 2, "half of the epochs have passed");
        replay.advance_watermark(Epoch::MAX);
        assert_eq!(replay.waiting_bytes(), 0);
    }
}

/// Replays, and remembers the most memory that it took.
struct Watched {
    replay: Replay,
    most: std::sync::atomic::AtomicU64,
    most_waiting: std::sync::atomic::AtomicU64,
}

impl Recoverable for Watched {
    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.replay.replay(entries)?;
        // Relaxed: read once the threads have ended.
        self.most.fetch_max(memory_bytes(&self.replay), std::sync::atomic::Ordering::Relaxed);
        // Relaxed: read once the threads have ended.
        self.most_waiting.fetch_max(self.replay.waiting_bytes(), std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    fn load(&self, section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        self.replay.load(section, entries)
    }

    fn advance_watermark(&self, epoch: Epoch) {
        self.replay.advance_watermark(epoch);
    }

    fn waiting_bytes(&self) -> u64 {
        self.replay.waiting_bytes()
    }
}

#[test]
fn l8_a_queue_is_recovered_in_little_more_memory_than_its_rows_take() {
    let queue = Queue { rows: 300_000, left: 1_000, together: 2_000, value_bytes: 100, file_bytes: 1 << 20 };
    let disk = queue.write();
    let recovery = Queue::recovery(&disk);
    let (most, most_waiting) = Default::default();
    let watched = Watched { replay: replay(), most, most_waiting };
    while recovery.replay_step(&watched).expect("replays") {}
    recovery.finish(&watched).expect("finishes");
    let (most, waiting) = (watched.most.into_inner(), watched.most_waiting.into_inner());
    // All 300,000 tombstones would be more than 60 MB. A piece, a file of a megabyte here, holds fewer than 8,000.
    assert!(waiting >= REPLAY_WAITING_BYTES_MAX, "{waiting} bytes: the newest end was used up to the limit");
    assert!(waiting <= REPLAY_WAITING_BYTES_MAX + (4 << 20), "{waiting} bytes waited at a time");
    assert!(most <= 2 * REPLAY_WAITING_BYTES_MAX + (8 << 20), "{most} bytes");
    let rows = rows(watched.replay);
    let kept: Vec<_> = rows.keys().filter(|(table, _)| *table == super::queue_log::TABLE).collect();
    assert_eq!(kept.len() as u64, queue.left);
}
