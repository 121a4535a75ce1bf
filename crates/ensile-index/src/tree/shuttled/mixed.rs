//! Readers beside arbitrary writers: results of reads, and promises of witnesses, must be true.
//!
//! Neighbours: `shuttled` runs the schedules; `folds` and `late_prunes` use the keys and threads of this file.

use std::collections::BTreeSet;

use ensile_base::random::Random;
use shuttle::rand::RngCore;
use shuttle::sync::Arc;

use super::{WHOLE, scale_iterations, schedules, schedules_with_long_rests};
use crate::key::KeyPart;
use crate::tags::tag;
use crate::testing::{BookedMemory, Collected, assume_pinned, collect, probes};
use crate::{Direction, Insert, Lookup, Masstree, Witness};

pub(super) type Works = Vec<fn(&Masstree, &mut BookedMemory)>;

/// A value per key: a foreign or made-up value shows.
pub(super) fn value_of(key: &[u8]) -> u64 {
    key.iter().fold(1, |value: u64, &byte| value.wrapping_mul(31).wrapping_add(u64::from(byte) + 1))
        % 1_000_003
}

pub(super) fn put(tree: &Masstree, memory: &mut BookedMemory, key: &[u8]) {
    assert_eq!(super::insert(tree, memory, key, value_of(key)), Insert::Inserted);
}

pub(super) fn take(tree: &Masstree, memory: &mut BookedMemory, key: &[u8]) {
    assert!(tree.remove(key, value_of(key), memory, assume_pinned()), "{key:?} is lost");
}

