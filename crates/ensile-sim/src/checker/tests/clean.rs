//! Histories without an anomaly: none may be reported.
use super::{Story, tid};
use crate::checker::check;
use crate::history::{History, Predicate};
use ensile_base::Epoch;

#[test]
fn nothing_happened() {
    let summary = check(&History::default()).expect("no anomaly");
    assert_eq!(summary.transactions, 0);
}

#[test]
fn serial_inserts_updates_and_deletes() {
    let mut story = Story::new();
    story.commit((1, 2), 1, |t| {
        t.read(1, None);
        t.write(1, 10);
        t.read(1, Some(10));
    });
    story.commit((3, 4), 2, |t| {
        t.scan(0..9, [(1, 10)]);
        t.write(1, 11);
        t.scan(0..9, [(1, 11)]);
    });
    story.abort((3, 4), |t| t.write(1, 99));
    story.commit((5, 6), 3, |t| {
        t.read_present(1);
        t.delete(1);
        t.read(1, None);
    });
    let summary = story.commit((7, 8), 3, |t| t.scan(0..9, [])).passes();
    assert_eq!((summary.transactions, summary.committed, summary.versions), (5, 4, 3));
    assert_eq!((summary.ww, summary.ambiguous), (2, 0));
}

#[test]
fn an_absence_is_one_of_several_until_real_time_or_an_own_write_tells() {
    let mut story = Story::new();
    story.commit((1, 100), 1, |t| t.write(1, 10));
    story.commit((1, 100), 2, |t| {
        t.read_present(1);
        t.delete(1);
    });
    story.commit((1, 100), 2, |t| t.read(1, None));
    assert_eq!(story.passes().ambiguous, 1);
    story.commit((1, 100), 1, |t| t.write(1, 10));
    story.commit((1, 100), 2, |t| {
        t.read_present(1);
        t.delete(1);
    });
    story.commit((1, 100), 3, |t| {
        t.read(1, None);
        t.write(1, 11);
    });
    story.commit((101, 102), 3, |t| t.read(1, Some(11)));
    assert_eq!(story.passes().ambiguous, 0);
}

#[test]
fn a_put_taken_back_by_its_own_transaction_makes_no_version() {
    let mut story = Story::new();
    story.commit((1, 2), 5, |t| {
        t.read(1, None);
        t.write(1, 10);
        t.delete(1);
    });
    // Its TID may well be below the other's.
    story.commit((3, 4), 2, |t| {
        t.read(1, None);
        t.write(1, 11);
    });
    assert_eq!(story.passes().versions, 1);
}

#[test]
fn snapshots_read_the_past_without_a_conflict() {
    let mut story = Story::new();
    story.commit_as((1, 2), Some(tid(1, 0)), |t| {
        t.write(1, 10);
        t.write(2, 20);
    });
    story.commit_as((3, 4), Some(tid(6, 0)), |t| {
        t.write(1, 11);
        t.write(2, 21);
    });
    story.snapshot((9, 10), 5, |t| {
        t.read(1, Some(10));
        t.scan(2..5, [(2, 20)]);
    });
    assert_eq!(story.passes().snapshots, 1);
}

#[test]
fn an_unknown_outcome_counts_once_it_is_seen() {
    let mut story = Story::new();
    story.unknown((1, 2), |t| t.write(1, 10)).commit((3, 4), 1, |t| t.read(1, None));
    assert_eq!(story.passes().committed, 1);
    story.unknown((1, 2), |t| t.write(1, 10));
    story.commit((3, 4), 1, |t| t.read(1, None)).commit((5, 6), 2, |t| t.read(1, Some(10)));
    assert_eq!(story.passes().committed, 3);
}

#[test]
fn what_a_crash_took_back_never_was() {
    let mut story = Story::new();
    story.commit_as((1, 2), Some(tid(1, 0)), |t| t.write(1, 10));
    story.commit_as((3, 4), Some(tid(3, 0)), |t| {
        t.read(1, Some(10));
        t.write(1, 11);
    });
    story.commit_as((5, 6), Some(tid(3, 0)), |t| t.read(1, Some(11)));
    let mut history = story.history();
    assert_eq!(history.crash(Epoch::new(2)), 2);
    story.commit_as((7, 8), Some(tid(5, 0)), |t| {
        t.read(1, Some(10));
        t.write(1, 12);
    });
    history.extend([story.recorder]);
    let summary = check(&history).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!((summary.transactions, summary.committed), (4, 2));
}

#[test]
fn lists_grow_with_and_without_tids() {
    for has_tids in [false, true] {
        let tid = |sequence| has_tids.then(|| tid(1, sequence));
        let mut story = Story::new();
        story.commit_as((1, 9), tid(1), |t| {
            t.read_list(1, &[]);
            t.append(1, 10);
            t.append(1, 11);
            t.read_list(1, &[10, 11]);
        });
        story.commit_as((1, 9), tid(2), |t| {
            t.read_list(1, &[10, 11]);
            t.append(1, 12);
            t.scan_lists(0..3, [(1, [10, 11, 12])]);
        });
        story.commit_as((1, 9), tid(2), |t| t.read_list(1, &[10, 11, 12]));
        story.commit_as((1, 9), tid(0), |t| t.scan_lists::<[u64; 0]>(0..9, []));
        let summary = story.passes();
        assert_eq!((summary.ww, summary.wr, summary.rw, summary.ambiguous), (1, 3, 1, 0));
    }
}

#[test]
fn lists_begin_anew_after_a_delete() {
    let mut story = Story::new();
    story.commit((1, 2), 1, |t| t.append(1, 10));
    story.commit((3, 4), 2, |t| {
        t.read_list(1, &[10]);
        t.delete(1);
        t.read_list(1, &[]);
    });
    story.commit((5, 6), 3, |t| {
        t.read_list(1, &[]);
        t.append(1, 11);
    });
    story.commit((7, 8), 4, |t| {
        t.read_list(1, &[11]);
        t.delete(1);
        t.append(1, 12);
        t.read_list(1, &[12]);
    });
    story.commit((9, 10), 4, |t| t.read_list(1, &[12]));
    assert_eq!(story.passes().versions, 4);
}

#[test]
fn a_scan_for_some_rows_leaves_open_what_the_others_are() {
    let group = Predicate { name: 0, argument: 1 };
    let mut story = Story::new();
    story.commit((1, 2), 1, |t| {
        t.write(1, 10);
        t.write(2, 20);
    });
    story.commit((3, 4), 2, |t| {
        t.scan_matching(0..9, group, [(1, 10)]);
        t.write(2, 11);
        t.scan_matching(0..9, group, [(1, 10), (2, 11)]);
    });
    story.commit((5, 6), 2, |t| t.scan_matching(0..9, group, [(1, 10), (2, 11)]));
    story.passes();
}
