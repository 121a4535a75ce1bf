//! LEAF TRUTH, from the point of view of a search that has come too late.

use crate::descent::{InLeaf, LeafSearch, Path, StaleRoot, find, leaf_for, search_leaf};
use crate::key::{KeyPart, SLICE_BYTES};
use crate::node::{Leaf, NodePtr, Ptr};
use crate::testing::{Bench, assume_pinned};

fn number(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn leaf_of<'p>(bench: &'p Bench, key: &[u8]) -> Ptr<'p, Leaf> {
    leaf_for(bench.tree.root(assume_pinned()), KeyPart::from_rest(key).slice, assume_pinned())
        .expect("a root at rest")
        .0
}

/// What a search finds that stands on a leaf and only now reads its version.
fn late_search<'p>(leaf: Ptr<'p, Leaf>, key: &[u8]) -> LeafSearch<'p> {
    let part = KeyPart::from_rest(key);
    search_leaf(leaf, leaf.version.stable(), leaf.candidates(part), part, || key)
}

/// Unlinks the leaf of fifteen tens from `victim` on, one of three.
fn with_a_dead_leaf(victim: u64, check: impl FnOnce(&Bench, Ptr<'_, Leaf>)) {
    let mut bench = Bench::new();
    for n in 0..45 {
        bench.insert(&number(n * 10), 1);
    }
    let leaf = leaf_of(&bench, &number(victim * 10)).as_ptr();
    for n in victim..victim + 15 {
        assert!(bench.remove(&number(n * 10), 1));
    }
    // SAFETY: the bench frees nothing before its end, so the leaf still stands.
    check(&bench, unsafe { Ptr::new_or_null(leaf) }.expect("a leaf"));
}

/// Its word will never move again, so a witness of it would hold for ever.
#[test]
fn a_leaf_that_is_gone_answers_no_miss() {
    // The first leaf's range goes to the right, that of the others to the left.
    for victim in [0, 15, 30] {
        with_a_dead_leaf(victim, |bench, leaf| {
            assert!(matches!(late_search(leaf, &number(victim * 10 + 5)), LeafSearch::Again));
            assert!(matches!(late_search(leaf, &number(victim * 10)), LeafSearch::Again));
            assert!(bench.miss(&number(victim * 10 + 5)).holds(assume_pinned()));
        });
    }
}

#[test]
fn a_layer_that_is_gone_answers_nothing() {
    let mut bench = Bench::new();
    for key in [&b"prefix--one"[..], b"prefix--two"] {
        bench.insert(key, 1);
    }
    let rest = &b"prefix--one"[SLICE_BYTES..];
    let found = find(bench.tree.root(assume_pinned()), b"prefix--one", assume_pinned())
        .expect("a root at rest")
        .found;
    let InLeaf::Layer(root) = found else { panic!("{found:?}") };
    // SAFETY: the bench frees nothing before its end, so the root still stands.
    let root: NodePtr<'_> = unsafe { Ptr::new_or_null(root.as_ptr()) }.expect("a root");
    assert!(find(root, rest, assume_pinned()).is_ok());
    for key in [&b"prefix--one"[..], b"prefix--two"] {
        assert!(bench.remove(key, 1));
    }
    assert!(matches!(find(root, rest, assume_pinned()), Err(StaleRoot)));
    assert!(matches!(leaf_for(root, 0, assume_pinned()), Err(StaleRoot)));
}

/// The way down led too far left or too far right: a leaf answers for what it covers and for nothing else.
#[test]
fn a_leaf_answers_no_miss_outside_its_bounds() {
    let mut bench = Bench::new();
    for n in 0..45 {
        bench.insert(&number(n * 10), 1);
    }
    let leaf = leaf_of(&bench, &number(200));
    assert!(matches!(late_search(leaf, &number(5)), LeafSearch::Again));
    assert!(matches!(late_search(leaf, &number(205)), LeafSearch::Sure(InLeaf::Absent)));
    let right = leaf_of(&bench, &number(305));
    assert!(matches!(late_search(leaf, &number(305)), LeafSearch::Right(next) if next == right.node()));
}

/// Below a node that is a root no more there may be no room left, and the root word is not its to change.
#[test]
fn no_path_begins_at_a_former_root() {
    let mut bench = Bench::new();
    for n in 0..15 * 16 {
        bench.insert(&number(n), 1);
    }
    let root = bench.tree.root(assume_pinned()).as_ptr();
    bench.insert(&number(15 * 16), 1);
    // SAFETY: the bench frees nothing before its end.
    let former: NodePtr<'_> = unsafe { Ptr::new_or_null(root) }.expect("a root");
    let leaf = leaf_of(&bench, &number(0));
    assert!(former != bench.tree.root(assume_pinned()), "the root was full and has split");
    assert!(Path::descend_to(former, leaf, assume_pinned()).is_none());
    let path =
        Path::descend_to(bench.tree.root(assume_pinned()), leaf, assume_pinned()).expect("the way down");
    assert!(path.length() == 2 && path.step(1).node.node() == former);
}
