//! Errors that closures handed out (R2): what they were told must stand together, and nobody may see what they wrote.
use super::{Story, tid};
use crate::checker::{Kind, check};
use crate::history::{History, Predicate, Recorder};
use ensile_base::Epoch;

const LONG: (u64, u64) = (1, 100);

/// Key 1 is inserted and key 2 put by one transaction.
fn taken_and_put() -> Story {
    let mut story = Story::new();
    story.commit((1, 2), 1, |t| t.write(2, 20)).commit(LONG, 2, |t| {
        t.read(1, None);
        t.write(1, 10);
        t.write(2, 21);
    });
    story
}

#[test]
fn an_error_that_rests_on_one_state_passes_and_is_counted() {
    let mut story = taken_and_put();
    story.answer((3, 100), |t| {
        t.read(1, None);
        t.write(1, 11);
        t.read(1, Some(11));
        t.read(2, Some(20));
        t.scan(0..9, [(1, 11), (2, 20)]);
    });
    story.answer((3, 100), |t| {
        t.read_present(1);
        t.read(2, Some(21));
    });
    let summary = story.passes();
    assert_eq!((summary.transactions, summary.committed, summary.answered), (4, 2, 2));
    assert_eq!(summary.versions, 3, "an error's writes are no versions");
}

#[test]
fn an_error_rests_on_a_free_key_beside_what_its_insert_was_committed_with() {
    let mut story = taken_and_put();
    story.answer((3, 100), |t| {
        t.read(1, None);
        t.write(1, 11);
        t.read(2, Some(21));
    });
    story.is(Kind::GSingle, "T2 read key 1 before T1 wrote it: it saw never written");
}

#[test]
fn an_error_rests_on_a_taken_key_beside_an_older_value() {
    let mut story = taken_and_put();
    story.answer((3, 100), |t| {
        t.read_present(1);
        t.read(2, Some(20));
    });
    story.is(Kind::GSingle, "T2 read key 2 before T1 wrote it: it saw 20 of T0");
}

#[test]
fn an_error_rests_on_a_count_beside_a_later_value() {
    let mut story = taken_and_put();
    story.answer((3, 100), |t| {
        t.scan_keys_matching(0..9, Predicate { name: 1, argument: 1 }, []);
        t.read(2, Some(21));
    });
    story.is(Kind::GSingle, "T2 scanned key 1 before T1 wrote it");
}

#[test]
fn an_error_rests_on_what_was_over_before_it_began() {
    let mut story = Story::new();
    story.commit((1, 2), 1, |t| t.write(1, 10)).commit((3, 4), 2, |t| t.write(1, 11));
    story.answer((5, 6), |t| t.read(1, Some(10)));
    story.is(Kind::GSingleRealtime, "T1 had ended (4) before T2 began (5)");
}

#[test]
fn an_error_rests_on_what_began_once_it_was_out() {
    let mut story = Story::new();
    story.answer((1, 2), |t| t.read(1, Some(10))).commit((3, 4), 1, |t| t.write(1, 10));
    story.is(Kind::G1cRealtime, "T0 had ended (2) before T1 began (3)");
}

#[test]
fn two_errors_tell_of_two_writes_in_two_orders() {
    let mut story = Story::new();
    story.commit(LONG, 1, |t| t.write(1, 10)).commit(LONG, 2, |t| t.write(2, 20));
    for (seen, absent, value) in [(1, 2, 10), (2, 1, 20)] {
        story.answer(LONG, |t| {
            t.read(seen, Some(value));
            t.read(absent, None);
        });
    }
    story.is(Kind::G2Item, "before T1 wrote it");
}

#[test]
fn what_an_errors_closure_wrote_is_seen() {
    let mut story = Story::new();
    story.answer(LONG, |t| t.write(1, 10)).commit(LONG, 1, |t| t.read(1, Some(10)));
    story.is(Kind::G1a, "T1 read 10 of key 1, which T0 wrote without effect");
    story.answer(LONG, |t| t.append(1, 10)).commit(LONG, 1, |t| t.read_list(1, &[10]));
    story.is(Kind::G1a, "T1 read 10 in the list of key 1, which T0 appended without effect");
}

