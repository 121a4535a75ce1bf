//! Epochs are reserved in time, and a failed renewal is tried again.

use super::*;

const INTERVAL: Duration = Duration::from_millis(40);
/// Of a day, at 25 a second.
const DAY: u64 = 25 * 24 * 3600;

#[test]
fn a_day_is_reserved_at_open_and_renewed_at_half() {
    let first = Epoch::new(100);
    let reserved = end_for_open(first, INTERVAL).expect("there are epochs");
    assert_eq!(reserved, first.plus(DAY + 2 * EPOCHS_KEPT));
    let mut epochs = ReservedEpochs::new(reserved, INTERVAL, 0, first);
    assert_eq!(epochs.next_end_if_due(1, first.plus(DAY / 2)), None, "more than half is left");
    let due = epochs.next_end_if_due(1, first.plus(DAY / 2 + EPOCHS_KEPT)).expect("half is left");
    assert_eq!(due, first.plus(DAY / 2 + EPOCHS_KEPT + DAY + 2 * EPOCHS_KEPT));
    epochs.record_renewal(due);
    assert_eq!(epochs.next_end_if_due(1, first.plus(DAY / 2 + EPOCHS_KEPT)), None);
    let slow = end_for_open(first, Duration::from_secs(3600));
    assert_eq!(slow, Some(first.plus(EPOCHS_RESERVED_MIN + 2 * EPOCHS_KEPT)));
    assert_eq!(end_for_open(Epoch::new(Epoch::MAX.number() - DAY), INTERVAL), None, "used up");
}

#[test]
fn epochs_that_close_early_are_reserved_as_fast_as_they_come() {
    let first = Epoch::new(1);
    let reserved = end_for_open(first, INTERVAL).expect("there are epochs");
    let mut epochs = ReservedEpochs::new(reserved, INTERVAL, 0, first);
    let (mut epoch, mut renewals) = (first, 0);
    for second in 1..=24 * 3600 {
        epoch = epoch.plus(5000);
        if let Some(due) = epochs.next_end_if_due(second * SECOND_NANOS, epoch) {
            epochs.record_renewal(due);
            renewals += 1;
        }
        assert!(epochs.commit_refusal(epoch).is_none(), "second {second}");
    }
    assert!((2..20).contains(&renewals), "{renewals} in a day");
    let left = epochs.limit().number() - epoch.number();
    assert!(left >= 5000 * 12 * 3600, "{left} left: half a day at the measured rate");
}

#[test]
fn a_failed_renewal_is_tried_again_after_a_pause_and_the_end_is_told_before_e_stops() {
    let first = Epoch::new(1);
    let mut epochs = ReservedEpochs::new(first.plus(100), INTERVAL, 0, first);
    let due = epochs.next_end_if_due(5, first).expect("little is left");
    epochs.record_failure(5, "no space");
    assert_eq!(epochs.next_end_if_due(6, first), None);
    assert_eq!(epochs.next_end_if_due(5 + SECOND_NANOS, first), Some(due));
    let stop = epochs.limit();
    assert_eq!(stop, first.plus(100 - EPOCHS_KEPT));
    let refused_from = stop.number() - EPOCHS_KEPT;
    assert_eq!(epochs.commit_refusal(Epoch::new(refused_from)).as_deref(), Some("no space"));
    assert_eq!(epochs.commit_refusal(Epoch::new(refused_from - 1)), None);
}

#[test]
fn l6_an_end_that_is_recorded_last_or_beside_a_close_takes_no_epoch_back() {
    let first = Epoch::new(1);
    let reserved = end_for_open(first, INTERVAL).expect("there are epochs");
    let mut epochs = ReservedEpochs::new(reserved, INTERVAL, 0, first);
    let (smaller, larger) = (reserved.plus(10), reserved.plus(20));
    epochs.record_renewal(larger);
    epochs.record_renewal(smaller);
    assert_eq!(epochs.limit(), reserved.plus(20 - EPOCHS_KEPT));
    let first = Epoch::new(1);
    let reserved = end_for_open(first, INTERVAL).expect("there are epochs");
    let mut epochs = ReservedEpochs::new(reserved, INTERVAL, 0, first);
    assert_eq!(epochs.use_kept_epochs(), reserved);
    epochs.record_renewal(reserved);
    assert_eq!(epochs.limit(), reserved);
}
