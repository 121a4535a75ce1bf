//! Epochs, boundaries, pins and expiry, one behaviour a test.
//!
//! The kernels that need weak memory are model checked in `crates/ensile-epoch/tests`.

use std::ops::Deref;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::limits::{EPOCH_MICROS_CLOSE, EPOCH_MICROS_MIN, EPOCHS_CLOSE_TOGETHER};

use super::{Advance, EpochConfig, Epochs};
use crate::Expired;

const MILLI: u64 = 1_000_000;

/// Epochs that panic at their drop if a pin, a registration, a binding or a slot was not given back.
struct CheckedEpochs(Epochs);

impl Deref for CheckedEpochs {
    type Target = Epochs;

    fn deref(&self) -> &Epochs {
        &self.0
    }
}

impl Drop for CheckedEpochs {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.registered_counts(), (0, 0), "workers and pins have left their registries");
            assert!(!self.is_any_bound() && !self.is_index_entered());
            assert_eq!(self.scan().pins(), self.now(), "no pin is left");
            assert!(!self.has_reader_below(Epoch::MAX), "no snapshot is registered");
        }
    }
}

fn epochs() -> CheckedEpochs {
    let config = EpochConfig { first: Epoch::new(10), snapshot_interval: Duration::from_secs(1) };
    CheckedEpochs(Epochs::new(&config))
}

#[test]
fn a_bound_worker_holds_the_epoch_back_by_at_most_one() {
    let epochs = epochs();
    let worker = epochs.register_worker();
    worker.bind(epochs.now());
    assert_eq!(epochs.try_advance(MILLI), Advance::Advanced(Epoch::new(12)));
    assert_eq!(epochs.try_advance(2 * MILLI), Advance::Held(Epoch::new(11)));
    worker.unbind();
    assert_eq!(epochs.try_advance(3 * MILLI), Advance::Advanced(Epoch::new(13)));
}

#[test]
fn l6_the_epoch_stays_below_its_limit_and_a_stop_is_for_good() {
    let epochs = epochs();
    epochs.set_limit(Epoch::new(13));
    assert_eq!(epochs.try_advance(MILLI), Advance::Advanced(Epoch::new(12)));
    assert_eq!(epochs.try_advance(2 * MILLI), Advance::AtLimit);
    assert_eq!(epochs.now(), Epoch::new(12));
    epochs.set_limit(Epoch::new(15));
    assert_eq!(epochs.try_advance(2 * MILLI), Advance::Advanced(Epoch::new(13)));
    assert_eq!(epochs.stop(), Epoch::new(13));
    epochs.set_limit(Epoch::new(100));
    assert_eq!(epochs.try_advance_to_boundary(3 * MILLI, epochs.now()), Advance::AtLimit);
    assert_eq!(epochs.now(), Epoch::new(13));
}

#[test]
fn a_pin_never_holds_the_epoch_back() {
    let epochs = epochs();
    let mut pin = epochs.register_pin();
    drop(pin.begin(epochs.now()));
    for step in 1..50 {
        assert!(matches!(epochs.try_advance(step * MILLI), Advance::Advanced(_)));
    }
    assert_eq!(epochs.scan().pins, Epoch::new(11));
    pin.end();
    assert_eq!(epochs.scan().pins, epochs.now());
}

#[test]
fn epochs_never_begin_closer_than_the_stated_limit() {
    let epochs = epochs();
    assert!(matches!(epochs.try_advance(MILLI), Advance::Advanced(_)));
    assert_eq!(epochs.try_advance(MILLI + 1), Advance::TooSoon);
}

