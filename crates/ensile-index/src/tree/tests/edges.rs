//! Loads in order, deep layers, queues, and other shapes that trees break on.

use std::ops::Bound;

use ensile_base::limits;
use ensile_base::random::Random;

use crate::testing::{Bench, Collected, assume_pinned};
use crate::{Direction, Insert, Range};

fn number(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn load(bench: &mut Bench, numbers: impl IntoIterator<Item = u64>) {
    for n in numbers {
        bench.insert(&number(n), n + 1);
    }
}

#[test]
fn a_load_in_order_leaves_full_nodes_behind() {
    let mut bench = Bench::new();
    load(&mut bench, 0..100_000);
    let shape = bench.check();
    assert_eq!(shape.keys, 100_000);
    assert_eq!(shape.leaves, 100_000_usize.div_ceil(15));
    let bytes_per_key = shape.bytes as f64 / shape.keys as f64;
    assert!(bytes_per_key < 22.8, "{bytes_per_key}");
}

#[test]
fn several_loads_in_order_side_by_side_leave_full_leaves_behind() {
    let mut bench = Bench::new();
    for n in 0..5_000 {
        load(&mut bench, (0..10).map(|run| run << 32 | n));
    }
    let shape = bench.check();
    assert!(shape.bytes < shape.keys * 24, "{shape:?}");
}

#[test]
fn a_load_at_random_fills_nodes_as_b_trees_do() {
    let mut bench = Bench::new();
    let mut random = Random::from_seed(5);
    load(&mut bench, (0..200_000).map(|_| random.next_u64() >> 1));
    let shape = bench.check();
    let bytes_per_key = shape.bytes as f64 / shape.keys as f64;
    assert!(bytes_per_key < 34.0, "{bytes_per_key}");
}

#[test]
fn a_queue_does_not_leave_empty_nodes_behind() {
    let mut bench = Bench::new();
    let length = 500;
    for n in 0..20_000 {
        bench.insert(&number(n), n + 1);
        if let Some(old) = n.checked_sub(length) {
            assert!(bench.remove(&number(old), old + 1));
        }
        if n % 997 == 0 {
            let shape = bench.check();
            assert!(shape.leaves < 50 && shape.internals < 10, "{shape:?}");
        }
    }
    let keys = bench.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward).entries;
    assert_eq!(keys.len(), length as usize);
}

