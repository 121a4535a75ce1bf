//! Writers keep to the limit, without a burst after a pause.

use super::*;

#[test]
fn without_a_limit_nobody_waits_and_a_pause_is_not_followed_by_a_burst() {
    let mut pace = WritePace::new(None);
    pace.spend(u64::MAX);
    assert_eq!(pace.wait(0), Duration::ZERO);
    let mut pace = WritePace::new(Some(1_000_000));
    assert_eq!(pace.wait(3_600_000_000_000), Duration::ZERO);
    pace.spend(30_000);
    assert_eq!(pace.wait(3_600_000_000_000), Duration::from_millis(20), "10 ms were kept");
}

#[test]
fn a_block_is_paid_for_before_the_next_and_who_waits_as_told_writes_at_the_limit() {
    let mut pace = WritePace::new(Some(1000));
    for (now_ms, spent, wait_ms) in
        [(0, 100, 0), (0, 0, 100), (40, 0, 60), (100, 50, 0), (110, 0, 40), (150, 0, 0)]
    {
        let wait = pace.wait(now_ms * 1_000_000);
        assert_eq!(wait, Duration::from_millis(wait_ms), "at {now_ms} ms");
        pace.spend(spent);
    }
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
        assert!(pace.begin());
        assert_eq!(takes(&mut pace), 9, "as was asked");
        pace.ask(Some(50_000));
        assert_eq!(takes(&mut pace), 9, "a lower rate is of the next one");
        pace.ask(Some(125_000));
        assert_eq!(takes(&mut pace), 7, "the caller of a larger one waits for this one too");
        let _ = pace.begin();
        assert_eq!(takes(&mut pace), 7, "of two callers the larger rate");
        let _ = pace.begin();
        assert_eq!(takes(&mut pace), alone, "nobody asked");
        pace.ask(Some(100_000));
        pace.drop_next_callers();
        let _ = pace.begin();
        assert_eq!(takes(&mut pace), alone, "those who asked were told that there is none");
        pace.ask(Some(100_000));
        pace.ask(None);
        let _ = pace.begin();
        assert_eq!(takes(&mut pace), alone, "one of those who asked has no limit");
        pace.ask(Some(1_000_000_000));
        let _ = pace.begin();
        assert_eq!(takes(&mut pace), alone, "the setting's is lower, or nothing is waited for");
    }
}

#[test]
fn a_rate_holds_while_its_caller_waits_and_no_longer_than_others_can() {
    for setting in [None, Some(200_000)] {
        let mut pace = CheckpointPace::new(setting);
        let rate = |pace: &CheckpointPace| pace.pace.bytes_per_second;
        let [low, high] = [Some(1), Some(100)].map(|rate| pace.ask(rate).expect("it has a rate"));
        assert!(pace.begin());
        assert_eq!(rate(&pace), Some(100));
        pace.remove_caller(high);
        assert_eq!(rate(&pace), Some(1), "the other one still waits");
        let next = pace.ask(Some(50)).expect("it has a rate");
        assert_eq!(rate(&pace), Some(50), "it waits for this one, too");
        pace.remove_caller(next);
        assert_eq!(rate(&pace), Some(1));
        pace.remove_caller(low);
        assert_eq!(rate(&pace), setting, "nobody wants it slow");
        pace.remove_caller(low);
        assert_eq!(pace.ask(None), None);
        assert!(!pace.begin());
        // A caller that left before its checkpoint began.
        let gone = pace.ask(Some(1)).expect("it has a rate");
        pace.remove_caller(gone);
        assert!(!pace.begin());
        assert_eq!(rate(&pace), setting);
        // Others wait who have not asked.
        let low = pace.ask(Some(1)).expect("it has a rate");
        assert!(pace.begin());
        pace.lift_rate_limit();
        assert_eq!(rate(&pace), setting);
        pace.ask(Some(7)).expect("it has a rate");
        pace.remove_caller(low);
        assert_eq!(rate(&pace), setting);
        assert!(pace.begin(), "the next one has its own");
        assert_eq!(rate(&pace), Some(7));
    }
}
