//! Who is ended, for figures that are made up.

use super::*;

fn of_pins(pins: u64) -> GarbageBytes {
    GarbageBytes { pins, snapshots: 0 }
}

fn of_snapshots(snapshots: u64) -> GarbageBytes {
    GarbageBytes { pins: 0, snapshots }
}

/// A tick with a boundary of its own.
fn tick_of(
    limit: &mut GarbageLimit,
    tick: u64,
    made: GarbageBytes,
    waiting: GarbageBytes,
) -> Option<EndedBefore> {
    limit.tick(epoch(tick), epoch(tick), made, waiting)
}

fn epoch(number: u64) -> Epoch {
    Epoch::new(number)
}

#[test]
fn nobody_is_ended_up_to_the_limit_and_the_youngest_readers_are_spared() {
    let mut limit = GarbageLimit::new(1000);
    for tick in 1..200 {
        assert_eq!(tick_of(&mut limit, tick, of_pins(tick * 500), of_pins(1000)), None, "{tick}");
    }
    assert!(tick_of(&mut limit, 200, of_pins(200 * 500), of_pins(1001)).is_some());
    let mut limit = GarbageLimit::new(1000);
    tick_of(&mut limit, 9, of_pins(0), of_pins(0));
    let ended = tick_of(&mut limit, 10, of_pins(1 << 40), of_pins(1 << 40)).expect("too much waits");
    assert_eq!(ended.pins, epoch(8));
}

#[test]
fn who_holds_back_more_than_half_of_the_limit_is_ended_at_once() {
    let mut limit = GarbageLimit::new(1000);
    for tick in 1..20 {
        assert_eq!(tick_of(&mut limit, tick, of_pins(tick * 100), of_pins(tick * 50)), None);
    }
    // 100 a tick: since tick 15 half of the limit was made.
    let ended = tick_of(&mut limit, 20, of_pins(2000), of_pins(1001)).expect("too much waits");
    assert_eq!(ended.pins, epoch(16), "a reader of epoch 16 holds back 500 at most");
}

#[test]
fn what_was_made_before_all_that_is_remembered_is_the_oldest_readers_and_ticks_of_an_epoch_are_one() {
    let mut limit = GarbageLimit::new(1000);
    let ticks = 3 * TICKS_MAX as u64;
    for tick in 1..=ticks {
        tick_of(&mut limit, tick, of_pins(5000), of_pins(0));
    }
    let ended = tick_of(&mut limit, ticks + 1, of_pins(5000), of_pins(5000)).expect("too much waits");
    let first = ticks + 2 - TICKS_MAX as u64;
    assert_eq!(ended.pins, epoch(first + 1), "younger readers hold back nothing");
    let mut limit = GarbageLimit::new(1000);
    for _ in 0..10 * TICKS_MAX {
        tick_of(&mut limit, 5, of_pins(0), of_pins(0));
    }
    for tick in 6..10 {
        tick_of(&mut limit, tick, of_pins(2000), of_pins(0));
    }
    let ended = tick_of(&mut limit, 10, of_pins(2000), of_pins(2000)).expect("too much waits");
    assert_eq!(ended.pins, epoch(7), "what epoch 5 remembered comes before all of it");
}

#[test]
fn pins_and_snapshots_are_ended_for_what_each_holds_back() {
    let ended = |waiting| {
        let mut limit = GarbageLimit::new(1000);
        for tick in 1..30 {
            tick_of(
                &mut limit,
                tick,
                GarbageBytes { pins: 7, snapshots: 100 * tick },
                GarbageBytes::default(),
            );
        }
        tick_of(&mut limit, 30, GarbageBytes { pins: 7, snapshots: 3000 }, waiting)
    };
    let none = Epoch::ZERO;
    let of_snapshots = GarbageBytes { pins: 0, snapshots: 2000 };
    assert_eq!(ended(of_snapshots), Some(EndedBefore { pins: none, snapshots: epoch(26) }));
    let of_pins = GarbageBytes { pins: 2000, snapshots: 0 };
    assert_eq!(ended(of_pins), Some(EndedBefore { pins: epoch(2), snapshots: none }));
}

#[test]
fn a_reader_of_the_boundary_that_is_served_is_spared() {
    let mut limit = GarbageLimit::new(1000);
    for tick in 1..30 {
        limit.tick(epoch(tick), epoch(4), of_snapshots(100 * tick), of_snapshots(0));
    }
    let ended = limit.tick(epoch(30), epoch(20), of_snapshots(3000), of_snapshots(2000));
    assert_eq!(ended.map(|ended| ended.snapshots), Some(epoch(4)), "it could be opened until a tick ago");
    let ended = limit.tick(epoch(31), epoch(20), of_snapshots(3100), of_snapshots(2000));
    assert_eq!(ended.map(|ended| ended.snapshots), Some(epoch(20)));
}

#[test]
fn what_was_made_above_the_durable_epoch_is_known_from_the_ticks() {
    let mut limit = GarbageLimit::new(1000);
    assert_eq!(limit.made_above(epoch(5), of_snapshots(70)), 70, "nothing is known of earlier epochs");
    for tick in 1..10 {
        tick_of(&mut limit, 10 * tick, of_snapshots(100 * tick), of_snapshots(0));
    }
    assert_eq!(limit.made_above(epoch(5), of_snapshots(950)), 950);
    assert_eq!(limit.made_above(epoch(39), of_snapshots(950)), 650);
    assert_eq!(limit.made_above(epoch(40), of_snapshots(950)), 550);
    assert_eq!(limit.made_above(Epoch::MAX, of_snapshots(950)), 50, "since the last tick");
}