#[test]
fn removal_in_any_order_shrinks_a_layer_to_one_leaf() {
    for order in 0..3 {
        let mut bench = Bench::new();
        load(&mut bench, 0..4_000);
        let mut numbers: Vec<u64> = (0..4_000).collect();
        match order {
            0 => {}
            1 => numbers.reverse(),
            _ => numbers.sort_by_key(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        }
        for (index, n) in numbers.into_iter().enumerate() {
            assert!(bench.remove(&number(n), n + 1));
            if index % 500 == 0 {
                bench.check();
            }
        }
        assert_eq!(bench.check().leaves, 1);
        load(&mut bench, 0..100);
        assert_eq!(bench.check().keys, 100);
    }
}

#[test]
fn the_longest_keys_share_one_block_and_go_again() {
    let mut bench = Bench::new();
    let longest = vec![b'k'; limits::INDEX_KEY_BYTES_MAX];
    let mut sibling = longest.clone();
    *sibling.last_mut().expect("not empty") = b'l';
    let shorter = &longest[..40_000];
    bench.insert(&longest, 1);
    assert_eq!(bench.check().layers, 1);
    bench.insert(&sibling, 2);
    assert_eq!((bench.check().layers, bench.check().skip_blocks), (2, 1));
    bench.insert(shorter, 3);
    let shape = bench.check();
    assert_eq!((shape.depth, shape.skip_blocks), (3, 2));
    assert_eq!((bench.get(&longest), bench.get(&sibling), bench.get(shorter)), (Some(1), Some(2), Some(3)));
    for direction in [Direction::Forward, Direction::Reverse] {
        let mut values = values(&bench, direction);
        if direction == Direction::Reverse {
            values.reverse();
        }
        assert_eq!(values, [3, 1, 2]);
    }
    assert!(bench.remove(&longest, 1));
    assert!(bench.remove(&sibling, 2));
    assert_eq!((bench.check().depth, bench.check().skip_blocks), (2, 1));
    assert_eq!(bench.get(shorter), Some(3));
    assert!(bench.remove(shorter, 3));
    let shape = bench.check();
    assert_eq!((shape.layers, shape.skip_blocks), (1, 0));
}

fn values(bench: &Bench, direction: Direction) -> Vec<u64> {
    let entries = bench.scan(Bound::Unbounded, Bound::Unbounded, direction).entries;
    entries.into_iter().map(|(_, value)| value).collect()
}

/// Each key parts from the longest one at another slice: so many layers are needed, and each has two entries.
#[test]
fn thousands_of_layers_are_gone_through_and_go_again() {
    const LAYERS: u64 = 5_000;
    let longest = vec![b'k'; 8 * LAYERS as usize + 9];
    let parting = |layer: u64| [&longest[..8 * layer as usize], b"l"].concat();
    for order in [1, 1_777, LAYERS - 1] {
        let mut bench = Bench::new();
        bench.insert(&longest, LAYERS);
        let layers = || (0..LAYERS).map(move |n| n * order % LAYERS);
        layers().for_each(|layer| assert_eq!(bench.insert(&parting(layer), layer), Insert::Inserted));
        let shape = bench.check();
        assert_eq!((shape.depth as u64, shape.skip_blocks), (LAYERS, 0));
        assert_eq!(bench.get(&longest), Some(LAYERS));
        let forward: Vec<u64> = [LAYERS].into_iter().chain((0..LAYERS).rev()).collect();
        assert_eq!(values(&bench, Direction::Forward), forward);
        assert!(values(&bench, Direction::Reverse).iter().eq(forward.iter().rev()));
        layers().for_each(|layer| assert!(bench.remove(&parting(layer), layer)));
        assert!(bench.remove(&longest, LAYERS));
        assert_eq!(bench.check().layers, 1);
    }
}

/// The memory of keys that share much is theirs, not that of a leaf for each eight bytes.
#[test]
fn keys_that_differ_in_their_last_byte_take_little_more_than_one_of_them() {
    let key = |pair: u64, last: u8| {
        let mut key = pair.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec();
        key.resize(4_000, b'k');
        key.push(last);
        key
    };
    let mut bench = Bench::new();
    for pair in 0..200 {
        for last in [1, 2] {
            bench.insert(&key(pair, last), u64::from(last));
        }
    }
    let shape = bench.check();
    assert_eq!((shape.keys, shape.layers, shape.skip_blocks), (400, 201, 200));
    assert!(shape.bytes < 200 * 4_001 * 3 / 2, "{shape:?}");
    for pair in 0..200 {
        assert_eq!((bench.get(&key(pair, 1)), bench.get(&key(pair, 3))), (Some(1), None));
    }
}

/// A key may end anywhere within the bytes that others share, or right behind them.
#[test]
fn a_key_may_part_from_others_at_any_byte() {
    for skipped in [8, 16, 48] {
        let shared = vec![b'k'; 8 + skipped];
        for length in 0..=shared.len() + 1 {
            for end in [&b""[..], b"\0", b"a", b"k", b"z", b"zzzzzzzzzz"] {
                let mut bench = Bench::new();
                bench.insert(&[&shared[..], b"one"].concat(), 1);
                bench.insert(&[&shared[..], b"two"].concat(), 2);
                assert_eq!(bench.check().skip_blocks, 1);
                let key = [&shared[..length.min(shared.len())], end].concat();
                assert_eq!(bench.get(&key), None, "{key:?}");
                assert_eq!(bench.insert(&key, 3), Insert::Inserted, "{key:?}");
                assert_eq!(bench.insert(&key, 4), Insert::Exists(3), "{key:?}");
                bench.check();
                let mut keys = [
                    (key.clone(), 3),
                    ([&shared[..], b"one"].concat(), 1),
                    ([&shared[..], b"two"].concat(), 2),
                ];
                keys.sort();
                for direction in [Direction::Forward, Direction::Reverse] {
                    assert_eq!(bench.scan(Bound::Unbounded, Bound::Unbounded, direction).entries, keys);
                    keys.reverse();
                }
                assert!(bench.remove(&key, 3));
                assert_eq!(bench.get(&key), None, "{key:?}");
                assert_eq!(bench.check().keys, 2);
            }
        }
    }
}

#[test]
fn all_lengths_of_one_slice_stay_in_one_leaf() {
    let mut bench = Bench::new();
    let key = [0u8; 16];
    // Ten entries of slice zero, among others that fill the leaf from both sides.
    for length in 0..=9 {
        bench.insert(&key[..length], length as u64 + 1);
    }
    load(&mut bench, 1..200);
    for length in 10..=16 {
        bench.insert(&key[..length], length as u64 + 1);
    }
    bench.check();
    for length in 0..=16 {
        let expected = length as u64 + 1;
        assert_eq!(bench.get(&key[..length]), Some(expected), "length {length}");
    }
}

#[test]
fn suffixes_of_any_size_live_in_one_suffix_block() {
    let mut bench = Bench::new();
    let mut random = Random::from_seed(11);
    let mut keys: Vec<Vec<u8>> = Vec::new();
    for n in 0u8..60 {
        let mut key = vec![n; 9 + random.next_below(3_000) as usize];
        random.fill(&mut key[8..]);
        keys.push(key);
    }
    for round in 0..4 {
        for (n, key) in keys.iter().enumerate() {
            bench.insert(key, n as u64 + 1);
        }
        bench.check();
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(bench.get(key), Some(n as u64 + 1));
            let mut other = key.clone();
            *other.last_mut().expect("not empty") ^= 1;
            assert_eq!(bench.get(&other), None);
        }
        for (n, key) in keys.iter().enumerate().filter(|(n, _)| n % 4 != round) {
            assert!(bench.remove(key, n as u64 + 1));
        }
        for (n, key) in keys.iter().enumerate().filter(|(n, _)| n % 4 == round) {
            assert!(bench.remove(key, n as u64 + 1));
        }
        assert_eq!(bench.check().leaves, 1);
    }
}

