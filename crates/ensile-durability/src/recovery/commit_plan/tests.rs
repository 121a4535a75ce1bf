//! A test for each arrow of the picture, and for what must not be one.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use super::EndingAction::{
    Clear, FreeUnneeded, GiveUpReserve, HoldLeases, MakeHint, MakeLogs, MakeReserve, Merge, RemoveLogs,
    RemoveUnlisted, ReplaceManifest, RewriteTail, TrimLogs,
};
use super::EndingOutcome::{Done, Failed, NothingKept, Unknown};
use super::*;

/// The actions of an ending that finds space for everything.
const STRAIGHT: [EndingAction; 9] = [
    HoldLeases,
    RewriteTail(AtOnce::File),
    RemoveUnlisted,
    Merge,
    MakeLogs { is_tight: false },
    ReplaceManifest,
    MakeHint,
    Clear,
    MakeReserve,
];

fn error(operation: Operation, kind: ErrorKind) -> DurabilityError {
    DiskError::io(operation, Path::new("MANIFEST.new"), kind.into()).into()
}

fn full() -> DurabilityError {
    error(Operation::Write, ErrorKind::StorageFull)
}

/// Nothing is known of the folder's names then.
fn full_folder() -> DurabilityError {
    error(Operation::SyncFolder, ErrorKind::StorageFull)
}

fn broken() -> DurabilityError {
    error(Operation::Write, ErrorKind::Other)
}

fn damaged() -> DurabilityError {
    DurabilityError::damaged_file("log0/log-1-0", 64, "the block reads differently now")
}

/// The ending of a life behind another one, with this action next.
fn at(action: EndingAction) -> Ending {
    let mut ending = Ending::new(true);
    while next(&ending) != action {
        ending.record_outcome(Done);
    }
    ending
}

fn next(ending: &Ending) -> EndingAction {
    match ending.next() {
        EndingStep::Do(action) => action,
        ended => panic!("{ended:?}"),
    }
}

fn after(ending: &mut Ending, outcome: EndingOutcome) -> EndingAction {
    ending.record_outcome(outcome);
    next(ending)
}

#[track_caller]
fn assert_read(ending: &Ending) {
    assert!(matches!(ending.next(), EndingStep::Read(why) if why.contains("MANIFEST.new")));
}