#[test]
fn e5_epochs_may_begin_closer_while_there_are_plenty_of_them() {
    for (current, micros) in
        [(EPOCHS_CLOSE_TOGETHER - 1, EPOCH_MICROS_CLOSE), (EPOCHS_CLOSE_TOGETHER, EPOCH_MICROS_MIN)]
    {
        let config = EpochConfig { first: Epoch::new(current - 2), snapshot_interval: Duration::MAX };
        let epochs = CheckedEpochs(Epochs::new(&config));
        assert_eq!(epochs.try_advance(MILLI), Advance::Advanced(Epoch::new(current)));
        let next = MILLI + micros * 1_000;
        assert_eq!(epochs.try_advance(next - 1), Advance::TooSoon, "behind {current}");
        assert!(matches!(epochs.try_advance(next), Advance::Advanced(_)), "behind {current}");
    }
}

#[test]
fn a_boundary_is_served_one_epoch_after_it_is_reached() {
    let epochs = epochs();
    assert_eq!(epochs.served_snapshot(), Epoch::new(10));
    let Advance::Advanced(boundary) = epochs.try_advance(2_000 * MILLI) else { panic!("nothing is bound") };
    assert_eq!(epochs.boundary_at(boundary), boundary);
    assert_eq!(epochs.boundary_at(boundary.previous()), Epoch::new(10));
    assert_eq!(epochs.served_snapshot(), Epoch::new(10), "E = S: commits below S may still be installing");
    epochs.try_advance(2_001 * MILLI);
    assert_eq!(epochs.served_snapshot(), boundary);
}

#[test]
fn v1_a_boundary_is_served_and_announced_without_waiting_for_the_next_tick() {
    let epochs = epochs();
    epochs.scan();
    assert!(!epochs.has_boundary_ahead());
    let Advance::Advanced(boundary) = epochs.try_advance(2_000 * MILLI) else { panic!("nothing is bound") };
    let limit = epochs.scan().snapshots();
    assert!(epochs.has_boundary_ahead() && limit < boundary);
    // A commit of the epoch before is under way.
    let worker = epochs.register_worker();
    worker.bind(boundary.previous());
    assert_eq!(epochs.try_serve_boundary(2_001 * MILLI), Advance::Held(boundary.previous()));
    assert!(epochs.has_boundary_ahead());
    worker.unbind();
    assert_eq!(epochs.try_serve_boundary(2_000 * MILLI + 1), Advance::TooSoon);
    assert_eq!(epochs.try_serve_boundary(2_001 * MILLI), Advance::Advanced(boundary.next()));
    assert!(!epochs.has_boundary_ahead());
    assert_eq!((epochs.served_snapshot(), epochs.limits().snapshots()), (boundary, boundary));
}

#[test]
fn v1_a_boundary_that_an_early_close_has_served_is_announced_by_the_next_step() {
    let epochs = epochs();
    let Advance::Advanced(boundary) = epochs.try_advance(2_000 * MILLI) else { panic!("nothing is bound") };
    let closed = epochs.try_advance_early(2_001 * MILLI);
    assert!(epochs.has_boundary_ahead() && epochs.served_snapshot() == boundary);
    assert_eq!(epochs.try_serve_boundary(2_002 * MILLI), closed);
    assert!(!epochs.has_boundary_ahead());
    assert_eq!(epochs.limits().snapshots(), boundary);
}

#[test]
fn v1_an_early_close_leaves_boundaries_to_the_heartbeat_until_one_is_overdue() {
    let epochs = epochs();
    epochs.try_advance(1_000 * MILLI);
    let first = epochs.boundary_at(epochs.now());
    for millis in [2_000, 2_100, 2_249] {
        assert!(matches!(epochs.try_advance_early(millis * MILLI), Advance::Advanced(_)));
    }
    assert_eq!(epochs.boundary_at(epochs.now()), first, "nobody would scan before the next tick");
    epochs.try_advance_early(2_250 * MILLI);
    assert_eq!(epochs.boundary_at(epochs.now()), epochs.now(), "the heartbeat is late, or ticks rarely");
    epochs.try_advance(3_249 * MILLI);
    epochs.try_advance(3_250 * MILLI);
    assert_eq!(epochs.boundary_at(epochs.now()), epochs.now());
}

