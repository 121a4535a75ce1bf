//! The `prune` of a removal may come after others have changed the same layers. In any order they leave no two layers
//! of one entry, one below the other (FOLD).
//!
//! Keys are paths of few slices, so that layers stand one below the other, and some slices are many, so that a layer
//! has several leaves.
//!
//! Neighbours: `folds` has the removals that prune at once; `shuttled::late_prunes`, the same under schedules.

use std::collections::BTreeMap;

use ensile_base::random::Random;

use super::concurrent::together;
use crate::remove::KeyRemoval;
use crate::testing::{Bench, BookedMemory, assume_pinned};
use crate::{Insert, Masstree, NodeChanges};

/// A path of up to six slices, of which one in `wide` has many siblings, and an ending.
fn path(random: &mut Random, wide: u64) -> Vec<u8> {
    let mut key = Vec::new();
    for _ in 0..random.next_below(7) {
        let fan = if random.next_below(wide) == 0 { 24 } else { 1 + random.next_below(2) };
        key.extend((random.next_below(fan) << 8).to_be_bytes());
    }
    let end = random.next_below(3) as usize;
    key.extend(&[[0, 1, 2][random.next_below(3) as usize]; 9][..[0, 1, 9][end]]);
    key
}

/// Removals of which `prune` is still to come.
#[derive(Default)]
struct Pending(Vec<(Vec<u8>, KeyRemoval)>);

impl Pending {
    fn take_out(&mut self, tree: &Masstree, key: Vec<u8>, value: u64) {
        let removed = tree.take_out(&key, value, assume_pinned()).expect("it is there");
        self.0.push((key, removed));
    }

    fn prune_all(&mut self, random: &mut Random, tree: &Masstree, memory: &mut BookedMemory) {
        while !self.0.is_empty() {
            self.prune_any(random, tree, memory);
        }
    }

    fn prune_any(&mut self, random: &mut Random, tree: &Masstree, memory: &mut BookedMemory) {
        if self.0.is_empty() {
            return;
        }
        let (key, removed) = self.0.swap_remove(random.next_below(self.0.len() as u64) as usize);
        tree.prune(&key, removed, memory, assume_pinned());
    }
}

/// Inserts keys and takes them out, in waves, and prunes late. Returns the keys that are left.
fn churn(
    random: &mut Random,
    (tree, memory): (&Masstree, &mut BookedMemory),
    rounds: u64,
    key_of: impl Fn(&mut Random) -> Vec<u8>,
) -> BTreeMap<Vec<u8>, u64> {
    let (mut own, mut pending) = (BTreeMap::<Vec<u8>, u64>::new(), Pending::default());
    let late = 1 + random.next_below(30);
    for round in 0..rounds {
        let key = key_of(random);
        if random.percent(if round % 200 < 100 { 70 } else { 10 }) {
            let inserted =
                tree.insert_if_absent(&key, round, memory, &mut NodeChanges::new(), assume_pinned());
            assert_eq!(inserted == Insert::Inserted, !own.contains_key(&key));
            own.entry(key).or_insert(round);
        } else if let Some(key) = own.range(key..).next().map(|(key, _)| key.clone()) {
            let value = own.remove(&key).expect("it was seen");
            pending.take_out(tree, key, value);
        }
        while random.next_below(late + 1) < pending.0.len() as u64 {
            pending.prune_any(random, tree, memory);
        }
    }
    pending.prune_all(random, tree, memory);
    own
}

#[test]
fn prunes_in_any_order_leave_nothing_to_fold() {
    for seed in 0..1_000 {
        let (mut bench, mut random) = (Bench::new(), Random::from_seed(seed));
        let wide = [3, 8, 1_000][seed as usize % 3];
        let rounds = 50 + random.next_below(600);
        let own = churn(&mut random, (&bench.tree, &mut bench.memory), rounds, |random| path(random, wide));
        let shape = bench.check();
        assert_eq!(shape.keys, own.len(), "seed {seed}");
        assert!(shape.layers <= 1 + 3 * own.len(), "seed {seed}: {shape:?}");
        own.iter().for_each(|(key, &value)| assert_eq!(bench.get(key), Some(value), "seed {seed}"));
        own.iter().for_each(|(key, &value)| assert!(bench.remove(key, value)));
        let shape = bench.check();
        assert_eq!((shape.layers, shape.leaves), (1, 1), "seed {seed}");
    }
}

#[test]
fn prunes_in_any_order_by_several_threads_leave_nothing_to_fold() {
    for seed in 0..60 {
        let mut bench = Bench::new();
        let wide = [3, 8, 1_000][seed as usize % 3];
        together(&mut bench, 4, |thread, tree, memory| {
            let mut random = Random::from_seed(seed * 100 + thread as u64);
            let own = churn(&mut random, (tree, memory), 2_000, |random| {
                let mut key = path(random, wide);
                key.push(thread as u8);
                key
            });
            // Half of the trees are checked with the keys that are left, the others without any.
            if seed % 2 == 0 {
                let mut pending = Pending::default();
                own.into_iter().for_each(|(key, value)| pending.take_out(tree, key, value));
                pending.prune_all(&mut random, tree, memory);
            }
        });
        if seed % 2 == 0 {
            let shape = bench.check();
            assert_eq!((shape.keys, shape.layers, shape.leaves), (0, 1, 1), "seed {seed}");
        }
    }
}
