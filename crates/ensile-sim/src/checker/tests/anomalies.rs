//! One history per anomaly.
use super::{Story, tid};
use crate::checker::{Kind, check};
use crate::history::Predicate;
use ensile_base::Epoch;

const LONG: (u64, u64) = (1, 100);

#[test]
fn g0_two_writers_interleave_their_writes() {
    // Lists without TIDs: each list names its order.
    let mut story = Story::new();
    story.commit_as(LONG, None, |t| {
        t.append(1, 10);
        t.append(2, 20);
    });
    story.commit_as(LONG, None, |t| {
        t.append(1, 11);
        t.append(2, 21);
    });
    story.commit_as((2, 101), None, |t| t.read_list(1, &[10, 11]));
    story.commit_as((2, 101), None, |t| t.read_list(2, &[21, 20]));
    story.is(Kind::G0, "T0 wrote key 1 before T1: 10 of T0 comes right before 11 of T1");
}

#[test]
fn g1a_a_value_of_an_aborted_transaction_is_read() {
    let mut story = Story::new();
    story.abort(LONG, |t| t.write(1, 10)).commit(LONG, 1, |t| t.read(1, Some(10)));
    story.is(Kind::G1a, "T1 read 10 of key 1, which T0 wrote without effect");
}

#[test]
fn g1a_an_element_of_an_aborted_transaction_is_in_a_list() {
    let mut story = Story::new();
    story.commit(LONG, 1, |t| t.append(1, 10)).abort(LONG, |t| t.append(1, 11));
    story.commit(LONG, 2, |t| t.append(1, 12)).commit((2, 101), 3, |t| t.read_list(1, &[10, 11, 12]));
    story.is(Kind::G1a, "T3 read 11 in the list of key 1, which T1 appended without effect");
}

#[test]
fn g1b_a_value_is_read_that_its_writer_replaced() {
    let mut story = Story::new();
    story.commit(LONG, 1, |t| {
        t.write(1, 10);
        t.write(1, 11);
    });
    story.commit(LONG, 2, |t| t.read(1, Some(10)));
    story.is(Kind::G1b, "T1 read 10 of key 1, which T0 replaced before it committed");
}

#[test]
fn g1b_half_of_what_one_appended_is_read() {
    let mut story = Story::new();
    story.commit(LONG, 1, |t| {
        t.append(1, 10);
        t.append(1, 11);
    });
    story.commit(LONG, 2, |t| t.read_list(1, &[10]));
    story.is(Kind::G1b, "T1 read 10 of key 1, which T0 replaced");
}

#[test]
fn g1c_two_transactions_read_from_each_other() {
    let mut story = Story::new();
    story.commit_as(LONG, None, |t| {
        t.append(1, 10);
        t.read_list(2, &[20]);
    });
    story.commit_as(LONG, None, |t| {
        t.append(2, 20);
        t.read_list(1, &[10]);
    });
    story.is(Kind::G1c, "T1 saw what T0 wrote: key 1 is 10 of T0");
}

#[test]
fn g_single_a_reader_sees_half_of_a_transfer() {
    let mut story = Story::new();
    story.commit(LONG, 1, |t| {
        t.write(1, 10);
        t.write(2, 20);
    });
    story.commit(LONG, 2, |t| {
        t.write(1, 11);
        t.write(2, 21);
    });
    story.commit(LONG, 2, |t| {
        t.read(1, Some(10));
        t.read(2, Some(21));
    });
    story
        .is(Kind::GSingle, "T2 read key 1 before T1 wrote it: it saw 10 of T0, the next version is 11 of T1");
}

#[test]
fn lost_update_two_increments_from_one_value() {
    let mut story = Story::new();
    story.commit((1, 2), 1, |t| t.write(1, 10));
    story.commit(LONG, 2, |t| {
        t.read(1, Some(10));
        t.write(1, 11);
    });
    story.commit(LONG, 3, |t| {
        t.read(1, Some(10));
        t.write(1, 12);
    });
    story.is(Kind::LostUpdate, "T2 read key 1 before T1 wrote it: it saw 10 of T0");
}

#[test]
fn lost_update_two_inserts_of_one_key() {
    let mut story = Story::new();
    for sequence in 1..3 {
        story.commit(LONG, sequence, |t| {
            t.read(1, None);
            t.write(1, 10 + sequence);
        });
    }
    // The second insert says that the key was absent; the version before its own is not.
    story.is(Kind::LostUpdate, "T1 read key 1 before T0 wrote it: it saw never written");
}

