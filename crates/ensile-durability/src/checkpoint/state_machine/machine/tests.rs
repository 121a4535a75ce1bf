//! A test for each arrow of the picture, and for what must not be one.

use super::super::history::TRIED_EVERY;
use super::super::{
    Action, CLOSED, CheckpointStateMachine, Circumstances, CutParts, NotInstalled, OpenFigures, Rules, Terms,
};
use super::*;
use crate::checkpoint::pages::PublishedPages;
use crate::checkpoint::picture::picture_set::ClosedPicture;
use crate::checkpoint::request::AttemptOutcome;
use crate::checkpoint::walk::Slice;
use crate::control::recovery_time::{LogWork, RecoveryCosts};
use crate::control::trigger::Trigger;
use crate::files::block::extent::{Extent, ExtentPlace};
use crate::files::checkpoint::writer::PartWritten;
use crate::files::manifest::installed_checkpoint::ListedPageFile;
use crate::files::names::PageFileName;
use crate::identity::Identity;

const CHECKPOINTERS: usize = 2;
const SECOND: u64 = 1_000_000_000;

fn machine() -> CheckpointStateMachine {
    machine_of(Strategy::Fuzzy)
}

pub(in crate::checkpoint::state_machine) fn machine_of(strategy: Strategy) -> CheckpointStateMachine {
    let terms = Terms {
        strategy,
        ranges: 3,
        bandwidth: None,
        checkpointers: CHECKPOINTERS,
        files: 1,
        loggers: 1,
        database: Identity::draw(),
        generation: 3,
        goes_on: false,
    };
    let outlook = RecoveryOutlook::new(RecoveryCosts::default(), 1, LogWork::default(), 0);
    let opened = OpenFigures { now_nanos: 0, replayed_bytes: 0 };
    CheckpointStateMachine::new(terms, rules(Trigger::default()), None, 1, opened, outlook)
}

pub(in crate::checkpoint::state_machine) fn rules(trigger: Trigger) -> Rules {
    Rules { adaptive: trigger.adaptive, recovery_time: trigger.recovery_time, policy: trigger }
}

pub(in crate::checkpoint::state_machine) fn seen(epoch: u64) -> Circumstances {
    Circumstances {
        is_awaited: false,
        now_nanos: SECOND,
        epoch: Epoch::new(epoch),
        health: Health::Running,
        log_bytes: 0,
        log_records: 0,
        applied_nanos: None,
        served: 0,
        lost: 0,
        has_reserve: true,
        has_marks: false,
        full_tries: 0,
    }
}

pub(in crate::checkpoint::state_machine) fn salt() -> Salt {
    crate::samples::salt("1a2b3c4d")
}

/// Bytes of log that a recovery would replay after `log_bytes` of log.
pub(in crate::checkpoint::state_machine) fn replayed_bytes(
    machine: &CheckpointStateMachine,
    log_bytes: u64,
) -> u64 {
    machine.schedule.log.replayed_bytes(machine.installed.as_ref(), log_bytes)
}

fn slice() -> Slice {
    Slice { section: 1, from: Box::default(), to: None }
}

fn written(end: u32) -> Vec<PartWritten> {
    vec![PartWritten { entries: 10, displaced: 3, tail_bytes: 30, bytes: 1000, ends: vec![end] }]
}

/// Asked for, and begun with e_l = `low`.
fn begun(low: u64) -> (CheckpointStateMachine, Arc<Ticket>) {
    let mut machine = machine();
    let (ticket, answers) = machine.demand();
    answers.send();
    assert!(matches!(machine.decide(0, &seen(low)), Action::LookForRoom { .. }));
    assert!(machine.begin(DiskSpace::default(), salt(), &seen(low)));
    (machine, ticket)
}

/// Begun at e_l = 7 and cut at E = 8.
fn walking() -> (CheckpointStateMachine, Arc<Ticket>) {
    let (mut machine, ticket) = begun(7);
    assert!(matches!(machine.decide(1, &seen(8)), Action::Cut(_)));
    assert!(machine.cut(CutParts::whole(vec![vec![slice()], vec![slice()]])));
    (machine, ticket)
}