#[test]
fn a_scan_stops_where_its_visitor_says() {
    let mut bench = Bench::new();
    load(&mut bench, 0..1_000);
    let mut collected = crate::testing::Collected { entries_max: Some(7), ..Default::default() };
    let range = crate::Range { lower: Bound::Excluded(&number(100)[..]), upper: Bound::Unbounded };
    bench.tree.scan(range, Direction::Forward, &mut collected, crate::testing::assume_pinned());
    let values: Vec<u64> = collected.entries.iter().map(|entry| entry.1).collect();
    assert_eq!(values, (102..109).collect::<Vec<_>>());
    assert_eq!(collected.witnesses.len(), 2, "two leaves of fifteen hold the seven entries");
}

#[test]
fn a_scan_depends_on_no_leaf_beyond_its_range() {
    let mut bench = Bench::new();
    load(&mut bench, 0..1_000);
    // Leaves of fifteen: the range ends right where one begins.
    let (low, high) = (number(15), number(30));
    for (lower, upper, direction, leaves) in [
        (Bound::Included(&low[..]), Bound::Excluded(&high[..]), Direction::Forward, 1),
        (Bound::Included(&low[..]), Bound::Included(&high[..]), Direction::Forward, 2),
        // Where the scan begins, the leaf of the bound itself is looked into.
        (Bound::Included(&low[..]), Bound::Excluded(&high[..]), Direction::Reverse, 2),
        (Bound::Included(&low[..7]), Bound::Excluded(&high[..]), Direction::Reverse, 3),
    ] {
        let witnesses = bench.scan(lower, upper, direction).witnesses.len();
        assert_eq!(witnesses, leaves, "{lower:?} {upper:?} {direction:?}");
    }
}

#[test]
fn a_scan_announces_the_entries_that_it_will_hand_out_and_few_others() {
    let mut bench = Bench::new();
    let mut random = Random::from_seed(31);
    // Long keys with common slices among them, so that layers stand between the entries.
    let keys = (0..3_000u64).map(|n| match random.next_below(4) {
        0 => [&number(n * 8)[..], b"suffix"].concat(),
        1 => [&number(n / 8 * 64)[..], &number(n)].concat(),
        _ => number(n * 8).to_vec(),
    });
    let keys: Vec<Vec<u8>> = keys.collect();
    for (value, key) in keys.iter().enumerate() {
        bench.insert(key, value as u64);
    }
    for round in 0..400 {
        let (low, high) = (random.next_below(24_000), random.next_below(24_000));
        let (low, high) = (number(low.min(high)), number(low.max(high)));
        let direction = if round % 2 == 0 { Direction::Forward } else { Direction::Reverse };
        let scan = bench.scan(Bound::Included(&low), Bound::Excluded(&high), direction);
        let handed_out: Vec<u64> = scan.entries.iter().map(|(_, value)| *value).collect();
        let announced = |value: &&u64| scan.announced.contains(value);
        // A range ends within a slice's entries at most.
        let beyond = scan.announced.iter().filter(|value| !handed_out.contains(value)).count();
        assert!(beyond <= 10, "{beyond} of {} are beyond the range", scan.announced.len());
        // What is not announced is the first of all, and the first behind each layer.
        if !keys.iter().any(|key| key.len() > 8 && (&low[..]..&high[..]).contains(&&key[..])) {
            assert!(handed_out.iter().filter(announced).count() + 1 >= handed_out.len());
        }
        assert!(
            scan.announced.windows(2).all(|pair| pair[0] != pair[1]),
            "announced twice: {:?}",
            scan.announced
        );
    }
    let mut first = Collected { entries_max: Some(1), ..Collected::default() };
    let whole = Range { lower: Bound::Unbounded, upper: Bound::Unbounded };
    bench.tree.scan(whole, Direction::Forward, &mut first, assume_pinned());
    assert_eq!(first.announced, [], "a scan that wants one entry announces no other");
    let all = bench.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
    assert!(
        all.announced.len() * 10 >= all.entries.len() * 7,
        "{} of {}",
        all.announced.len(),
        all.entries.len()
    );
}

#[test]
fn a_scan_announces_no_entry_twice_where_layers_stand_between_the_entries() {
    let mut bench = Bench::new();
    for n in 0..1_000u64 {
        // Every third slice is a layer's, beside a key that ends with it.
        bench.insert(&number(n), n * 4);
        if n % 3 == 0 {
            bench.insert(&[&number(n)[..], b"one"].concat(), n * 4 + 1);
            bench.insert(&[&number(n)[..], b"two"].concat(), n * 4 + 2);
        }
    }
    for direction in [Direction::Forward, Direction::Reverse] {
        let mut announced = bench.scan(Bound::Unbounded, Bound::Unbounded, direction).announced;
        let count = announced.len();
        announced.sort_unstable();
        announced.dedup();
        assert_eq!(count, announced.len(), "{direction:?}");
    }
}