#[test]
fn lost_update_an_append_vanished() {
    let mut story = Story::new();
    story.commit(LONG, 1, |t| t.append(1, 10)).commit(LONG, 2, |t| t.append(1, 11));
    story.commit(LONG, 3, |t| t.append(1, 12)).commit(LONG, 4, |t| t.read_list(1, &[10, 12]));
    story.is(Kind::LostUpdate, "is 11 of T1, which T3 did not read before 12");
}

#[test]
fn g2_item_write_skew() {
    let mut story = Story::new();
    story.commit(LONG, 1, |t| {
        t.read(1, None);
        t.write(2, 20);
    });
    story.commit(LONG, 2, |t| {
        t.read(2, None);
        t.write(1, 10);
    });
    story.is(
        Kind::G2Item,
        "T1 read key 2 before T0 wrote it: it saw never written, the next version is 20 of T0",
    );
}

#[test]
fn g2_phantoms_by_insert() {
    let mut story = Story::new();
    for (sequence, key) in [(1, 15), (2, 16)] {
        story.commit(LONG, sequence, |t| {
            t.scan(10..20, []);
            t.write(key, key);
        });
    }
    story.is(Kind::G2, "T0 scanned key 16 before T1 wrote it");
}

#[test]
fn g2_phantoms_by_delete() {
    let mut story = Story::new();
    story.commit((1, 2), 1, |t| {
        t.write(15, 1);
        t.write(16, 2);
    });
    for (sequence, key) in [(2, 15), (3, 16)] {
        story.commit((3, 10), sequence, |t| {
            t.scan(10..20, [(15, 1), (16, 2)]);
            t.delete(key);
        });
    }
    story.is(
        Kind::G2,
        "T1 scanned key 16 before T2 wrote it: it saw 2 of T0, the next version is deleted by T2",
    );
}

#[test]
fn g2_phantoms_through_an_index() {
    let group = |argument| Predicate { name: 0, argument };
    let mut story = Story::new();
    story.commit((1, 2), 1, |t| {
        t.write(1, 10);
        t.write(2, 20);
    });
    // Each moves a row into the group that the other found empty.
    for (sequence, key, other) in [(2, 1, 40), (3, 2, 30)] {
        story.commit((3, 10), sequence, |t| {
            t.scan_matching(0..5, group(if key == 1 { 3 } else { 4 }), []);
            t.write(key, other);
        });
    }
    story.is(Kind::G2, "T1 scanned key 2 before T2 wrote it: it saw 20 of T0, the next version is 30 of T2");
}

#[test]
fn realtime_a_stale_read_after_the_writer_ended() {
    let mut story = Story::new();
    story.commit((1, 2), 1, |t| t.write(1, 10)).commit((3, 4), 2, |t| t.write(1, 11));
    story.commit((5, 6), 1, |t| t.read(1, Some(10)));
    story.is(Kind::GSingleRealtime, "T1 had ended (4) before T2 began (5)");
}

#[test]
fn realtime_a_stale_absence() {
    let mut story = Story::new();
    story.commit((1, 2), 1, |t| t.write(1, 10)).commit((5, 6), 2, |t| t.scan(0..3, []));
    story.is(Kind::GSingleRealtime, "T1 scanned key 1 before T0 wrote it: it saw never written");
}

#[test]
fn realtime_versions_in_the_wrong_order() {
    let mut story = Story::new();
    story.commit((1, 2), 9, |t| t.write(1, 10)).commit((3, 4), 8, |t| t.write(1, 11));
    story.is(Kind::G0Realtime, "T1 wrote key 1 before T0");
}

#[test]
fn realtime_a_read_of_the_future() {
    let mut story = Story::new();
    story.commit((1, 2), 9, |t| t.read(1, Some(10))).commit((3, 4), 8, |t| t.write(1, 10));
    story.is(Kind::G1cRealtime, "T0 had ended (2) before T1 began (3)");
}

#[test]
fn realtime_write_skew_of_three() {
    // The second read before the first wrote; the third saw what the second wrote and began behind the first, and still
    // read before the first wrote.
    let mut story = Story::new();
    story.commit((1, 10), 1, |t| {
        t.read(1, None);
        t.write(2, 20);
    });
    story.commit((1, 100), 2, |t| {
        t.read(2, None);
        t.write(3, 30);
    });
    story.commit((11, 100), 3, |t| {
        t.read(3, Some(30));
        t.read(2, None);
    });
    story.is(Kind::GSingleRealtime, "T0 had ended (10) before T2 began (11)");
}