fn number(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn tens(tree: &Masstree, memory: &mut BookedMemory, count: u64) {
    (0..count).for_each(|n| put(tree, memory, &number(n * 10)));
}

fn scan(tree: &Masstree, direction: Direction) -> Collected {
    let collected = collect(tree, WHOLE, direction);
    for (key, value) in &collected.entries {
        assert_eq!(*value, value_of(key), "{key:?} with a value that was never its own");
    }
    collected
}

/// Checks that a second scan finds the same entries if the leaves of the first scan are unchanged.
pub(super) fn scan_twice(tree: &Masstree) {
    for (first, second) in [
        (Direction::Forward, Direction::Forward),
        (Direction::Forward, Direction::Reverse),
        (Direction::Reverse, Direction::Forward),
    ] {
        let seen = scan(tree, first);
        let mut again = scan(tree, second).entries;
        if !seen.witnesses.iter().all(|witness| witness.holds(assume_pinned())) {
            continue;
        }
        if first != second {
            again.reverse();
        }
        assert_eq!(seen.entries, again, "{first:?}, then {second:?}");
    }
}

/// Checks that a get, a batch and a scan find a permanent key.
pub(super) fn watch(tree: &Masstree, key: &[u8]) {
    let found = Lookup::Found(value_of(key));
    for direction in [Direction::Forward, Direction::Reverse] {
        (0..3).for_each(|_| assert_eq!(tree.get(key, assume_pinned()), found));
        Masstree::get_batch(probes(tree, &[key]), assume_pinned(), &mut |_, lookup| {
            assert_eq!(lookup, found)
        });
        assert_eq!(scan(tree, direction).entries.iter().filter(|entry| entry.0 == key).count(), 1);
    }
}

/// A batch, and later single reads: a key that is found has failed the batch's miss of the key.
pub(super) fn batch_then_get(tree: &Masstree, keys: &[&[u8]]) {
    let mut misses: Vec<Option<Witness>> = vec![None; keys.len()];
    Masstree::get_batch(probes(tree, keys), assume_pinned(), &mut |index, lookup| match lookup {
        Lookup::Missing(witness) => misses[index] = Some(witness),
        Lookup::Found(value) => assert_eq!(value, value_of(keys[index])),
    });
    for _ in 0..3 {
        for (key, miss) in keys.iter().zip(&misses) {
            if let Lookup::Found(value) = tree.get(key, assume_pinned()) {
                assert_eq!(value, value_of(key));
                let holds = miss.is_some_and(|miss| miss.holds(assume_pinned()));
                assert!(!holds, "{key:?} appeared behind a batch's witness");
            }
        }
    }
}

/// A key out of a few that share leaves, slices and layers.
fn some_key(random: &mut Random) -> Vec<u8> {
    match random.next_below(4) {
        0 | 1 => number(random.next_below(150)).to_vec(),
        2 if random.percent(50) => {
            behind_a_skip(random.next_below(3))[..random.next_below(33) as usize].to_vec()
        }
        2 => [&b"prefix--"[..], &b"prefix--one"[..random.next_below(12) as usize]].concat(),
        _ => [&b"prefix--prefix--"[..], &[b'a' + random.next_below(3) as u8]].concat(),
    }
}

/// Inserts and removes keys that end in the thread's number: the thread knows its present keys.
fn write(tree: &Masstree, memory: &mut BookedMemory, thread: u8, steps: usize) {
    let mut random = Random::from_seed(shuttle::rand::thread_rng().next_u64());
    let mut own = BTreeSet::new();
    let mut misses: Vec<(Vec<u8>, Witness)> = Vec::new();
    for _ in 0..steps {
        let mut key = some_key(&mut random);
        key.push(thread);
        match tree.get(&key, assume_pinned()) {
            Lookup::Found(value) => {
                assert!(own.contains(&key) && value == value_of(&key), "{key:?}: {value}")
            }
            Lookup::Missing(witness) => {
                assert!(!own.contains(&key), "{key:?} is lost");
                misses.push((key.clone(), witness));
            }
        }
        if own.remove(&key) {
            take(tree, memory, &key);
        } else {
            put(tree, memory, &key);
            let stale =
                |(missed, witness): &(Vec<u8>, Witness)| *missed == key && witness.holds(assume_pinned());
            assert!(!misses.iter().any(stale), "{key:?} came behind a witness");
            own.insert(key);
        }
    }
}

pub(super) fn both_ways(iterations: usize, prepare: fn(&Masstree, &mut BookedMemory), works: Works) {
    schedules(iterations, prepare, works.clone());
    schedules_with_long_rests(iterations, prepare, works);
}

#[test]
fn what_writers_and_scans_are_told_is_true() {
    both_ways(
        3_000,
        |tree, memory| tens(tree, memory, 13),
        vec![
            |tree, memory| write(tree, memory, 1, 12),
            |tree, memory| write(tree, memory, 2, 12),
            |tree, _| scan_twice(tree),
        ],
    );
}

#[test]
fn a_batch_that_meets_a_dying_leaf_is_told_of_what_comes_there() {
    both_ways(
        3_000,
        |tree, memory| {
            // The second leaf has one key left.
            tens(tree, memory, 30);
            (16..30).for_each(|n| take(tree, memory, &number(n * 10)));
        },
        vec![
            |tree, memory| {
                take(tree, memory, &number(150));
                put(tree, memory, &number(155));
                take(tree, memory, &number(155));
                put(tree, memory, &number(157));
            },
            |tree, _| batch_then_get(tree, &[&number(155), &number(157)]),
            |tree, _| scan_twice(tree),
        ],
    );
}

#[test]
fn a_batch_that_meets_a_dying_layer_is_told_of_what_comes_there() {
    both_ways(
        3_000,
        |tree, memory| {
            put(tree, memory, b"prefix--one");
            put(tree, memory, b"prefix--two");
        },
        vec![
            |tree, memory| {
                take(tree, memory, b"prefix--one");
                take(tree, memory, b"prefix--two");
                put(tree, memory, b"prefix--key");
                put(tree, memory, b"prefix--six");
            },
            |tree, _| batch_then_get(tree, &[b"prefix--key", b"prefix--six"]),
            |tree, _| scan_twice(tree),
        ],
    );
}

#[test]
fn a_key_keeps_its_value_while_its_slot_becomes_a_layer() {
    both_ways(
        4_000,
        |tree, memory| put(tree, memory, b"prefix--prefix--one"),
        vec![
            |tree, memory| {
                put(tree, memory, b"prefix--prefix--two");
                take(tree, memory, b"prefix--prefix--two");
            },
            |tree, memory| {
                put(tree, memory, b"prefix--p");
                take(tree, memory, b"prefix--p");
            },
            |tree, _| watch(tree, b"prefix--prefix--one"),
        ],
    );
}

#[test]
fn a_key_keeps_its_value_while_its_leaf_and_suffix_block_are_replaced() {
    const KEY: &[u8] = b"12345678 and more";
    both_ways(
        3_000,
        |tree, memory| {
            tens(tree, memory, 14);
            put(tree, memory, KEY);
        },
        vec![
            |tree, memory| {
                put(tree, memory, b"12345677 and so on, a longer one");
                put(tree, memory, b"12345679 which is the longest of them all");
                take(tree, memory, b"12345677 and so on, a longer one");
            },
            |tree, memory| (1..5).for_each(|n| put(tree, memory, &number(n))),
            |tree, _| watch(tree, KEY),
        ],
    );
}

/// A key of the layer below the number 5.
fn in_the_layer(n: u64) -> Vec<u8> {
    [number(5), number(n)].concat()
}

/// Inserts keys one after the other, then removes the keys.
pub(super) fn grow_and_shrink<K: AsRef<[u8]>>(
    tree: &Masstree,
    memory: &mut BookedMemory,
    keys: impl Iterator<Item = K> + Clone,
) {
    keys.clone().for_each(|key| put(tree, memory, key.as_ref()));
    keys.for_each(|key| take(tree, memory, key.as_ref()));
}

/// Layers with more than one leaf: the roots split, collapse and go while the slots of the roots move.
#[test]
fn a_layers_root_grows_and_shrinks_while_its_slot_moves() {
    both_ways(
        1_500,
        |tree, memory| {
            tens(tree, memory, 13);
            (0..4).for_each(|n| put(tree, memory, &in_the_layer(n)));
        },
        vec![
            |tree, memory| grow_and_shrink(tree, memory, (20..30).map(in_the_layer)),
            |tree, memory| grow_and_shrink(tree, memory, (40..48).map(in_the_layer)),
            // The leaf above is full: it splits, and the slot moves.
            |tree, memory| grow_and_shrink(tree, memory, (1..5).map(number)),
            |tree, _| scan_twice(tree),
        ],
    );
}

/// A key of a layer behind three slices shared by the layer's keys.
pub(super) fn behind_a_skip(n: u64) -> Vec<u8> {
    [number(5), *b"skipped-", *b"skipped-", number(n)].concat()
}

/// A key that parts from the skip at one of its bytes.
pub(super) fn key_diverging_at(at: u64) -> Vec<u8> {
    [&behind_a_skip(0)[..at as usize], b"x"].concat()
}

/// A skip parts and its blocks are replaced, while the root behind the skip splits and collapses, and the slot moves.
#[test]
fn a_skip_parts_while_what_it_leads_to_changes() {
    both_ways(
        1_500,
        |tree, memory| {
            tens(tree, memory, 13);
            (0..14).for_each(|n| put(tree, memory, &behind_a_skip(n)));
        },
        vec![
            |tree, memory| grow_and_shrink(tree, memory, (20..23).map(behind_a_skip)),
            |tree, memory| grow_and_shrink(tree, memory, [17, 9, 12].map(key_diverging_at).into_iter()),
            // The leaf above is full: it splits, and the slot moves.
            |tree, memory| grow_and_shrink(tree, memory, (1..4).map(number)),
            |tree, _| watch(tree, &behind_a_skip(13)),
        ],
    );
}

/// A layer behind a skip comes and goes, while another key parts from the skip.
#[test]
fn a_skip_comes_and_goes_while_it_parts() {
    both_ways(
        3_000,
        |tree, memory| put(tree, memory, &behind_a_skip(1)),
        vec![
            |tree, memory| grow_and_shrink(tree, memory, (2..4).map(behind_a_skip)),
            |tree, memory| grow_and_shrink(tree, memory, [23, 10].map(key_diverging_at).into_iter()),
            |tree, _| scan_twice(tree),
            |tree, _| {
                batch_then_get(tree, &[&key_diverging_at(10), &key_diverging_at(23), &behind_a_skip(3)])
            },
        ],
    );
}

/// Several flights side by side, of several layers, while the flights' entry roots split and collapse.
#[test]
fn batches_are_told_the_truth_while_roots_change() {
    fn batches(tree: &Masstree) {
        let stable = (0..12).map(|n| number(n * 10).to_vec()).chain((0..13).map(in_the_layer));
        let mut keys: Vec<_> = stable.collect();
        let stable = keys.len();
        keys.extend([number(3).to_vec(), number(7).to_vec(), in_the_layer(22), in_the_layer(24)]);
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let mut found = 0;
        Masstree::get_batch(probes(tree, &keys[..stable]), assume_pinned(), &mut |index, lookup| {
            assert_eq!(lookup, Lookup::Found(value_of(keys[index])), "{:?}", keys[index]);
            found += 1;
        });
        assert_eq!(found, stable);
        batch_then_get(tree, &keys[stable - 2..]);
    }
    both_ways(
        1_500,
        |tree, memory| {
            tens(tree, memory, 12);
            (0..13).for_each(|n| put(tree, memory, &in_the_layer(n)));
        },
        vec![
            |tree, memory| grow_and_shrink(tree, memory, (20..25).map(in_the_layer)),
            |tree, memory| grow_and_shrink(tree, memory, [3, 6, 7, 8].map(number).into_iter()),
            |tree, _| batches(tree),
        ],
    );
}

/// Few steps: the schedules try a rest at every step, also between a look at a leaf's tags and a look at the version.
#[test]
fn a_key_that_comes_while_a_batch_looks_fails_the_miss() {
    both_ways(
        2_000,
        |tree, memory| tens(tree, memory, 2),
        vec![|tree, memory| put(tree, memory, &number(5)), |tree, _| batch_then_get(tree, &[&number(5)])],
    );
}

/// A slot that a batch has asked for is freed, and taken by a key with the same tag and kind.
#[test]
fn a_batch_never_takes_the_value_of_who_took_the_slot() {
    fn twins() -> [[u8; 8]; 2] {
        let tag_of = |n: u64| tag(KeyPart::from_rest(&number(n)));
        let second = (2..).find(|&n| tag_of(n) == tag_of(1)).expect("tags are bytes");
        [number(1), number(second)]
    }
    both_ways(
        4_000,
        |tree, memory| put(tree, memory, &twins()[0]),
        vec![
            |tree, memory| {
                let [one, other] = twins();
                take(tree, memory, &one);
                put(tree, memory, &other);
                take(tree, memory, &other);
                put(tree, memory, &one);
            },
            |tree, _| {
                let [one, other] = twins();
                (0..3).for_each(|_| batch_then_get(tree, &[&one, &other]));
            },
        ],
    );
}

/// A replace moves no version: a thread that acts on a value must read the value again under the lock. Two threads
/// count a key up; a third removes the key with the count that the third thread saw.
fn count_and_take() {
    const KEY: &[u8] = b"counter";
    let mut memory = BookedMemory::default();
    let tree = Arc::new(Masstree::new(&mut memory));
    assert_eq!(super::insert(&tree, &mut memory, KEY, 0), Insert::Inserted);
    let count = |tree: Arc<Masstree>| {
        let mut counted = 0;
        for _ in 0..4 {
            if let Lookup::Found(value) = tree.get(KEY, assume_pinned()) {
                counted += u64::from(tree.replace(KEY, value, value + 1, assume_pinned()));
            }
        }
        counted
    };
    let counters: Vec<_> = (0..2)
        .map(|_| {
            let tree = tree.clone();
            shuttle::thread::spawn(move || count(tree))
        })
        .collect();
    let taken = match tree.get(KEY, assume_pinned()) {
        Lookup::Found(value) => tree.remove(KEY, value, &mut memory, assume_pinned()).then_some(value),
        Lookup::Missing(_) => panic!("nobody else takes it"),
    };
    let counted: u64 = counters.into_iter().map(|counter| counter.join().unwrap()).sum();
    match tree.get(KEY, assume_pinned()) {
        Lookup::Found(value) => assert_eq!((value, None), (counted, taken), "a count is lost"),
        Lookup::Missing(_) => assert_eq!(Some(counted), taken, "a count was taken away unseen"),
    }
}

#[test]
fn a_replace_is_neither_lost_nor_removed_unseen() {
    shuttle::check_random(count_and_take, scale_iterations(3_000));
    shuttle::check_pct(count_and_take, scale_iterations(3_000), 4);
}