#[test]
fn v1_all_who_want_a_boundary_above_the_same_epoch_share_one() {
    let epochs = epochs();
    let seen = epochs.now();
    for millis in 1..=5 {
        assert!(matches!(epochs.try_advance_to_boundary(millis * MILLI, seen), Advance::Advanced(_)));
    }
    assert_eq!(epochs.boundary_at(epochs.now()), seen.next());
}

#[test]
fn boundaries_follow_time_not_counts() {
    let epochs = epochs();
    epochs.try_advance(1_000 * MILLI);
    let boundary = epochs.boundary_at(epochs.now());
    for step in 1..100 {
        epochs.try_advance(1_000 * MILLI + step * MILLI);
    }
    assert_eq!(epochs.boundary_at(epochs.now()), boundary);
    epochs.try_advance(2_000 * MILLI);
    assert_eq!(epochs.boundary_at(epochs.now()), epochs.now());
}

#[test]
fn wanted_boundaries_stay_two_epochs_apart() {
    let epochs = epochs();
    epochs.try_advance_to_boundary(MILLI, epochs.now());
    let first = epochs.boundary_at(epochs.now());
    assert_eq!(first, epochs.now());
    epochs.try_advance_to_boundary(2 * MILLI, epochs.now());
    assert_eq!(epochs.boundary_at(epochs.now()), first);
    epochs.try_advance_to_boundary(3 * MILLI, epochs.now());
    assert_eq!(epochs.boundary_at(epochs.now()), epochs.now());
}

#[test]
fn n1_a_freeze_is_announced_one_above_the_epoch_and_known_from_there_on() {
    let epochs = epochs();
    assert_eq!((epochs.newest_freeze(), epochs.freeze_at(epochs.now())), (Epoch::new(10), Epoch::new(10)));
    let freeze = epochs.announce_freeze().expect("no freeze is ahead");
    assert_eq!((freeze, epochs.newest_freeze()), (epochs.now().next(), freeze));
    assert_eq!(epochs.freeze_at(epochs.now()), Epoch::new(10), "a commit below the freeze");
    assert_eq!(epochs.try_advance(MILLI), Advance::Advanced(freeze));
    assert_eq!(epochs.freeze_at(freeze.previous()), Epoch::new(10), "a commit that has read E before");
    assert_eq!(epochs.freeze_at(freeze), freeze);
    assert_eq!(epochs.boundary_at(freeze), Epoch::new(10), "a freeze is no snapshot boundary");
}

#[test]
fn n1_the_next_freeze_waits_until_the_epoch_is_above_the_last_one() {
    let epochs = epochs();
    let first = epochs.announce_freeze().expect("no freeze is ahead");
    assert_eq!(epochs.announce_freeze(), None, "E is below it");
    epochs.try_advance(MILLI);
    assert_eq!(epochs.announce_freeze(), None, "commits of the epoch before may be under way");
    // It keeps E where it is, two below the next freeze.
    let worker = epochs.register_worker();
    worker.bind(epochs.now());
    epochs.try_advance(2 * MILLI);
    let second = epochs.announce_freeze().expect("E is above the first");
    assert_eq!((first, second), (Epoch::new(12), Epoch::new(14)));
    assert_eq!(epochs.freeze_at(Epoch::new(12)), first, "of the worker");
    worker.unbind();
}

#[test]
fn n1_a_freeze_where_the_epoch_stands_for_good_is_announced_and_never_reached() {
    let epochs = epochs();
    epochs.set_limit(Epoch::new(12));
    let freeze = epochs.announce_freeze().expect("no freeze is ahead");
    assert_eq!(epochs.try_advance(MILLI), Advance::AtLimit);
    assert_eq!(epochs.freeze_at(epochs.now()), Epoch::new(10));
    epochs.set_limit(Epoch::new(14));
    for step in 1..=2 {
        assert!(matches!(epochs.try_advance(step * MILLI), Advance::Advanced(_)));
    }
    let last = epochs.stop();
    assert_eq!((epochs.announce_freeze(), epochs.announce_freeze()), (Some(last.next()), None));
    assert_eq!(epochs.freeze_at(last), freeze);
    assert!(!epochs.is_installed_below(last.next()), "its picture never settles");
}

