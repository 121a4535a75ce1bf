//! Garbage is counted when it is added and uncounted when it is freed.
//!
//! Neighbours: [`super`].

use super::{CHUNK, GarbageList};
use ensile_base::Epoch;

#[test]
fn nothing_comes_back_before_its_limit() {
    let mut garbage_list = GarbageList::default();
    for tag in 1..=5u64 {
        for thing in 0..CHUNK as u64 + 3 {
            garbage_list.push(Epoch::new(tag), tag * 10_000 + thing);
        }
    }
    assert_eq!(garbage_list.len(), 5 * (CHUNK + 3));
    assert_eq!(garbage_list.first_tag(), Some(Epoch::new(1)));
    let mut freed = 0;
    assert!(garbage_list.check());
    while let Some(thing) = garbage_list.pop_below(Epoch::new(3)) {
        assert!(thing < 30_000, "tag 3 is not below 3");
        freed += 1;
    }
    assert_eq!(freed, 2 * (CHUNK + 3));
    let rest: Vec<u64> = std::iter::from_fn(|| garbage_list.pop_below(Epoch::new(6))).collect();
    assert_eq!(rest.len(), 3 * (CHUNK + 3));
    assert!(rest.is_sorted_by_key(|thing| thing / 10_000), "the oldest tags come first");
    assert!(garbage_list.is_empty());
}

#[test]
fn the_thing_that_is_announced_comes_out_so_many_places_later() {
    let mut garbage_list = GarbageList::default();
    (0..20).for_each(|thing| garbage_list.push(Epoch::new(1), thing));
    for ahead in [0, 1, 7] {
        let announced = *garbage_list.peek_ahead(ahead).expect("the chunk has more");
        (0..ahead).for_each(|_| assert!(garbage_list.pop_below(Epoch::new(2)).is_some()));
        assert_eq!(garbage_list.pop_below(Epoch::new(2)), Some(announced), "{ahead} places ahead");
    }
    assert_eq!(garbage_list.peek_ahead(garbage_list.len()), None);
}

#[test]
fn few_emptied_chunks_are_kept() {
    let mut garbage_list = GarbageList::default();
    (1..=100).for_each(|tag| garbage_list.push(Epoch::new(tag), ()));
    while garbage_list.pop_below(Epoch::MAX).is_some() {}
    assert!((1..=4).contains(&garbage_list.unused.len()), "{}", garbage_list.unused.len());
}

#[test]
fn a_tag_that_goes_back_waits_for_the_larger_one() {
    let mut garbage_list = GarbageList::default();
    garbage_list.push(Epoch::new(7), 'a');
    garbage_list.push(Epoch::new(5), 'b');
    assert_eq!(garbage_list.pop_below(Epoch::new(7)), None);
    assert_eq!(garbage_list.len(), 2);
}
