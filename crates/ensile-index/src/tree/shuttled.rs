//! The whole tree under shuttle's schedules: small key sets that make leaves and layers split, empty, go and come back.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p ensile-index --release`. Shuttle explores schedules, not memory orders.
//!
//! Neighbours: `mixed`, `folds` and `late_prunes` have further schedules; `testing` has the memory and the
//! collector.

use std::ops::Bound;

use shuttle::sync::{Arc, Mutex};

use crate::testing::{BookedMemory, assume_pinned, collect};
use crate::{Direction, Insert, Lookup, Masstree, NodeChanges, Range, Witness};

mod folds;
mod late_prunes;
mod mixed;

const WHOLE: Range<'static> = Range { lower: Bound::Unbounded, upper: Bound::Unbounded };

fn insert(tree: &Masstree, memory: &mut BookedMemory, key: &[u8], value: u64) -> Insert {
    tree.insert_if_absent(key, value, memory, &mut NodeChanges::new(), assume_pinned())
}

/// Number of schedules of a test: `iterations`, times `ENSILE_TIMES` if set (`ci/soak.sh`).
fn scale_iterations(iterations: usize) -> usize {
    let times = std::env::var("ENSILE_TIMES");
    let longer = |times: String| times.parse::<usize>().ok().filter(|times| *times > 0);
    iterations * times.map_or(1, |times| longer(times).expect("ENSILE_TIMES is a number from 1 on"))
}

/// Builds a tree, runs the threads' work on the tree, checks the tree and the memory's book.
fn schedules(
    iterations: usize,
    prepare: impl Fn(&Masstree, &mut BookedMemory) + Send + Sync + 'static,
    works: Vec<fn(&Masstree, &mut BookedMemory)>,
) {
    shuttle::check_random(schedule(prepare, works), scale_iterations(iterations));
}

/// As [`schedules`], for failures that need a long rest of a thread in a certain place, a rare event with random steps.
fn schedules_with_long_rests(
    iterations: usize,
    prepare: impl Fn(&Masstree, &mut BookedMemory) + Send + Sync + 'static,
    works: Vec<fn(&Masstree, &mut BookedMemory)>,
) {
    shuttle::check_pct(schedule(prepare, works), scale_iterations(iterations), 4);
}

