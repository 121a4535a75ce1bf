//! When a checkpoint begins: by time, by bytes of log, by demand, and after failures.

use super::*;
use crate::control::adaptive::{AdaptiveThreshold, ThresholdMeasure, ThresholdReading};
use crate::control::recovery_time::RecoveryForecast;

/// Why a checkpoint begins, if one does.
fn decide(trigger: &Trigger, now: &Situation) -> Option<CheckpointReason> {
    match trigger.verdict(now) {
        CheckpointVerdict::Begins(reason) => Some(reason),
        _ => None,
    }
}

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
        load: 0.0,
        checkpoint_bytes,
        recovery: forecast(log_bytes, checkpoint_bytes),
    }
}

/// Loading 200 MiB and replaying 100 MiB a second.
fn forecast(log_bytes: u64, checkpoint_bytes: u64) -> RecoveryForecast {
    let at = |bytes: u64, rate: u64| Duration::from_secs_f64(bytes as f64 / (rate * MB) as f64);
    RecoveryForecast {
        load: at(checkpoint_bytes, 200),
        replay: at(log_bytes, 100),
        ..RecoveryForecast::default()
    }
}

#[test]
fn the_interval_waits_until_the_log_has_grown_and_without_a_log_for_a_change() {
    let trigger = Trigger { interval: Some(seconds(10)), ..Trigger::default() };
    for (since_end, log, checkpoint, expected) in [
        (9, 500 * MB, 0, None),
        (10, 500 * MB, 0, Some(CheckpointReason::Interval)),
        (10, MB - 1, 0, None),
        (10, MB, 0, Some(CheckpointReason::Interval)),
        (1000, 100 * MB, 1000 * MB, None),
        (10, 125 * MB, 1000 * MB, Some(CheckpointReason::Interval)),
    ] {
        let found = decide(&trigger, &situation(since_end, log, checkpoint));
        assert_eq!(found, expected, "{since_end} s, {log} of log, {checkpoint} of checkpoint");
    }
    let trigger = Trigger { interval: Some(seconds(10)), is_without_log: true, ..Trigger::default() };
    assert_eq!(decide(&trigger, &situation(10, 1, 1000 * MB)), Some(CheckpointReason::Interval));
    assert_eq!(decide(&trigger, &situation(1000, 0, 0)), None, "nothing has changed");
    assert_eq!(decide(&trigger, &situation(9, 500 * MB, 0)), None);
}

#[test]
fn a_result_that_waits_begins_a_picture_and_after_a_failure_a_while_later() {
    let trigger = Trigger { is_without_log: true, ..Trigger::default() };
    let awaited =
        |since_end, failures| Situation { is_awaited: true, failures, ..situation(since_end, 1, 0) };
    assert_eq!(decide(&trigger, &awaited(0, 0)), Some(CheckpointReason::Demand));
    assert_eq!(decide(&trigger, &awaited(0, 1)), None, "it is not tried again at once");
    for failures in [1, 2, 9] {
        assert_eq!(
            decide(&trigger, &awaited(1, failures)),
            Some(CheckpointReason::Demand),
            "{failures} failures"
        );
    }
}

#[test]
fn so_many_bytes_or_entries_of_log_do_not_wait_for_the_interval_or_each_other() {
    let trigger = Trigger { interval: Some(seconds(10)), log_bytes: Some(64 * MB), ..Trigger::default() };
    assert_eq!(decide(&trigger, &situation(1, 64 * MB, 10_000 * MB)), Some(CheckpointReason::LogBytes));
    assert_eq!(decide(&trigger, &situation(1, 64 * MB - 1, 0)), None);
    let trigger = Trigger { log_bytes: Some(64 * MB), log_records: Some(1_000), ..Trigger::default() };
    let after = |log_records| Situation { log_records, ..situation(1, MB, 0) };
    assert_eq!(decide(&trigger, &after(999)), None);
    assert_eq!(decide(&trigger, &after(1_000)), Some(CheckpointReason::LogRecords));
}

