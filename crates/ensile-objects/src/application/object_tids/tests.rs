//! What is answered of loaded objects, and what that takes.

use super::ReplayVerdict::{Included, PassedOver, Replayed};
use super::{BYTES_EACH, LANE_BYTES, LANES, LoadedObjects, LoadedTid, LoggedOperation, ReplayVerdict};
use crate::format::ObjectLife;
use ensile_base::random::Random;
use ensile_base::{Epoch, Tid};

fn tid(number: u64) -> Tid {
    Tid::first_of(Epoch::new(number % 1000 + 1))
}

fn bytes(loaded: &LoadedObjects) -> usize {
    loaded.lanes.iter().map(|lane| lane.lock().tids.capacity() * size_of::<LoadedTid>()).sum()
}

#[test]
fn o4_what_was_loaded_is_answered_whatever_its_numbers_and_their_order() {
    let mut random = Random::from_seed(7);
    let dense: Vec<u64> = (100..5_100).collect();
    let two_slices: Vec<u64> = (0..2_000).flat_map(|at| [at, 50_000 + at]).collect();
    let sparse: Vec<u64> = (0..5_000).map(|at| at * 1_000_003 + random.next_below(1_000_000)).collect();
    for numbers in [dense, two_slices, sparse] {
        let loaded = LoadedObjects::new();
        let includes = |object, tid| {
            loaded.judge(LoggedOperation { object, tid, life: None }, None) == ReplayVerdict::Included
        };
        numbers.iter().for_each(|number| loaded.add(*number, tid(*number)));
        for number in &numbers {
            let after = tid(*number).successor().expect("one more");
            assert!(includes(*number, tid(*number)) && !includes(*number, after));
        }
        for other in [0, 99, 5_100, 10_000, u64::MAX].iter().filter(|other| !numbers.contains(other)) {
            assert!(!includes(*other, Tid::ZERO), "{other}");
        }
        assert_eq!(loaded.twice(), None);
        loaded.add(numbers[7], Tid::ZERO);
        assert_eq!(loaded.twice(), Some(numbers[7]));
        loaded.clear();
        assert!(bytes(&loaded) == 0 && !includes(numbers[0], Tid::ZERO));
    }
}

#[test]
fn an_open_keeps_few_bytes_for_each_object_however_many_there_are() {
    for step in [1, 977] {
        let loaded = LoadedObjects::new();
        for number in 0..300_000_u64 {
            loaded.add(number * step, tid(number));
            let most = (number as usize + 1) * BYTES_EACH + LANES * LANE_BYTES;
            if number % 1_000 == 0 {
                assert!(bytes(&loaded) <= most, "{} for {number} objects, and not {most}", bytes(&loaded));
            }
        }
    }
}

const CREATION: Option<ObjectLife> = Some(ObjectLife::Creation);
const CHANGE: Option<ObjectLife> = Some(ObjectLife::Change);
const REMOVAL: Option<ObjectLife> = Some(ObjectLife::Removal);

/// Objects of which 1 was loaded and 2 noted as absent, both in epoch 3.
fn one_and_an_absence() -> LoadedObjects {
    let loaded = LoadedObjects::new();
    loaded.add(1, tid(2));
    loaded.add_absent(2, tid(2));
    loaded
}

/// Verdict on an operation of epoch 4, without operations that have no mark.
fn judge(loaded: &LoadedObjects, object: u64, life: Option<ObjectLife>) -> ReplayVerdict {
    loaded.judge(LoggedOperation { object, tid: tid(3), life }, None)
}

#[test]
fn o10_an_object_exists_from_its_bytes_or_a_creation_to_a_removal() {
    let loaded = one_and_an_absence();
    for (object, exists) in [(1, true), (2, false), (3, false)] {
        let if_it_exists = if exists { Replayed } else { PassedOver };
        assert_eq!(judge(&loaded, object, CHANGE), if_it_exists, "{object}");
        assert_eq!(judge(&loaded, object, REMOVAL), if_it_exists, "{object}");
        for _ in 0..2 {
            assert_eq!(judge(&loaded, object, CHANGE), PassedOver, "{object}");
            assert_eq!(judge(&loaded, object, REMOVAL), PassedOver, "{object}");
            assert_eq!(judge(&loaded, object, CREATION), Replayed, "{object}");
            assert_eq!(judge(&loaded, object, CREATION), Replayed, "{object}: it exists already");
            assert_eq!(judge(&loaded, object, CHANGE), Replayed, "{object}");
            assert_eq!(judge(&loaded, object, REMOVAL), Replayed, "{object}");
        }
    }
}

