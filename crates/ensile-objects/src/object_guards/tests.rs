//! Objects under guards: what a panic leaves of one, what others see, and what each look rests on. A folder's part in
//! this is in `tests/objects/guarded.rs`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::Epoch;

use super::{GuardedObjects, PoisonedObject};
use crate::read_dependency::RestsOn;

/// Pairs of numbers whose halves are equal.
fn pairs() -> GuardedObjects<[u64; 2]> {
    GuardedObjects::new(4, |number| [number; 2])
}

/// Breaks off in the midst of a change, which is of epoch 3.
fn half_change(pairs: &GuardedObjects<[u64; 2]>, number: u64) {
    let rests = RestsOn::default();
    let broken = catch_unwind(AssertUnwindSafe(|| {
        let mut pair = pairs.lock(number, &rests).expect("it is whole");
        let logged = || Ok::<_, ()>(Epoch::new(3));
        pair.change(&rests, logged, |pair| {
            pair[0] = 9;
            panic!("in mid-change");
        })
    }));
    assert!(broken.is_err());
}

#[test]
fn slices_have_about_as_many_objects_and_none_is_cut_where_there_are_few() {
    let starts = |count, parts| GuardedObjects::new(count, |_| ()).slice_starts(parts);
    assert_eq!(starts(1000, 1), []);
    assert_eq!(starts(1000, 4), [250, 500, 750]);
    assert_eq!(starts(2, 5), [0, 1]);
    assert_eq!(starts(0, 3), [0]);
}

#[test]
fn a_look_rests_on_the_last_change_and_a_change_on_its_own() {
    let (pairs, rests) = (pairs(), RestsOn::default());
    let mut pair = pairs.lock(1, &rests).expect("it is whole");
    assert_eq!((rests.epoch(), pair.last(), *pair), (Epoch::ZERO, Epoch::ZERO, [1, 1]));
    let changed = pair.change(
        &rests,
        || Ok::<_, ()>(Epoch::new(7)),
        |pair| {
            *pair = [8; 2];
            pair[0]
        },
    );
    assert_eq!((changed, rests.epoch(), pair.last()), (Ok(8), Epoch::new(7), Epoch::new(7)));
    assert_eq!(
        pair.change(&rests, || Err::<Epoch, _>("the log is full"), |pair| *pair = [0; 2]),
        Err("the log is full")
    );
    assert_eq!((*pair, pairs.poisoned_count()), ([8; 2], 0));
    assert!(pairs.try_lock(1, &rests).is_none(), "it is not free");
    drop(pair);
    let again = RestsOn::default();
    assert!(pairs.lock(1, &again).is_ok());
    assert_eq!(again.epoch(), Epoch::new(7), "R1: what is shown rests on nothing");
    let again = RestsOn::default();
    assert!(pairs.try_lock(1, &again).is_some());
    assert_eq!(again.epoch(), Epoch::new(7), "R1: what is shown rests on nothing");
}

#[test]
fn o6_an_object_whose_change_panics_is_refused_and_no_other_is() {
    let pairs = pairs();
    half_change(&pairs, 2);
    let rests = RestsOn::default();
    let refused = pairs.lock(2, &rests).expect_err("O6: half a change is shown");
    assert_eq!((refused, rests.epoch()), (PoisonedObject { number: 2 }, Epoch::new(3)));
    assert!(refused.to_string().starts_with("object 2 is poisoned: "), "{refused}");
    assert!(pairs.try_lock(2, &rests).is_none());
    assert_eq!(pairs.poisoned_count(), 1);
    for number in [0, 1, 3] {
        assert_eq!(*pairs.lock(number, &rests).expect("it is whole"), [number; 2]);
    }
}

#[test]
fn a_panic_of_a_thread_that_only_looks_poisons_nothing() {
    let (pairs, rests) = (pairs(), RestsOn::default());
    let looked = catch_unwind(AssertUnwindSafe(|| {
        let _pair = pairs.lock(2, &rests);
        panic!("while it looks");
    }));
    assert!(looked.is_err() && pairs.poisoned_count() == 0);
    assert_eq!(*pairs.lock(2, &rests).expect("it is whole"), [2; 2]);
    assert!(pairs.try_lock(2, &rests).is_some());
}

#[test]
fn a_log_call_that_panics_poisons_as_nobody_knows_whether_it_logged() {
    let (pairs, rests) = (pairs(), RestsOn::default());
    let logged = catch_unwind(AssertUnwindSafe(|| {
        let mut pair = pairs.lock(2, &rests).expect("it is whole");
        pair.change(&rests, || -> Result<Epoch, ()> { panic!("while it logs") }, |pair| *pair = [9; 2])
    }));
    assert!(logged.is_err() && pairs.lock(2, &rests).is_err());
}

#[test]
fn o6_a_replay_that_panics_poisons_its_object_and_what_comes_behind_passes_it_over() {
    let pairs = pairs();
    assert_eq!(
        pairs.replay(1, |pair| {
            *pair = [5; 2];
            Ok(())
        }),
        Ok(())
    );
    assert_eq!(pairs.replay(2, |_| panic!("again")), Ok(()), "the others are to be served");
    assert_eq!(pairs.replay(2, |_| Err("it is passed over".into())), Ok(()));
    assert_eq!(pairs.replay(1, |_| Err("no such operation".into())), Err("no such operation".into()));
    for none in [4, u64::MAX] {
        assert_eq!(pairs.replay(none, |_| Ok(())), Err("there is no object of this number".into()));
    }
    let rests = RestsOn::default();
    assert_eq!(*pairs.lock(1, &rests).expect("an error is no poison"), [5; 2]);
    assert_eq!(
        (pairs.lock(2, &rests).expect_err("O6: half a change is shown").number, pairs.poisoned_count()),
        (2, 1)
    );
}

#[test]
fn what_is_half_changed_may_panic_as_it_goes() {
    struct Fragile;
    impl Drop for Fragile {
        fn drop(&mut self) {
            panic!("as it goes");
        }
    }
    let (objects, rests) = (GuardedObjects::new(1, |_| Fragile), RestsOn::default());
    let changed = catch_unwind(AssertUnwindSafe(|| {
        let mut object = objects.lock(0, &rests).expect("it is whole");
        object.change(&rests, || Ok::<_, ()>(Epoch::ZERO), |_| panic!("in mid-change"))
    }));
    assert!(changed.is_err() && objects.lock(0, &rests).is_err());
}

#[test]
fn an_object_of_up_to_48_bytes_and_its_guard_are_a_line() {
    assert_eq!(GuardedObjects::<Vec<[u64; 2]>>::BYTES_EACH, ensile_memory::prefetch::LINE_BYTES);
    assert_eq!(GuardedObjects::<(Box<[u64]>, Vec<u8>, u64)>::BYTES_EACH, ensile_memory::prefetch::LINE_BYTES);
}
