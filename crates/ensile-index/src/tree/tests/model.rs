//! The tree against `BTreeMap`: random operations on keys made to hurt.

use std::collections::BTreeMap;
use std::ops::Bound;

use ensile_base::random::Random;
use proptest::prelude::*;

use crate::testing::{Bench, assume_pinned, hostile_key, probes};
use crate::{Direction, Insert, Lookup, Masstree};

pub(super) type Model = BTreeMap<Vec<u8>, u64>;

pub(super) fn scan_model(
    model: &Model,
    lower: Bound<&[u8]>,
    upper: Bound<&[u8]>,
    direction: Direction,
) -> Vec<(Vec<u8>, u64)> {
    let within = |key: &[u8]| {
        let above = match lower {
            Bound::Included(lower) => key >= lower,
            Bound::Excluded(lower) => key > lower,
            Bound::Unbounded => true,
        };
        let below = match upper {
            Bound::Included(upper) => key <= upper,
            Bound::Excluded(upper) => key < upper,
            Bound::Unbounded => true,
        };
        above && below
    };
    let mut entries: Vec<_> =
        model.iter().filter(|(key, _)| within(key)).map(|(k, v)| (k.clone(), *v)).collect();
    if direction == Direction::Reverse {
        entries.reverse();
    }
    entries
}

fn check_scans(bench: &Bench, model: &Model, random: &mut Random) {
    let (a, b) = (hostile_key(random), hostile_key(random));
    let mut bound = |key| match random.next_below(3) {
        0 => Bound::Included(key),
        1 => Bound::Excluded(key),
        _ => Bound::Unbounded,
    };
    let (lower, upper) = (bound(&a[..]), bound(&b[..]));
    for direction in [Direction::Forward, Direction::Reverse] {
        let got = bench.scan(lower, upper, direction);
        assert!(got.witnesses.iter().all(|witness| witness.holds(assume_pinned())));
        assert_eq!(
            got.entries,
            scan_model(model, lower, upper, direction),
            "{lower:?} {upper:?} {direction:?}"
        );
    }
}

fn check_batch(bench: &Bench, model: &Model, random: &mut Random) {
    let keys: Vec<_> = (0..random.next_below(40)).map(|_| hostile_key(random)).collect();
    let mut answers = vec![None; keys.len()];
    Masstree::get_batch(probes(&bench.tree, &keys), assume_pinned(), &mut |index, lookup| {
        assert!(answers[index].replace(lookup).is_none(), "each probe ends once");
    });
    for (key, answer) in keys.iter().zip(answers) {
        let value = match answer.expect("each probe ends") {
            Lookup::Found(value) => Some(value),
            Lookup::Missing(witness) => {
                assert_eq!(witness, bench.miss(key));
                None
            }
        };
        assert_eq!(value, model.get(key).copied());
    }
}

fn step(bench: &mut Bench, model: &mut Model, random: &mut Random, value: u64, insert_percent: u64) {
    let key = if random.percent(30) && !model.is_empty() {
        let from = hostile_key(random);
        model.range(from..).next().or(model.iter().next()).expect("not empty").0.clone()
    } else {
        hostile_key(random)
    };
    let present = model.get(&key).copied();
    if random.percent(insert_percent) {
        let expected = present.map_or(Insert::Inserted, Insert::Exists);
        assert_eq!(bench.insert(&key, value), expected, "{key:?}");
        model.entry(key).or_insert(value);
    } else if random.percent(20) {
        let done = bench.tree.replace(&key, present.unwrap_or(1), value, assume_pinned());
        assert_eq!(done, present.is_some());
        assert!(!bench.tree.replace(&key, u64::MAX, 1, assume_pinned()));
        if done {
            model.insert(key, value);
        }
    } else {
        assert!(!bench.remove(&key, u64::MAX));
        assert_eq!(bench.remove(&key, present.unwrap_or(1)), present.is_some(), "{key:?}");
        model.remove(&key);
    }
}

