//! The search for a key's page, and the life of a map.

use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::sync::Arc;
use ensile_durability::PictureAttempt;
use ensile_epoch::{EpochConfig, Epochs};
use proptest::prelude::*;

use super::{PageBounds, PageMap, PictureOfMaps, TablePages, WaitingMaps};
use crate::record::pending_removes::PageMarks;

/// Keys that share much, differ in zeros at their ends, and have equal slices.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0_u8), Just(1), Just(0xFF), any::<u8>()];
    let tail = proptest::collection::vec(byte, 0..20);
    let head = prop_oneof![
        Just(""),
        Just("p"),
        Just("prefix"),
        Just("prefix of all"),
        Just("prefix of all eight more")
    ];
    (head, tail).prop_map(|(head, tail)| [head.as_bytes(), &tail].concat())
}

/// Keys that a slice has all of: evenly spread, in heaps that fall into one range each, and shorter ones.
fn short_keys() -> impl Strategy<Value = Vec<u8>> {
    let number = |number: u64| number.to_be_bytes().to_vec();
    let spread = (0..64_u64).prop_map(move |at| number(at << 58));
    let heaped = (0..4_u64, 0..32_u64).prop_map(move |(heap, at)| number(heap << 60 | at));
    let few = prop_oneof![Just(0_u8), Just(1), Just(0xFF), any::<u8>()];
    prop_oneof![spread, heaped, proptest::collection::vec(few, 0..8)]
}

/// Bounds with a common prefix of any length, and keys around them.
fn check(mut bounds: Vec<Vec<u8>>, looked_up: &[Vec<u8>]) {
    bounds.retain(|bound| !bound.is_empty());
    bounds.sort();
    bounds.dedup();
    let pages = PageBounds::new(&bounds);
    assert_eq!(pages.len(), bounds.len() + 1);
    for key in looked_up.iter().chain(&bounds).map(Vec::as_slice).chain([&b""[..]]) {
        let page = pages.page_of(key);
        assert_eq!(page, bounds.partition_point(|bound| bound.as_slice() <= key), "{key:?}");
        assert!(pages.lower(page) <= key && pages.upper(page).is_none_or(|upper| key < upper));
    }
}

proptest! {
    #[test]
    fn the_search_finds_what_a_plain_one_finds(
        bounds in proptest::collection::vec(keys(), 0..40),
        looked_up in proptest::collection::vec(keys(), 0..40),
    ) {
        check(bounds, &looked_up);
    }

    #[test]
    fn short_keys_are_found_by_their_slices(
        bounds in proptest::collection::vec(short_keys(), 0..100),
        looked_up in proptest::collection::vec(prop_oneof![short_keys(), keys()], 0..40),
    ) {
        check(bounds, &looked_up);
    }

    #[test]
    fn bounds_that_share_a_prefix_are_searched_behind_it(
        prefix in keys(),
        bounds in proptest::collection::vec(keys(), 0..40),
        looked_up in proptest::collection::vec(keys(), 0..40),
    ) {
        let behind = |tails: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
            tails.into_iter().map(|tail| [&prefix[..], &tail].concat()).collect()
        };
        let mut looked_up = behind(looked_up);
        looked_up.extend((0..prefix.len()).map(|bytes| prefix[..bytes].to_vec()));
        check(behind(bounds), &looked_up);
    }
}

#[test]
fn one_page_has_every_key() {
    let pages = PageBounds::default();
    assert_eq!((pages.len(), pages.page_of(b""), pages.page_of(b"any")), (1, 0, 0));
    assert_eq!((pages.lower(0), pages.upper(0)), (&b""[..], None));
}

fn picture(attempt: u64, since: u64) -> Arc<PictureOfMaps> {
    PictureOfMaps::new(PictureAttempt::new(attempt), Epoch::new(since))
}

fn map(attempt: u64, bounds: &[&str], marks: PageMarks) -> PageMap {
    PageMap::new(&picture(attempt, 7), PageBounds::new(bounds), marks)
}

fn epochs() -> Epochs {
    Epochs::new(&EpochConfig { first: Epoch::new(10), snapshot_interval: Duration::MAX })
}

fn tick(epochs: &Epochs, at: u64) {
    let _ = epochs.try_advance(at * 1_000_000_000);
    epochs.scan();
}

