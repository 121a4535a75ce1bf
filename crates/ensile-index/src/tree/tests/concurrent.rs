//! The tree under threads: what is stable is always found, order holds, nothing is lost.
//!
//! Each thread owns the keys with its own remainder, so it knows exactly which of them are there.

use std::collections::BTreeMap;
use std::ops::Bound;

use ensile_base::random::Random;
use ensile_base::sync::{AtomicBool, AtomicU64, Ordering};

use crate::testing::{Bench, BookedMemory, assume_pinned, collect, hostile_key, probes};
use crate::{Direction, Insert, Lookup, Masstree, NodeChanges, Range};

const WHOLE: Range<'static> = Range { lower: Bound::Unbounded, upper: Bound::Unbounded };

/// Runs threads over a tree, each with its own memory, and checks the tree and the book at the end.
pub(super) fn together(
    bench: &mut Bench,
    threads: usize,
    work: impl Fn(usize, &Masstree, &mut BookedMemory) + Sync,
) {
    let tree = &bench.tree;
    let memories: Vec<BookedMemory> = std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let mut memory = BookedMemory::default();
                    work(thread, tree, &mut memory);
                    memory
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("no thread panics")).collect()
    });
    memories.into_iter().for_each(|memory| bench.memory.absorb(memory));
    bench.check();
}

fn insert(tree: &Masstree, memory: &mut BookedMemory, key: &[u8], value: u64) -> Insert {
    tree.insert_if_absent(key, value, memory, &mut NodeChanges::new(), assume_pinned())
}

/// A hostile key that belongs to one thread: its number is the last byte.
fn own_key(random: &mut Random, thread: usize) -> Vec<u8> {
    let mut key = hostile_key(random);
    key.truncate(48);
    key.push(thread as u8);
    key
}

fn assert_sorted(keys: &[(Vec<u8>, u64)], direction: Direction) {
    for pair in keys.windows(2) {
        let in_order =
            if direction == Direction::Forward { pair[0].0 < pair[1].0 } else { pair[0].0 > pair[1].0 };
        assert!(in_order, "{:?} then {:?}, {direction:?}", pair[0].0, pair[1].0);
    }
}

#[test]
fn each_thread_finds_exactly_its_own_keys() {
    for seed in 0..4 {
        let mut bench = Bench::new();
        together(&mut bench, 4, |thread, tree, memory| {
            let mut random = Random::from_seed(seed * 100 + thread as u64);
            let mut own = BTreeMap::new();
            for round in 0..12_000u64 {
                let key = own_key(&mut random, thread);
                let present = own.get(&key).copied();
                // Waves of growth and decay, so that leaves and layers come and go.
                if random.percent(if round % 3_000 < 1_500 { 75 } else { 15 }) {
                    let expected = present.map_or(Insert::Inserted, Insert::Exists);
                    assert_eq!(insert(tree, memory, &key, round), expected, "{key:?}");
                    own.entry(key).or_insert(round);
                } else {
                    assert_eq!(
                        tree.remove(&key, present.unwrap_or(0), memory, assume_pinned()),
                        present.is_some()
                    );
                    own.remove(&key);
                }
                if round % 1_000 == 999 {
                    let direction = if random.percent(50) { Direction::Forward } else { Direction::Reverse };
                    let all = collect(tree, WHOLE, direction).entries;
                    assert_sorted(&all, direction);
                    let mut mine: Vec<_> =
                        all.into_iter().filter(|(key, _)| key.last() == Some(&(thread as u8))).collect();
                    mine.sort();
                    assert_eq!(
                        mine,
                        own.clone().into_iter().collect::<Vec<_>>(),
                        "a scan misses or invents keys"
                    );
                }
            }
            for (key, value) in &own {
                assert_eq!(tree.get(key, assume_pinned()), Lookup::Found(*value));
            }
            for (key, value) in own {
                assert!(tree.remove(&key, value, memory, assume_pinned()));
            }
        });
        let shape = bench.check();
        assert_eq!((shape.keys, shape.layers, shape.leaves), (0, 1, 1));
    }
}

