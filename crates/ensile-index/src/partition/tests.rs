//! Parts are of roughly equal size, whatever the keys look like, and their separators are in order.

use ensile_base::random::Random;

use crate::testing::{Bench, assume_pinned};

/// Sizes of the parts that `separators` cuts `keys` into.
fn sizes(keys: &[Vec<u8>], separators: &[Vec<u8>]) -> Vec<usize> {
    let mut sizes = vec![0; separators.len() + 1];
    for key in keys {
        sizes[separators.partition_point(|separator| separator <= key)] += 1;
    }
    sizes
}

fn check(name: &str, keys: impl IntoIterator<Item = Vec<u8>>, times: usize) {
    let mut bench = Bench::new();
    let keys: Vec<Vec<u8>> = keys.into_iter().collect();
    for (at, key) in keys.iter().enumerate() {
        bench.insert(key, at as u64 + 1);
    }
    for parts in [2, 3, 8] {
        let separators = bench.tree.separators(parts, assume_pinned());
        assert!(separators.is_sorted() && separators.windows(2).all(|pair| pair[0] != pair[1]), "{name}");
        let sizes = sizes(&keys, &separators);
        let fair = keys.len() / parts;
        assert_eq!(sizes.len(), parts, "{name}: {sizes:?}");
        assert!(
            sizes.iter().all(|&size| size <= times * fair && size * times >= fair),
            "{name}, {parts} parts: {sizes:?}"
        );
    }
}

#[test]
fn parts_are_roughly_equal() {
    let mut random = Random::from_seed(11);
    check("in order", (0..50_000_u64).map(|n| n.to_be_bytes().to_vec()), 2);
    check("at random", (0..50_000).map(|_| random.next_u64().to_be_bytes().to_vec()), 2);
    let text = |n: u64| format!("customer/{:05}/{}", n % 1000, n).into_bytes();
    check("long, alike at the beginning", (0..50_000).map(text), 2);
    let skewed = |n: u64| [if n.is_multiple_of(10) { n % 130 } else { 7 }, n].map(u64::to_be_bytes).concat();
    check("most of them in one layer of thirteen", (0..50_000).map(skewed), 2);
    check("few", (0..64_u64).map(|n| n.to_be_bytes().to_vec()), 3);
}

#[test]
fn a_small_tree_has_few_parts_and_an_empty_one_has_one() {
    let mut bench = Bench::new();
    assert!(bench.tree.separators(4, assume_pinned()).is_empty());
    bench.insert(b"only", 1);
    assert!(bench.tree.separators(4, assume_pinned()).is_empty());
    bench.insert(b"other", 2);
    let separators = bench.tree.separators(4, assume_pinned());
    assert!(separators.len() <= 1, "{separators:?}");
    assert!(bench.tree.separators(1, assume_pinned()).is_empty());
}