#[test]
fn n2_commits_below_a_freeze_have_ended_once_the_epoch_is_above_it() {
    let epochs = epochs();
    let freeze = epochs.announce_freeze().expect("no freeze is ahead");
    let worker = epochs.register_worker();
    worker.bind(freeze.previous());
    epochs.try_advance(MILLI);
    assert!(epochs.is_installed_below(freeze.previous()) && !epochs.is_installed_below(freeze));
    assert_eq!(epochs.try_advance(2 * MILLI), Advance::Held(freeze.previous()));
    assert!(!epochs.is_installed_below(freeze));
    worker.unbind();
    epochs.try_advance(2 * MILLI);
    assert!(epochs.is_installed_below(freeze));
}

#[test]
fn a_snapshot_reader_holds_versions_back_and_nothing_else() {
    let epochs = epochs();
    let mut pin = epochs.register_pin();
    drop(pin.begin(epochs.now()));
    let snapshot = epochs.open_snapshot(&mut pin);
    assert_eq!(snapshot, Epoch::new(10));
    for step in 1..5 {
        epochs.try_advance(step * 1_500 * MILLI);
    }
    let limits = epochs.scan();
    assert_eq!((limits.snapshots(), limits.pins()), (snapshot, epochs.now()), "between calls");
    let call = pin.enter_snapshot(epochs.now()).expect("not expired");
    epochs.try_advance(8_000 * MILLI);
    let limits = epochs.scan();
    assert_eq!((limits.snapshots(), limits.pins()), (snapshot, epochs.now().previous()), "within a call");
    drop(call);
    pin.end();
    assert_eq!(epochs.scan().snapshots, epochs.served_snapshot());
}

/// Makes a boundary, lets it be served, and scans. Says which one.
fn next_boundary(epochs: &Epochs, millis: u64) -> Epoch {
    let Advance::Advanced(boundary) = epochs.try_advance_to_boundary(millis * MILLI, epochs.now()) else {
        panic!("nothing is bound")
    };
    epochs.try_advance((millis + 1) * MILLI);
    epochs.scan();
    assert_eq!(epochs.served_snapshot(), boundary);
    boundary
}

#[test]
fn v1_a_scan_publishes_the_readers_below_the_served_boundary_and_all_from_there_on() {
    let epochs = epochs();
    let shows = |boundary: Epoch| {
        let set = epochs.shown_boundaries().expect("nobody publishes now");
        set.show(boundary.previous(), boundary)
    };
    assert!(shows(Epoch::new(1)), "before the first scan nothing is out of reach");
    let mut pin = epochs.register_pin();
    drop(pin.begin(epochs.now()));
    let held = epochs.open_snapshot(&mut pin);
    epochs.scan();
    assert!(!epochs.has_reader_below(held) && epochs.has_reader_below(held.next()));
    let (passed, served) = (next_boundary(&epochs, 10), next_boundary(&epochs, 20));
    assert!(shows(held) && !shows(passed) && shows(served) && shows(served.plus(2)));
    assert!(epochs.has_reader_below(served));
    pin.end();
    epochs.scan();
    assert!(!shows(held) && !epochs.has_reader_below(served));
}