#[test]
fn realtime_item_and_predicate_cycles_have_names_of_their_own() {
    let skew = |scans: bool| {
        let mut story = Story::new();
        story.commit((1, 10), 1, |t| {
            t.read(1, None);
            t.write(2, 20);
        });
        // Began behind the first, and read before the third wrote, which had read before the first wrote.
        story.commit((11, 100), 2, |t| if scans { t.scan(3..4, []) } else { t.read(3, None) });
        story.commit((1, 100), 3, |t| {
            t.read(2, None);
            t.write(3, 30);
        });
        story
    };
    skew(false).is(Kind::G2ItemRealtime, "had ended (10)");
    skew(true).is(Kind::G2Realtime, "scanned key 3");
}

#[test]
fn internal_own_writes_are_not_seen() {
    let mut story = Story::new();
    story.commit(LONG, 1, |t| {
        t.write(1, 10);
        t.read(1, None);
    });
    story.is(Kind::Internal, "T0 had made key 1 10 itself, and saw it absent");
    let mut story = Story::new();
    story.commit(LONG, 1, |t| {
        t.write(1, 10);
        t.scan(0..5, [(1, 11)]);
    });
    story.is(Kind::Internal, "saw it 11");
    let mut story = Story::new();
    story.commit(LONG, 1, |t| {
        t.append(1, 10);
        t.read_list(1, &[10]);
        t.append(1, 11);
        t.read_list(1, &[11, 10]);
    });
    let report = story.judge().expect_err("own appends are in the wrong order");
    assert!(report.has(Kind::Internal), "{report}");
    let mut story = Story::new();
    story.commit(LONG, 1, |t| {
        t.read(1, Some(10));
        t.write(1, 10);
    });
    story.is(Kind::Internal, "T0 read 10 of key 1 before it wrote it");
}

#[test]
fn unknown_values_and_states_that_never_were() {
    Story::new()
        .commit(LONG, 1, |t| t.write(1, 10))
        .commit(LONG, 2, |t| t.read(1, Some(11)))
        .is(Kind::UnknownValue, "T1 read 11 of key 1, which nobody wrote");
    Story::new().commit(LONG, 1, |t| t.read_list(5, &[1])).is(Kind::UnknownValue, "which nobody wrote");
    Story::new().commit(LONG, 1, |t| t.read_present(5)).is(Kind::NeverSo, "saw key 5 present");
}

#[test]
fn duplicates_of_values_elements_and_tids() {
    Story::new()
        .commit(LONG, 1, |t| t.write(1, 10))
        .commit(LONG, 2, |t| t.write(1, 10))
        .is(Kind::DuplicateWrite, "both wrote 10 to key 1");
    Story::new()
        .commit(LONG, 1, |t| t.append(1, 10))
        .commit(LONG, 2, |t| t.read_list(1, &[10, 10]))
        .is(Kind::DuplicateElement, "with 10 in it twice");
    Story::new()
        .commit(LONG, 1, |t| t.write(1, 10))
        .commit(LONG, 1, |t| t.write(1, 11))
        .is(Kind::DuplicateTid, "two versions of key 1 with one TID");
}

#[test]
fn incompatible_orders_of_two_reads_of_a_list() {
    let mut story = Story::new();
    story.commit_as(LONG, None, |t| t.append(1, 10)).commit_as(LONG, None, |t| t.append(1, 11));
    story.commit_as(LONG, None, |t| t.read_list(1, &[10, 11]));
    story.commit_as(LONG, None, |t| t.read_list(1, &[11, 10]));
    let report = story.judge().expect_err("the orders disagree");
    assert!(report.has(Kind::IncompatibleOrder), "{report}");
    let mut story = Story::new();
    story.commit(LONG, 2, |t| t.append(1, 10)).commit(LONG, 1, |t| t.append(1, 11));
    story.commit(LONG, 3, |t| t.read_list(1, &[10, 11]));
    story.is(Kind::IncompatibleOrder, "and T2 read 10 before it");
}

