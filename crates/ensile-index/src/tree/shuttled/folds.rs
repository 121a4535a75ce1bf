//! Folded layers, beside threads that read and write in the layers (FOLD).
//!
//! Neighbours: `mixed` has the keys and the work of the threads.

use super::mixed::{
    batch_then_get, behind_a_skip, both_ways, grow_and_shrink, key_diverging_at, put, scan_twice, take,
    value_of, watch,
};
use crate::testing::{BookedMemory, assume_pinned};
use crate::{Lookup, Masstree};

const ONE: &[u8] = b"prefix--further-one";
const TWO: &[u8] = b"prefix--further-two";
const SIX: &[u8] = b"prefix--further-six";
/// Keys of the layer above the layer of ONE and TWO.
const BESIDE: &[u8] = b"prefix--x";
const LATER: &[u8] = b"prefix--y";

/// Two keys in one layer, and the key beside the way to the layer.
fn three(tree: &Masstree, memory: &mut BookedMemory) {
    [ONE, TWO, BESIDE].iter().for_each(|key| put(tree, memory, key));
}

#[test]
fn a_key_is_found_while_the_layer_above_it_is_folded() {
    both_ways(
        4_000,
        three,
        vec![|tree, memory| take(tree, memory, BESIDE), |tree, _| watch(tree, ONE), |tree, _| {
            scan_twice(tree)
        }],
    );
}

/// The key is in the tree at the end, wherever its insert met the fold.
#[test]
fn a_key_that_comes_into_a_layer_that_is_folded_is_not_lost() {
    both_ways(
        4_000,
        three,
        vec![
            |tree, memory| take(tree, memory, BESIDE),
            |tree, memory| {
                put(tree, memory, LATER);
                assert_eq!(
                    tree.get(LATER, assume_pinned()),
                    Lookup::Found(value_of(LATER)),
                    "the key is lost"
                );
            },
            |tree, _| batch_then_get(tree, &[LATER]),
            |tree, _| scan_twice(tree),
        ],
    );
}

#[test]
fn what_comes_behind_a_fold_fails_the_misses_of_before() {
    both_ways(
        4_000,
        three,
        vec![
            |tree, memory| {
                take(tree, memory, BESIDE);
                put(tree, memory, LATER);
                put(tree, memory, SIX);
                take(tree, memory, ONE);
            },
            |tree, _| batch_then_get(tree, &[LATER, BESIDE, SIX]),
            |tree, _| scan_twice(tree),
        ],
    );
}

/// The keys of two layers go at once: the layers are folded or unlinked, and nothing is left of them.
#[test]
fn a_layer_is_folded_by_one_thread_and_emptied_by_another() {
    both_ways(
        4_000,
        three,
        vec![
            |tree, memory| take(tree, memory, ONE),
            |tree, memory| take(tree, memory, TWO),
            |tree, memory| take(tree, memory, BESIDE),
        ],
    );
}

/// Two removals leave two thin layers: in one layer a key, and in the layer above the way to the first. The second
/// removal folds the layer above.
#[test]
fn of_two_layers_that_are_thinned_at_once_one_is_folded() {
    both_ways(
        4_000,
        three,
        vec![|tree, memory| take(tree, memory, TWO), |tree, memory| take(tree, memory, BESIDE), |tree, _| {
            watch(tree, ONE)
        }],
    );
}

/// The layer above has one key, and then only the way to a layer that comes and goes.
#[test]
fn a_layer_of_one_key_that_comes_to_lead_on_is_folded_when_the_layer_below_is_thinned() {
    both_ways(
        4_000,
        |tree, memory| {
            [ONE, BESIDE].iter().for_each(|key| put(tree, memory, key));
            take(tree, memory, BESIDE);
        },
        vec![
            |tree, memory| {
                put(tree, memory, TWO);
                take(tree, memory, TWO);
            },
            |tree, memory| {
                put(tree, memory, SIX);
                take(tree, memory, SIX);
            },
            |tree, _| watch(tree, ONE),
        ],
    );
}

/// Two layers of two entries, the second below the first, above a layer with a full root.
#[test]
fn layers_of_one_way_are_folded_while_the_root_below_them_splits() {
    both_ways(
        2_000,
        |tree, memory| {
            (0..15).for_each(|n| put(tree, memory, &behind_a_skip(n)));
            [17, 9].iter().for_each(|&at| put(tree, memory, &key_diverging_at(at)));
        },
        vec![
            |tree, memory| take(tree, memory, &key_diverging_at(9)),
            |tree, memory| take(tree, memory, &key_diverging_at(17)),
            |tree, memory| grow_and_shrink(tree, memory, (20..22).map(behind_a_skip)),
            |tree, _| watch(tree, &behind_a_skip(13)),
        ],
    );
}

/// Keys part from a skip and go again: several threads part and join the skip at once.
#[test]
fn a_skip_is_parted_and_joined_by_several() {
    both_ways(
        2_000,
        |tree, memory| (0..2).for_each(|n| put(tree, memory, &behind_a_skip(n))),
        vec![
            |tree, memory| grow_and_shrink(tree, memory, [9].map(key_diverging_at).into_iter()),
            |tree, memory| grow_and_shrink(tree, memory, [17, 12].map(key_diverging_at).into_iter()),
            |tree, _| watch(tree, &behind_a_skip(1)),
            |tree, _| {
                batch_then_get(tree, &[&key_diverging_at(9), &key_diverging_at(12), &key_diverging_at(17)])
            },
        ],
    );
}

/// The leaf above splits, and the slot of the layer moves.
#[test]
fn a_layer_is_folded_while_the_leaf_above_splits() {
    both_ways(
        2_000,
        |tree, memory| {
            (0..13).for_each(|n: u64| put(tree, memory, &(n << 56).to_be_bytes()));
            three(tree, memory);
        },
        vec![
            |tree, memory| take(tree, memory, BESIDE),
            |tree, memory| grow_and_shrink(tree, memory, [b"prefiw", b"prefiy", b"prefiz"].into_iter()),
            |tree, _| watch(tree, ONE),
        ],
    );
}
