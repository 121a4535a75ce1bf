//! What the options come to: the policy, its defaults, and what cannot stand together.

use std::time::Duration;

use clap::Parser;
use ensile_net::KEEPALIVE_SECONDS_MAX;
use ensile_objects::{AdaptiveThreshold, CheckpointPolicy};

use crate::command::{ServeArguments, ServiceKind};

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    serve: ServeArguments,
}

fn parsed(line: &str) -> Result<ServeArguments, String> {
    let words = ["service", "pht", "--data", "x"].into_iter().chain(line.split_whitespace());
    Line::try_parse_from(words).map(|line| line.serve).map_err(|error| error.to_string())
}

fn policy(service: ServiceKind, line: &str) -> CheckpointPolicy {
    parsed(line).expect("it is a command line").checkpoints.policy(service)
}

#[test]
fn what_is_asked_for_is_the_whole_policy() {
    let of = |line| policy(ServiceKind::Pht, line);
    let none = CheckpointPolicy::on_demand;
    assert_eq!(of(""), CheckpointPolicy::default());
    assert_eq!(of("--checkpoint-on-demand"), none());
    assert_eq!(of("--checkpoint-records 9"), CheckpointPolicy { log_records: Some(9), ..none() });
    assert_eq!(of("--checkpoint-bytes 9"), CheckpointPolicy { log_bytes: Some(9), ..none() });
    let second = Some(Duration::from_secs(1));
    assert_eq!(of("--checkpoint-ms 1000"), CheckpointPolicy { interval: second, ..none() });
    assert_eq!(of("--recovery-ms 1000"), CheckpointPolicy { recovery_time: second, ..none() });
    let both = CheckpointPolicy { interval: second, log_records: Some(9), ..none() };
    assert_eq!(of("--checkpoint-ms 1000 --checkpoint-records 9"), both);
}

#[test]
fn a_keepalive_is_as_long_as_sockets_take_at_most() {
    let of = |seconds: u64| parsed(&format!("--tcp-keepalive {seconds}")).map(|line| line.tcp_keepalive);
    assert_eq!(of(KEEPALIVE_SECONDS_MAX), Ok(KEEPALIVE_SECONDS_MAX));
    let refused = of(KEEPALIVE_SECONDS_MAX + 1).expect_err("sockets would take less");
    assert!(refused.contains(&format!("not in 0..={KEEPALIVE_SECONDS_MAX}")), "{refused}");
}

#[test]
fn checkpoints_give_way_as_asked_and_not_by_themselves() {
    let opened_with = |line| {
        format!("{:?}", parsed(line).expect("it is a command line").objects().expect("nothing is shipped"))
    };
    assert!(opened_with("").contains("niceness: 0,"));
    assert!(opened_with("--checkpoint-niceness 10").contains("niceness: 10,"));
    assert_eq!(policy(ServiceKind::Pht, "--checkpoint-niceness 10"), CheckpointPolicy::default());
}

#[test]
fn an_adaptive_threshold_is_table_3s_but_for_what_is_given() {
    let of = |service, line| policy(service, line).adaptive;
    let capacity = "--adaptive 1000";
    for service in [ServiceKind::Pht, ServiceKind::Ups] {
        assert_eq!(of(service, capacity), Some(AdaptiveThreshold::of_ups(1000)));
    }
    let his = AdaptiveThreshold::of_his(1000);
    assert_eq!(of(ServiceKind::His, capacity), Some(his));
    let given = "--adaptive 1000 --adaptive-lower 1 --adaptive-upper 2 --adaptive-low-watermark 3 \
                 --adaptive-high-watermark 4 --adaptive-scaling 5 --adaptive-weight 6 --adaptive-window-ms 7000 \
                 --adaptive-probed";
    let all = AdaptiveThreshold {
        lower: 1,
        upper: 2,
        low_watermark: 3,
        high_watermark: 4,
        scaling: 5,
        weight: 6,
        window: Duration::from_secs(7),
        is_probed: true,
        ..his
    };
    assert_eq!(of(ServiceKind::His, given), Some(all));
    // Bounds of time and of bytes with the watermarks of the service.
    let time = AdaptiveThreshold::of_time(1000);
    assert_eq!(of(ServiceKind::Ups, "--adaptive 1000 --adaptive-measure time"), Some(time));
    let time = AdaptiveThreshold { low_watermark: 35, scaling: 6, ..time };
    assert_eq!(of(ServiceKind::His, "--adaptive 1000 --adaptive-measure time"), Some(time));
    let bytes = AdaptiveThreshold::of_capacity(1000);
    assert_eq!(of(ServiceKind::Pht, "--adaptive 1000 --adaptive-measure bytes"), Some(bytes));
}

#[test]
fn a_shared_folder_that_is_not_there_is_told_before_anything_is_opened() {
    let refused = parsed("--ship-to /nowhere/at/all").expect("it is a command line").objects().err();
    let told = refused.expect("there is no such folder").to_string();
    assert!(told.contains("/nowhere/at/all"), "{told}");
}

#[test]
fn what_cannot_stand_together_is_refused() {
    for (line, named) in [
        ("--no-log --durability process", "--durability"),
        ("--no-log --checkpoint-ms 1000", "--checkpoint-ms"),
        ("--no-log --recovery-ms 1000", "--recovery-ms"),
        ("--checkpoint-on-demand --checkpoint-records 9", "--checkpoint-records"),
        ("--adaptive-lower 9", "--adaptive <REQUESTS>"),
        ("--adaptive-probed", "--adaptive <REQUESTS>"),
        ("--adaptive-measure time", "--adaptive <REQUESTS>"),
        ("--adaptive 9 --adaptive-measure miles", "miles"),
        ("--ship-bandwidth 9", "--ship-to <FOLDER>"),
        ("--ship-to x --no-log", "--no-log"),
        ("--checkpoint-records 0", "--checkpoint-records"),
        ("--checkpoint-niceness 20", "0..=19"),
        ("--checkpoint-niceness -1", "-1"),
    ] {
        let said = parsed(line).expect_err(line);
        assert!(said.contains(named), "{line}: {said}");
    }
    assert!(parsed("--no-log --checkpoint-on-demand").is_ok());
}