/// Both parts are begun.
fn at_parts() -> (CheckpointStateMachine, Arc<Ticket>) {
    let (mut machine, ticket) = walking();
    for checkpointer in 0..CHECKPOINTERS {
        let Action::WritePart(task) = machine.decide(checkpointer, &seen(8)) else { panic!("it has a part") };
        assert_eq!((task.number, task.low, task.slices.len()), (1, Epoch::new(7), 1));
    }
    (machine, ticket)
}

/// Both parts are written, the last one at E = 9: e_h.
fn walked() -> (CheckpointStateMachine, Arc<Ticket>) {
    let (mut machine, ticket) = at_parts();
    machine.part_ended(1, written(1), Epoch::new(8));
    assert_eq!(machine.awaited_marks(), None, "the other part is not written");
    machine.part_ended(0, written(2), Epoch::new(9));
    (machine, ticket)
}

fn to_install() -> (CheckpointStateMachine, Arc<Ticket>, InstalledCheckpoint) {
    let (mut machine, ticket) = walked();
    let Action::Install(installed) = machine.decide(0, &Circumstances { has_marks: true, ..seen(9) }) else {
        panic!("its marks are synced")
    };
    (machine, ticket, installed)
}

fn failure(ticket: &Ticket) -> String {
    match ticket.outcome() {
        Some(Err(DurabilityError::CheckpointFailed(why))) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn k1_the_walk_begins_only_when_every_epoch_below_low_is_installed() {
    let (mut machine, _) = begun(7);
    assert!(matches!(machine.decide(0, &seen(7)), Action::CloseEpoch));
    assert!(matches!(machine.decide(0, &seen(8)), Action::Cut(_)));
    assert!(matches!(machine.decide(1, &seen(8)), Action::Wait), "one checkpointer cuts");
}

#[test]
fn each_part_is_written_once_and_one_that_fails_ends_the_attempt_once_nobody_writes() {
    let (mut machine, _) = at_parts();
    assert!(matches!(machine.decide(0, &seen(8)), Action::Wait));
    let (mut machine, ticket) = at_parts();
    machine.part_failed("the device is gone");
    assert!(!machine.is_walking());
    assert!(matches!(machine.decide(0, &seen(8)), Action::Wait), "the other one still writes");
    machine.part_left();
    assert!(matches!(machine.decide(0, &seen(8)), Action::CleanUp { kept: 0 }));
    let answers = machine.cleaned_up(2 * SECOND);
    assert_eq!(answers.failed, 1);
    answers.send();
    assert_eq!(failure(&ticket), "the device is gone");
    let (mut machine, _) = walking();
    assert!(matches!(machine.decide(0, &seen(8)), Action::WritePart(_)));
    machine.part_failed("no space");
    assert!(matches!(machine.decide(1, &seen(8)), Action::CleanUp { .. }));
}

#[test]
fn k1_high_is_the_epoch_of_the_last_part_to_end_and_without_its_marks_nothing_is_installed() {
    let (machine, _) = walked();
    assert_eq!(machine.awaited_marks(), Some(Epoch::new(9)));
    let (mut machine, _) = walked();
    assert!(
        matches!(machine.decide(0, &seen(9)), Action::CloseEpoch),
        "no mark covers an epoch that has not ended"
    );
    assert!(matches!(machine.decide(0, &seen(10)), Action::Wait));
    let Action::Install(installed) = machine.decide(0, &Circumstances { has_marks: true, ..seen(10) }) else {
        panic!("its marks are synced")
    };
    assert_eq!((installed.redo_epoch(), installed.durable_min()), (Epoch::new(7), Epoch::new(9)));
    assert_eq!((installed.entries(), installed.bytes(), installed.generations()), (20, 2000, 3..=3));
}

#[test]
fn what_an_installed_checkpoint_covers_is_removed_before_the_answer_and_behind_a_lease_later() {
    let (mut machine, ticket, installed) = to_install();
    let (is_installed, answers) = machine.record_install(Ok(installed.clone()), 3 * SECOND);
    assert!(is_installed);
    answers.send();
    assert!(ticket.outcome().is_none());
    assert!(matches!(machine.decide(1, &seen(10)), Action::Clear(covered) if covered == installed));
    machine.record_clear(None, 4 * SECOND).send();
    let report = ticket.outcome().expect("answered").expect("installed");
    assert_eq!((report.number, report.elapsed.as_secs()), (1, 2));
    assert!(matches!(machine.decide(0, &seen(10)), Action::Rest));
    let (mut machine, _, installed) = to_install();
    machine.record_install(Ok(installed.clone()), SECOND).1.send();
    assert!(matches!(machine.decide(0, &seen(10)), Action::Clear(_)));
    machine.record_clear(Some(5 * SECOND), SECOND).send();
    assert!(matches!(machine.decide(0, &Circumstances { now_nanos: 4 * SECOND, ..seen(10) }), Action::Rest));
    let later = Circumstances { now_nanos: 5 * SECOND, ..seen(10) };
    assert!(matches!(machine.decide(0, &later), Action::RemoveAgain(covered) if covered == installed));
    machine.removed_again(None);
    assert!(matches!(machine.decide(0, &later), Action::Rest));
}

#[test]
fn a_manifest_that_stands_fails_the_attempt_and_one_of_which_nothing_is_known_ends_all() {
    let (mut machine, ticket, _) = to_install();
    let (is_installed, answers) =
        machine.record_install(Err(NotInstalled::OldStands("no space".to_owned())), SECOND);
    assert!(!is_installed);
    answers.send();
    assert!(matches!(machine.decide(0, &seen(10)), Action::CleanUp { kept: 0 }));
    machine.cleaned_up(SECOND).send();
    assert_eq!(failure(&ticket), "no space");
    assert!(!machine.has_ended());
    let (mut machine, ticket, _) = to_install();
    machine.record_install(Err(NotInstalled::Unknown("rename failed".to_owned())), SECOND).1.send();
    assert!(matches!(ticket.outcome(), Some(Err(DurabilityError::Stopped(_)))));
    assert!(matches!(machine.decide(0, &seen(10)), Action::Stop(_)));
}

#[test]
fn a_full_disk_gets_the_reserve_if_there_is_one_and_then_the_attempts_own_files() {
    let (mut machine, ticket) = walked();
    let full = |full_tries| Circumstances { health: Health::Full("full".to_owned()), full_tries, ..seen(10) };
    assert!(matches!(machine.decide(0, &full(4)), Action::GiveUpReserve));
    assert!(matches!(machine.decide(1, &full(4)), Action::Wait), "one checkpointer gives it up");
    machine.reserve_given_up(true, &full(4));
    assert!(matches!(machine.decide(0, &full(5)), Action::Wait), "each logger tries once more");
    assert!(matches!(machine.decide(0, &full(6)), Action::GoOn));
    assert!(matches!(machine.decide(0, &full(6)), Action::CleanUp { .. }));
    machine.cleaned_up(SECOND).send();
    assert!(failure(&ticket).contains("cannot become durable: full"));
    let (mut machine, _) = walked();
    let full = Circumstances { health: Health::Full("full".to_owned()), ..seen(10) };
    assert!(matches!(machine.decide(0, &full), Action::GiveUpReserve));
    machine.reserve_given_up(false, &full);
    assert!(matches!(machine.decide(0, &full), Action::CleanUp { .. }));
}

#[test]
fn an_attempt_waits_for_no_epoch_that_never_ends() {
    let ended = Circumstances { health: Health::EpochsEnded("used up".to_owned()), ..seen(7) };
    for (mut machine, ticket) in [begun(7), walked()] {
        assert!(matches!(machine.decide(0, &ended), Action::GoOn));
        assert!(matches!(machine.decide(0, &ended), Action::CleanUp { .. }));
        machine.cleaned_up(SECOND).send();
        assert!(failure(&ticket).contains("used up"));
    }
}

#[test]
fn what_does_not_fit_is_put_off_and_tried_now_and_then() {
    let mut machine = machine();
    for failed in 0..TRIED_EVERY {
        let (ticket, answers) = machine.demand();
        answers.send();
        machine.history.needed_bytes = 1000;
        let Action::LookForRoom { bytes } = machine.decide(0, &seen(7)) else { panic!("it is due") };
        assert_eq!(bytes, if failed + 1 == TRIED_EVERY { 0 } else { 1000 }, "{failed} failures");
        let answers = machine.put_off("too small".to_owned(), SECOND);
        assert_eq!(answers.failed, 1);
        answers.send();
        assert_eq!((failure(&ticket).as_str(), machine.history().misfit()), ("too small", Some("too small")));
    }
}

#[test]
fn nothing_is_due_without_a_reason_and_a_missing_reserve_is_made_again_after_a_pause() {
    let mut machine = machine();
    assert!(matches!(machine.decide(0, &seen(7)), Action::Rest), "nothing is due");
    let at = |now_nanos| Circumstances { now_nanos, has_reserve: false, ..seen(7) };
    assert!(matches!(machine.decide(0, &at(RESERVE_PAUSE_NANOS - 1)), Action::Rest));
    assert!(matches!(machine.decide(0, &at(RESERVE_PAUSE_NANOS)), Action::MakeReserve));
    assert!(matches!(machine.decide(0, &at(RESERVE_PAUSE_NANOS + 1)), Action::Rest));
}

#[test]
fn callers_that_ask_meanwhile_share_the_next_checkpoint() {
    let (mut machine, ticket) = begun(7);
    let (next, _) = machine.demand();
    assert!(!Arc::ptr_eq(&ticket, &next) && Arc::ptr_eq(&next, &machine.demand().0));
}

#[test]
fn an_end_answers_every_caller_whatever_the_stage() {
    for (mut machine, ticket) in [begun(7), walking(), at_parts(), walked()] {
        let (next, _) = machine.demand();
        let answers = machine.end(CLOSED, DurabilityError::Closed);
        assert_eq!(answers.failed, 1, "the attempt under way");
        answers.send();
        for ticket in [ticket, next] {
            assert!(matches!(ticket.outcome(), Some(Err(DurabilityError::Closed(_)))));
        }
        machine.part_left();
        assert!(matches!(machine.decide(0, &seen(10)), Action::Stop(_)));
        let (late, answers) = machine.demand();
        answers.send();
        assert!(matches!(late.outcome(), Some(Err(DurabilityError::Closed(_)))));
    }
}

/// Outcome of the walked checkpoint if the log has ended like this.
fn outcome_at_end(health: Health) -> Option<AttemptOutcome> {
    let (mut machine, ticket) = walked();
    let Action::Stop(answers) = machine.decide(0, &Circumstances { health, ..seen(10) }) else {
        panic!("nothing becomes durable any more")
    };
    answers.send();
    ticket.outcome()
}

#[test]
fn l9_a_poisoned_log_or_a_removed_folder_ends_the_checkpoints_with_its_own_error() {
    let outcome = outcome_at_end(Health::Poisoned("gone".to_owned()));
    assert!(matches!(outcome, Some(Err(DurabilityError::Stopped(_)))));
    let outcome = outcome_at_end(Health::Removed("log0 is gone".to_owned()));
    assert!(matches!(outcome, Some(Err(DurabilityError::Removed(_)))));
}

#[test]
fn an_outcome_that_comes_behind_the_end_changes_nothing_but_what_the_manifest_names() {
    let (mut machine, _, installed) = to_install();
    machine.end(CLOSED, DurabilityError::Closed).send();
    machine.record_install(Ok(installed.clone()), SECOND).1.send();
    assert_eq!(machine.owes_removal(), (Some(installed), false));
    assert!(machine.history().last().is_none() && machine.has_ended());
    let (mut machine, _) = begun(7);
    assert!(matches!(machine.decide(0, &seen(8)), Action::Cut(_)));
    machine.end(CLOSED, DurabilityError::Closed).send();
    assert!(!machine.cut(CutParts::whole(Vec::new())) && machine.has_ended());
}

/// Asked for, and its pages are to be published at E = 7.
fn picture() -> (CheckpointStateMachine, Arc<Ticket>) {
    let mut machine = machine_of(Strategy::Pictures);
    let (ticket, answers) = machine.demand();
    answers.send();
    assert!(matches!(machine.decide(0, &seen(7)), Action::LookForRoom { .. }));
    assert!(machine.begin(DiskSpace::default(), salt(), &seen(7)));
    assert!(matches!(machine.decide(0, &seen(7)), Action::Publish));
    (machine, ticket)
}

const ATTEMPT: PictureAttempt = PictureAttempt::new(5);

/// Pages that were published when E was this.
fn pages(epoch: u64) -> PublishedPages {
    PublishedPages { attempt: ATTEMPT, epoch: Epoch::new(epoch) }
}

/// Its pages were published at E = 7.
fn published() -> (CheckpointStateMachine, Arc<Ticket>) {
    let (mut machine, ticket) = picture();
    assert!(matches!(machine.decide(1, &seen(7)), Action::Wait), "one checkpointer publishes");
    assert!(machine.record_publication(pages(7)));
    (machine, ticket)
}

/// Its freeze, S = 10, was announced at E = 9.
fn announced() -> (CheckpointStateMachine, Arc<Ticket>) {
    let (mut machine, ticket) = published();
    assert!(matches!(machine.decide(1, &seen(9)), Action::Announce));
    assert!(machine.record_freeze(Epoch::new(10)));
    (machine, ticket)
}

/// Its parts are begun.
fn at_pages() -> (CheckpointStateMachine, Arc<Ticket>) {
    let (mut machine, ticket) = announced();
    assert!(matches!(machine.decide(0, &seen(11)), Action::Cut(_)));
    assert!(machine.cut(CutParts::whole(vec![vec![slice()], vec![slice()]])));
    for checkpointer in 0..CHECKPOINTERS {
        let Action::WritePart(task) = machine.decide(checkpointer, &seen(11)) else {
            panic!("it has a part")
        };
        assert_eq!((task.low, task.pages), (Epoch::new(10), Some(ATTEMPT)));
    }
    (machine, ticket)
}

#[test]
fn n1_n2_a_freeze_is_announced_once_every_commit_sees_the_pages_and_pages_are_taken_once_all_below_it_have_ended()
 {
    let (mut machine, _) = published();
    for epoch in [7, 8] {
        assert!(matches!(machine.decide(0, &seen(epoch)), Action::CloseEpoch));
    }
    assert!(matches!(machine.decide(0, &seen(9)), Action::Announce));
    let (mut machine, _) = announced();
    for epoch in [9, 10] {
        assert!(matches!(machine.decide(0, &seen(epoch)), Action::CloseEpoch));
    }
    assert!(matches!(machine.decide(0, &seen(11)), Action::Cut(_)));
}

#[test]
fn n12_a_picture_is_installed_once_marks_of_its_epoch_are_synced() {
    let (mut machine, ticket) = at_pages();
    machine.part_ended(1, written(1), Epoch::new(20));
    assert_eq!(machine.take_pages_to_end(), None, "the other part takes pages");
    machine.part_ended(0, written(2), Epoch::new(21));
    assert!(ends_once(&mut machine), "before its root is written");
    assert!(matches!(machine.decide(0, &seen(21)), Action::ClosePicture));
    assert!(matches!(machine.decide(1, &seen(21)), Action::Wait), "one checkpointer writes the root");
    assert_eq!(machine.awaited_marks(), None);
    machine.record_close(Ok(closed()));
    assert_eq!(machine.awaited_marks(), Some(Epoch::new(9)));
    assert!(matches!(machine.decide(0, &seen(21)), Action::Wait));
    let Action::Install(installed) = machine.decide(0, &Circumstances { has_marks: true, ..seen(21) }) else {
        panic!("its marks are synced")
    };
    assert_eq!((installed.redo_epoch(), installed.durable_min()), (Epoch::new(10), Epoch::new(9)));
    machine.record_install(Ok(installed), SECOND).1.send();
    assert!(matches!(machine.decide(0, &seen(21)), Action::Clear(_)));
    machine.record_clear(None, SECOND).send();
    let report = ticket.outcome().expect("answered").expect("installed");
    assert_eq!(report.picture_epoch(), Some(Epoch::new(9)));
    assert_eq!((report.entries, report.displaced, report.displaced_tail_bytes), (700, 6, 60));
    assert_eq!((report.pages_written, report.pages_kept), (3, 17));
    assert_eq!((report.bytes, report.bytes_written), (90_000, 20_000));
}

/// Of a picture that has written 3 of its 20 pages.
fn closed() -> ClosedPicture {
    let file = ListedPageFile { name: PageFileName { folder: 0, number: 4 }, salt: salt() };
    ClosedPicture {
        entries: 700,
        bytes: 90_000,
        pages: 20,
        pages_written: 3,
        bytes_written: 20_000,
        next_page: 31,
        root: ExtentPlace { extent: Extent { folder: 0, first: 1, units: 1 }, header_crc: 7 },
        files: vec![file],
    }
}

#[test]
fn n12_a_picture_whose_root_cannot_be_written_fails_and_a_root_behind_the_end_changes_nothing() {
    let (mut machine, ticket) = at_pages();
    (0..2).for_each(|part| machine.part_ended(part, written(1), Epoch::new(20)));
    assert!(matches!(machine.decide(0, &seen(21)), Action::ClosePicture));
    machine.record_close(Err("no space".to_owned()));
    assert!(ends_once(&mut machine));
    assert!(matches!(machine.decide(0, &seen(21)), Action::CleanUp { .. }));
    machine.cleaned_up(SECOND).send();
    assert_eq!(failure(&ticket), "no space");
    let (mut machine, _) = at_pages();
    (0..2).for_each(|part| machine.part_ended(part, written(1), Epoch::new(20)));
    assert!(matches!(machine.decide(0, &seen(21)), Action::ClosePicture));
    machine.end(CLOSED, DurabilityError::Closed).send();
    machine.record_close(Ok(closed()));
    assert!(matches!(machine.decide(0, &seen(21)), Action::Stop(_)));
}

/// Whether the attempt's pages are to be ended, and only once.
fn ends_once(machine: &mut CheckpointStateMachine) -> bool {
    machine.take_pages_to_end() == Some(ATTEMPT) && machine.take_pages_to_end().is_none()
}

#[test]
fn n13_pages_are_ended_once_whatever_ends_an_attempt() {
    for (mut machine, _) in [published(), announced(), at_pages()] {
        assert_eq!(machine.take_pages_to_end(), None);
        machine.end(CLOSED, DurabilityError::Closed).send();
        assert!(ends_once(&mut machine));
    }
    let (mut machine, _) = at_pages();
    machine.part_failed("the device is gone");
    assert!(ends_once(&mut machine), "while the other checkpointer still writes");
    let ended = Circumstances { health: Health::EpochsEnded("used up".to_owned()), ..seen(8) };
    let (mut machine, _) = published();
    assert!(matches!(machine.decide(0, &ended), Action::GoOn));
    assert!(ends_once(&mut machine));
    let (mut machine, _) = picture();
    machine.end(CLOSED, DurabilityError::Closed).send();
    assert_eq!(machine.take_pages_to_end(), None, "nobody ends what is not published yet");
    assert!(!machine.record_publication(pages(8)));
    assert!(ends_once(&mut machine));
}

#[test]
fn n13_pages_that_have_ended_before_they_are_dealt_out_or_are_none_fail_the_attempt() {
    for is_announced in [false, true] {
        let (mut machine, ticket) = if is_announced { announced() } else { published() };
        let action = machine.decide(0, &seen(11));
        assert!(matches!((is_announced, action), (false, Action::Announce) | (true, Action::Cut(_))));
        machine.pages_have_ended("they have ended");
        assert!(ends_once(&mut machine));
        assert!(matches!(machine.decide(0, &seen(11)), Action::CleanUp { .. }));
        machine.cleaned_up(SECOND).send();
        assert_eq!(failure(&ticket), "they have ended");
    }
    let (mut machine, ticket) = picture();
    machine.cannot_publish("no pages");
    assert_eq!(machine.take_pages_to_end(), None);
    assert!(matches!(machine.decide(0, &seen(7)), Action::CleanUp { .. }));
    machine.cleaned_up(SECOND).send();
    assert_eq!(failure(&ticket), "no pages");
}

#[test]
fn n13_a_picture_is_named_until_its_attempt_is_over_and_the_next_one_has_pages_of_its_own() {
    let (mut machine, _) = at_pages();
    assert!(machine.take_pages_to_end().is_none() && machine.published_attempt() == Some(ATTEMPT));
    (0..2).for_each(|part| machine.part_ended(part, written(1), Epoch::new(20)));
    assert!(ends_once(&mut machine));
    assert_eq!(machine.published_attempt(), Some(ATTEMPT), "what is installed is told to its pages");
    machine.end(CLOSED, DurabilityError::Closed).send();
    assert_eq!(machine.published_attempt(), None);
    let (mut machine, _) = at_pages();
    machine.part_failed("no space");
    assert!(ends_once(&mut machine));
    machine.part_left();
    assert!(matches!(machine.decide(0, &seen(11)), Action::CleanUp { .. }));
    machine.cleaned_up(SECOND).send();
    machine.demand().1.send();
    assert!(matches!(machine.decide(0, &seen(12)), Action::LookForRoom { .. }));
    assert!(machine.begin(DiskSpace::default(), salt(), &seen(12)));
    assert!(matches!(machine.decide(0, &seen(12)), Action::Publish));
}
