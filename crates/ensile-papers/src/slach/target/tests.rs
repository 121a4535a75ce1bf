//! How many checkpoints would do, what is asked for, and what is heard of a victim.

use super::{Life, Measured, Moment, fewest_of, hear};

fn moment(look: i32, replay: f64, installed: u64) -> Moment {
    Moment {
        at: f64::from(look) * 20.0,
        total: 500.0 + replay,
        loading: 500.0,
        replay,
        checkpoint: 40.0,
        installed,
    }
}

#[test]
fn the_fewest_begin_as_late_as_they_may() {
    // 10 ms of replay every 20 ms; 500 ms of replay are left beside loading. A checkpoint takes two looks.
    let moments: Vec<Moment> = (0..151).map(|look| moment(look, f64::from(look) * 10.0, 0)).collect();
    assert_eq!(fewest_of(&moments, 1_000.0), 3);
    assert_eq!(fewest_of(&moments[..50], 1_000.0), 0);
    // The victim's own checkpoints take nothing from what was logged.
    let own: Vec<Moment> =
        (0..154).map(|look| moment(look, f64::from(look % 51) * 10.0, look as u64 / 51)).collect();
    assert_eq!(fewest_of(&own, 1_000.0), 3);
}

#[test]
fn what_is_asked_for_is_of_each_kill() {
    let life = |open_seconds| Life { open_seconds, moments: vec![moment(0, 500.0, 1)], refused: None };
    let good = Measured::of(1.0, &[life(0.1), life(1.19), life(1.0)]);
    assert!(!good.is_as_asked(), "two checkpoints, and none was needed");
    let mut good = good;
    good.fewest = 2;
    assert!(good.is_as_asked());
    assert_eq!(good.of_target, [1.19, 1.0]);
    good.of_target.push(1.21);
    assert!(!good.is_as_asked());
}

#[test]
fn lines_are_heard_and_a_cut_one_is_not() {
    let mut life = Life::default();
    assert!(!hear(&mut life, "open 1500000000"));
    assert!(!hear(&mut life, "at 1 2 3 4 5 6"));
    assert!(!hear(&mut life, "at 1 2 3"));
    assert!(!hear(&mut life, "refused a recovery time of 1ms cannot be kept"));
    assert!(hear(&mut life, "ready"));
    assert_eq!((life.open_seconds, life.moments.len()), (1.5, 1));
    assert!(life.refused.is_some_and(|why| why.starts_with("a recovery time")));
}