#[track_caller]
fn assert_failed(ending: &Ending, error: &DurabilityError) {
    match ending.next() {
        EndingStep::Fail(why) => assert_eq!(why.to_string(), error.to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_action_follows_the_one_before_where_there_is_space() {
    let mut ending = Ending::new(false);
    for action in STRAIGHT {
        assert_eq!(next(&ending), action);
        ending.record_outcome(Done);
    }
    assert!(matches!(ending.next(), EndingStep::Open));
}

#[test]
fn what_fails_for_another_reason_than_space_is_an_error_and_new_logs_go_while_no_manifest_lists_them() {
    for action in STRAIGHT {
        let mut ending = at(action);
        ending.record_outcome(Failed(broken()));
        if matches!(action, MakeLogs { .. } | ReplaceManifest) {
            assert_eq!(next(&ending), RemoveLogs);
            ending.record_outcome(Done);
        }
        assert_failed(&ending, &broken());
    }
}

#[test]
fn a_full_disk_at_a_stage_without_relief_leaves_an_earlier_life_to_read_and_a_first_one_with_an_error() {
    for action in [HoldLeases, RemoveUnlisted, Merge, Clear, MakeReserve] {
        let mut ending = at(action);
        ending.record_outcome(Failed(full()));
        assert_read(&ending);
        let mut first = Ending { has_earlier: false, ..at(action) };
        first.record_outcome(Failed(full()));
        assert_failed(&first, &full());
    }
}

#[test]
fn each_way_to_find_space_is_tried_once_a_stage_and_the_reserve_last() {
    let again = [
        (RewriteTail(AtOnce::File), RewriteTail(AtOnce::Little)),
        (MakeLogs { is_tight: false }, MakeLogs { is_tight: true }),
        (ReplaceManifest, ReplaceManifest),
        (MakeHint, MakeHint),
    ];
    for (action, again) in again {
        let mut ending = at(action);
        assert_eq!(after(&mut ending, Failed(full())), FreeUnneeded);
        assert_eq!(after(&mut ending, Done), again);
        assert_eq!(after(&mut ending, Failed(full())), GiveUpReserve);
        assert_eq!(after(&mut ending, Done), again);
        ending.record_outcome(Failed(full()));
        match action {
            RewriteTail(_) | MakeHint => assert_read(&ending),
            ReplaceManifest => assert_eq!(next(&ending), TrimLogs),
            _ => {
                assert_eq!(next(&ending), RemoveLogs);
                ending.record_outcome(Done);
                assert_read(&ending);
            }
        }
    }
}

#[test]
fn the_next_stage_looks_for_space_anew_and_without_a_reserve_nothing_is_tried_again() {
    let mut ending = at(RewriteTail(AtOnce::File));
    for outcome in [Failed(full()), Done, Failed(full()), Done, Done] {
        ending.record_outcome(outcome);
    }
    assert_eq!(next(&ending), RemoveUnlisted);
    ending.record_outcome(Done);
    assert_eq!(after(&mut ending, Done), MakeLogs { is_tight: false });
    assert_eq!(after(&mut ending, Failed(full())), FreeUnneeded);
    let mut ending = at(MakeHint);
    for outcome in [Failed(full()), Done, Failed(full())] {
        ending.record_outcome(outcome);
    }
    assert_eq!(next(&ending), GiveUpReserve);
    ending.record_outcome(NothingKept);
    assert_read(&ending);
}

#[test]
fn what_fails_while_space_is_looked_for_is_what_the_stage_failed_by() {
    for (action, undoes) in
        [(RewriteTail(AtOnce::File), false), (MakeLogs { is_tight: false }, true), (ReplaceManifest, true)]
    {
        let mut ending = at(action);
        assert_eq!(after(&mut ending, Failed(full())), FreeUnneeded);
        ending.record_outcome(Failed(broken()));
        if undoes {
            assert_eq!(next(&ending), RemoveLogs);
            ending.record_outcome(Done);
        }
        assert_failed(&ending, &broken());
    }
}

/// The manifest found no space, whatever was freed: what the logs set aside is next.
fn trimming() -> Ending {
    let mut ending = at(ReplaceManifest);
    for outcome in [Failed(full()), Done, Failed(full()), NothingKept] {
        ending.record_outcome(outcome);
    }
    assert_eq!(next(&ending), TrimLogs);
    ending
}

#[test]
fn the_manifest_is_tried_for_the_last_time_with_what_the_logs_set_aside() {
    let mut ending = trimming();
    assert_eq!(after(&mut ending, Done), ReplaceManifest);
    assert_eq!(after(&mut ending, Done), MakeHint);
    let mut ending = trimming();
    ending.record_outcome(Done);
    assert_eq!(after(&mut ending, Failed(full())), RemoveLogs, "nothing more can be freed");
    ending.record_outcome(Done);
    assert_read(&ending);
    let mut ending = trimming();
    assert_eq!(after(&mut ending, Failed(broken())), RemoveLogs);
    ending.record_outcome(Done);
    assert_failed(&ending, &broken());
}

#[test]
fn l3_logs_stay_where_it_is_unknown_which_manifest_stands_or_the_newer_one_does() {
    let mut ending = at(ReplaceManifest);
    assert_eq!(after(&mut ending, Unknown(full())), FreeUnneeded);
    assert_eq!(after(&mut ending, Done), ReplaceManifest);
    // Not even the text beside it can be written now: so it says that the older one stands.
    assert_eq!(after(&mut ending, Failed(full())), GiveUpReserve);
    assert_eq!(after(&mut ending, NothingKept), TrimLogs);
    assert_eq!(after(&mut ending, Done), ReplaceManifest);
    ending.record_outcome(Failed(full()));
    assert_read(&ending);
    for (error, is_full) in [(broken(), false), (full_folder(), true)] {
        let mut ending = at(ReplaceManifest);
        ending.record_outcome(Unknown(error.clone()));
        if is_full { assert_read(&ending) } else { assert_failed(&ending, &error) }
    }
}

#[test]
fn a_sync_that_finds_no_space_is_not_tried_again_and_a_tail_that_reads_differently_lacks_space() {
    for action in [RewriteTail(AtOnce::File), MakeHint] {
        let mut ending = at(action);
        ending.record_outcome(Failed(full_folder()));
        assert_read(&ending);
    }
    let mut ending = at(MakeLogs { is_tight: false });
    assert_eq!(after(&mut ending, Failed(full_folder())), RemoveLogs);
    let mut ending = at(RewriteTail(AtOnce::File));
    for outcome in [Failed(full()), Done] {
        ending.record_outcome(outcome);
    }
    assert_eq!(after(&mut ending, Failed(damaged())), GiveUpReserve);
    ending.record_outcome(Done);
    ending.record_outcome(Failed(damaged()));
    assert_read(&ending);
    let mut ending = at(RewriteTail(AtOnce::File));
    ending.record_outcome(Failed(damaged()));
    assert_failed(&ending, &damaged());
}

/// Walks every path that outcomes can lead to. Collects the arrows that were taken.
fn walk(mut path: Vec<EndingAction>, ending: &Ending, unknown: bool, arrows: &mut BTreeSet<String>) {
    let EndingStep::Do(action) = ending.next() else {
        let is_open = matches!(ending.next(), EndingStep::Open);
        assert_eq!(is_open, path.last() == Some(&MakeReserve) && ending.failure.is_none());
        return;
    };
    path.push(action);
    assert!(path.len() < 40, "it ends: {path:?}");
    assert!(action != RemoveLogs || !unknown, "L3: {path:?}");
    assert!(action != Clear || path.contains(&ReplaceManifest), "L4: {path:?}");
    let mut outcomes = vec![Done];
    if action == GiveUpReserve {
        outcomes.push(NothingKept);
    }
    if action != RemoveLogs {
        outcomes.extend([full(), full_folder(), broken(), damaged()].map(Failed));
    }
    if action == ReplaceManifest {
        outcomes.extend([full(), full_folder(), broken()].map(Unknown));
    }
    for outcome in outcomes {
        let unknown = unknown || matches!(outcome, Unknown(_));
        let mut next =
            Ending { shortage: ending.shortage.clone(), failure: ending.failure.clone(), ..*ending };
        next.record_outcome(outcome);
        arrows.insert(format!("{:?} -> {:?}", ending.stage, next.stage));
        walk(path.clone(), &next, unknown, arrows);
    }
}

#[test]
fn every_path_ends_and_takes_the_arrows_of_the_picture_and_no_other() {
    let mut taken = BTreeSet::new();
    for has_earlier in [false, true] {
        walk(Vec::new(), &Ending::new(has_earlier), false, &mut taken);
    }
    let mut stages = vec![
        EndingStage::Leases,
        EndingStage::Unlisted,
        EndingStage::Merging,
        EndingStage::Trimming,
        EndingStage::LastTry,
        EndingStage::Undoing,
        EndingStage::Clearing,
        EndingStage::Reserve,
        EndingStage::Open,
        EndingStage::ReadOnly,
        EndingStage::Failed,
    ];
    for written in [Written::Tail, Written::Logs, Written::Manifest, Written::Hint] {
        stages.push(EndingStage::Writing(written));
        stages.extend(
            [Relief::FreeUnneeded, Relief::GiveUpReserve].map(|relief| EndingStage::Relief(relief, written)),
        );
    }
    let mut drawn = BTreeSet::new();
    for from in &stages {
        let next = stages.iter().filter(|next| from.may_become(**next));
        drawn.extend(next.map(|next| format!("{from:?} -> {next:?}")));
    }
    assert_eq!(taken, drawn);
}

#[test]
#[should_panic(expected = "does not become")]
fn an_arrow_that_is_not_in_the_picture_is_refused() {
    at(MakeLogs { is_tight: false }).enter(EndingStage::Clearing);
}

#[test]
#[should_panic(expected = "the manifest only")]
fn it_is_known_what_stands_of_anything_but_the_manifest() {
    at(MakeHint).record_outcome(Unknown(full()));
}
