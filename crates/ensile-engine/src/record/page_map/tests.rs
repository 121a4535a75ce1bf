//! The search for a key's page, and the life of a map.

use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::sync::Arc;
use ensile_durability::PictureAttempt;
use ensile_epoch::{EpochConfig, Epochs};
use proptest::prelude::*;

use super::{PageBounds, PageMap, PictureUnderWay, TablePages, WaitingMaps};

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

fn picture(attempt: u64, since: u64) -> Arc<PictureUnderWay> {
    PictureUnderWay::new(PictureAttempt::new(attempt), Epoch::new(since))
}

#[test]
fn a_map_is_freed_once_every_pin_is_newer_than_its_unpublication() {
    let epochs = Epochs::new(&EpochConfig { first: Epoch::new(10), snapshot_interval: Duration::MAX });
    let tick = |at: u64| {
        let _ = epochs.try_advance(at * 1_000_000_000);
        epochs.scan();
    };
    let waiting = Arc::new(WaitingMaps::default());
    let table = TablePages::new(Some(PageMap::new(&picture(1, 7), PageBounds::default())), &waiting);
    let mut pin = epochs.register_pin();
    let call = pin.begin(epochs.now());
    let first = table.load(call.pinned()).expect("published");
    table.publish(PageMap::new(&picture(2, 9), PageBounds::new(&["m"])), &epochs);
    let second = table.load(call.pinned()).expect("published");
    assert!(first.address() != second.address() && second.bounds().page_of(b"m") == 1);
    (1..4).for_each(tick);
    assert!(!table.collect(&epochs), "a pin may reach it");
    let small = waiting.bytes();
    assert!(waiting.count() == 1 && small >= size_of::<PageMap>() as u64);
    assert_eq!((first.since(), first.attempt()), (Epoch::new(7), PictureAttempt::new(1)));
    table.unpublish(&epochs);
    assert!(table.load(call.pinned()).is_none());
    assert!(waiting.count() == 2 && waiting.bytes() > 2 * small, "the second one has a bound");
    assert_eq!(waiting.made_bytes(), waiting.bytes());
    drop(call);
    pin.end();
    (4..7).for_each(tick);
    assert!(table.collect(&epochs));
    assert_eq!((waiting.count(), waiting.bytes()), (0, 0));
    assert!(waiting.made_bytes() > 2 * small, "what ever waited only grows");
    table.publish(PageMap::new(&picture(3, 9), PageBounds::default()), &epochs);
    drop(table);
}
