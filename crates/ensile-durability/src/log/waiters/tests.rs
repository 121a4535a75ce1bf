//! Waiters are woken by their epoch, by the poison, or by their own deadline.

use std::sync::Arc;

use super::*;

type Answer = Option<Result<(), DurabilityError>>;

fn poll(waiters: &Waiters, epoch: u64, slot: &mut Option<u64>) -> Answer {
    waiters.poll(Epoch::new(epoch), slot, Waker::noop(), 0).0
}

#[test]
fn waiters_are_woken_by_their_own_epoch_only_and_by_nothing_after_the_poison() {
    let waiters = Waiters::new(Epoch::ZERO);
    assert!(poll(&waiters, 5, &mut None).is_none());
    assert!(poll(&waiters, 7, &mut None).is_none());
    assert_eq!(waiters.wanted_epoch(), Epoch::new(7));
    assert_eq!(waiters.announce(|| Epoch::new(5)), Some(Epoch::new(5)));
    assert_eq!(waiters.list.lock().waiting.keys().map(|slot| slot.0).collect::<Vec<_>>(), [Epoch::new(7)]);
    assert_eq!(waiters.announce(|| Epoch::new(4)), None, "D never goes back");
    let waiters = Waiters::new(Epoch::new(3));
    waiters.end(LogEnd::Poisoned("sync failed".into()));
    waiters.end(LogEnd::Poisoned("again".into()));
    assert_eq!(waiters.announce(|| Epoch::new(9)), None);
    assert_eq!(waiters.durable(), Epoch::new(3));
    assert!(matches!(poll(&waiters, 3, &mut None), Some(Ok(()))), "was durable, stays so");
    let Some(Err(DurabilityError::OutcomeUnknown(reason))) = poll(&waiters, 4, &mut None) else {
        panic!("an unknown outcome")
    };
    assert_eq!(&*reason, "sync failed", "the first reason stays");
}

#[test]
fn a_waiter_has_one_slot_and_the_waker_of_its_last_poll() {
    struct Task;
    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }
    let waiters = Waiters::new(Epoch::ZERO);
    let tasks = [0, 1].map(|_| Arc::new(Task));
    let mut slots = [None, None];
    for round in 0..100 {
        for (at, slot) in slots.iter_mut().enumerate() {
            // Moved from one task to the other, and back.
            let waker = Waker::from(Arc::clone(&tasks[(at + round) % 2]));
            assert!(waiters.poll(Epoch::new(5), slot, &waker, 0).0.is_none());
        }
    }
    assert_eq!(waiters.list.lock().waiting.len(), 2);
    assert_eq!(tasks.each_ref().map(Arc::strong_count), [2, 2], "one waker of each");
    waiters.give_back(Epoch::new(5), slots[0].expect("it waits"));
    assert_eq!(waiters.list.lock().waiting.len(), 1);
    waiters.announce(|| Epoch::new(5));
    assert_eq!(tasks.each_ref().map(Arc::strong_count), [1, 1]);
    waiters.give_back(Epoch::new(5), slots[1].expect("it waited"));
}

#[test]
fn who_waits_for_space_is_sent_away_after_its_own_time_and_no_other_time() {
    let waiters = Waiters::new(Epoch::ZERO);
    let (mut early, mut late) = (None, None);
    let wait = |slot: &mut _, now| waiters.poll(Epoch::new(5), slot, Waker::noop(), now).0;
    assert!(wait(&mut early, 0).is_none());
    assert!(wait(&mut late, 90).is_none());
    let full = |now_nanos, since_nanos| Fullness {
        now_nanos,
        since_nanos,
        wait_nanos: 100,
        reason: "no space".into(),
    };
    assert_eq!(waiters.expire(&full(140, 50)).len(), 0, "the disk is full since 50");
    assert_eq!(waiters.expire(&full(150, 50)).len(), 1);
    let Some(Err(DurabilityError::NotDurableYet(reason))) = wait(&mut early, 150) else {
        panic!("it was sent away")
    };
    assert_eq!((&*reason, early), ("no space", None));
    assert!(wait(&mut late, 150).is_none());
    assert!(wait(&mut early, 160).is_none(), "it may ask again");
    assert_eq!(waiters.expire(&full(190, 50)).len(), 1, "the one that came at 90");
    waiters.announce(|| Epoch::new(5));
    assert!(matches!(wait(&mut early, 400), Some(Ok(()))));
    assert!(matches!(wait(&mut late, 400), Some(Ok(()))), "durable by now, whatever came before");
}
