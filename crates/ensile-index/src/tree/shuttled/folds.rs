//! Layers that are folded, beside threads that read and write in them (FOLD).
//!
//! Neighbours: `mixed` has the keys and what the threads do.

use super::mixed::{
    batch_then_get, behind_a_skip, both_ways, grow_and_shrink, parting, put, scan_twice, take, value_of,
    watch,
};
use super::schedules;
use crate::testing::{BookedMemory, pinned};
use crate::{Insert, Lookup, Masstree, NodeChanges};

const ONE: &[u8] = b"prefix--prefix--one";
const TWO: &[u8] = b"prefix--prefix--two";
const SIX: &[u8] = b"prefix--prefix--six";

fn pair(tree: &Masstree, memory: &mut BookedMemory) {
    put(tree, memory, ONE);
    put(tree, memory, TWO);
}

#[test]
fn a_key_is_found_while_its_layer_is_folded() {
    both_ways(
        4_000,
        pair,
        vec![|tree, memory| take(tree, memory, TWO), |tree, _| watch(tree, ONE), |tree, _| scan_twice(tree)],
    );
}

/// The key is in the tree when all is done, wherever its insert met the fold.
#[test]
fn a_key_that_comes_into_a_layer_that_is_folded_is_not_lost() {
    both_ways(
        4_000,
        pair,
        vec![
            |tree, memory| take(tree, memory, TWO),
            |tree, memory| {
                put(tree, memory, SIX);
                assert_eq!(tree.get(SIX, pinned()), Lookup::Found(value_of(SIX)), "the key is lost");
            },
            |tree, _| batch_then_get(tree, &[SIX]),
            |tree, _| scan_twice(tree),
        ],
    );
}

#[test]
fn what_comes_behind_a_fold_fails_the_misses_of_before() {
    both_ways(
        4_000,
        pair,
        vec![
            |tree, memory| {
                take(tree, memory, TWO);
                put(tree, memory, SIX);
                take(tree, memory, ONE);
            },
            |tree, _| batch_then_get(tree, &[SIX, TWO]),
            |tree, _| scan_twice(tree),
        ],
    );
}

/// Both keys of a layer go at once: it is folded or unlinked, and nothing is left of it.
#[test]
fn a_layer_is_folded_by_one_thread_and_emptied_by_another() {
    both_ways(
        4_000,
        |tree, memory| {
            pair(tree, memory);
            put(tree, memory, b"prefix--x");
        },
        vec![
            |tree, memory| take(tree, memory, ONE),
            |tree, memory| take(tree, memory, TWO),
            |tree, memory| take(tree, memory, b"prefix--x"),
        ],
    );
}

/// Two layers of two entries, one below the other, above one whose root is full.
#[test]
fn layers_of_one_way_are_folded_while_the_root_below_them_splits() {
    both_ways(
        2_000,
        |tree, memory| {
            (0..15).for_each(|n| put(tree, memory, &behind_a_skip(n)));
            [17, 9].iter().for_each(|&at| put(tree, memory, &parting(at)));
        },
        vec![
            |tree, memory| take(tree, memory, &parting(9)),
            |tree, memory| take(tree, memory, &parting(17)),
            |tree, memory| grow_and_shrink(tree, memory, (20..22).map(behind_a_skip)),
            |tree, _| watch(tree, &behind_a_skip(13)),
        ],
    );
}

/// Keys part from a skip and go again: it is parted and joined, by several threads at once.
#[test]
fn a_skip_is_parted_and_joined_by_several() {
    both_ways(
        2_000,
        |tree, memory| (0..2).for_each(|n| put(tree, memory, &behind_a_skip(n))),
        vec![
            |tree, memory| grow_and_shrink(tree, memory, [9].map(parting).into_iter()),
            |tree, memory| grow_and_shrink(tree, memory, [17, 12].map(parting).into_iter()),
            |tree, _| watch(tree, &behind_a_skip(1)),
            |tree, _| batch_then_get(tree, &[&parting(9), &parting(12), &parting(17)]),
        ],
    );
}

/// The leaf above splits, so that the slot of the layer moves.
#[test]
fn a_layer_is_folded_while_the_leaf_above_splits() {
    both_ways(
        2_000,
        |tree, memory| {
            (0..13).for_each(|n: u64| put(tree, memory, &(n << 56).to_be_bytes()));
            pair(tree, memory);
        },
        vec![
            |tree, memory| take(tree, memory, TWO),
            |tree, memory| grow_and_shrink(tree, memory, [b"prefiw", b"prefiy", b"prefiz"].into_iter()),
            |tree, _| watch(tree, ONE),
        ],
    );
}

/// A replace moves no version, so the fold reads the value under the lock.
#[test]
fn a_value_that_changes_while_its_layer_is_folded_is_kept() {
    schedules(
        6_000,
        pair,
        vec![|tree, memory| take(tree, memory, TWO), |tree, memory| {
            let mut value = value_of(ONE);
            for _ in 0..4 {
                assert!(tree.replace(ONE, value, value + 1, pinned()), "a replace is lost");
                value += 1;
            }
            let found = tree.insert_if_absent(ONE, 1, memory, &mut NodeChanges::new(), pinned());
            assert_eq!(found, Insert::Exists(value), "a replace is lost");
        }],
    );
}