#[test]
fn incompatible_order_of_a_fork() {
    let mut story = Story::new();
    story.commit_as((1, 2), None, |t| t.append(1, 10));
    for element in [11, 12] {
        story.commit_as(LONG, None, |t| t.append(1, element));
        story.commit_as(LONG, None, |t| t.read_list(1, &[10, element]));
    }
    let report = story.judge().expect_err("the list forks");
    assert!(report.has(Kind::IncompatibleOrder), "{report}");
}

#[test]
fn wrong_rows_of_scans() {
    let mut story = Story::new();
    story.commit(LONG, 1, |t| t.write(7, 70));
    story.commit(LONG, 2, |t| t.scan(0..5, [(7, 70)]));
    story.is(Kind::WrongRow, "was shown key 7");
    let mut story = Story::new();
    story.commit(LONG, 1, |t| t.write(7, 70));
    story.commit(LONG, 2, |t| t.scan(0..9, [(7, 70), (7, 70)]));
    story.is(Kind::WrongRow, "was shown key 7");
    let mut story = Story::new();
    story.commit(LONG, 1, |t| t.write(7, 70));
    story.commit(LONG, 2, |t| t.scan_matching(0..9, Predicate { name: 0, argument: 3 }, [(7, 70)]));
    story.is(Kind::WrongRow, "was shown key 7");
}

#[test]
fn snapshots_that_are_not_of_their_boundary() {
    let told = |boundary, value: Option<u64>| {
        let mut story = Story::new();
        story.commit_as((1, 2), Some(tid(3, 0)), |t| t.write(1, 10));
        story.commit_as((3, 4), Some(tid(5, 0)), |t| t.write(1, 11));
        story.commit_as((5, 6), Some(tid(7, 0)), |t| t.delete(1));
        story.snapshot((7, 8), boundary, |t| t.scan(0..3, value.map(|value| (1, value))));
        story
    };
    told(3, None).passes();
    told(4, Some(10)).passes();
    told(5, Some(10)).passes();
    told(6, Some(11)).passes();
    told(8, None).passes();
    told(3, Some(10)).is(Kind::SnapshotBoundary, "the last version below epoch 3 is never written");
    told(5, Some(11))
        .is(Kind::SnapshotBoundary, "showed key 1 as 11 of T1, the last version below epoch 5 is 10 of T0");
    told(6, Some(10)).is(Kind::SnapshotBoundary, "the last version below epoch 6 is 11 of T1");
    told(6, None).is(Kind::SnapshotBoundary, "the last version below epoch 6 is 11 of T1");
}

#[test]
fn tids_and_epochs_against_what_was_read() {
    let mut story = Story::new();
    story.commit(LONG, 5, |t| t.write(1, 10));
    story.commit(LONG, 5, |t| {
        t.read(1, Some(10));
        t.write(2, 20);
    });
    story.is(Kind::TidOrder, "its TID t1.5 is not larger");
    let mut story = Story::new();
    story.commit_as(LONG, Some(tid(2, 0)), |t| {
        t.read(1, None);
        t.write(2, 20);
    });
    story.commit_as(LONG, Some(tid(1, 0)), |t| t.write(1, 10));
    story.is(Kind::EpochOrder, "T0 read key 1 before T1 wrote it, and has the later epoch");
}

#[test]
fn a_result_without_writes_may_wait_for_a_later_epoch() {
    let mut story = Story::new();
    story.commit_as(LONG, Some(tid(2, 0)), |t| t.read(1, None));
    story.commit_as(LONG, Some(tid(1, 0)), |t| t.write(1, 10));
    story.passes();
}

#[test]
fn a_crash_takes_back_what_was_durable_or_seen() {
    let mut story = Story::new();
    story.commit_as((1, 2), Some(tid(3, 0)), |t| t.write(1, 10));
    story.recorder.acknowledge();
    let mut history = story.history();
    assert_eq!(history.crash(Epoch::new(2)), 1);
    let report = check(&history).expect_err("an acknowledged commit is gone");
    assert!(report.has(Kind::LostDurable) && report.to_string().contains("epoch 3"), "{report}");

    let mut story = Story::new();
    story.commit_as((1, 2), Some(tid(3, 0)), |t| t.write(1, 10));
    let mut history = story.history();
    assert_eq!(history.crash(Epoch::new(2)), 1);
    story.commit_as((3, 4), Some(tid(5, 0)), |t| t.read(1, Some(10)));
    history.extend([story.recorder]);
    let report = check(&history).expect_err("what a crash took back is read");
    assert!(report.has(Kind::G1a), "{report}");
}
