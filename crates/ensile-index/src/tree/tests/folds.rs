//! Layers that serve one entry again are folded, and what stands in their place is what a tree without them has (FOLD).

use std::ops::Bound;

use ensile_base::random::Random;

use super::model::{Model, scan_model};
use crate::testing::Bench;
use crate::{Direction, Insert};

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];

/// A tree with these keys, each with its position as the value.
fn filled(keys: &[Vec<u8>]) -> Bench {
    let mut bench = Bench::new();
    for (value, key) in keys.iter().enumerate() {
        assert_eq!(bench.insert(key, value as u64), Insert::Inserted, "{key:?}");
    }
    bench
}

fn assert_scans(bench: &Bench, model: &Model) {
    for direction in BOTH {
        let (lower, upper) = (Bound::Unbounded, Bound::Unbounded);
        assert_eq!(
            bench.scan(lower, upper, direction).entries,
            scan_model(model, lower, upper, direction),
            "{direction:?}"
        );
    }
}

#[test]
fn of_two_keys_that_part_anywhere_the_one_left_stands_in_the_leaf_above() {
    for shared in [8, 9, 15, 16, 17, 24, 48, 4_000] {
        for end in [&b""[..], b"a", b"abcdefg", b"abcdefgh", b"abcdefghi", &[0; 9], &[0xff; 100]] {
            let keys =
                [[&vec![b'k'; shared][..], end].concat(), [&vec![b'k'; shared][..], b"other"].concat()];
            for stays in [0, 1] {
                let (stays, goes) = (&keys[stays], &keys[1 - stays]);
                let mut bench = filled(&keys);
                let value = bench.get(stays).expect("it is there");
                assert!(bench.remove(goes, 1 - value));
                let shape = bench.check();
                assert_eq!((shape.keys, shape.leaves, shape.skip_blocks), (1, 1, 0), "{stays:?} is left");
                assert!(shape.bytes < 320 + 136 + 2 * (shared + 100) + 16, "{shape:?}");
                assert_eq!((bench.get(stays), bench.get(goes)), (Some(value), None));
                assert_scans(&bench, &Model::from([(stays.clone(), value)]));
                assert!(bench.replace(stays, value, 7));
                assert_eq!(bench.insert(goes, 8), Insert::Inserted);
                assert_eq!((bench.get(stays), bench.get(goes)), (Some(7), Some(8)));
                assert_scans(&bench, &Model::from([(stays.clone(), 7), (goes.clone(), 8)]));
                assert!(bench.remove(stays, 7) && bench.remove(goes, 8));
                assert_eq!(bench.check().leaves, 1);
            }
        }
    }
}

/// A key that parts from a skip leaves two layers where one was; when it goes, so does the second one.
#[test]
fn a_skip_that_was_parted_is_whole_again_when_the_key_that_parts_goes() {
    let key = |last: u8| [&[b'k'; 48][..], &[last]].concat();
    for parting in 8..48 {
        let mut bench = filled(&[key(0), key(1)]);
        let whole = bench.check();
        let parts = [&key(0)[..parting], b"x"].concat();
        let miss = bench.miss(&key(2));
        assert_eq!(bench.insert(&parts, 2), Insert::Inserted);
        assert_eq!(bench.check().layers, 3);
        assert!(bench.remove(&parts, 2));
        assert_eq!(bench.check(), whole, "parted at {parting}");
        assert!(miss.holds(crate::testing::pinned()), "the layer below was not touched");
        assert_eq!((bench.get(&key(0)), bench.get(&key(1)), bench.get(&parts)), (Some(0), Some(1), None));
        assert_scans(&bench, &Model::from([(key(0), 0), (key(1), 1)]));
    }
}

/// A key of 4,001 bytes has a neighbour in each of 500 layers. Whatever order they go in, each layer goes with its own.
#[test]
fn a_key_below_five_hundred_layers_stands_in_one_leaf_when_its_neighbours_are_gone() {
    const LAYERS: usize = 500;
    let longest = vec![b'k'; 8 * LAYERS + 1];
    let mut random = Random::seeded(7);
    for order in 0..4 {
        let mut neighbours: Vec<usize> = (0..LAYERS).collect();
        let mut bench = Bench::new();
        bench.insert(&longest, 0);
        let neighbour = |layer: usize| [&longest[..8 * layer], b"l"].concat();
        neighbours.iter().for_each(|&layer| assert_eq!(bench.insert(&neighbour(layer), 1), Insert::Inserted));
        let before = bench.check();
        assert_eq!(before.depth, LAYERS);
        match order {
            0 => {}
            1 => neighbours.reverse(),
            2 => neighbours.sort_by_key(|layer| layer * 177 % LAYERS),
            _ => neighbours.sort_by_cached_key(|_| random.next_u64()),
        }
        for (gone, &layer) in neighbours.iter().enumerate() {
            assert!(bench.remove(&neighbour(layer), 1));
            // Layer 0 stays without its neighbour, but no other does.
            let left = LAYERS - gone - 1;
            let first_is_gone = neighbours[..=gone].contains(&0);
            if gone % 50 == 0 || left < 3 {
                assert_eq!(bench.check().layers, left + usize::from(first_is_gone), "order {order}");
            }
            assert_eq!(bench.get(&longest), Some(0));
        }
        let shape = bench.check();
        println!("{} bytes, and before {}", shape.bytes, before.bytes);
        assert_eq!((shape.keys, shape.layers, shape.leaves, shape.skip_blocks), (1, 1, 1, 0));
        assert!(shape.bytes < 320 + 136 + 2 * longest.len() + 16, "{shape:?}");
        assert_scans(&bench, &Model::from([(longest.clone(), 0)]));
    }
}