#[test]
fn a_busy_database_is_left_alone_until_it_has_more_bytes_or_records_of_log() {
    let adaptive = AdaptiveThreshold { lower: 10 * MB, upper: 80 * MB, ..AdaptiveThreshold::of_capacity(1) };
    let trigger = Trigger { adaptive: Some(adaptive), ..Trigger::default() };
    for (load, least) in [(0.0, 10), (0.2, 10), (0.85, 80), (2.0, 80)] {
        let after = |log_bytes| Situation { load, ..situation(1, log_bytes, 0) };
        assert_eq!(decide(&trigger, &after(least * MB - 1)), None, "{load}");
        assert_eq!(decide(&trigger, &after(least * MB)), Some(CheckpointReason::Adaptive), "{load}");
    }
    let trigger = Trigger { adaptive: Some(AdaptiveThreshold::of_his(15_000)), ..Trigger::default() };
    let after = |log_records, load| Situation { log_records, load, ..situation(1, 1 << 40, 0) };
    for (load, least) in [(0.3, 300_000), (0.85, 1_800_000)] {
        assert_eq!(decide(&trigger, &after(least - 1, load)), None, "{load}");
        assert_eq!(decide(&trigger, &after(least, load)), Some(CheckpointReason::Adaptive), "{load}");
    }
}

#[test]
fn a_target_for_recovery_counts_load_replay_and_what_the_log_grows_by_and_not_what_was_written() {
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
        assert_eq!(decide(&trigger, &situation(1, log, checkpoint)), expected, "{log}, {checkpoint}");
    }
    let trigger = Trigger { recovery_time: Some(seconds(8)), ..Trigger::default() };
    for (log, growth, is_due) in
        [(599 * MB, 2, false), (600 * MB, 2, true), (99 * MB, 60, false), (100 * MB, 60, true)]
    {
        let recovery = RecoveryForecast { growth: seconds(growth), ..forecast(log, 0) };
        let now = Situation { recovery, ..situation(1, log, 0) };
        assert_eq!(decide(&trigger, &now).is_some(), is_due, "{log} of log, {growth} s of growth");
    }
    let trigger = Trigger { recovery_time: Some(seconds(10)), ..Trigger::default() };
    let turn = |log_bytes, replayed_bytes| Situation {
        recovery: forecast(replayed_bytes, 0),
        turns: 4,
        ..situation(0, log_bytes, 0)
    };
    assert_eq!(decide(&trigger, &turn(4000 * MB, 999 * MB)), None);
    assert_eq!(decide(&trigger, &turn(0, 1000 * MB)), Some(CheckpointReason::RecoveryTime));
}

/// A trace of a quiet and of a busy hour: between 10 and 80 seconds, by the load.
#[test]
fn an_interval_by_load_is_within_its_bounds_put_off_while_the_log_hardly_grows_and_divided_by_turns() {
    let trigger = Trigger { adaptive: Some(AdaptiveThreshold::of_time(1)), ..Trigger::default() };
    // ((0.5 - 0.2) / 0.65)^3 = 0.09832 of 70 seconds: 16.882 in all.
    for (load, least) in [(0.0, 10_000), (0.2, 10_000), (0.5, 16_882), (0.85, 80_000), (3.0, 80_000)] {
        let after =
            |millis| Situation { since_end: Duration::from_millis(millis), load, ..situation(0, MB, 0) };
        assert_eq!(trigger.verdict(&after(least - 1)), CheckpointVerdict::NotDue, "{load}");
        assert_eq!(decide(&trigger, &after(least)), Some(CheckpointReason::Adaptive), "{load}");
    }
    let trigger = Trigger { adaptive: Some(AdaptiveThreshold::of_time(1)), ..Trigger::default() };
    assert_eq!(trigger.verdict(&situation(9_999, MB - 1, 0)), CheckpointVerdict::HardlyGrew);
    assert_eq!(trigger.verdict(&situation(9_999, 100 * MB, 1000 * MB)), CheckpointVerdict::HardlyGrew);
    assert_eq!(decide(&trigger, &situation(10, MB, 0)), Some(CheckpointReason::Adaptive));
    // However long the log is: the time has not come.
    assert_eq!(trigger.verdict(&situation(9, 1 << 40, 0)), CheckpointVerdict::NotDue);
    let without_log = Trigger { is_without_log: true, ..trigger };
    assert_eq!(decide(&without_log, &situation(10, 1, 1000 * MB)), Some(CheckpointReason::Adaptive));
    let trigger = Trigger { adaptive: Some(AdaptiveThreshold::of_time(1)), ..Trigger::default() };
    let turn = |since_end| Situation { turns: 5, ..situation(since_end, MB, 0) };
    assert_eq!(trigger.verdict(&turn(1)), CheckpointVerdict::NotDue);
    assert_eq!(decide(&trigger, &turn(2)), Some(CheckpointReason::Adaptive));
}

