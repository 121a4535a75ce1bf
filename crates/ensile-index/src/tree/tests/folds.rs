//! Layers that only lead on are folded, and layers that hold one key stay (FOLD).

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

/// The layer stays with one key: what is left is found, scanned, replaced, and gone when it goes.
#[test]
fn of_two_keys_that_part_anywhere_the_one_left_is_what_it_was() {
    for shared in [8, 9, 15, 16, 17, 24, 48, 4_000] {
        for end in [&b""[..], b"a", b"abcdefg", b"abcdefgh", b"abcdefghi", &[0; 9], &[0xff; 100]] {
            let keys =
                [[&vec![b'k'; shared][..], end].concat(), [&vec![b'k'; shared][..], b"other"].concat()];
            for stays in [0, 1] {
                let (stays, goes) = (&keys[stays], &keys[1 - stays]);
                let mut bench = filled(&keys);
                let before = bench.check();
                let value = bench.get(stays).expect("it is there");
                assert!(bench.remove(goes, 1 - value));
                let shape = bench.check();
                assert_eq!((shape.keys, shape.bytes), (1, before.bytes), "{stays:?} is left");
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

/// Of each prefix there is one key, and its successor comes before it goes, as in a short queue. That changes nothing
/// above the prefix's layer, so reads below other prefixes are in no conflict, and it obtains nothing.
#[test]
fn successions_below_one_prefix_touch_no_other() {
    let key =
        |prefix: u64, turn: u64| [&prefix.to_be_bytes()[..], &[b'k'; 400], &turn.to_be_bytes()].concat();
    let mut bench = Bench::new();
    for prefix in 0..15 {
        assert_eq!(bench.insert(&key(prefix, 0), 0), Insert::Inserted);
        assert_eq!(bench.insert(&key(prefix, 1), 1), Insert::Inserted);
        assert!(bench.remove(&key(prefix, 0), 0));
    }
    let shape = bench.check();
    let others: Vec<_> = [0, 7, 14].map(|prefix| bench.miss(&key(prefix, 0))).into();
    let above = bench.miss(b"above");
    for turn in 2..200 {
        assert_eq!(bench.insert(&key(3, turn), turn), Insert::Inserted);
        assert!(bench.remove(&key(3, turn - 1), turn - 1));
        assert_eq!(bench.check(), shape, "turn {turn}");
    }
    let holds = |witness: &crate::Witness| witness.holds(crate::testing::assume_pinned());
    assert!(holds(&above) && others.iter().all(holds), "a succession moved another prefix's version");
}

/// A layer of one key becomes one that only leads on, when a key comes that shares more with it. It goes when the layer
/// below has one entry again, so no chain of such layers grows.
#[test]
fn keys_that_share_more_with_each_turn_make_no_chain_of_layers() {
    const TURNS: usize = 100;
    let longest = vec![b'k'; 8 * TURNS + 9];
    let parting = |turn: usize| [&longest[..8 * turn], b"x"].concat();
    // Another key keeps the third layer in use, or none does.
    for (parts, depth) in [(None, 3), (Some(3), 5)] {
        let mut bench = filled(std::slice::from_ref(&longest));
        for turn in 1..TURNS {
            assert_eq!(bench.insert(&parting(turn), 1), Insert::Inserted);
            if parts == Some(turn) {
                assert_eq!(bench.insert(&[&longest[..8 * turn], b"y"].concat(), 1), Insert::Inserted);
            }
            assert!(bench.check().depth <= depth, "turn {turn}: {:?}", bench.check());
            assert!(bench.remove(&parting(turn), 1));
            assert!(bench.check().depth <= depth, "turn {turn}: {:?}", bench.check());
            assert_eq!(bench.get(&longest), Some(0));
        }
    }
}

/// A key of 4,001 bytes has a neighbour in each of 500 layers. Whatever order they go in, each layer goes with its own,
/// but for the first layer and the key's own.
#[test]
fn a_key_below_five_hundred_layers_stands_behind_one_skip_when_its_neighbours_are_gone() {
    const LAYERS: usize = 500;
    let longest = vec![b'k'; 8 * LAYERS + 1];
    let mut random = Random::from_seed(7);
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
            let stay =
                neighbours[gone + 1..].iter().filter(|&&layer| (1..LAYERS - 1).contains(&layer)).count();
            if gone % 50 == 0 || gone + 3 > LAYERS {
                assert_eq!(bench.check().layers, stay + 2, "order {order}");
            }
            assert_eq!(bench.get(&longest), Some(0));
        }
        let shape = bench.check();
        println!("{} bytes, and before {}", shape.bytes, before.bytes);
        assert_eq!((shape.keys, shape.layers, shape.leaves, shape.skip_blocks), (1, 2, 2, 1));
        assert!(shape.bytes < 2 * (320 + 136) + 3 * longest.len() + 16, "{shape:?}");
        assert_scans(&bench, &Model::from([(longest.clone(), 0)]));
    }
}

/// Keys that share long prefixes in all ways come and go; those left stand in as few layers as they can.
#[test]
fn any_keys_left_of_many_with_long_prefixes_stand_in_few_layers() {
    for seed in 0..60 {
        let mut random = Random::from_seed(seed);
        let long_key = |random: &mut Random| {
            let mut key = vec![b'k'; 8 * random.next_below(60) as usize + random.next_below(8) as usize];
            for _ in 0..random.next_below(3) {
                if let Some(byte) = key.get_mut(random.next_below(480) as usize) {
                    *byte = b'j' + random.next_below(3) as u8;
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
            // A layer has two entries, or one key, or stands above one that has two entries.
            assert!(shape.layers <= 1 + 3 * keys.len(), "{shape:?}");
            let mut alone = Bench::new();
            model.iter().for_each(|(key, &value)| assert_eq!(alone.insert(key, value), Insert::Inserted));
            let others = alone.check();
            assert!(
                shape.keys == others.keys && shape.depth <= 2 * others.depth + 1,
                "{shape:?}, {others:?}"
            );
            model.iter().for_each(|(key, &value)| assert_eq!(bench.get(key), Some(value)));
            assert_scans(&bench, &model);
        }
    }
}