#[test]
fn readers_never_miss_a_stable_key_while_others_load_in_order() {
    let mut bench = Bench::new();
    let loaded = AtomicU64::new(0);
    let count = 60_000u64;
    together(&mut bench, 3, |thread, tree, memory| {
        if thread == 0 {
            for n in 0..count {
                insert(tree, memory, &n.to_be_bytes(), n);
                // Release: pairs with the readers' Acquire load: the insert is done.
                loaded.store(n + 1, Ordering::Release);
            }
            return;
        }
        let mut random = Random::from_seed(thread as u64);
        loop {
            // Acquire: pairs with the loader's Release store.
            let stable = loaded.load(Ordering::Acquire);
            if stable == count {
                break;
            }
            if stable == 0 {
                continue;
            }
            let keys: Vec<[u8; 8]> = (0..20).map(|_| random.next_below(stable).to_be_bytes()).collect();
            for key in &keys {
                assert_eq!(tree.get(key, assume_pinned()), Lookup::Found(u64::from_be_bytes(*key)));
            }
            let newest = (stable - 1).to_be_bytes();
            assert_eq!(tree.get(&newest, assume_pinned()), Lookup::Found(stable - 1));
            Masstree::get_batch(probes(tree, &keys), assume_pinned(), &mut |index, lookup| {
                assert_eq!(lookup, Lookup::Found(u64::from_be_bytes(keys[index])));
            });
            let from = stable.saturating_sub(100).to_be_bytes();
            let tail = collect(
                tree,
                Range { lower: Bound::Included(&from), upper: Bound::Unbounded },
                Direction::Forward,
            );
            assert!(tail.entries.len() as u64 >= stable - u64::from_be_bytes(from));
            let tail = collect(
                tree,
                Range { lower: Bound::Included(&from), upper: Bound::Excluded(&newest) },
                Direction::Reverse,
            );
            assert_eq!(tail.entries.len() as u64, stable - 1 - u64::from_be_bytes(from));
        }
    });
}

/// Masstree's own history: a key that becomes unreachable when its leaf splits, or is emptied and removed, under a
/// concurrent insert. Two threads fill and empty the same few leaves.
#[test]
fn keys_stay_reachable_while_their_leaf_splits_empties_and_goes() {
    let mut bench = Bench::new();
    for n in (0..2_000u64).step_by(100) {
        bench.insert(&n.to_be_bytes(), n);
    }
    together(&mut bench, 4, |thread, tree, memory| {
        let mut random = Random::from_seed(thread as u64);
        for _ in 0..1_500 {
            let base = random.next_below(20) * 100;
            let own: Vec<u64> = (0..20).map(|index| base + 1 + index * 4 + thread as u64).collect();
            for n in &own {
                assert_eq!(insert(tree, memory, &n.to_be_bytes(), *n), Insert::Inserted);
                assert_eq!(tree.get(&n.to_be_bytes(), assume_pinned()), Lookup::Found(*n));
            }
            for n in &own {
                assert!(tree.remove(&n.to_be_bytes(), *n, memory, assume_pinned()));
                assert!(matches!(tree.get(&n.to_be_bytes(), assume_pinned()), Lookup::Missing(_)));
            }
        }
    });
    assert_eq!(bench.check().keys, 20);
}

/// Masstree's own history: a reverse scan that turns for ever on an empty layer.
#[test]
fn scans_end_while_layers_empty_and_fill() {
    let mut bench = Bench::new();
    bench.insert(b"aaaa", 1);
    bench.insert(b"zzzz", 2);
    let done = AtomicBool::new(false);
    together(&mut bench, 3, |thread, tree, memory| {
        if thread > 0 {
            let direction = if thread == 1 { Direction::Forward } else { Direction::Reverse };
            // Relaxed: only tells when to stop.
            while !done.load(Ordering::Relaxed) {
                let entries = collect(tree, WHOLE, direction).entries;
                assert_sorted(&entries, direction);
                assert!(
                    entries.iter().filter(|(key, _)| key.len() == 4).count() == 2,
                    "stable keys are there"
                );
            }
            return;
        }
        for round in 0..20_000u64 {
            let keys = [&b"layer one, deeper, one"[..], b"layer one, deeper, two", b"layer two"];
            keys.iter().for_each(|key| assert_eq!(insert(tree, memory, key, round), Insert::Inserted));
            keys.iter().for_each(|key| assert!(tree.remove(key, round, memory, assume_pinned())));
        }
        // Relaxed: only tells when to stop.
        done.store(true, Ordering::Relaxed);
    });
}

/// A replaced value is never lost or brought back, whatever splits move it.
#[test]
fn replaces_count_exactly_while_leaves_split_and_go() {
    let mut bench = Bench::new();
    let counters: Vec<[u8; 8]> = (0..10u64).map(|n| (n * 1_000).to_be_bytes()).collect();
    for key in &counters {
        bench.insert(key, 0);
    }
    let rounds = 20_000u64;
    together(&mut bench, 3, |thread, tree, memory| {
        let mut random = Random::from_seed(thread as u64);
        for round in 0..rounds {
            let key = &counters[random.next_below(10) as usize];
            while let Lookup::Found(value) = tree.get(key, assume_pinned()) {
                if tree.replace(key, value, value + 1, assume_pinned()) {
                    break;
                }
            }
            let noise = (random.next_below(10_000) / 4 * 4 + 1 + thread as u64).to_be_bytes();
            if insert(tree, memory, &noise, round) != Insert::Inserted {
                let Lookup::Found(value) = tree.get(&noise, assume_pinned()) else {
                    panic!("own noise is stable")
                };
                assert!(tree.remove(&noise, value, memory, assume_pinned()));
            }
        }
    });
    let total: u64 = counters.iter().map(|key| bench.get(key).expect("counters stay")).sum();
    assert_eq!(total, rounds * 3);
}