#[test]
fn a_reading_has_what_was_compared() {
    let now = Situation { log_records: 7, load: 0.85, turns: 2, ..situation(3, 5 * MB, 0) };
    let of = |adaptive: AdaptiveThreshold| now.threshold_reading(&adaptive, 1000.4);
    let reading = |measure, threshold, reached| ThresholdReading {
        load: 0.85,
        capacity: 1000,
        measure,
        threshold,
        reached,
    };
    use ThresholdMeasure::{Bytes, Records, Time};
    assert_eq!(of(AdaptiveThreshold::of_capacity(9)), reading(Bytes, 4 << 30, 5 * MB));
    assert_eq!(of(AdaptiveThreshold::of_ups(9)), reading(Records, 8_000_000, 7));
    assert_eq!(of(AdaptiveThreshold::of_time(9)), reading(Time, 80_000, 6_000));
}

#[test]
fn it_says_why_none_begins_with_a_word_for_each_reason() {
    let trigger = Trigger { interval: Some(seconds(10)), log_bytes: Some(64 * MB), ..Trigger::default() };
    let now = situation(20, MB - 1, 0);
    let failed = Situation { failures: 9, ..now.clone() };
    let full = Situation { is_log_full: true, ..now.clone() };
    for (situation, verdict) in [
        (situation(1, MB, 0), CheckpointVerdict::NotDue),
        (now, CheckpointVerdict::HardlyGrew),
        (failed, CheckpointVerdict::AfterFailure),
        (full, CheckpointVerdict::LogIsFull),
        (situation(1, 64 * MB, 0), CheckpointVerdict::Begins(CheckpointReason::LogBytes)),
    ] {
        assert_eq!(trigger.verdict(&situation), verdict);
    }
    let verdicts = [
        (CheckpointVerdict::NotLooked, "not_looked"),
        (CheckpointVerdict::Begins(CheckpointReason::LogBytes), "begins:log_bytes"),
        (CheckpointVerdict::Begins(CheckpointReason::RecoveryTime), "begins:recovery_time"),
        (CheckpointVerdict::HardlyGrew, "hardly_grew"),
    ];
    for (verdict, word) in verdicts {
        assert_eq!(verdict.to_string(), word);
    }
}

#[test]
fn after_failures_only_a_demand_is_answered_at_once_and_the_others_wait_longer_and_longer() {
    let trigger = Trigger { interval: Some(seconds(0)), log_bytes: Some(1), ..Trigger::default() };
    let failed = Situation { failures: 1, ..situation(0, 64 * MB, 0) };
    assert_eq!(decide(&trigger, &failed), None);
    let demanded = Situation { is_demanded: true, ..failed.clone() };
    assert_eq!(decide(&trigger, &demanded), Some(CheckpointReason::Demand));
    let later = Situation { since_end: seconds(1), ..failed };
    assert_eq!(decide(&trigger, &later), Some(CheckpointReason::LogBytes));
    let trigger = Trigger { log_bytes: Some(1), ..Trigger::default() };
    for (failures, pause) in [(1, 1), (2, 2), (3, 4), (6, 32), (7, 64), (8, 64), (u32::MAX, 64)] {
        let after = |since_end| Situation { failures, ..situation(since_end, MB, 0) };
        assert_eq!(decide(&trigger, &after(pause - 1)), None, "{failures} failures");
        assert_eq!(decide(&trigger, &after(pause)), Some(CheckpointReason::LogBytes), "{failures} failures");
    }
}

#[test]
fn without_settings_and_while_the_log_waits_for_space_only_a_demand_begins_one() {
    assert_eq!(decide(&Trigger::default(), &situation(1 << 20, 1 << 40, 0)), None);
    let trigger = Trigger { interval: Some(seconds(10)), log_bytes: Some(MB), ..Trigger::default() };
    let full = Situation { is_log_full: true, ..situation(20, 64 * MB, 0) };
    assert_eq!(decide(&trigger, &full), None);
    let demanded = Situation { is_demanded: true, ..full };
    assert_eq!(decide(&trigger, &demanded), Some(CheckpointReason::Demand));
}

#[test]
fn a_turn_of_n_begins_after_an_nth_of_the_time() {
    let trigger = Trigger { interval: Some(seconds(12)), ..Trigger::default() };
    let turn = |since_end, turns| Situation { turns, ..situation(since_end, 500 * MB, 0) };
    for (since_end, turns, is_due) in [(11, 1, false), (2, 4, false), (3, 4, true), (1, 12, true)] {
        assert_eq!(
            decide(&trigger, &turn(since_end, turns)).is_some(),
            is_due,
            "{since_end} s of {turns} turns"
        );
    }
}