fn schedule(
    prepare: impl Fn(&Masstree, &mut BookedMemory) + Send + Sync + 'static,
    works: Vec<fn(&Masstree, &mut BookedMemory)>,
) -> impl Fn() + Send + Sync + 'static {
    move || {
        let mut memory = BookedMemory::default();
        let tree = Arc::new(Masstree::new(&mut memory));
        prepare(&tree, &mut memory);
        let book = Arc::new(Mutex::new(memory));
        let threads: Vec<_> = works
            .iter()
            .map(|&work| {
                let (tree, book) = (tree.clone(), book.clone());
                shuttle::thread::spawn(move || {
                    let mut memory = BookedMemory::default();
                    work(&tree, &mut memory);
                    book.lock().unwrap().absorb(memory);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let shape = tree.check(assume_pinned()).expect("a whole tree");
        assert_eq!(book.lock().unwrap().live_bytes(), shape.bytes);
    }
}

fn tens(tree: &Masstree, memory: &mut BookedMemory, count: u64) {
    for n in 0..count {
        insert(tree, memory, &(n * 10).to_be_bytes(), n);
    }
}

fn in_and_out(tree: &Masstree, memory: &mut BookedMemory, numbers: impl Iterator<Item = u64> + Clone) {
    for n in numbers.clone() {
        assert_eq!(insert(tree, memory, &n.to_be_bytes(), n), Insert::Inserted);
        assert_eq!(tree.get(&n.to_be_bytes(), assume_pinned()), Lookup::Found(n));
    }
    for n in numbers {
        assert!(tree.remove(&n.to_be_bytes(), n, memory, assume_pinned()));
    }
}

#[test]
fn leaves_split_and_go_under_two_writers_and_a_scan() {
    schedules(
        2_000,
        |tree, memory| tens(tree, memory, 14),
        vec![
            |tree, memory| in_and_out(tree, memory, (0..12).map(|n| n * 10 + 1)),
            |tree, memory| in_and_out(tree, memory, (0..12).map(|n| n * 10 + 2)),
            |tree, _| {
                for direction in [Direction::Forward, Direction::Reverse] {
                    let entries = collect(tree, WHOLE, direction).entries;
                    let stable = entries.iter().filter(|(key, _)| key[7] % 10 == 0).count();
                    assert_eq!(stable, 14, "a stable key was passed over or came twice");
                }
            },
        ],
    );
}

#[test]
fn everything_goes_under_two_removers() {
    fn remove_all(tree: &Masstree, memory: &mut BookedMemory, remainder: u64) {
        for n in (0..60).filter(|n| n % 2 == remainder) {
            assert!(tree.remove(&(n * 10).to_be_bytes(), n, memory, assume_pinned()));
        }
    }
    schedules(
        1_500,
        |tree, memory| tens(tree, memory, 60),
        vec![
            |tree, memory| remove_all(tree, memory, 0),
            |tree, memory| remove_all(tree, memory, 1),
            |tree, _| {
                let reverse = collect(tree, WHOLE, Direction::Reverse).entries;
                assert!(reverse.windows(2).all(|pair| pair[0].0 > pair[1].0));
            },
        ],
    );
}

/// Bugs from Masstree's own history. A key becomes unreachable when its leaf is emptied and removed under a concurrent
/// insert, or when the neighbour that takes over its range splits or goes at the same time.
#[test]
fn leaves_go_while_others_refill_them_and_neighbours_split() {
    fn empty(tree: &Masstree, memory: &mut BookedMemory, numbers: std::ops::Range<u64>) {
        for n in numbers {
            assert!(tree.remove(&(n * 10).to_be_bytes(), n, memory, assume_pinned()));
        }
    }
    fn refill(tree: &Masstree, memory: &mut BookedMemory, numbers: [u64; 3]) {
        for n in numbers {
            in_and_out(tree, memory, [n, n + 1].into_iter());
        }
    }
    let works: [Vec<fn(&Masstree, &mut BookedMemory)>; 3] = [
        // Leaves hold fifteen tens each: 0..15, 15..30, 30..45.
        vec![
            |tree, memory| empty(tree, memory, 15..30),
            |tree, memory| refill(tree, memory, [151, 225, 291]),
            |tree, memory| refill(tree, memory, [153, 227, 293]),
        ],
        vec![|tree, memory| empty(tree, memory, 15..30), |tree, memory| {
            in_and_out(tree, memory, 141..149);
            in_and_out(tree, memory, 301..309);
        }],
        vec![
            |tree, memory| empty(tree, memory, 0..15),
            |tree, memory| empty(tree, memory, 15..30),
            |tree, memory| empty(tree, memory, 30..45),
        ],
    ];
    for works in works {
        schedules(3_000, |tree, memory| tens(tree, memory, 45), works);
    }
}

/// The left neighbour of a dying leaf stands below another parent, so only the neighbour's own lock keeps the neighbour
/// from splitting.
#[test]
fn a_leaf_goes_while_its_neighbour_below_another_parent_splits() {
    schedules(
        5_000,
        |tree, memory| {
            // Eighteen full leaves: sixteen below the first parent, less one that goes, and two below the second.
            tens(tree, memory, 15 * 18);
            for n in (45..60u64).chain(15 * 16 + 1..15 * 17) {
                assert!(tree.remove(&(n * 10).to_be_bytes(), n, memory, assume_pinned()));
            }
        },
        vec![
            |tree, memory| {
                assert!(tree.remove(&(15u64 * 16 * 10).to_be_bytes(), 15 * 16, memory, assume_pinned()))
            },
            |tree, memory| {
                let key = (15u64 * 15 * 10 + 1).to_be_bytes();
                assert_eq!(insert(tree, memory, &key, 1), Insert::Inserted);
            },
        ],
    );
}

#[test]
fn layers_come_and_go_under_their_readers() {
    fn layer(tree: &Masstree, memory: &mut BookedMemory, keys: [&[u8]; 2]) {
        for _ in 0..2 {
            keys.iter().for_each(|key| assert_eq!(insert(tree, memory, key, 1), Insert::Inserted));
            keys.iter().for_each(|key| assert_eq!(tree.get(key, assume_pinned()), Lookup::Found(1)));
            keys.iter().for_each(|key| assert!(tree.remove(key, 1, memory, assume_pinned())));
        }
    }
    schedules(
        8_000,
        |tree, memory| {
            insert(tree, memory, b"a", 1);
            insert(tree, memory, b"z", 1);
        },
        vec![
            |tree, memory| layer(tree, memory, [b"one prefix, one rest", b"one prefix, another"]),
            |tree, memory| layer(tree, memory, [b"one prefix, third rest", b"one prefix"]),
            |tree, _| {
                for direction in [Direction::Reverse, Direction::Forward] {
                    let entries = collect(tree, WHOLE, direction).entries;
                    assert_eq!(entries.iter().filter(|(key, _)| key.len() == 1).count(), 2);
                }
            },
        ],
    );
}

/// C4 under schedules: a key that appears after a miss has failed the miss's witness by then.
#[test]
fn no_key_appears_behind_a_witness() {
    fn watch(tree: &Masstree, key: &[u8]) {
        let mut miss: Option<Witness> = None;
        for _ in 0..6 {
            match tree.get(key, assume_pinned()) {
                Lookup::Missing(witness) => miss = miss.or(Some(witness)),
                Lookup::Found(_) => {
                    assert!(
                        !miss.is_some_and(|miss| miss.holds(assume_pinned())),
                        "{key:?} appeared behind a witness"
                    );
                }
            }
        }
    }
    schedules(
        5_000,
        |tree, memory| {
            tens(tree, memory, 14);
            insert(tree, memory, b"one prefix, one rest", 1);
        },
        vec![
            |tree, memory| {
                insert(tree, memory, &35u64.to_be_bytes(), 1);
                insert(tree, memory, &36u64.to_be_bytes(), 1);
                insert(tree, memory, b"one prefix, another", 1);
                assert!(tree.remove(b"one prefix, one rest", 1, memory, assume_pinned()));
                assert!(tree.remove(b"one prefix, another", 1, memory, assume_pinned()));
                insert(tree, memory, b"one prefix, a third", 1);
            },
            |tree, _| watch(tree, &36u64.to_be_bytes()),
            |tree, _| watch(tree, b"one prefix, a third"),
            |tree, _| watch(tree, b"one prefix, another"),
        ],
    );
}
