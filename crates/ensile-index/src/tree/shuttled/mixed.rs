//! Readers beside writers that do anything: what their witnesses vouch for must be so.

use ensile_base::random::Random;
use shuttle::rand::RngCore;

use super::{WHOLE, in_and_out, insert, schedules, schedules_with_long_rests, tens};
use crate::testing::{Memory, collect, pinned};
use crate::{Direction, Insert, Lookup, Masstree, Probe, Witness};

fn random() -> Random {
    Random::seeded(shuttle::rand::thread_rng().next_u64())
}

/// One of a few keys that share leaves, slices and layers.
fn some_key(random: &mut Random) -> Vec<u8> {
    match random.below(4) {
        0 | 1 => random.below(150).to_be_bytes().to_vec(),
        2 => [&b"prefix--"[..], &b"prefix--one"[..random.below(12) as usize]].concat(),
        _ => [&b"prefix--prefix--"[..], &[b'a' + random.below(3) as u8]].concat(),
    }
}

/// Inserts and removes: keys of its own parity only come and go, so the writer knows which are there.
fn write(tree: &Masstree, memory: &mut Memory, thread: u8, steps: usize) {
    let mut random = random();
    let mut own = std::collections::BTreeSet::new();
    let mut misses: Vec<(Vec<u8>, Witness)> = Vec::new();
    for _ in 0..steps {
        let mut key = some_key(&mut random);
        key.push(thread);
        match tree.get(&key, pinned()) {
            Lookup::Found(_) => assert!(own.contains(&key), "{key:?} came back"),
            Lookup::Missing(witness) => {
                assert!(!own.contains(&key), "{key:?} is lost");
                misses.push((key.clone(), witness));
            }
        }
        if own.remove(&key) {
            assert!(tree.remove(&key, 1, memory, pinned()));
        } else {
            assert_eq!(insert(tree, memory, &key, 1), Insert::Inserted);
            let stale = |(missed, witness): &(Vec<u8>, Witness)| *missed == key && witness.holds(pinned());
            assert!(!misses.iter().any(stale), "{key:?} came behind a witness");
            own.insert(key);
        }
    }
}

/// If all leaves of a scan are as they were, a second scan finds the same.
fn scan_twice(tree: &Masstree) {
    for (first, second) in [
        (Direction::Forward, Direction::Forward),
        (Direction::Forward, Direction::Reverse),
        (Direction::Reverse, Direction::Forward),
    ] {
        let seen = collect(tree, WHOLE, first);
        let mut again = collect(tree, WHOLE, second).entries;
        if !seen.witnesses.iter().all(|witness| witness.holds(pinned())) {
            continue;
        }
        if first != second {
            again.reverse();
        }
        assert_eq!(seen.entries, again, "{first:?}, then {second:?}");
    }
}

/// One batch, and later single reads: a key that is found has failed the batch's miss of it.
fn batch_then_get(tree: &Masstree, keys: &[&[u8]]) {
    let probes: Vec<_> = keys.iter().map(|key| Probe { tree, key }).collect();
    let mut misses: Vec<Option<Witness>> = vec![None; keys.len()];
    Masstree::get_batch(&probes, pinned(), &mut |index, lookup| {
        if let Lookup::Missing(witness) = lookup {
            misses[index] = Some(witness);
        }
    });
    for _ in 0..3 {
        for (key, miss) in keys.iter().zip(&misses) {
            if let Lookup::Found(_) = tree.get(key, pinned()) {
                let holds = miss.is_some_and(|miss| miss.holds(pinned()));
                assert!(!holds, "{key:?} appeared behind a batch's witness");
            }
        }
    }
}

#[test]
fn what_writers_and_scans_are_told_is_true() {
    let works: Vec<fn(&Masstree, &mut Memory)> = vec![
        |tree, memory| write(tree, memory, 1, 12),
        |tree, memory| write(tree, memory, 2, 12),
        |tree, _| scan_twice(tree),
    ];
    schedules(4_000, |tree, memory| tens(tree, memory, 13), works.clone());
    schedules_with_long_rests(4_000, |tree, memory| tens(tree, memory, 13), works);
}

fn one_key_in_the_second_leaf(tree: &Masstree, memory: &mut Memory) {
    tens(tree, memory, 30);
    for n in 16..30u64 {
        assert!(tree.remove(&(n * 10).to_be_bytes(), n, memory, pinned()));
    }
}

#[test]
fn a_batch_that_meets_a_dying_leaf_is_told_of_what_comes_there() {
    let works: Vec<fn(&Masstree, &mut Memory)> = vec![
        |tree, memory| {
            assert!(tree.remove(&150u64.to_be_bytes(), 15, memory, pinned()));
            in_and_out(tree, memory, 155..156);
            insert(tree, memory, &157u64.to_be_bytes(), 1);
        },
        |tree, _| batch_then_get(tree, &[&155u64.to_be_bytes(), &157u64.to_be_bytes()]),
        |tree, _| scan_twice(tree),
    ];
    schedules(4_000, one_key_in_the_second_leaf, works.clone());
    schedules_with_long_rests(2_000, one_key_in_the_second_leaf, works);
}

#[test]
fn a_batch_that_meets_a_dying_layer_is_told_of_what_comes_there() {
    fn layer(tree: &Masstree, memory: &mut Memory) {
        insert(tree, memory, b"prefix--one", 1);
        insert(tree, memory, b"prefix--two", 1);
    }
    let works: Vec<fn(&Masstree, &mut Memory)> = vec![
        |tree, memory| {
            assert!(tree.remove(b"prefix--one", 1, memory, pinned()));
            assert!(tree.remove(b"prefix--two", 1, memory, pinned()));
            insert(tree, memory, b"prefix--key", 1);
            insert(tree, memory, b"prefix--six", 1);
        },
        |tree, _| batch_then_get(tree, &[b"prefix--key", b"prefix--six"]),
        |tree, _| scan_twice(tree),
    ];
    schedules(4_000, layer, works.clone());
    schedules_with_long_rests(2_000, layer, works);
}

/// Layers with more than one leaf: their roots split, collapse and go while the slot that names them moves.
#[test]
fn a_layers_root_grows_and_shrinks_while_its_slot_moves() {
    fn in_the_layer(n: u64) -> Vec<u8> {
        [&5u64.to_be_bytes()[..], &n.to_be_bytes()].concat()
    }
    fn grow_and_shrink(tree: &Masstree, memory: &mut Memory, numbers: std::ops::Range<u64>) {
        for n in numbers.clone() {
            assert_eq!(insert(tree, memory, &in_the_layer(n), 1), Insert::Inserted);
        }
        for n in numbers {
            assert!(tree.remove(&in_the_layer(n), 1, memory, pinned()));
        }
    }
    let works: Vec<fn(&Masstree, &mut Memory)> = vec![
        |tree, memory| grow_and_shrink(tree, memory, 20..30),
        |tree, memory| grow_and_shrink(tree, memory, 40..48),
        // The leaf above is full: it splits, and the slot moves.
        |tree, memory| in_and_out(tree, memory, 1..8),
        |tree, _| scan_twice(tree),
    ];
    let prepare = |tree: &Masstree, memory: &mut Memory| {
        tens(tree, memory, 13);
        (0..4).for_each(|n| assert_eq!(insert(tree, memory, &in_the_layer(n), 1), Insert::Inserted));
    };
    schedules(1_500, prepare, works.clone());
    schedules_with_long_rests(1_500, prepare, works);
}
