//! The life of a map.

use std::time::Duration;

use ensile_durability::PictureAttempt;
use ensile_epoch::EpochConfig;

use super::*;
use crate::pictures::page_bounds::PageBounds;
use crate::pictures::page_map::PageMap;
use crate::pictures::page_map::tests::{map, picture};
use crate::pictures::pending_removes::PageMarks;

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
