//! Removals whose `prune` comes after other threads have changed the same layers, under schedules (FOLD).
//!
//! Neighbours: `mixed` has the work of the threads; `tree::tests::late_prunes`, the same at random on real
//! threads.

use std::collections::BTreeSet;

use ensile_base::random::Random;
use shuttle::rand::RngCore;

use super::mixed::{both_ways, put, take, value_of, watch};
use crate::Masstree;
use crate::remove::KeyRemoval;
use crate::testing::{BookedMemory, assume_pinned};

/// Keys of a layer of several leaves.
fn wide(n: u8) -> Vec<u8> {
    [&b"prefix--further-x"[..], &[n; 3], b"same"].concat()
}

/// Keys of the layer below.
const DEEP: [&[u8]; 3] = [
    b"prefix--further-x\x05\x05\x05samedeep-one",
    b"prefix--further-x\x05\x05\x05samedeep-two",
    b"prefix--further-x\x05\x05\x05samedeep-six",
];
/// A key of the layer above.
const ABOVE: &[u8] = b"prefix--z";

/// Takes keys out, and prunes afterwards, the last key first.
fn take_late(tree: &Masstree, memory: &mut BookedMemory, keys: &[&[u8]]) {
    let removed: Vec<KeyRemoval> = keys
        .iter()
        .map(|key| tree.take_out(key, value_of(key), assume_pinned()).expect("it is there"))
        .collect();
    for (key, removed) in keys.iter().zip(removed).rev() {
        tree.prune(key, removed, memory, assume_pinned());
    }
}

/// Layer 1: a single slot. Layer 2: only leads on (after one key, a second key came with a longer common part). Layer
/// 3: two leaves. Layer 4: two keys.
fn above_a_wide_one(tree: &Masstree, memory: &mut BookedMemory) {
    put(tree, memory, ABOVE);
    put(tree, memory, &wide(0));
    take(tree, memory, ABOVE);
    (1..16).filter(|&n| n != 5).for_each(|n| put(tree, memory, &wide(n)));
    put(tree, memory, DEEP[0]);
    put(tree, memory, DEEP[1]);
    (2..14).filter(|&n| n != 5 && n != 6).for_each(|n| take(tree, memory, &wide(n)));
    let shape = tree.check(assume_pinned()).expect("a whole tree");
    assert_eq!((shape.layers, shape.leaves), (4, 5), "{shape:?}");
}

#[test]
fn a_wide_layer_is_thinned_below_one_that_leads_on() {
    both_ways(
        3_000,
        above_a_wide_one,
        vec![
            |tree, memory| take_late(tree, memory, &[&wide(0), &wide(1)]),
            |tree, memory| take_late(tree, memory, &[&wide(14), &wide(6), &wide(15)]),
            |tree, memory| take_late(tree, memory, &[DEEP[1]]),
            |tree, _| watch(tree, DEEP[0]),
        ],
    );
}

#[test]
fn a_wide_layer_is_thinned_to_a_key_below_one_that_leads_on() {
    both_ways(
        3_000,
        above_a_wide_one,
        vec![
            |tree, memory| take_late(tree, memory, &[&wide(0), DEEP[0]]),
            |tree, memory| take_late(tree, memory, &[&wide(14), &wide(6), &wide(15)]),
            |tree, memory| take_late(tree, memory, &[DEEP[1]]),
            |tree, _| watch(tree, &wide(1)),
        ],
    );
}

/// Meanwhile keys with longer or shorter common parts come and go.
#[test]
fn a_wide_layer_is_thinned_while_keys_come_and_go_around_it() {
    both_ways(
        2_000,
        above_a_wide_one,
        vec![
            |tree, memory| take_late(tree, memory, &[&wide(0), &wide(1), &wide(14), &wide(6), &wide(15)]),
            |tree, memory| {
                put(tree, memory, DEEP[2]);
                take_late(tree, memory, &[DEEP[1], DEEP[2]]);
            },
            |tree, memory| {
                put(tree, memory, ABOVE);
                put(tree, memory, b"prefix--further-y");
                take_late(tree, memory, &[ABOVE, b"prefix--further-y"]);
            },
            |tree, _| watch(tree, DEEP[0]),
        ],
    );
}

/// A path of few slices, and the thread's number.
fn path(random: &mut Random, thread: u8) -> Vec<u8> {
    let mut key = Vec::new();
    for _ in 0..random.next_below(6) {
        key.extend([b'a' + u8::from(random.next_below(8) == 0); 8]);
    }
    key.push(thread);
    if random.next_below(3) == 0 {
        key.extend(*b"a longer end");
    }
    key
}

fn churn(tree: &Masstree, memory: &mut BookedMemory, thread: u8) {
    let mut random = Random::from_seed(shuttle::rand::thread_rng().next_u64());
    let mut own = BTreeSet::<Vec<u8>>::new();
    let mut pending: Vec<(Vec<u8>, KeyRemoval)> = Vec::new();
    for _ in 0..10 {
        let key = path(&mut random, thread);
        let there = own.range(key.clone()..).next().cloned();
        if let Some(key) = there.filter(|_| random.percent(60)) {
            own.remove(&key);
            let removed = tree.take_out(&key, value_of(&key), assume_pinned()).expect("it is lost");
            pending.push((key, removed));
        } else if own.insert(key.clone()) {
            put(tree, memory, &key);
        }
        if random.percent(50) && !pending.is_empty() {
            let (key, removed) = pending.swap_remove(random.next_below(pending.len() as u64) as usize);
            tree.prune(&key, removed, memory, assume_pinned());
        }
    }
    for (key, removed) in pending {
        tree.prune(&key, removed, memory, assume_pinned());
    }
}

#[test]
fn prunes_in_any_order_leave_nothing_to_fold() {
    both_ways(
        10_000,
        |_, _| {},
        vec![|tree, memory| churn(tree, memory, 1), |tree, memory| churn(tree, memory, 2), |tree, memory| {
            churn(tree, memory, 3)
        }],
    );
}