#[test]
fn an_error_has_seen_another_errors_write() {
    let mut story = Story::new();
    story.answer(LONG, |t| t.write(1, 10)).answer(LONG, |t| t.read(1, Some(10)));
    story.is(Kind::G1a, "T1 read 10 of key 1, which T0 wrote without effect");
}

#[test]
fn an_errors_closure_must_see_its_own_writes() {
    let mut story = Story::new();
    story.commit((1, 2), 1, |t| t.write(1, 10)).answer((3, 4), |t| {
        t.write(1, 11);
        t.read(1, Some(10));
    });
    story.is(Kind::Internal, "T1 had made key 1 11 itself, and saw it 10");
}

#[test]
fn an_errors_own_appends_say_nothing_of_how_a_list_grew() {
    let mut story = Story::new();
    story.commit((1, 2), 1, |t| t.append(1, 10)).answer(LONG, |t| {
        t.read_list(1, &[10]);
        t.append(1, 11);
        t.read_list(1, &[10, 11]);
        t.append(1, 12);
        t.read_list(1, &[10, 11, 12]);
    });
    story.commit((3, 100), 2, |t| {
        t.read_list(1, &[10]);
        t.append(1, 13);
    });
    story.commit((101, 102), 2, |t| t.read_list(1, &[10, 13]));
    story.passes();
}

#[test]
fn an_error_that_saw_too_little_of_a_row_that_it_wrote_has_lost_no_update() {
    let mut story = Story::new();
    story.commit((1, 2), 1, |t| t.write(1, 10)).commit((1, 2), 2, |t| t.write(2, 20));
    story.commit((3, 100), 3, |t| {
        t.write(1, 11);
        t.write(2, 21);
    });
    story.answer((3, 100), |t| {
        t.read(1, Some(10));
        t.write(1, 12);
        t.read(2, Some(21));
    });
    story.is(Kind::GSingle, "T3 read key 1 before T2 wrote it");
}

/// A row that a delete of epoch 4 took away, and an error of epoch 4 that was told so.
fn crashed_behind_a_delete(is_acknowledged: bool) -> History {
    let mut recorder = Recorder::new(0);
    let mut trace = recorder.begin(1);
    trace.write(1, 10);
    recorder.commit(trace, Some(tid(1, 1)), 2);
    let mut trace = recorder.begin(3);
    trace.read_present(1);
    trace.delete(1);
    recorder.commit(trace, Some(tid(4, 1)), 4);
    let mut trace = recorder.begin(5);
    trace.read(1, None);
    trace.write(1, 11);
    recorder.answer(trace, 6);
    if is_acknowledged {
        recorder.acknowledge();
    }
    let mut history = History::merge([recorder]);
    history.crash(Epoch::new(3));
    history
}

#[test]
fn an_error_that_was_shown_as_durable_rests_on_a_delete_that_a_crash_took_back() {
    let report = check(&crashed_behind_a_delete(true)).expect_err("the anomaly is not seen");
    assert!(report.has(Kind::GSingleRealtime), "{report}");
    let summary = check(&crashed_behind_a_delete(false)).expect("nobody may rely on it");
    assert_eq!((summary.committed, summary.answered), (1, 0));
}

#[test]
fn an_error_that_was_shown_as_durable_rests_on_a_value_that_a_crash_took_back() {
    let mut recorder = Recorder::new(0);
    let mut trace = recorder.begin(1);
    trace.write(1, 10);
    recorder.commit(trace, Some(tid(4, 1)), 2);
    let mut trace = recorder.begin(3);
    trace.read(1, Some(10));
    recorder.answer(trace, 4);
    recorder.acknowledge();
    let mut history = History::merge([recorder]);
    history.crash(Epoch::new(3));
    let report = check(&history).expect_err("the anomaly is not seen");
    assert!(report.has(Kind::G1a), "{report}");
}
