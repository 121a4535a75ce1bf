//! When a checkpoint begins: by time, by bytes of log, by demand, and after failures.

use super::{CheckpointReason, Policy, Situation, Trigger};
use crate::control::adaptive::AdaptiveThreshold;
use std::time::Duration;

const MB: u64 = 1 << 20;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn situation(since_end: u64, log_bytes: u64, checkpoint_bytes: u64) -> Situation {
    Situation {
        is_demanded: false,
        is_awaited: false,
        failures: 0,
        is_log_full: false,
        since_end: seconds(since_end),
        turns: 1,
        log_bytes,
        log_records: 0,
        replayed_bytes: log_bytes,
        load: 0.0,
        checkpoint_bytes,
        load_rate: 200 * MB,
        replay_rate: 100 * MB,
    }
}

#[test]
fn the_interval_is_put_off_while_the_log_hardly_grows() {
    let trigger = Trigger { interval: Some(seconds(10)), ..Trigger::default() };
    for (since_end, log, checkpoint, expected) in [
        (9, 500 * MB, 0, None),
        (10, 500 * MB, 0, Some(CheckpointReason::Interval)),
        (10, MB - 1, 0, None),
        (10, MB, 0, Some(CheckpointReason::Interval)),
        (1000, 100 * MB, 1000 * MB, None),
        (10, 125 * MB, 1000 * MB, Some(CheckpointReason::Interval)),
    ] {
        let found = trigger.decide(&situation(since_end, log, checkpoint));
        assert_eq!(found, expected, "{since_end} s, {log} of log, {checkpoint} of checkpoint");
    }
}

#[test]
fn without_a_log_the_interval_waits_for_a_change_only() {
    let trigger = Trigger { interval: Some(seconds(10)), is_without_log: true, ..Trigger::default() };
    assert_eq!(trigger.decide(&situation(10, 1, 1000 * MB)), Some(CheckpointReason::Interval));
    assert_eq!(trigger.decide(&situation(1000, 0, 0)), None, "nothing has changed");
    assert_eq!(trigger.decide(&situation(9, 500 * MB, 0)), None);
}

#[test]
fn a_result_that_waits_begins_a_picture_and_after_a_failure_a_while_later() {
    let trigger = Trigger { is_without_log: true, ..Trigger::default() };
    let awaited =
        |since_end, failures| Situation { is_awaited: true, failures, ..situation(since_end, 1, 0) };
    assert_eq!(trigger.decide(&awaited(0, 0)), Some(CheckpointReason::Demand));
    assert_eq!(trigger.decide(&awaited(0, 1)), None, "it is not tried again at once");
    assert_eq!(trigger.decide(&awaited(1, 1)), Some(CheckpointReason::Demand));
}

#[test]
fn so_many_bytes_of_log_do_not_wait_for_the_interval() {
    let trigger = Trigger { interval: Some(seconds(10)), log_bytes: Some(64 * MB), ..Trigger::default() };
    assert_eq!(trigger.decide(&situation(1, 64 * MB, 10_000 * MB)), Some(CheckpointReason::LogBytes));
    assert_eq!(trigger.decide(&situation(1, 64 * MB - 1, 0)), None);
}

#[test]
fn so_many_entries_do_not_wait_for_their_bytes() {
    let trigger = Trigger { log_bytes: Some(64 * MB), log_records: Some(1_000), ..Trigger::default() };
    let after = |log_records| Situation { log_records, ..situation(1, MB, 0) };
    assert_eq!(trigger.decide(&after(999)), None);
    assert_eq!(trigger.decide(&after(1_000)), Some(CheckpointReason::LogRecords));
}

#[test]
fn a_busy_database_is_left_alone_until_its_log_is_longer() {
    let adaptive = AdaptiveThreshold { lower: 10 * MB, upper: 80 * MB, ..AdaptiveThreshold::of_capacity(1) };
    let trigger = Trigger { adaptive: Some(adaptive), ..Trigger::default() };
    for (load, least) in [(0.0, 10), (0.2, 10), (0.85, 80), (2.0, 80)] {
        let after = |log_bytes| Situation { load, ..situation(1, log_bytes, 0) };
        assert_eq!(trigger.decide(&after(least * MB - 1)), None, "{load}");
        assert_eq!(trigger.decide(&after(least * MB)), Some(CheckpointReason::Adaptive), "{load}");
    }
}