#[test]
fn o10_a_passed_over_change_is_kept_until_a_removal_or_a_creation_of_its_object() {
    let loaded = one_and_an_absence();
    for object in [2, 3] {
        for end in [REMOVAL, CREATION] {
            assert_eq!(judge(&loaded, object, CHANGE), PassedOver);
            assert_eq!(loaded.missing_creations(), [object]);
            judge(&loaded, object, None);
            assert_eq!(loaded.missing_creations(), [object], "it is no creation");
            judge(&loaded, object, end);
            assert_eq!(loaded.missing_creations(), [0; 0]);
            judge(&loaded, object, REMOVAL);
        }
    }
    judge(&loaded, 1, CHANGE);
    assert_eq!(loaded.missing_creations(), [0; 0], "it exists");
}

#[test]
fn o10_a_mark_that_the_loaded_object_includes_changes_nothing() {
    let loaded = one_and_an_absence();
    for (object, life) in [(1, REMOVAL), (2, CREATION)] {
        assert_eq!(loaded.judge(LoggedOperation { object, tid: tid(2), life }, None), Included);
    }
    assert_eq!((judge(&loaded, 1, CHANGE), judge(&loaded, 2, CHANGE)), (Replayed, PassedOver));
}

#[test]
fn o10_behind_an_operation_without_a_mark_an_object_counts_as_existing() {
    let loaded = one_and_an_absence();
    for epoch in [9, 6, 7] {
        loaded.note_unmarked(Epoch::new(epoch));
    }
    let first = loaded.first_unmarked();
    assert_eq!(first, Some(Epoch::new(6)));
    let judge = |object, epoch, life| {
        loaded.judge(LoggedOperation { object, tid: Tid::first_of(Epoch::new(epoch)), life }, first)
    };
    for object in [2, 3] {
        assert_eq!(judge(object, 5, CHANGE), PassedOver, "it is of a life before");
        assert_eq!(judge(object, 6, None), Replayed);
        assert_eq!(judge(object, 8, CHANGE), Replayed);
        assert_eq!(judge(object, 8, REMOVAL), Replayed);
        assert_eq!(judge(object, 8, CHANGE), PassedOver);
    }
    assert_eq!((judge(4, 5, CREATION), judge(4, 8, REMOVAL)), (Replayed, Replayed));
    assert_eq!(judge(4, 8, CHANGE), PassedOver);
}

#[test]
fn existence_takes_memory_only_where_it_differs_from_the_checkpoint() {
    let loaded = LoadedObjects::new();
    (0..1_000).for_each(|object| loaded.add(object, tid(2)));
    let kept = || {
        let lanes = loaded.lanes.iter().map(|lane| lane.lock());
        lanes.map(|lane| lane.made.len() + lane.gone.len()).sum::<usize>()
    };
    for object in 0..2_000 {
        judge(&loaded, object, CHANGE);
        judge(&loaded, object, None);
    }
    assert_eq!(kept(), 0);
    (0..2_000).for_each(|object| assert_eq!(judge(&loaded, object, CREATION), Replayed));
    assert_eq!(kept(), 1_000, "those that the checkpoint lacks");
    (0..2_000).for_each(|object| assert_eq!(judge(&loaded, object, REMOVAL), Replayed));
    assert_eq!(kept(), 1_000, "those that the checkpoint has");
}

#[test]
fn o4_a_number_in_a_gap_has_no_tid() {
    let loaded = LoadedObjects::new();
    let (early, late) = (Tid::first_of(Epoch::new(5)), Tid::first_of(Epoch::new(9)));
    let lanes = LANES as u64;
    [0, 1, 4].into_iter().for_each(|place| loaded.add(place * lanes, late));
    let created = |place| {
        let life = Some(ObjectLife::Creation);
        loaded.judge(LoggedOperation { object: place * lanes, tid: early, life }, None)
    };
    assert_eq!(created(2), ReplayVerdict::Replayed);
    assert_eq!(created(4), ReplayVerdict::Included);
}
