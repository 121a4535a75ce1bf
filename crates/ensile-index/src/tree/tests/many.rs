//! Inserts of many keys at a time, in groups and in order: against a model, and with several threads.

use std::collections::BTreeMap;

use ensile_base::random::Random;

use super::concurrent::together;
use crate::testing::{Bench, BookedMemory, assume_pinned, hostile_key, probes};
use crate::{Insert, Lookup, Masstree, NodeChanges, OrderedInserts, Place};

/// Inserts each key at the place that a common descent found, with the values `first..`; what came of each.
pub(super) fn insert_group(
    tree: &Masstree,
    keys: &[Vec<u8>],
    first: u64,
    memory: &mut BookedMemory,
) -> Vec<Insert> {
    let mut places = vec![None; keys.len()];
    Masstree::place_batch(probes(tree, keys), assume_pinned(), &mut |index, place| {
        assert!(places[index].replace(place).is_none(), "each probe ends once");
    });
    let mut changes = NodeChanges::new();
    let mut insert = |(index, place): (usize, Option<Place<'_, '_>>)| match place.expect("each probe ends") {
        Place::Found(value) => Insert::Exists(value),
        Place::Gap(gap) => gap.insert(first + index as u64, memory, &mut changes, assume_pinned()),
    };
    places.into_iter().enumerate().map(&mut insert).collect()
}

#[test]
fn groups_of_inserts_agree_with_a_model() {
    for seed in 0..20 {
        let mut random = Random::from_seed(seed);
        let (mut bench, mut model) = (Bench::new(), BTreeMap::new());
        for round in 0..200 {
            // Often the same key twice, or several keys of one leaf: places that the group itself makes stale.
            let keys: Vec<_> = (0..1 + random.next_below(70)).map(|_| hostile_key(&mut random)).collect();
            let first = round * 1000;
            let inserts = insert_group(&bench.tree, &keys, first, &mut bench.memory);
            for (index, (key, insert)) in keys.into_iter().zip(inserts).enumerate() {
                let value = first + index as u64;
                let expected = model.get(&key).map_or(Insert::Inserted, |value| Insert::Exists(*value));
                assert_eq!(insert, expected, "{key:?}");
                model.entry(key).or_insert(value);
            }
        }
        bench.check();
        for (key, value) in &model {
            assert_eq!(bench.get(key), Some(*value), "{key:?}");
        }
    }
}

#[test]
fn threads_insert_groups_and_lose_nothing() {
    let mut bench = Bench::new();
    // All threads insert the same keys, so every place goes stale under somebody.
    let keys: Vec<Vec<u8>> = (0..20_000u64).map(|n| (n * 7919 % 20_000).to_be_bytes().to_vec()).collect();
    let inserted = std::sync::Mutex::new(0);
    together(&mut bench, 3, |thread, tree, memory| {
        for (index, keys) in keys.chunks(64).enumerate() {
            let inserts = insert_group(tree, keys, (thread * 1_000_000 + index * 64) as u64, memory);
            let new = inserts.iter().filter(|insert| **insert == Insert::Inserted).count();
            *inserted.lock().expect("no panic") += new;
        }
    });
    assert_eq!(*inserted.lock().expect("no panic"), keys.len(), "each key is inserted once");
    for key in &keys {
        assert!(matches!(bench.tree.get(key, assume_pinned()), Lookup::Found(_)));
    }
}

/// Inserts keys as one run, each with its place among all as value.
pub(super) fn insert_run<'k>(
    tree: &'k Masstree,
    keys: impl Iterator<Item = (usize, &'k Vec<u8>)>,
    memory: &mut BookedMemory,
) -> usize {
    let (mut run, mut changes, mut inserted) = (OrderedInserts::new(tree), NodeChanges::new(), 0);
    for (index, key) in keys {
        let insert = run.insert(key, index as u64, memory, &mut changes, assume_pinned());
        inserted += usize::from(insert == Insert::Inserted);
    }
    inserted
}

#[test]
fn a_run_in_any_order_agrees_with_a_model() {
    for seed in 0..20 {
        let mut random = Random::from_seed(seed);
        let mut keys: Vec<_> = (0..4000).map(|_| hostile_key(&mut random)).collect();
        // A few out of order, or repeated; and everything for one seed.
        if seed > 0 {
            keys.sort();
            for _ in 0..seed * 10 {
                let (a, b) = (random.next_below(4000) as usize, random.next_below(4000) as usize);
                keys.swap(a, b);
            }
        }
        let mut model = BTreeMap::new();
        for (index, key) in keys.iter().enumerate() {
            model.entry(key.clone()).or_insert(index as u64);
        }
        let mut bench = Bench::new();
        let inserted = insert_run(&bench.tree, keys.iter().enumerate(), &mut bench.memory);
        assert_eq!(inserted, model.len());
        bench.check();
        for (key, value) in &model {
            assert_eq!(bench.get(key), Some(*value), "{key:?}");
        }
    }
}

/// Leaves are full behind a load in order: a run that lost its place would split them in the middle.
#[test]
fn a_run_leaves_full_nodes_behind() {
    let keys: Vec<Vec<u8>> = (0..100_000u64).map(|n| n.to_be_bytes().to_vec()).collect();
    let mut bench = Bench::new();
    assert_eq!(insert_run(&bench.tree, keys.iter().enumerate(), &mut bench.memory), keys.len());
    let shape = bench.tree.check(assume_pinned()).expect("a whole tree");
    assert!(shape.leaves < keys.len() / 15 + keys.len() / 100, "{} leaves", shape.leaves);
}

#[test]
fn threads_load_neighbouring_blocks_and_lose_nothing() {
    for block in [3, 50, 1000] {
        let mut random = Random::from_seed(block as u64);
        let short = (0..30_000u64).map(|n| n.to_be_bytes().to_vec());
        let mut keys: Vec<_> = short.chain((0..10_000).map(|_| hostile_key(&mut random))).collect();
        keys.sort();
        keys.dedup();
        let mut bench = Bench::new();
        let threads = 3;
        together(&mut bench, threads, |thread, tree, memory| {
            for (number, block_keys) in keys.chunks(block).enumerate() {
                if number % threads == thread {
                    let from = number * block;
                    let numbered = block_keys.iter().enumerate().map(|(at, key)| (from + at, key));
                    assert_eq!(insert_run(tree, numbered, memory), block_keys.len());
                }
            }
        });
        for (index, key) in keys.iter().enumerate() {
            assert_eq!(bench.tree.get(key, assume_pinned()), Lookup::Found(index as u64), "{key:?}");
        }
    }
}
