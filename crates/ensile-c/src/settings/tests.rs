//! What the settings of the policy come to: the paper's table 3 but for what is set, in whatever order that is.

use std::time::Duration;

use ensile_objects::{AdaptiveThreshold, CheckpointPolicy};

use super::SettingValues;
use super::numbers as n;

/// The policy behind these settings.
fn policy(settings: &[(u32, u64)]) -> CheckpointPolicy {
    let mut values = SettingValues::new();
    for (setting, value) in settings {
        values.set(*setting, *value).unwrap_or_else(|why| panic!("{setting}: {}", why.message));
    }
    values.policy()
}

fn adaptive(threshold: AdaptiveThreshold) -> CheckpointPolicy {
    CheckpointPolicy { adaptive: Some(threshold), ..CheckpointPolicy::on_demand() }
}

#[test]
fn a_capacity_alone_is_the_whole_policy_with_the_papers_bounds() {
    assert_eq!(policy(&[]), CheckpointPolicy::default());
    let capacity = (n::POLICY_ADAPTIVE_CAPACITY, 56_000);
    let records = (n::POLICY_ADAPTIVE_MEASURE, 1);
    for settings in [[capacity, records], [records, capacity]] {
        assert_eq!(policy(&settings), adaptive(AdaptiveThreshold::of_ups(56_000)));
    }
    assert_eq!(policy(&[capacity]), adaptive(AdaptiveThreshold::of_capacity(56_000)));
    let time = (n::POLICY_ADAPTIVE_MEASURE, u64::from(n::MEASURE_TIME));
    assert_eq!(policy(&[capacity, time]), adaptive(AdaptiveThreshold::of_time(56_000)));
    assert_eq!(policy(&[capacity, (n::POLICY_ADAPTIVE_CAPACITY, 0)]), CheckpointPolicy::default());
    let given = AdaptiveThreshold { upper: 9_000_000, scaling: 6, ..AdaptiveThreshold::of_ups(56_000) };
    let settings =
        [(n::POLICY_ADAPTIVE_UPPER, 9_000_000), records, capacity, (n::POLICY_ADAPTIVE_SCALING, 6)];
    assert_eq!(policy(&settings), adaptive(given));
}

#[test]
fn what_is_set_beside_a_capacity_stays_a_reason() {
    let capacity = (n::POLICY_ADAPTIVE_CAPACITY, 7);
    let interval = (n::POLICY_INTERVAL_MILLIS, 1000);
    let wanted = CheckpointPolicy {
        interval: Some(Duration::from_secs(1)),
        ..adaptive(AdaptiveThreshold::of_capacity(7))
    };
    assert_eq!(policy(&[capacity, interval]), wanted);
    assert_eq!(policy(&[interval, capacity]), wanted);
    let bytes = CheckpointPolicy { log_bytes: Some(9), ..CheckpointPolicy::default() };
    assert_eq!(policy(&[(n::POLICY_LOG_BYTES, 9)]), bytes, "the others are as usual");
}

#[test]
fn on_demand_takes_back_all_of_the_policy() {
    let all = [
        (n::POLICY_ADAPTIVE_LOWER, 1),
        (n::POLICY_ADAPTIVE_UPPER, 2),
        (n::POLICY_ADAPTIVE_MEASURE, 1),
        (n::POLICY_ADAPTIVE_PROBED, 1),
        (n::POLICY_ADAPTIVE_WEIGHT, 3),
        (n::POLICY_ADAPTIVE_CAPACITY, 5),
        (n::POLICY_LOG_BYTES, 6),
        (n::POLICY_LOG_RECORDS, 7),
        (n::POLICY_INTERVAL_MILLIS, 8),
        (n::POLICY_RECOVERY_MILLIS, 9),
        (n::POLICY_ON_DEMAND, 0),
    ];
    assert_eq!(policy(&all), CheckpointPolicy::on_demand());
    let again = [&all[..], &[(n::POLICY_ADAPTIVE_CAPACITY, 5)]].concat();
    assert_eq!(policy(&again), adaptive(AdaptiveThreshold::of_capacity(5)));
}
