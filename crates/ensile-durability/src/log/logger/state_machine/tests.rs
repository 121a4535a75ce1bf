//! A logger's steps, a transition each.

use super::*;

const IDLE: FirstAction = FirstAction::Encode { may_close_epoch: true };
const BUSY: FirstAction = FirstAction::Encode { may_close_epoch: false };

const fn e(number: u64) -> Epoch {
    Epoch::new(number)
}

/// A step that writes `bytes` bytes and a mark.
fn step(steps: &mut Steps, bytes: u64, mark: u64) {
    assert!(matches!(steps.begin(false), FirstAction::Encode { .. }));
    steps.record_encode(Some(e(mark)));
    assert_eq!(steps.record_write(bytes, false), Some(e(mark)));
    steps.record_sync(e(mark));
}

#[test]
fn a_mark_is_synced_once_it_is_written_and_blocks_without_one_are_not() {
    let mut steps = Steps::default();
    assert_eq!(steps.begin(false), IDLE);
    steps.record_encode(Some(e(5)));
    assert_eq!(steps.stage, StepStage::Encoded);
    assert_eq!(steps.record_write(100, false), Some(e(5)));
    assert_eq!(steps.stage, StepStage::Submitted);
    assert!(!steps.may_roll(), "what is written is not synced yet");
    steps.record_sync(e(5));
    assert_eq!((steps.stage, steps.mark_due), (StepStage::Empty, None));
    assert!(steps.may_roll());
    let mut steps = Steps::default();
    steps.begin(false);
    steps.record_encode(None);
    assert_eq!(steps.record_write(100, false), None);
    assert_eq!(steps.stage, StepStage::Empty);
    assert!(!steps.may_roll(), "a new file waits for the mark behind them");
}

#[test]
fn what_has_no_space_is_submitted_again_before_anything_is_encoded() {
    let mut steps = Steps::default();
    steps.begin(false);
    steps.record_encode(Some(e(5)));
    assert_eq!(steps.record_write(40, true), None);
    assert_eq!(steps.stage, StepStage::Held);
    for _ in 0..2 {
        assert_eq!(steps.begin(false), FirstAction::SubmitHeld);
        assert!(steps.is_heavy() && !steps.is_for_waiter() && !steps.may_roll());
        assert_eq!(steps.record_write(0, true), None);
    }
    assert_eq!(steps.begin(false), FirstAction::SubmitHeld);
    assert_eq!(steps.record_write(60, false), Some(e(5)), "with its mark, which is the held one");
    steps.record_sync(e(5));
    assert_eq!(steps.begin(false), IDLE);
}

#[test]
fn a_device_is_busy_from_half_a_buffer_between_two_marks_on() {
    let mut steps = Steps::default();
    step(&mut steps, EARLY_CLOSE_BYTES_MAX, 5);
    assert_eq!(steps.begin(false), IDLE);
    steps.record_encode(None);
    assert_eq!(steps.record_write(EARLY_CLOSE_BYTES_MAX + 1, false), None);
    assert!(!steps.is_for_waiter());
    assert_eq!(steps.begin(false), BUSY);
    steps.record_encode(Some(e(6)));
    steps.record_write(100, false);
    steps.record_sync(e(6));
    assert_eq!(steps.begin(false), BUSY, "much came up to the last mark");
    steps.record_encode(Some(e(7)));
    steps.record_write(100, false);
    steps.record_sync(e(7));
    assert_eq!(steps.begin(false), IDLE);
    assert!(steps.is_for_waiter());
}

#[test]
fn a_log_that_has_ended_or_is_closed_writes_nothing_more() {
    let mut steps = Steps::default();
    assert_eq!(steps.begin(true), FirstAction::Stop);
    steps.begin(false);
    steps.record_encode(Some(e(5)));
    steps.record_write(0, true);
    assert_eq!(steps.begin(true), FirstAction::Stop, "what is held stays in memory");
    steps.close();
    assert_eq!(steps.begin(false), FirstAction::Stop);
}

#[test]
fn the_epoch_closes_and_the_next_step_comes_soon_for_a_strict_result() {
    for (claim, wanted, durable, soon) in
        [(6, 7, 6, true), (7, 7, 6, false), (6, 7, 7, false), (6, 0, 6, false)]
    {
        assert_eq!(is_hurried(e(claim), e(wanted), e(durable)), soon, "{claim} {wanted} {durable}");
    }
    assert!(closes_epoch(e(7), e(5), e(7)));
    assert!(!closes_epoch(e(7), e(5), e(8)), "it has closed already");
    assert!(!closes_epoch(e(5), e(5), e(5)), "it is durable");
    assert!(closes_epoch(e(7), e(5), e(6)), "E is on its way to it");
}

#[test]
#[should_panic(expected = "synced without being written")]
fn a_mark_that_is_not_written_is_not_synced() {
    let mut steps = Steps::default();
    steps.begin(false);
    steps.record_encode(Some(e(5)));
    steps.record_sync(e(5));
}

#[test]
#[should_panic(expected = "comes before anything else in the chain")]
fn nothing_is_encoded_behind_what_is_held() {
    let mut steps = Steps::default();
    steps.begin(false);
    steps.record_encode(None);
    steps.record_write(0, true);
    steps.record_encode(None);
}
