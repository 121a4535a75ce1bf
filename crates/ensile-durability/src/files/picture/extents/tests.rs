//! Free units: which are taken, given back, and what cannot be.

use ensile_base::random::Random;

use super::*;

fn extent(first: u32, units: u32) -> Extent {
    Extent { folder: 2, first, units }
}

#[test]
fn the_shortest_run_that_fits_is_taken_and_a_file_ends_behind_its_last_used_unit() {
    let reached = vec![extent(9, 1), extent(4, 1), extent(12, 2)];
    let mut free = FreeUnits::of_reached(2, 14, reached).expect("they fit");
    assert_eq!((free.free(), free.end()), (3 + 4 + 2, 14));
    assert_eq!(free.take(2), Some(extent(10, 2)));
    assert_eq!(free.take(2), Some(extent(1, 2)));
    assert_eq!(free.take(5), Some(extent(14, 5)));
    assert_eq!(free.take(4), Some(extent(5, 4)));
    assert_eq!(free.take(1), Some(extent(3, 1)));
    assert_eq!((free.free(), free.end()), (0, 19));
    let mut free = FreeUnits::of_new(2);
    let taken: Vec<_> = (0..4).map(|_| free.take(3).expect("there is room")).collect();
    free.give_back(taken[2]);
    assert_eq!((free.free(), free.end()), (3, 13));
    free.give_back(taken[3]);
    assert_eq!((free.free(), free.end()), (0, 7));
    free.give_back(taken[0]);
    free.give_back(taken[1]);
    assert_eq!(free, FreeUnits::of_new(2));
}

#[test]
fn extents_that_overlap_or_are_behind_the_end_are_seen_and_a_full_file_has_no_more_room() {
    let found = FreeUnits::of_reached(2, 14, vec![extent(4, 3), extent(6, 1)]);
    assert_eq!(found, Err(Misplaced::Overlap(extent(6, 1))));
    let found = FreeUnits::of_reached(2, 14, vec![extent(4, 3), extent(13, 2)]);
    assert_eq!(found, Err(Misplaced::BehindTheEnd(extent(13, 2))));
    let found = FreeUnits::of_reached(2, 14, vec![extent(4, 3), extent(4, 3)]);
    assert_eq!(found, Err(Misplaced::Overlap(extent(4, 3))));
    let mut free = FreeUnits::of_reached(2, u32::MAX, vec![extent(u32::MAX - 2, 1)]).expect("it fits");
    assert_eq!(free.take(2).map(|extent| extent.first), Some(1));
    assert_eq!(free.take(u32::MAX - 4), None);
}

#[test]
#[should_panic(expected = "is free already")]
fn a_unit_is_not_given_back_twice() {
    let mut free = FreeUnits::of_new(2);
    let first = free.take(2).expect("there is room");
    free.take(1).expect("there is room");
    free.give_back(first);
    free.give_back(extent(2, 1));
}

/// Against a set of units: nothing is handed out that is in use, and what is free is what is not.
#[test]
fn whatever_is_taken_and_given_back_no_unit_is_in_two_extents() {
    for seed in 0..50 {
        let mut random = Random::from_seed(seed);
        let (mut free, mut held, mut used) = (FreeUnits::of_new(2), Vec::new(), BTreeSet::new());
        for _ in 0..400 {
            if held.is_empty() || random.percent(55) {
                let extent = free.take(1 + random.next_below(9) as u32).expect("there is room");
                assert!((extent.first..extent.end()).all(|unit| unit > 0 && used.insert(unit)));
                held.push(extent);
            } else {
                let extent: Extent = held.swap_remove(random.next_below(held.len() as u64) as usize);
                (extent.first..extent.end()).for_each(|unit| assert!(used.remove(&unit)));
                free.give_back(extent);
            }
            let end = used.last().map_or(1, |last| last + 1);
            assert_eq!(free.end(), end);
            assert_eq!(free.free(), u64::from(end) - 1 - used.len() as u64);
            assert_eq!(FreeUnits::of_reached(2, end, held.clone()), Ok(free.clone()));
        }
    }
}
