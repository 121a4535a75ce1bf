//! Keys that agree in a part that a comparison looks at: tag, half a slice, slice, suffix, bytes of a skip. Each is
//! its own key all the same, in every operation.

use std::ops::Bound;

use ensile_base::random::Random;

use super::many::{insert_group, insert_run};
use super::model::{Model, scan_model};
use crate::key::KeyPart;
use crate::tags::tag;
use crate::testing::{Bench, assume_pinned, partly_equal_keys, probes};
use crate::{Direction, Insert, Lookup, Masstree};

/// Each key is found if it is in the model, and only then, by itself and in a batch.
fn check_gets(bench: &Bench, model: &Model, keys: &[Vec<u8>]) {
    for key in keys {
        assert_eq!(bench.get(key), model.get(key).copied(), "{key:?}");
    }
    Masstree::get_batch(probes(&bench.tree, keys), assume_pinned(), &mut |index, lookup| {
        let found = if let Lookup::Found(value) = lookup { Some(value) } else { None };
        assert_eq!(found, model.get(&keys[index]).copied(), "{:?}, in a batch", keys[index]);
    });
}

/// Inserts every other key, then works on each key, and looks at all of them behind that.
fn check(keys: &[Vec<u8>]) {
    let (mut bench, mut model) = (Bench::new(), Model::new());
    for (value, key) in (0..).zip(keys).step_by(2) {
        assert_eq!(bench.insert(key, value), Insert::Inserted, "{key:?}");
        model.insert(key.clone(), value);
        check_gets(&bench, &model, keys);
    }
    for (value, key) in (1000..).zip(keys) {
        match model.get(key).copied() {
            Some(before) => {
                assert_eq!(bench.insert(key, value), Insert::Exists(before), "{key:?}");
                assert!(bench.replace(key, before, value), "{key:?}");
                model.insert(key.clone(), value);
            }
            None => {
                assert!(!bench.replace(key, 0, value) && !bench.remove(key, 0), "{key:?}");
                assert_eq!(bench.insert(key, value), Insert::Inserted, "{key:?}");
                model.insert(key.clone(), value);
            }
        }
    }
    check_gets(&bench, &model, keys);
    for key in keys {
        assert!(bench.remove(key, model.remove(key).expect("all are there")), "{key:?}");
        check_gets(&bench, &model, keys);
    }
    bench.check();
}

#[test]
fn every_operation_on_a_key_leaves_those_alone_that_agree_with_it_in_part() {
    for seed in 0..150 {
        check(&partly_equal_keys(&mut Random::from_seed(seed)));
    }
}

/// A search finds a slot by its tag, and then has nothing but slice and kind to tell the keys apart.
#[test]
fn keys_of_one_tag_that_agree_in_half_of_their_slices_are_told_apart() {
    const FIXED: u64 = 0x6b6b_6b6b;
    for number in [|n: u64| FIXED << 32 | n, |n: u64| n << 32 | FIXED] {
        for end in [&b""[..], b"suffix"] {
            let key = |n: u64| [&number(n).to_be_bytes()[..], end].concat();
            let is_of_one_tag =
                |key_of: &Vec<u8>| tag(KeyPart::from_rest(key_of)) == tag(KeyPart::from_rest(&key(0)));
            let keys: Vec<_> = (0..1 << 16).map(key).filter(is_of_one_tag).take(40).collect();
            assert_eq!(keys.len(), 40, "one key of 256 has a tag");
            check(&keys);
        }
    }
}

#[test]
fn groups_and_runs_of_inserts_tell_keys_apart_that_agree_in_part() {
    for seed in 0..150 {
        let mut random = Random::from_seed(seed);
        let keys = partly_equal_keys(&mut random);
        let (first, second) = keys.split_at(random.next_below(keys.len() as u64) as usize);
        let mut bench = Bench::new();
        // The second group meets the keys of the first one.
        for (inserts, group) in [(first.len(), first), (second.len(), &keys)] {
            let new = insert_group(&bench.tree, group, 7, &mut bench.memory);
            assert_eq!(new.iter().filter(|insert| **insert == Insert::Inserted).count(), inserts);
        }
        let mut run = Bench::new();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        for (inserts, keys) in [(sorted.len(), &sorted), (0, &keys)] {
            assert_eq!(insert_run(&run.tree, keys.iter().map(|key| (7, key)), &mut run.memory), inserts);
        }
        for bench in [bench, run] {
            let entries = bench.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward).entries;
            assert!(entries.iter().map(|(key, _)| key).eq(&sorted), "seed {seed}");
            bench.check();
        }
    }
}

#[test]
fn scans_begin_and_end_at_their_bounds_whatever_agrees_with_these_in_part() {
    for seed in 0..40 {
        let mut random = Random::from_seed(seed);
        let keys = partly_equal_keys(&mut random);
        let (mut bench, mut model) = (Bench::new(), Model::new());
        // Bounds that are there, and bounds that are not.
        for (value, key) in (0..).zip(&keys).step_by(2) {
            bench.insert(key, value);
            model.insert(key.clone(), value);
        }
        for lower in &keys {
            for upper in &keys {
                let bound = |key, random: &mut Random| match random.percent(50) {
                    true => Bound::Included(key),
                    false => Bound::Excluded(key),
                };
                let (lower, upper) = (bound(&lower[..], &mut random), bound(&upper[..], &mut random));
                for direction in [Direction::Forward, Direction::Reverse] {
                    let entries = bench.scan(lower, upper, direction).entries;
                    let expected = scan_model(&model, lower, upper, direction);
                    assert_eq!(entries, expected, "{lower:?} {upper:?} {direction:?}");
                }
            }
        }
    }
}
