//! Witnesses: what must make them fail, what must not, and how a transaction keeps its own (C4).

use std::collections::BTreeSet;
use std::ops::Bound;

use ensile_base::random::Random;

use crate::testing::{Bench, Collected, assume_pinned, hostile_key};
use crate::{Direction, NodeChange, Witness};

fn number(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn filled(numbers: impl IntoIterator<Item = u64>) -> Bench {
    let mut bench = Bench::new();
    for n in numbers {
        bench.insert(&number(n), 1);
    }
    bench
}

fn holds(collected: &Collected) -> bool {
    collected.witnesses.iter().all(|witness| witness.holds(assume_pinned()))
}

fn scan(bench: &Bench, lower: &[u8], upper: &[u8]) -> [Collected; 2] {
    [Direction::Forward, Direction::Reverse]
        .map(|direction| bench.scan(Bound::Included(lower), Bound::Included(upper), direction))
}

/// Takes a miss and scans over `key`, changes the tree, and wants all three to have failed.
fn fails(bench: &mut Bench, key: &[u8], change: impl FnOnce(&mut Bench)) {
    let miss = bench.miss(key);
    let scans = scan(bench, key, key);
    assert!(miss.holds(assume_pinned()) && scans.iter().all(holds));
    change(bench);
    assert!(!miss.holds(assume_pinned()), "the miss of {key:?} still holds");
    assert!(!scans.iter().any(holds), "a scan over {key:?} still holds");
}

#[test]
fn an_insert_into_the_leaf_fails_a_miss_and_one_elsewhere_does_not() {
    let mut bench = filled((0..300).map(|n| n * 10));
    let far = bench.miss(&number(2901));
    fails(&mut bench, &number(55), |bench| {
        bench.insert(&number(55), 1);
    });
    assert!(far.holds(assume_pinned()), "another leaf was not concerned");
}

#[test]
fn a_replace_fails_no_witness() {
    let mut bench = filled((0..300).map(|n| n * 10));
    let miss = bench.miss(&number(55));
    assert!(bench.tree.replace(&number(50), 1, 2, assume_pinned()));
    bench.insert(&number(50), 3);
    assert!(miss.holds(assume_pinned()));
}

#[test]
fn a_split_fails_misses_in_both_halves() {
    let mut bench = filled((0..15).map(|n| n * 10));
    let left = bench.miss(&number(5));
    fails(&mut bench, &number(139), |bench| {
        bench.insert(&number(71), 1);
    });
    assert!(!left.holds(assume_pinned()));
}

#[test]
fn a_slot_that_becomes_a_layer_fails_a_miss_of_either_key() {
    let mut bench = Bench::new();
    bench.insert(b"prefix--one", 1);
    fails(&mut bench, b"prefix--two", |bench| {
        bench.insert(b"prefix--two", 1);
    });
    fails(&mut bench, b"prefix--one and more, and more", |bench| {
        bench.insert(b"prefix--one and more, or less", 1);
    });
}

/// The leaf that holds the way to a skip vouches for all keys that part from the skip.
#[test]
fn a_key_that_parts_from_a_skip_fails_the_misses_of_all_that_do() {
    let mut bench = Bench::new();
    let key = |part: usize, end: &str| [&vec![b'p'; 8 * part][..], end.as_bytes()].concat();
    bench.insert(&key(9, "one"), 1);
    bench.insert(&key(9, "two"), 1);
    let below = bench.miss(&key(9, "three"));
    let others: Vec<Witness> = (1..9).map(|part| bench.miss(&key(part, "x"))).collect();
    fails(&mut bench, &key(4, "a"), |bench| {
        bench.insert(&key(4, "b"), 1);
    });
    assert!(others.iter().all(|miss| !miss.holds(assume_pinned())), "one leaf vouched for all of them");
    assert!(below.holds(assume_pinned()), "the layer below is as it was");
    for part in [2, 6] {
        fails(&mut bench, &key(part, "a"), |bench| {
            bench.insert(&key(part, "a"), 1);
        });
    }
    assert!(below.holds(assume_pinned()), "the layer below is as it was");
    fails(&mut bench, &key(8, "a"), |bench| {
        assert!(bench.remove(&key(9, "one"), 1));
        assert!(bench.remove(&key(9, "two"), 1));
    });
}

#[test]
fn a_removal_fails_a_scan_and_a_miss_of_its_leaf() {
    let mut bench = filled((0..300).map(|n| n * 10));
    fails(&mut bench, &number(55), |bench| assert!(bench.remove(&number(50), 1)));
}

#[test]
fn an_unlinked_leaf_fails_and_so_does_the_one_that_takes_over() {
    for victim in 0..20 {
        let mut bench = filled(0..15 * 20);
        let numbers: Vec<u64> = (victim * 15..victim * 15 + 15).collect();
        let key = [&number(numbers[7])[..], b"x"].concat();
        let leaves = bench.check().leaves;
        fails(&mut bench, &key, |bench| {
            for n in &numbers {
                assert!(bench.remove(&number(*n), 1));
            }
        });
        assert_eq!(bench.check().leaves, leaves - 1);
        // The range has a new owner, whose witness vouches for it.
        fails(&mut bench, &number(numbers[7]), |bench| {
            bench.insert(&number(numbers[7]), 1);
        });
    }
}

#[test]
fn a_layer_that_goes_takes_its_witnesses_along_and_a_new_one_fails_the_gap() {
    let mut bench = Bench::new();
    bench.insert(b"prefix--one", 1);
    bench.insert(b"prefix--two", 1);
    fails(&mut bench, b"prefix--key", |bench| {
        assert!(bench.remove(b"prefix--one", 1));
        assert!(bench.remove(b"prefix--two", 1));
    });
    assert_eq!(bench.check().layers, 1);
    fails(&mut bench, b"prefix--key", |bench| {
        bench.insert(b"prefix--key", 1);
    });
}

/// A removal that leaves a layer with nothing but the way to another takes the layer's witnesses along. The leaf above
/// has another version, the layer below the one it had.
#[test]
fn a_layer_that_is_folded_takes_its_witnesses_along_and_fails_those_of_the_leaf_above() {
    for prefix in [&b"prefix--"[..], b"prefix--prefix--and on--"] {
        let key = |end: &str| [prefix, end.as_bytes()].concat();
        let mut bench = Bench::new();
        for end in ["further-one", "further-two", "x"] {
            bench.insert(&key(end), 1);
        }
        let (above, below) = (bench.miss(b"another"), bench.miss(&key("further-six")));
        assert_eq!(bench.check().layers, 3);
        fails(&mut bench, &key("key"), |bench| assert!(bench.remove(&key("x"), 1)));
        assert_eq!(bench.check().layers, 2);
        assert!(!above.holds(assume_pinned()), "the slot above has changed");
        assert!(below.holds(assume_pinned()), "the layer below was not touched");
        fails(&mut bench, &key("key"), |bench| {
            bench.insert(&key("key"), 1);
        });
    }
}

/// A layer with one key left stays, and so do the versions above it.
#[test]
fn a_layer_that_keeps_one_key_keeps_the_witnesses_above_it() {
    let mut bench = Bench::new();
    bench.insert(b"prefix--one", 1);
    bench.insert(b"prefix--two", 1);
    let above = bench.miss(b"another");
    fails(&mut bench, b"prefix--key", |bench| assert!(bench.remove(b"prefix--two", 1)));
    assert_eq!(bench.check().layers, 2);
    assert!(above.holds(assume_pinned()), "nothing above has changed");
}

#[test]
fn a_miss_in_a_layer_survives_what_happens_above_it() {
    let mut bench = Bench::new();
    bench.insert(b"prefix--one", 1);
    bench.insert(b"prefix--two", 1);
    let miss = bench.miss(b"prefix--six");
    for n in 0..100 {
        bench.insert(&number(n), 1);
    }
    assert!(miss.holds(assume_pinned()), "the layer itself was not touched");
}

#[test]
fn re_creation_after_emptying_never_brings_a_witness_back() {
    let mut bench = Bench::new();
    let empty = bench.miss(b"key");
    let empty_scan = bench.scan(Bound::Unbounded, Bound::Unbounded, Direction::Reverse);
    assert!(!empty_scan.witnesses.is_empty(), "an empty leaf is witnessed");
    for _ in 0..3 {
        bench.insert(b"key", 1);
        assert!(bench.remove(b"key", 1));
        assert!(!empty.holds(assume_pinned()) && !holds(&empty_scan));
    }
}

/// A node-set as an engine keeps it.
struct NodeSet(BTreeSet<Witness>);

impl NodeSet {
    fn of(collected: Collected) -> Self {
        Self(collected.witnesses.into_iter().collect())
    }

    fn update(&mut self, changes: &[NodeChange]) {
        for change in changes {
            match *change {
                NodeChange::Changed { node, old, new } => {
                    if self.0.remove(&Witness::new(node, old)) {
                        self.0.insert(Witness::new(node, new));
                    }
                }
                NodeChange::Created { node, from, version } => {
                    if self.0.iter().any(|witness| witness.node() == from) {
                        self.0.insert(Witness::new(node, version));
                    }
                }
            }
        }
    }

    fn holds(&self) -> bool {
        self.0.iter().all(|witness| witness.holds(assume_pinned()))
    }
}

#[test]
fn own_inserts_keep_an_updated_node_set_valid_and_complete() {
    for seed in 0..30 {
        let mut random = Random::from_seed(seed);
        let mut bench = Bench::new();
        for _ in 0..random.next_below(60) {
            bench.insert(&hostile_key(&mut random), 1);
        }
        let all = |bench: &Bench| bench.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        let mut set = NodeSet::of(all(&bench));
        for _ in 0..400 {
            let key = match random.next_below(3) {
                0 => hostile_key(&mut random),
                1 => random.next_u64().to_be_bytes().to_vec(),
                _ => [&b"a common prefix of many"[..], &random.next_below(50).to_be_bytes()[..]].concat(),
            };
            bench.insert(&key, 1);
            set.update(bench.changes.as_slice());
            assert!(set.holds(), "an own insert of {key:?} broke the set: {:?}", bench.changes);
        }
        // Complete: every leaf that a scan depends on now is in the set.
        let now = NodeSet::of(all(&bench));
        assert!(now.0.is_subset(&set.0), "a leaf is missing from the updated set");
    }
}

#[test]
fn a_change_by_another_breaks_an_updated_set() {
    let mut bench = filled((0..40).map(|n| n * 10));
    let mut set = NodeSet::of(bench.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward));
    for n in 0..40 {
        bench.insert(&number(n * 10 + 1), 1);
        set.update(bench.changes.as_slice());
    }
    assert!(set.holds());
    bench.insert(&number(203), 1);
    assert!(!set.holds());
}

/// Whatever single operation makes a key appear, a miss of it taken at any time before has failed.
#[test]
fn no_key_comes_into_being_behind_a_witness() {
    for seed in 0..20 {
        let mut random = Random::from_seed(seed);
        let mut bench = Bench::new();
        let mut misses: Vec<(Vec<u8>, Witness)> = Vec::new();
        for _ in 0..2_000 {
            let key = hostile_key(&mut random);
            if bench.get(&key).is_none() && random.percent(60) {
                misses.push((key.clone(), bench.miss(&key)));
            }
            if random.percent(55) {
                bench.insert(&key, 1);
                let stale =
                    |(missed, witness): &(Vec<u8>, Witness)| *missed == key && witness.holds(assume_pinned());
                assert!(!misses.iter().any(stale), "{key:?} appeared behind a witness");
            } else {
                let _ = bench.remove(&key, 1);
            }
        }
    }
}