#[test]
fn a_target_for_recovery_counts_load_and_replay_at_their_rates() {
    let trigger = Trigger { recovery_time: Some(seconds(8)), ..Trigger::default() };
    for (log, checkpoint, expected) in [
        (799 * MB, 0, None),
        (800 * MB, 0, Some(CheckpointReason::RecoveryTime)),
        (200 * MB, 1200 * MB, Some(CheckpointReason::RecoveryTime)),
        (199 * MB, 1200 * MB, None),
        // The load alone is above the target: another checkpoint helps once the log is worth it.
        (99 * MB, 4000 * MB, None),
        (100 * MB, 4000 * MB, Some(CheckpointReason::RecoveryTime)),
    ] {
        assert_eq!(trigger.decide(&situation(1, log, checkpoint)), expected, "{log}, {checkpoint}");
    }
}

#[test]
fn after_a_failure_only_a_demand_is_answered_at_once() {
    let trigger = Trigger { interval: Some(seconds(0)), log_bytes: Some(1), ..Trigger::default() };
    let failed = Situation { failures: 1, ..situation(0, 64 * MB, 0) };
    assert_eq!(trigger.decide(&failed), None);
    let demanded = Situation { is_demanded: true, ..failed.clone() };
    assert_eq!(trigger.decide(&demanded), Some(CheckpointReason::Demand));
    let later = Situation { since_end: seconds(1), ..failed };
    assert_eq!(trigger.decide(&later), Some(CheckpointReason::LogBytes));
}

#[test]
fn failures_in_a_row_put_the_next_attempt_off_for_longer_and_longer() {
    let trigger = Trigger { log_bytes: Some(1), ..Trigger::default() };
    for (failures, pause) in [(1, 1), (2, 2), (3, 4), (6, 32), (7, 64), (8, 64), (u32::MAX, 64)] {
        let after = |since_end| Situation { failures, ..situation(since_end, MB, 0) };
        assert_eq!(trigger.decide(&after(pause - 1)), None, "{failures} failures");
        assert_eq!(trigger.decide(&after(pause)), Some(CheckpointReason::LogBytes), "{failures} failures");
    }
}

#[test]
fn a_log_that_waits_for_space_is_left_what_there_is() {
    let trigger = Trigger { interval: Some(seconds(10)), log_bytes: Some(MB), ..Trigger::default() };
    let full = Situation { is_log_full: true, ..situation(20, 64 * MB, 0) };
    assert_eq!(trigger.decide(&full), None);
    let demanded = Situation { is_demanded: true, ..full };
    assert_eq!(trigger.decide(&demanded), Some(CheckpointReason::Demand));
}

#[test]
fn without_settings_only_a_demand_begins_one() {
    assert_eq!(Trigger::default().decide(&situation(1 << 20, 1 << 40, 0)), None);
}

#[test]
fn a_turn_of_n_begins_after_an_nth_of_the_time() {
    let trigger = Trigger { interval: Some(seconds(12)), ..Trigger::default() };
    let turn = |since_end, turns| Situation { turns, ..situation(since_end, 500 * MB, 0) };
    for (since_end, turns, is_due) in [(11, 1, false), (2, 4, false), (3, 4, true), (1, 12, true)] {
        assert_eq!(
            trigger.decide(&turn(since_end, turns)).is_some(),
            is_due,
            "{since_end} s of {turns} turns"
        );
    }
}

#[test]
fn what_recovery_would_replay_is_not_what_was_written_since_the_last_turn() {
    let trigger = Trigger { recovery_time: Some(seconds(10)), ..Trigger::default() };
    let turn =
        |log_bytes, replayed_bytes| Situation { replayed_bytes, turns: 4, ..situation(0, log_bytes, 0) };
    assert_eq!(trigger.decide(&turn(4000 * MB, 999 * MB)), None);
    assert_eq!(trigger.decide(&turn(0, 1000 * MB)), Some(CheckpointReason::RecoveryTime));
}