#[test]
fn a_map_is_freed_once_every_pin_is_newer_than_its_unpublication() {
    let epochs = epochs();
    let waiting = Arc::new(WaitingMaps::default());
    let first = PageMap::new(&picture(1, 7), PageBounds::default(), PageMarks::NONE);
    let table = TablePages::new(Some(first), &waiting);
    let mut pin = epochs.register_pin();
    let call = pin.begin(epochs.now());
    let first = table.load(call.pin_token()).expect("published");
    let second = PageMap::new(&picture(2, 9), PageBounds::new(&["m"]), PageMarks::NONE);
    table.publish(second, true, &epochs);
    let second = table.load(call.pin_token()).expect("published");
    assert!(first.address() != second.address() && second.bounds().page_of(b"m") == 1);
    (1..4).for_each(|at| tick(&epochs, at));
    assert!(table.collect(&epochs) && waiting.count() == 0, "it is kept until its marks are carried over");
    table.carry_over(PageMarks::BOTH, &epochs, call.pin_token());
    assert!(!table.collect(&epochs), "a pin may reach it");
    let small = waiting.bytes();
    assert!(waiting.count() == 1 && small >= size_of::<PageMap>() as u64);
    assert_eq!((first.publication_freeze(), first.attempt()), (Epoch::new(7), PictureAttempt::new(1)));
    table.publish(PageMap::new(&picture(3, 9), PageBounds::default(), PageMarks::BEFORE), false, &epochs);
    assert!(table.load(call.pin_token()).is_some_and(|map| map.attempt() == PictureAttempt::new(3)));
    assert!(waiting.count() == 2 && waiting.bytes() > 2 * small, "the second one has a bound");
    assert_eq!(waiting.made_bytes(), waiting.bytes());
    drop(call);
    pin.end();
    (4..7).for_each(|at| tick(&epochs, at));
    assert!(table.collect(&epochs));
    assert_eq!((waiting.count(), waiting.bytes()), (0, 0));
    assert!(waiting.made_bytes() > 2 * small, "what ever waited only grows");
    // One is dropped with the table while its marks are to be carried over.
    table.publish(PageMap::new(&picture(4, 9), PageBounds::default(), PageMarks::NONE), true, &epochs);
    drop(table);
}

/// An attempt ended before marks were carried over to its map: all pages of the next one are marked.
#[test]
fn n13_a_map_whose_marks_were_not_carried_over_waits_for_pins_with_the_next() {
    let (epochs, waiting) = (epochs(), Arc::default());
    let table = TablePages::new(Some(map(1, &[], PageMarks::BOTH)), &waiting);
    table.publish(map(2, &["m"], PageMarks::NONE), true, &epochs);
    assert_eq!(waiting.count(), 0);
    table.publish(map(3, &["m"], PageMarks::BEFORE), false, &epochs);
    assert_eq!(waiting.count(), 2);
    (1..4).for_each(|at| tick(&epochs, at));
    assert!(table.collect(&epochs) && waiting.count() == 0);
}

/// Which pages of a map with these bounds are marked from the pages of a map with others.
fn carried(from: &[&str], marked: &[(usize, PageMarks)], to: &[&str], marks: PageMarks) -> Vec<usize> {
    let (before, next) = (map(1, from, PageMarks::NONE), map(2, to, PageMarks::NONE));
    marked.iter().for_each(|(page, marks)| before.page(*page).mark(*marks));
    next.mark_from(&before, marks);
    let pages = next.pages();
    assert!(pages.iter().all(|page| !page.has_any(PageMarks::AFTER)), "it is below the next freeze");
    (0..pages.len()).filter(|page| pages[*page].has_any(PageMarks::BEFORE)).collect()
}

#[test]
fn n7_marks_go_to_every_page_that_overlaps() {
    let after = |page| (page, PageMarks::AFTER);
    let all = |from: &[&str], marked: &[_], to: &[&str]| carried(from, marked, to, PageMarks::BOTH);
    assert_eq!(all(&["d", "m", "t"], &[after(1)], &["d", "m", "t"]), [1], "the same bounds");
    assert_eq!(all(&["d", "m", "t"], &[after(0), after(3)], &["d", "m", "t"]), [0, 3]);
    assert_eq!(all(&["d", "m"], &[after(1)], &["d", "f", "g", "m"]), [1, 2, 3], "it was cut");
    assert_eq!(all(&["d", "f", "g", "m"], &[after(2)], &["d", "m"]), [1], "it was joined");
    assert_eq!(all(&["d", "m"], &[after(1)], &["c", "e", "l", "n"]), [1, 2, 3], "bounds lie anywhere");
    assert_eq!(all(&["d", "m"], &[after(2)], &["d", "m", "x"]), [2, 3]);
    assert_eq!(all(&["d"], &[after(0)], &[]), [0]);
    assert_eq!(all(&[], &[after(0)], &["d", "m"]), [0, 1, 2]);
}

#[test]
fn n13_an_installed_picture_takes_its_marks_with_it_and_no_others() {
    let marked = [(0, PageMarks::BEFORE), (1, PageMarks::AFTER), (3, PageMarks::BOTH)];
    let bounds = ["d", "m", "t"];
    assert_eq!(carried(&bounds, &marked, &bounds, PageMarks::AFTER), [1, 3]);
    assert_eq!(carried(&bounds, &marked, &bounds, PageMarks::BOTH), [0, 1, 3]);
}

#[test]
fn the_page_of_a_table_that_is_added_is_marked_and_closed_once_the_picture_is_over() {
    let picture = picture(1, 7);
    let added = PageMap::of_added_table(&picture);
    assert!(!added.page(0).is_closed() && !added.is_over());
    picture.end();
    let late = PageMap::of_added_table(&picture);
    assert!(late.page(0).is_closed() && added.is_over() && late.is_over());
    for map in [added, late] {
        assert_eq!(map.pages().len(), 1);
        assert!(map.page(0).has_any(PageMarks::BEFORE) && map.page(0).has_any(PageMarks::AFTER));
    }
}
