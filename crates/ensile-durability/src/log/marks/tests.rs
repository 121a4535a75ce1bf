//! Which epochs need a mark, and how far each frontier may go.

use super::*;

const fn e(number: u64) -> Epoch {
    Epoch::new(number)
}

fn sync(marks: &MarkTable, logger: usize, epoch: Epoch) {
    marks.advance(logger, Frontier::Written, epoch);
    marks.advance(logger, Frontier::Synced, epoch);
}

#[test]
fn epochs_without_entries_pass_without_a_mark_unless_one_is_asked_for() {
    let marks = MarkTable::new(2, e(4));
    marks.advance(0, Frontier::Appended, e(9));
    assert_eq!(marks.announceable_epoch(Frontier::Synced), e(4), "the other logger has not looked yet (L1)");
    marks.advance(1, Frontier::Appended, e(7));
    assert!(!marks.needs_mark(0, e(9)));
    assert_eq!(marks.announceable_epoch(Frontier::Synced), e(7));
    assert_eq!(marks.of_all(Frontier::Synced), e(4), "blocks never carry a D without a mark (L5)");
    let marks = MarkTable::new(2, e(4));
    marks.advance(0, Frontier::Appended, e(9));
    marks.advance(1, Frontier::Appended, e(9));
    marks.ask(e(7));
    assert!(marks.needs_mark(0, e(9)) && marks.needs_mark(1, e(9)));
    sync(&marks, 0, e(9));
    assert!(!marks.needs_mark(0, e(10)), "it stands");
    assert_eq!(marks.of_all(Frontier::Synced), e(4));
}

#[test]
fn an_entry_in_one_log_asks_every_log_for_a_mark() {
    let marks = MarkTable::new(2, e(4));
    marks.raise_high(0, e(6));
    marks.advance(0, Frontier::Appended, e(6));
    marks.advance(1, Frontier::Appended, e(6));
    assert!(marks.needs_mark(0, e(6)) && marks.needs_mark(1, e(6)));
    sync(&marks, 0, e(6));
    assert_eq!(
        marks.announceable_epoch(Frontier::Synced),
        e(4),
        "the log without entries has no mark yet (L3)"
    );
    sync(&marks, 1, e(6));
    assert_eq!(marks.announceable_epoch(Frontier::Synced), e(6));
}

#[test]
fn each_frontier_is_the_least_of_all_logs_and_passes_epochs_without_entries() {
    let marks = MarkTable::new(2, e(4));
    marks.raise_high(0, e(6));
    marks.advance(0, Frontier::Appended, e(6));
    marks.advance(1, Frontier::Appended, e(9));
    let reached = || {
        [Frontier::Appended, Frontier::Written, Frontier::Synced]
            .map(|of| marks.announceable_epoch(of).number())
    };
    assert_eq!(reached(), [6, 4, 4]);
    marks.advance(0, Frontier::Written, e(6));
    marks.advance(1, Frontier::Written, e(7));
    assert_eq!(reached(), [6, 6, 4]);
    marks.advance(0, Frontier::Synced, e(6));
    assert_eq!(reached(), [6, 6, 4], "the other log's mark is written only");
    marks.advance(1, Frontier::Synced, e(7));
    assert_eq!(reached(), [6, 6, 6]);
    marks.advance(0, Frontier::Appended, e(8));
    assert_eq!(reached(), [8, 8, 8], "7 and 8 have no entry: nothing is to be written");
}

#[test]
#[should_panic(expected = "Synced up to 6, ahead of Written")]
fn a_mark_is_not_synced_before_it_is_written() {
    let marks = MarkTable::new(1, e(4));
    marks.advance(0, Frontier::Appended, e(6));
    marks.advance(0, Frontier::Synced, e(6));
}
