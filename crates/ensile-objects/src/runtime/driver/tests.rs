//! A thread that drives the log and nothing else keeps E going.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_base::limits::{EPOCH_MICROS_MIN, EPOCHS_RESERVED_MIN};
use ensile_durability::{CheckpointBlock, Slice, Walk};
use ensile_sim::SimDisk;

use crate::testing::NoObjects;
use crate::{ApplicationLog, ObjectsBuilder};

/// Uses this number of epochs.
fn use_epochs(log: &ApplicationLog, clock: &Clock, epochs: u64) {
    for _ in 0..epochs {
        clock.advance(Duration::from_micros(EPOCH_MICROS_MIN));
        let _ = log.runtime.epochs.try_advance_early(clock.nanos());
    }
}

/// A log on a simulated disk, which no thread drives, and its manual clock.
fn open_without_threads() -> (ApplicationLog, Clock) {
    let (disk, clock) = (SimDisk::new(), Clock::manual());
    let log = ObjectsBuilder::new("unused")
        .disk(Arc::new(disk.mounted()))
        .manual_clock(clock.clone())
        .epoch_interval(Duration::from_secs(3600))
        .without_threads()
        .open_application(Arc::new(NoObjects))
        .expect("opens");
    (log, clock)
}

#[test]
fn l6_a_thread_that_waits_for_results_and_never_drives_has_epochs_without_end() {
    let (log, clock) = open_without_threads();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Time goes on while a result is waited for.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                clock.advance(Duration::from_micros(EPOCH_MICROS_MIN));
                std::thread::yield_now();
            }
        });
        for _ in 0..6 {
            use_epochs(&log, &clock, EPOCHS_RESERVED_MIN / 4);
            let logged = log.log(1, 0, &[]).map(|receipt| receipt.epoch());
            let waited = logged.and_then(|epoch| Ok(log.runtime.wait_driving(epoch)?));
            is_over.store(waited.is_err(), Ordering::Relaxed);
            waited.expect("E comes to an end that nobody moves");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    log.close().expect("closes");
}

/// A walk of which nothing can be had.
struct PanickingWalk;

impl Walk for PanickingWalk {
    fn slices(&self, _: usize) -> Vec<Vec<Slice>> {
        resume_unwind(Box::new("a bug"))
    }

    fn walk(&self, _: &Slice, _: &mut Vec<u8>, _: Epoch, _: &mut CheckpointBlock) -> bool {
        resume_unwind(Box::new("a bug"))
    }
}

#[test]
fn l6_epochs_are_reserved_behind_a_checkpointer_that_panicked() {
    let (log, clock) = open_without_threads();
    let runtime = &*log.runtime;
    let _asked = runtime.checkpoints.demand();
    while !runtime.checkpoints.has_panicked() {
        use_epochs(&log, &clock, 1);
        runtime.logger_step(0);
        let _ = catch_unwind(AssertUnwindSafe(|| runtime.checkpoints.step(0, &PanickingWalk)));
    }
    for _ in 0..6 {
        use_epochs(&log, &clock, EPOCHS_RESERVED_MIN / 4);
        runtime.heartbeat_step();
        log.log(1, 0, &[]).expect("epochs are reserved");
    }
    log.close().expect("closes");
}
