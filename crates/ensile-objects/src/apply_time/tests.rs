//! Which calls are timed, and what a sample counts for.

use std::sync::Arc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_sim::SimDisk;

use super::{AppliedTime, EVERY, weigh_sample};
use crate::testing::NoObjects;
use crate::{ObjectDurability, ObjectsBuilder};

#[test]
fn about_one_call_in_64_is_timed_of_one_object_and_of_many() {
    let time = AppliedTime::new(&Clock::machine());
    for of in [|at: u64| at, |at: u64| at << 7, |at: u64| 0x7f00_1234_5600 ^ (at << 20)] {
        let sampled = (0..64_000).filter(|at| time.is_sampled(of(*at))).count() as u64;
        assert!((64_000 / EVERY / 2..64_000 / EVERY * 2).contains(&sampled), "{sampled}");
    }
}

#[test]
fn a_clock_that_a_test_moves_times_each_call() {
    let clock = Clock::manual();
    let time = AppliedTime::new(&clock);
    for at in 0..100 {
        let output = time.measure(at, 3, || {
            clock.advance(Duration::from_nanos(70));
            at
        });
        assert_eq!(output, at);
    }
    assert_eq!(time.total(), 7_000);
}

#[test]
fn one_outlier_counts_little_and_dearer_operations_are_followed() {
    let mut mean = 0;
    let mut counted = |samples: &[u64]| {
        samples.iter().fold(0, |sum, sample| {
            let (counted, next) = weigh_sample(mean, *sample);
            mean = next;
            sum + counted
        })
    };
    counted(&[200; 100]);
    assert_eq!(counted(&[10_000_000]), 8_000, "ten milliseconds without a core");
    counted(&[200; 100]);
    let of = counted(&[20_000; 64]);
    assert!(of > 64 * 20_000 * 9 / 10, "{of}");
}

#[test]
fn what_an_application_changes_is_timed_where_it_is_logged() {
    for (durability, timed) in [(ObjectDurability::Relaxed, 3), (ObjectDurability::NoLog, 0)] {
        let clock = Clock::manual();
        let log = ObjectsBuilder::new("unused")
            .disk(Arc::new(SimDisk::new().mounted()))
            .manual_clock(clock.clone())
            .durability(durability)
            .without_threads()
            .open_application(Arc::new(NoObjects))
            .expect("opens");
        log.change(1, 0, &[], || clock.advance(Duration::from_nanos(3))).map(drop).expect("is made");
        assert_eq!(log.runtime.applied.total(), timed, "{durability:?}");
        log.close().expect("closes");
    }
}
