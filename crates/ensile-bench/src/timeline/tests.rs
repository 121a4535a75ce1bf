//! A result counts in the step in which it became durable.

use super::{Recorder, STEP_NANOS, Timeline};
use crate::tally::Step;

fn step(epoch: u64, committed: u32) -> Step {
    Step { committed, conflicts: 0, epoch }
}

#[test]
fn a_result_counts_in_the_step_in_which_its_epoch_is_durable() {
    let mut recorder = Recorder::new(true);
    for (epoch, committed) in [(5, 10), (6, 7), (5, 1), (7, 100)] {
        recorder.note(step(epoch, committed));
    }
    recorder.sample(step(5, 1), 1_000, 2_000);
    assert!(!recorder.has_moved(0) && recorder.has_moved(4));
    recorder.release(4, STEP_NANOS / 2);
    recorder.release(5, STEP_NANOS + 1_000);
    recorder.release(6, 3 * STEP_NANOS);
    let timeline = Timeline::new(vec![recorder], 4 * STEP_NANOS + 1);
    assert_eq!(timeline.released, [0, 11, 0, 7]);
    let all = timeline.part(|_| true);
    assert_eq!((all.released, all.mean_ms()), (18, Some(STEP_NANOS as f64 / 1e6)));
    assert_eq!(timeline.part(|step| step == 3).quantile_ms(0.5), None);
}

#[test]
fn without_a_log_a_result_counts_when_the_clock_is_next_read() {
    let mut recorder = Recorder::new(false);
    recorder.note(step(0, 3));
    recorder.note(step(0, 2));
    recorder.sample(step(0, 2), STEP_NANOS, STEP_NANOS + 4_000);
    let timeline = Timeline::new(vec![recorder], 2 * STEP_NANOS);
    assert_eq!(timeline.released, [0, 5]);
    assert_eq!(timeline.part(|_| true).quantile_ms(0.999), Some(0.004));
}

#[test]
fn windows_roll_over_half_a_second_and_what_only_read_is_no_latency_of_a_log() {
    let mut recorder = Recorder::new(true);
    for at in 0..20 {
        recorder.note(step(at + 1, 4));
        recorder.note(step(0, 1));
        recorder.sample(step(0, 1), at * STEP_NANOS, at * STEP_NANOS + 1);
        recorder.release(at + 1, at * STEP_NANOS + 2);
    }
    let timeline = Timeline::new(vec![recorder], 20 * STEP_NANOS);
    let rolling = timeline.rolling(1);
    assert_eq!((rolling.len(), rolling[0].0, rolling[10].0), (11, 0.5, 1.0));
    assert!(rolling.iter().all(|(_, part)| part.rate() == 100.0 && part.mean_ms().is_none()));
}