#[test]
fn v1_a_registration_that_does_not_stand_is_in_no_set() {
    let epochs = epochs();
    let mut reader = epochs.register_pin();
    drop(reader.begin(epochs.now()));
    let held = epochs.open_snapshot(&mut reader);
    let (passed, served) = (next_boundary(&epochs, 10), next_boundary(&epochs, 20));
    // Between its two looks: it has read long ago that `passed` was served.
    let mut late = epochs.register_pin();
    drop(late.begin(epochs.now()));
    late.slot().register_snapshot(passed);
    assert_eq!(epochs.scan().snapshots(), held);
    let set = epochs.shown_boundaries().expect("nobody publishes now");
    assert!(!set.has(passed) && set.has(held) && set.has(served));
    reader.end();
    assert_eq!(epochs.scan().snapshots(), served, "the limit does not go back");
    assert_eq!(epochs.open_snapshot(&mut late), served);
}

#[test]
fn a_expired_transaction_fails_its_next_call_and_stops_holding_memory() {
    let epochs = epochs();
    let mut pin = epochs.register_pin();
    let call = pin.begin(epochs.now());
    epochs.try_advance(MILLI);
    assert_eq!(epochs.expire(epochs.now(), Epoch::ZERO), 1);
    assert_eq!(epochs.scan().pins, Epoch::new(11), "still inside its first call: its pointers are honoured");
    drop(call);
    assert_eq!(epochs.scan().pins, Epoch::new(12), "between calls: ignored");
    // SAFETY: the pin was begun, and has not ended.
    assert_eq!(unsafe { pin.enter() }.err(), Some(Expired));
    pin.end();
    drop(pin.begin(epochs.now()));
    // SAFETY: the pin was begun, and has not ended.
    assert!(unsafe { pin.enter() }.is_ok(), "the next transaction of the slot starts clean");
}

#[test]
fn only_transactions_older_than_asked_are_doomed() {
    let epochs = epochs();
    let mut pin = epochs.register_pin();
    let _call = pin.begin(epochs.now());
    assert_eq!(epochs.expire(epochs.now(), epochs.now()), 0);
}

#[test]
fn e6_readers_of_the_snapshot_that_is_named_are_not_asked_and_those_below_are() {
    let epochs = epochs();
    let mut pin = epochs.register_pin();
    drop(pin.begin(epochs.now()));
    let snapshot = epochs.open_snapshot(&mut pin);
    assert_eq!(epochs.expire(Epoch::ZERO, snapshot), 0);
    assert_eq!(epochs.expire(Epoch::ZERO, snapshot.next()), 1);
    pin.end();
}

#[test]
fn a_transaction_that_ends_is_counted_once_whoever_finds_the_request_first() {
    let epochs = epochs();
    for owner_is_first in [true, false] {
        let before = epochs.expired_count();
        let mut pin = epochs.register_pin();
        drop(pin.begin(epochs.now()));
        assert_eq!(epochs.expire(epochs.now().next(), Epoch::ZERO), 1);
        if !owner_is_first {
            epochs.scan();
        }
        // SAFETY: the pin was begun, and has not ended.
        assert!(unsafe { pin.enter() }.is_err());
        epochs.scan();
        assert_eq!(epochs.expired_count(), before + 1, "the owner is first: {owner_is_first}");
    }
}

#[test]
fn p1_every_worker_that_is_bound_or_in_the_index_is_seen_until_it_leaves() {
    let epochs = epochs();
    let workers = [(); 3].map(|()| epochs.register_worker());
    for worker in &workers {
        let entered = epochs.enter_index(worker.slot());
        assert!(epochs.is_index_entered() && !epochs.is_any_bound());
        drop(entered);
        assert!(!epochs.is_index_entered());
        worker.bind(epochs.now());
        assert!(epochs.is_any_bound() && !epochs.is_index_entered());
        worker.unbind();
        assert!(!epochs.is_any_bound());
    }
}

#[test]
fn dropped_handles_leave_the_registry() {
    let epochs = epochs();
    let worker = epochs.register_worker();
    let mut pin = epochs.register_pin();
    assert_eq!(epochs.registered_counts(), (1, 1));
    drop(pin.begin(epochs.now()));
    drop((worker, pin));
    assert_eq!(epochs.registered_counts(), (0, 0));
    assert_eq!(epochs.scan().pins, epochs.now());
}
