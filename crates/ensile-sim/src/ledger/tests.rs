//! The ledger finds what was promised and is gone.

use super::{Ledger, Rows};
use ensile_base::Epoch;

const fn e(number: u64) -> Epoch {
    Epoch::new(number)
}

fn rows(rows: &[(u64, u8)]) -> Rows {
    rows.iter().map(|(key, value)| (*key, vec![*value])).collect()
}

fn ledger() -> Ledger {
    let mut ledger = Ledger::default();
    ledger.commit(1, e(1), vec![(1, Some(vec![1])), (2, Some(vec![1]))]);
    ledger.promise(3, e(1), "an acknowledgment");
    ledger.commit(4, e(2), vec![(1, Some(vec![2])), (2, None)]);
    ledger.promise(6, e(2), "an acknowledgment");
    ledger
}

#[test]
fn what_was_promised_must_come_back_and_nothing_by_halves() {
    let ledger = ledger();
    ledger.judge(e(2), &rows(&[(1, 2)])).expect("all of it");
    assert!(ledger.judge(e(1), &rows(&[(1, 1), (2, 1)])).expect_err("lost").contains("acknowledgment"));
    assert!(ledger.judge(e(2), &rows(&[(1, 2), (2, 1)])).expect_err("half").contains("row 2"));
    ledger.before(6).judge(e(1), &rows(&[(1, 1), (2, 1)])).expect("not promised yet");
    assert!(ledger.before(6).judge(e(0), &rows(&[])).is_err());
    ledger.before(1).judge(e(0), &rows(&[])).expect("nothing had happened");
}

#[test]
fn what_one_recovery_left_out_is_void_for_the_next() {
    let mut ledger = ledger().before(6);
    ledger.recovered(8, e(1));
    ledger.commit(9, e(5), vec![(3, Some(vec![3]))]);
    ledger.judge(e(5), &rows(&[(1, 1), (2, 1), (3, 3)])).expect("void for ever");
    let back = ledger.judge(e(5), &rows(&[(1, 2), (3, 3)])).expect_err("it came back");
    assert!(back.contains("void"), "{back}");
    assert_eq!((ledger.written(&[2]), ledger.written(&[7])), (Some(e(1)), None));
    assert_eq!((ledger.written_below(&[1, 3], e(5)), ledger.written_below(&[3], e(5))), (Some(e(1)), None));
}

#[test]
fn a_decision_that_nobody_heard_of_is_found_by_what_is_shown() {
    let ledger = ledger().before(6);
    assert_eq!(ledger.judge_undecided(e(7), &rows(&[(1, 1), (2, 1)])), Ok(e(1)));
    assert_eq!(ledger.judge_undecided(e(7), &rows(&[(1, 2)])), Ok(e(7)));
    assert!(ledger.judge_undecided(e(7), &rows(&[(1, 2), (2, 1)])).is_err(), "by halves");
    assert!(ledger.judge_undecided(e(7), &rows(&[])).is_err(), "less than was promised");
}

#[test]
fn a_promise_of_an_epoch_that_left_nothing_may_be_forgotten() {
    let mut ledger = ledger();
    ledger.promise(7, e(9), "an announcement");
    ledger.judge(e(2), &rows(&[(1, 2)])).expect("epoch 9 left no entry");
}
