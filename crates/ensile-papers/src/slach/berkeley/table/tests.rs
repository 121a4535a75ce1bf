//! Rows and their verdicts beside Berkeley DB.
//!
//! Neighbours: [`super`].

use std::cell::Cell;

use ensile_bench::Result;

use super::{Asked, Checkpoints, Schedule, UnderWay};

#[test]
fn what_is_asked_is_read_from_a_line() {
    assert_eq!(Asked::of("lookups 0.5 7"), Some(Asked::Lookups(0.5, 7)));
    assert_eq!(Asked::of("many 2 1"), Some(Asked::Many(2.0, 1)));
    let schedule = Schedule { interval: 0.5, least: 3, most: 60.0 };
    assert_eq!(Asked::of("updates 1 3 0.5 3 60"), Some(Asked::Updates(1.0, 3, schedule)));
    assert_eq!(Asked::of("settle"), Some(Asked::Settle));
    for line in ["", "lookups", "lookups x 1", "updates 1 3 0.5", "settle 1"] {
        assert_eq!(Asked::of(line), None, "{line}");
    }
}

/// A checkpoint that has ended once it was looked at so often.
struct Looks(Cell<u64>);

impl UnderWay for Looks {
    fn bytes_written(&self) -> Result<Option<u64>> {
        self.0.set(self.0.get().saturating_sub(1));
        Ok((self.0.get() == 0).then_some(7))
    }
}

#[test]
fn a_checkpoint_begins_an_interval_behind_the_last_or_at_its_end_and_so_many_are_waited_for() {
    let mut checkpoints = Checkpoints::new(Schedule { interval: 10e-9, least: 4, most: 200e-9 }, 100);
    let mut begun = Vec::new();
    for now in 100..250 {
        // The first one takes 4, the second one 15, the others 4.
        let looks = if begun.len() == 1 { 15 } else { 4 };
        checkpoints
            .look(now, || {
                begun.push(now);
                Looks(Cell::new(looks))
            })
            .expect("none fails");
        if checkpoints.are_enough(now) {
            break;
        }
    }
    assert_eq!(begun, [110, 120, 135, 145]);
    assert_eq!((checkpoints.ended, checkpoints.nanos, checkpoints.bytes), (4, 4 + 15 + 4 + 4, 28));
    assert!(!Checkpoints::<Looks> { ended: 3, ..checkpoints }.are_enough(299), "three are not enough");
    let never = Checkpoints::<Looks>::new(Schedule { interval: 1.0, least: 3, most: 0.5 }, 0);
    assert!(never.are_enough(500_000_000), "the run is given up");
    let none = Checkpoints::<Looks>::new(Schedule { interval: 0.0, least: 3, most: 9.0 }, 0);
    assert!(none.are_enough(0), "a run without checkpoints waits for none");
}
