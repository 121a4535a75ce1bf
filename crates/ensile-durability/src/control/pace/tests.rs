//! Writers keep to the limit, without a burst after a pause.

use super::{CheckpointPace, WritePace};
use std::time::Duration;

#[test]
fn without_a_limit_nobody_waits() {
    let mut pace = WritePace::new(None);
    pace.spend(u64::MAX);
    assert_eq!(pace.wait(0), Duration::ZERO);
}

#[test]
fn a_block_is_paid_for_before_the_next() {
    let mut pace = WritePace::new(Some(1000));
    for (now_ms, spent, wait_ms) in
        [(0, 100, 0), (0, 0, 100), (40, 0, 60), (100, 50, 0), (110, 0, 40), (150, 0, 0)]
    {
        let wait = pace.wait(now_ms * 1_000_000);
        assert_eq!(wait, Duration::from_millis(wait_ms), "at {now_ms} ms");
        pace.spend(spent);
    }
}

#[test]
fn a_pause_is_not_followed_by_a_burst() {
    let mut pace = WritePace::new(Some(1_000_000));
    assert_eq!(pace.wait(3_600_000_000_000), Duration::ZERO);
    pace.spend(30_000);
    assert_eq!(pace.wait(3_600_000_000_000), Duration::from_millis(20), "10 ms were kept");
}

#[test]
fn a_writer_that_waits_as_told_writes_at_the_limit() {
    let (mut pace, mut now, mut written) = (WritePace::new(Some(300 << 20)), 0, 0_u64);
    while now < 10_000_000_000 {
        now += pace.wait(now).as_nanos() as u64;
        pace.spend(256 << 10);
        written += 256 << 10;
        now += 1_000;
    }
    let expected = 3000_u64 << 20;
    assert!(written > expected / 100 * 99 && written < expected / 100 * 101, "{written} of {expected}");
}

#[test]
fn a_checkpoint_has_the_rate_at_which_it_was_asked_for_and_delays_no_other_caller() {
    // How long a thousand bytes take, in ms.
    let mut now = 0;
    let mut takes = |pace: &mut CheckpointPace| {
        now += 1_000_000_000_000;
        assert_eq!(pace.wait(now), Duration::ZERO);
        pace.spend(1_000_000);
        pace.wait(now).as_millis() / 1_000
    };
    for (setting, alone) in [(None, 0), (Some(200_000), 4)] {
        let mut pace = CheckpointPace::new(setting);
        assert_eq!(takes(&mut pace), alone);
        pace.ask(Some(100_000));
        pace.begin();
        assert_eq!(takes(&mut pace), 9, "as was asked");
        pace.ask(Some(50_000));
        assert_eq!(takes(&mut pace), 9, "a lower rate is of the next one");
        pace.ask(Some(125_000));
        assert_eq!(takes(&mut pace), 7, "the caller of a larger one waits for this one too");
        pace.begin();
        assert_eq!(takes(&mut pace), 7, "of two callers the larger rate");
        pace.begin();
        assert_eq!(takes(&mut pace), alone, "nobody asked");
        pace.ask(Some(100_000));
        pace.put_off();
        pace.begin();
        assert_eq!(takes(&mut pace), alone, "those who asked were told that there is none");
        pace.ask(Some(100_000));
        pace.ask(None);
        pace.begin();
        assert_eq!(takes(&mut pace), alone, "one of those who asked has no limit");
        pace.ask(Some(1_000_000_000));
        pace.begin();
        assert_eq!(takes(&mut pace), alone, "the setting's is lower, or nothing is waited for");
    }
}
