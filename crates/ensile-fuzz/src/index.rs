//! Target: the index against `BTreeMap`. Steps are inserts, removals, replacements, look-ups, scans both ways with
//! limits, and a check of the whole tree and of the tree's memory. Keys share slices, end at a slice's end and hold
//! NULs.
//!
//! Neighbours: `ensile_index::testing::Bench` is the tree with its memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use ensile_index::testing::Bench;
use ensile_index::{Direction, Insert};

use crate::input::Input;

type Model = BTreeMap<Vec<u8>, u64>;

/// Most steps of an input.
const STEPS_MAX: usize = 3_000;
/// Unit of a run in a long key, in bytes: the length of a slice.
const RUN_BYTES: usize = 8;

/// Draws a key: bytes of the input, a long run with an ending, or a present key: unchanged, longer or shorter.
fn draw_key(input: &mut Input<'_>, model: &Model) -> Vec<u8> {
    let kind = input.byte();
    let mut key = match kind % 4 {
        0 => Vec::new(),
        1 => vec![[0, b'p', 255, b'z'][usize::from(kind >> 2) % 4]; RUN_BYTES * usize::from(kind >> 4)],
        2 => {
            let from = input.bytes(2).to_vec();
            model.range(from..).next().map(|(key, _)| key.clone()).unwrap_or_default()
        }
        _ => {
            let from = input.bytes(1).to_vec();
            let mut key = model.range(from..).next_back().map(|(key, _)| key.clone()).unwrap_or_default();
            key.truncate(key.len().saturating_sub(usize::from(kind >> 4)));
            key
        }
    };
    let more = input.choice(12);
    key.extend_from_slice(input.bytes(more));
    key
}

fn draw_bound<'k>(input: &mut Input<'_>, key: &'k [u8]) -> Bound<&'k [u8]> {
    match input.choice(3) {
        0 => Bound::Included(key),
        1 => Bound::Excluded(key),
        _ => Bound::Unbounded,
    }
}

fn is_within(key: &[u8], lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    let above = match lower {
        Bound::Included(lower) => key >= lower,
        Bound::Excluded(lower) => key > lower,
        Bound::Unbounded => true,
    };
    above
        && match upper {
            Bound::Included(upper) => key <= upper,
            Bound::Excluded(upper) => key < upper,
            Bound::Unbounded => true,
        }
}

fn check_scan(input: &mut Input<'_>, bench: &Bench, model: &Model) {
    let (one, other) = (draw_key(input, model), draw_key(input, model));
    let (lower, upper) = (draw_bound(input, &one), draw_bound(input, &other));
    let direction = if input.byte().is_multiple_of(2) { Direction::Forward } else { Direction::Reverse };
    let entries_max = usize::from(input.byte()) + 1;
    let within = model.iter().filter(|(key, _)| is_within(key, lower, upper));
    let own = |(key, value): (&Vec<u8>, &u64)| (key.clone(), *value);
    let expected: Vec<(Vec<u8>, u64)> = match direction {
        Direction::Forward => within.take(entries_max).map(own).collect(),
        Direction::Reverse => within.rev().take(entries_max).map(own).collect(),
    };
    let found = bench.scan_some(lower, upper, direction, entries_max);
    assert_eq!(found, expected, "{lower:?} {upper:?} {direction:?} up to {entries_max}");
}

/// A step is a byte for the action, and the bytes of the keys.
pub fn index(data: &[u8]) {
    let mut input = Input::new(data);
    let (mut bench, mut model) = (Bench::new(), Model::new());
    for step in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let (what, key) = (input.choice(8), draw_key(&mut input, &model));
        let (value, present) = (step as u64 + 1, model.get(&key).copied());
        match what {
            0..=2 => {
                let expected = present.map_or(Insert::Inserted, Insert::Exists);
                assert_eq!(bench.insert(&key, value), expected, "{key:?}");
                model.entry(key).or_insert(value);
            }
            3 | 4 => {
                assert!(!bench.remove(&key, u64::MAX), "nothing has this value");
                assert_eq!(bench.remove(&key, present.unwrap_or(1)), present.is_some(), "{key:?}");
                model.remove(&key);
            }
            5 => {
                assert_eq!(bench.replace(&key, present.unwrap_or(1), value), present.is_some(), "{key:?}");
                if present.is_some() {
                    model.insert(key, value);
                }
            }
            6 => assert_eq!(bench.get(&key), present, "{key:?}"),
            _ => check_scan(&mut input, &bench, &model),
        }
    }
    let all: Vec<_> = model.iter().map(|(key, value)| (key.clone(), *value)).collect();
    let unbounded = (Bound::Unbounded, Bound::Unbounded);
    assert_eq!(bench.scan_some(unbounded.0, unbounded.1, Direction::Forward, usize::MAX), all);
    assert_eq!(bench.check().keys, model.len());
    for (key, value) in model {
        assert!(bench.remove(&key, value), "{key:?}");
    }
    let shape = bench.check();
    assert_eq!((shape.keys, shape.layers, shape.leaves), (0, 1, 1), "emptied to one leaf");
}