#[test]
fn random_operations_agree_with_a_model() {
    for seed in 0..12 {
        let mut random = Random::from_seed(seed);
        let (mut bench, mut model) = (Bench::new(), Model::new());
        for phase in 0..6 {
            let insert_percent = [90, 60, 20, 80, 50, 5][phase];
            for round in 0..1500 {
                step(
                    &mut bench,
                    &mut model,
                    &mut random,
                    (phase * 10_000 + round + 2) as u64,
                    insert_percent,
                );
                if round % 50 == 0 {
                    check_scans(&bench, &model, &mut random);
                    check_batch(&bench, &model, &mut random);
                }
                if round % 250 == 0 {
                    assert_eq!(bench.check().keys, model.len());
                }
            }
            for (key, value) in &model {
                assert_eq!(bench.get(key), Some(*value), "{key:?}");
            }
        }
        for (key, value) in std::mem::take(&mut model) {
            assert!(bench.remove(&key, value));
            assert_eq!(bench.get(&key), None);
        }
        let shape = bench.check();
        assert_eq!(
            (shape.keys, shape.layers, shape.leaves, shape.internals),
            (0, 1, 1, 0),
            "emptied to one leaf"
        );
    }
}

/// Keys of several leaves, of a layer of several leaves, of layers below that, and of one suffix.
fn keys_of_all_kinds() -> Vec<Vec<u8>> {
    let number = |n: u64| (n * 0x0100_0001).to_be_bytes().to_vec();
    let mut keys: Vec<Vec<u8>> = (0..45).map(number).collect();
    keys.push([number(9), b"suffix".to_vec()].concat());
    for n in 0..40 {
        keys.push([number(20), number(n)].concat());
    }
    for end in [&b"a"[..], b"a\0", b"abcdefgh", b"abcdefgh\0", b"abcdefghi", b"abcdefghijklmnopq"] {
        keys.push([&number(20), &number(20)[..], end].concat());
        keys.push([&number(31), end].concat());
        // Behind three slices that all of them share.
        keys.push([&number(33), &number(20), &number(20), end].concat());
    }
    keys
}

#[test]
fn ranges_end_right_wherever_a_key_stands() {
    let mut random = Random::from_seed(5);
    let (mut bench, mut model) = (Bench::new(), Model::new());
    let keys = keys_of_all_kinds();
    let mut bounds = vec![vec![]];
    for (value, key) in keys.iter().enumerate() {
        bench.insert(key, value as u64);
        model.insert(key.clone(), value as u64);
        let (short, long) = (&key[..key.len() - 1], |byte| [&key[..], &[byte]].concat());
        bounds.extend([key.clone(), short.to_vec(), long(0), long(0xff)]);
    }
    // A leaf and a layer that are empty, but are still there or are gone.
    for (value, key) in keys.iter().enumerate().filter(|(at, key)| (34..45).contains(at) || key.len() > 27) {
        assert!(bench.remove(key, value as u64));
        model.remove(key);
    }
    for end in &bounds {
        for _ in 0..4 {
            let begin = &bounds[random.next_below(bounds.len() as u64) as usize][..];
            let begin = [Bound::Included(begin), Bound::Excluded(begin), Bound::Unbounded]
                [random.next_below(3) as usize];
            for end in [Bound::Included(&end[..]), Bound::Excluded(&end[..])] {
                let forward = bench.scan(begin, end, Direction::Forward).entries;
                assert_eq!(forward, scan_model(&model, begin, end, Direction::Forward), "{begin:?} {end:?}");
                let reverse = bench.scan(end, begin, Direction::Reverse).entries;
                assert_eq!(reverse, scan_model(&model, end, begin, Direction::Reverse), "{end:?} {begin:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn any_keys_agree_with_a_model(
        keys in proptest::collection::vec(proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()], 0..30), 1..120),
        removals in proptest::collection::vec(any::<bool>(), 120),
        lower in proptest::collection::vec(0u8..3, 0..20),
        upper in proptest::collection::vec(253u8..=255, 0..20),
    ) {
        let (mut bench, mut model) = (Bench::new(), Model::new());
        for (value, key) in keys.iter().enumerate() {
            bench.insert(key, value as u64);
            model.entry(key.clone()).or_insert(value as u64);
        }
        prop_assert_eq!(bench.check().keys, model.len());
        for (key, remove) in keys.iter().zip(&removals) {
            if let Some(value) = model.get(key).copied().filter(|_| *remove) {
                prop_assert!(bench.remove(key, value));
                model.remove(key);
            }
        }
        prop_assert_eq!(bench.check().keys, model.len());
        let (lower, upper) = (Bound::Excluded(&lower[..]), Bound::Included(&upper[..]));
        for direction in [Direction::Forward, Direction::Reverse] {
            let expected = scan_model(&model, lower, upper, direction);
            prop_assert_eq!(bench.scan(lower, upper, direction).entries, expected);
        }
    }
}