#[test]
fn pairs_of_long_keys_take_the_bytes_of_one_key_each_when_one_of_each_is_gone() {
    let key = |pair: u64, last: u8| {
        let mut key = pair.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec();
        key.resize(4_000, b'k');
        key.push(last);
        key
    };
    // The key that came first, the one that came second, either of them.
    for goes in [[1, 1], [2, 2], [1, 2]] {
        let mut bench = Bench::new();
        for pair in 0..200 {
            [1, 2].iter().for_each(|&last| assert_eq!(bench.insert(&key(pair, last), 9), Insert::Inserted));
        }
        let before = bench.check();
        assert_eq!((before.layers, before.skip_blocks), (201, 200));
        for pair in 0..200 {
            assert!(bench.remove(&key(pair, goes[pair as usize % 2]), 9));
        }
        let after = bench.check();
        println!("{goes:?} gone: {} bytes, and before {}", after.bytes, before.bytes);
        assert_eq!((after.keys, after.layers, after.skip_blocks), (200, 1, 0));
        let mut alone = Bench::new();
        for pair in 0..200 {
            let stays = key(pair, 3 - goes[pair as usize % 2]);
            assert_eq!(bench.get(&stays), Some(9));
            alone.insert(&stays, 9);
        }
        println!("as if they had always been alone: {}", alone.check().bytes);
        assert!(after.bytes < alone.check().bytes * 5 / 4, "{after:?}, alone {:?}", alone.check());
    }
}

/// The suffix block of the leaf above still has the key's bytes: neither they nor the block are made again.
#[test]
fn a_key_whose_neighbour_comes_and_goes_keeps_its_suffix_block() {
    let keys: Vec<Vec<u8>> = (0..6u64).map(|n| [&n.to_be_bytes()[..], &[b'k'; 400], b"a"].concat()).collect();
    let mut bench = filled(&keys);
    let shape = bench.check();
    for round in 0..200 {
        let at = round % keys.len();
        let neighbour = [&keys[at][..keys[at].len() - 1], b"b"].concat();
        assert_eq!(bench.insert(&neighbour, 9), Insert::Inserted);
        assert_eq!(bench.check().layers, 2);
        assert!(bench.remove(&neighbour, 9));
        assert_eq!(bench.check(), shape, "the tree is as it was");
    }
}

/// Keys that share long prefixes in all ways come and go; those left stand in as few layers as they can.
#[test]
fn any_keys_left_of_many_with_long_prefixes_stand_as_if_the_others_had_never_been() {
    for seed in 0..60 {
        let mut random = Random::seeded(seed);
        let long_key = |random: &mut Random| {
            let mut key = vec![b'k'; 8 * random.below(60) as usize + random.below(8) as usize];
            for _ in 0..random.below(3) {
                if let Some(byte) = key.get_mut(random.below(480) as usize) {
                    *byte = b'j' + random.below(3) as u8;
                }
            }
            key
        };
        let (mut bench, mut model) = (Bench::new(), Model::new());
        for value in 0..400 {
            let key = long_key(&mut random);
            if bench.insert(&key, value) == Insert::Inserted {
                model.insert(key, value);
            }
        }
        let mut keys: Vec<_> = model.keys().cloned().collect();
        keys.sort_by_cached_key(|_| random.next_u64());
        while let Some(key) = keys.pop() {
            assert!(bench.remove(&key, model.remove(&key).expect("it is there")));
            if keys.len() > 20 && keys.len() % 10 > 0 {
                continue;
            }
            let shape = bench.check();
            // A layer has two entries, of which each leads to a key: so there are fewer layers than keys.
            assert!(shape.layers <= keys.len().max(1), "{shape:?}");
            let mut alone = Bench::new();
            model.iter().for_each(|(key, &value)| assert_eq!(alone.insert(key, value), Insert::Inserted));
            let others = alone.check();
            assert_eq!(
                (shape.keys, shape.layers, shape.skip_blocks),
                (others.keys, others.layers, others.skip_blocks)
            );
            assert_eq!(shape.depth, others.depth);
            model.iter().for_each(|(key, &value)| assert_eq!(bench.get(key), Some(value)));
            assert_scans(&bench, &model);
        }
    }
}
