//! Sets of boundaries against a set of numbers.

use std::collections::BTreeSet;

use ensile_base::Epoch;

use super::{PublishedBoundaries, READERS_MAX, ShownBoundaries};

/// The same set as numbers, up to a bound that no test passes.
fn numbers(set: &ShownBoundaries) -> BTreeSet<u64> {
    (0..200).filter(|number| set.has(Epoch::new(*number))).collect()
}

#[test]
fn a_set_has_its_readers_and_all_from_its_bound_on() {
    let mut set = ShownBoundaries::from_on(Epoch::new(40));
    for reader in [20, 10, 20, 50] {
        set.add(Epoch::new(reader));
    }
    assert_eq!(numbers(&set), [10, 20].into_iter().chain(40..200).collect());
    assert_eq!(set.lowest(), Epoch::new(10));
    let published = PublishedBoundaries::new(&ShownBoundaries::ALL);
    published.publish(&set);
    assert_eq!(published.read(), Some(set));
}

#[test]
fn v1_readers_without_a_place_are_in_the_set_whatever_their_order() {
    let count = READERS_MAX as u64 + 5;
    let up: Vec<u64> = (1..=count).map(|reader| reader * 3).collect();
    let down = up.iter().rev().copied();
    let mixed = (0..count).map(|at| up[(at * 7 % count) as usize]);
    for order in [up.clone(), down.collect(), mixed.collect()] {
        let mut set = ShownBoundaries::from_on(Epoch::new(150));
        order.iter().for_each(|reader| set.add(Epoch::new(*reader)));
        let bound = up[READERS_MAX];
        let expected: BTreeSet<u64> = up[..READERS_MAX].iter().copied().chain(bound..200).collect();
        assert_eq!(numbers(&set), expected, "{order:?}");
    }
}

#[test]
fn a_version_is_shown_by_the_boundaries_above_it_up_to_its_successor() {
    for readers in 0..64u64 {
        for from in 10..12 {
            let mut set = ShownBoundaries::from_on(Epoch::new(from));
            (0..6).filter(|bit| readers >> bit & 1 == 1).for_each(|bit| set.add(Epoch::new(bit + 3)));
            let members = numbers(&set);
            for version in 0..20 {
                for superseded in version + 1..20 {
                    // Where versions of the newest boundaries are concerned: a boundary lies between (S1), unless it is
                    // the bound's own.
                    let is_shown =
                        superseded >= from || members.range(version + 1..=superseded).next().is_some();
                    assert_eq!(set.show(Epoch::new(version), Epoch::new(superseded)), is_shown);
                }
            }
        }
    }
}
