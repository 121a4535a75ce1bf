//! What is chosen for an epoch, and what is said where none can be had (A2, A5).

use super::*;

fn state(epoch: u64, own: &[(u64, u64)], forward: Option<u64>) -> StateReach {
    let own = own.iter().map(|(first, last)| (Epoch::new(*first), Epoch::new(*last))).collect();
    let end = forward.map(Epoch::new);
    let counted = end.map(|end| (Epoch::new(epoch).next(), end)).filter(|(first, last)| first <= last);
    let forward = ForwardReach { end, counted: counted.into_iter().collect() };
    StateReach { epoch: Epoch::new(epoch), own, forward }
}

fn chosen(states: &[StateReach], to: u64) -> Result<(u64, RestoreWay), EpochNotHad> {
    choose(states, Epoch::new(to), Ok(())).map(|ChosenState { at, way }| (at.number(), way))
}

/// A copy of files at 70 with two lives, a picture at 50, and an archive behind the former that ends at 90.
fn backup() -> Vec<StateReach> {
    vec![state(70, &[(58, 60), (65, 70)], Some(90)), state(50, &[(50, 50)], Some(54))]
}

#[test]
fn a5_what_needs_the_least_is_chosen_and_what_cannot_be_had_is_refused() {
    for (to, expected) in [
        (70, (70, RestoreWay::AsItIs)),
        (50, (50, RestoreWay::AsItIs)),
        (58, (70, RestoreWay::Back)),
        (60, (70, RestoreWay::Back)),
        (65, (70, RestoreWay::Back)),
        (69, (70, RestoreWay::Back)),
        (51, (50, RestoreWay::Forward)),
        (54, (50, RestoreWay::Forward)),
        (71, (70, RestoreWay::Forward)),
        (90, (70, RestoreWay::Forward)),
    ] {
        assert_eq!(chosen(&backup(), to), Ok(expected), "epoch {to}");
    }
    for (to, why) in [
        (49, EpochNotHad::Before),
        (55, EpochNotHad::Missing),
        (57, EpochNotHad::Missing),
        (61, EpochNotHad::Discarded),
        (64, EpochNotHad::Discarded),
        (91, EpochNotHad::Missing),
    ] {
        assert_eq!(chosen(&backup(), to), Err(why.clone()), "epoch {to}");
        let archive = Some((Epoch::new(5), String::new()));
        let said = format_reason(&why, &backup(), Epoch::new(to), archive);
        let expected = format!(
            "What can be had from this backup with this archive: {}; {}; {}",
            "epochs 50 to 54", "epochs 58 to 60", "epochs 65 to 90"
        );
        assert!(said.ends_with(&expected), "{said}");
    }
    assert_eq!(chosen(&[], 7), Err(EpochNotHad::Before));
}

#[test]
fn a2_what_the_archive_says_did_not_count_is_not_brought_forward() {
    let counted = || Err("epoch 80 was discarded".to_owned());
    let found = choose(&backup(), Epoch::new(80), counted());
    assert_eq!(found, Err(EpochNotHad::NotCounted("epoch 80 was discarded".to_owned())));
    // It says nothing of what the backup has itself.
    assert!(choose(&backup(), Epoch::new(69), counted()).is_ok());
}

#[test]
fn a5_discarded_epochs_are_in_no_span_and_states_without_a_gap_are_one_range() {
    let mut states = backup();
    let counted = [(71, 80), (86, 90)].map(|(first, last)| (Epoch::new(first), Epoch::new(last)));
    states[0].forward.counted = counted.to_vec();
    for (to, is_had) in
        [(71, true), (80, true), (81, false), (85, false), (86, true), (90, true), (91, false)]
    {
        assert_eq!(chosen(&states, to).is_ok(), is_had, "epoch {to}");
    }
    let spans: Vec<_> =
        reachable(&states).into_iter().map(|(first, last)| (first.number(), last.number())).collect();
    assert_eq!(spans, [(50, 54), (58, 60), (65, 80), (86, 90)]);
    let ranges = |states: &[StateReach]| {
        let numbers = |(first, last): (Epoch, Epoch)| (first.number(), last.number());
        reachable(states).into_iter().map(numbers).collect::<Vec<_>>()
    };
    for (first, joined) in [(54, vec![(50, 70)]), (55, vec![(50, 70)]), (56, vec![(50, 54), (56, 70)])] {
        let states = [state(70, &[(first, 70)], None), state(50, &[(50, 50)], Some(54))];
        assert_eq!(ranges(&states), joined, "the later state begins at {first}");
    }
    assert_eq!(ranges(&[state(70, &[(60, 70)], Some(75)), state(65, &[(65, 65)], None)]), [(60, 75)]);
}

#[test]
fn an_archive_that_begins_behind_the_backup_or_lacks_a_file_is_named() {
    let states = [state(70, &[(65, 70)], None)];
    let to = Epoch::new(80);
    let said = |begins, missing: &str| {
        format_reason(&EpochNotHad::Missing, &states, to, Some((Epoch::new(begins), missing.to_owned())))
    };
    let begun_later = said(75, "");
    assert!(begun_later.contains("begins behind epoch 75"), "{begun_later}");
    assert!(begun_later.contains("is of epoch 70"), "{begun_later}");
    let lacks = said(5, " (log0/log-1-3 is missing)");
    assert!(lacks.contains("log0/log-1-3 is missing"), "{lacks}");
    let before =
        format_reason(&EpochNotHad::Before, &states, Epoch::new(9), Some((Epoch::ZERO, String::new())));
    assert!(before.contains("restore-archive"), "{before}");
    let alone = format_reason(&EpochNotHad::Missing, &states, to, None);
    assert!(alone.ends_with("from this backup: epochs 65 to 70"), "{alone}");
}
