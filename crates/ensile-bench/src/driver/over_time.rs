//! One system under load. The driver notes durable results over time instead of in a window.
//!
//! Neighbours: [`super`] has the slices; [`crate::timeline`] collects the durable results.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_base::sync::AtomicU32;

use super::{Phase, Plan, Slice, Subject, panic_message};
use crate::failure::{Failure, Result};
use crate::machine;
use crate::tally::{SAMPLE_EVERY, Step, Tally};
use crate::timeline::{Recorder, Timeline};

/// Time between two looks of the watcher.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the subject on the plan's threads until `look` returns false or a worker ends. The watcher calls `look` every
/// `LOOK` with the clock's nanoseconds. The run ignores the plan's pace and rounds.
pub fn over_time(subject: &dyn Subject, plan: &Plan, look: impl FnMut(u64) -> bool) -> Result<Timeline> {
    over_time_by(&Clock::machine(), subject, plan, look)
}

/// As [`over_time`], with the given clock.
pub(super) fn over_time_by(
    clock: &Clock,
    subject: &dyn Subject,
    plan: &Plan,
    mut look: impl FnMut(u64) -> bool,
) -> Result<Timeline> {
    let (phase, seen_window) = (Phase(AtomicU32::new(Phase::WINDOW)), AtomicU32::new(0));
    let workers = subject.threads(plan.threads);
    thread::scope(|scope| {
        let (phase, seen_window) = (&phase, &seen_window);
        let running: Vec<_> = (0..workers)
            .map(|worker| {
                scope.spawn(move || work(subject, plan, (worker, workers), (phase, clock, seen_window)))
            })
            .collect();
        let nanos = loop {
            thread::sleep(LOOK);
            let now = clock.nanos();
            if !look(now) || running.iter().any(thread::ScopedJoinHandle::is_finished) {
                break now;
            }
        };
        phase.set(Phase::OVER);
        let recorders = running.into_iter().map(|worker| worker.join().expect("panics are caught in there"));
        Ok(Timeline::new(recorders.collect::<Result<Vec<Recorder>>>()?, nanos))
    })
}

/// The part of one worker.
fn work(
    subject: &dyn Subject,
    plan: &Plan,
    (worker, workers): (usize, usize),
    (phase, clock, seen_window): (&Phase, &Clock, &AtomicU32),
) -> Result<Recorder> {
    if let Some(first) = plan.pin {
        machine::pin_to_core(first + worker)?;
    }
    let durable_source = subject.durable_epoch().is_some();
    let mut slice = Slice {
        worker,
        workers,
        batch: plan.batch,
        random: Random::from_seed(plan.seed ^ ((worker as u64 + 1) << 32)),
        durable_source,
        count: None,
        recorder: Some(Recorder::new(durable_source)),
        phase,
        clock,
        seen_window,
        tally: Tally::new(),
    };
    match catch_unwind(AssertUnwindSafe(|| subject.work(&mut slice))) {
        Ok(outcome) => outcome.map(|()| slice.recorder.expect("it is put back after work")),
        Err(panic) => Err(Failure::Panic(panic_message(panic.as_ref()))),
    }
}

impl Slice<'_> {
    /// Repeats `step` until the run is over, and notes results in the recorder. A worker releases a result as soon as
    /// the worker sees the result durable, at the cost of a compare per step.
    pub(super) fn repeat_over_time(
        &self,
        random: &mut Random,
        recorder: &mut Recorder,
        durable: impl Fn() -> u64,
        mut step: impl FnMut(&mut Random) -> Result<Step>,
    ) -> Result<()> {
        let sample_steps = (SAMPLE_EVERY / u32::try_from(self.batch).unwrap_or(SAMPLE_EVERY)).max(1);
        let mut until_sample = 0;
        while self.phase.get() != Phase::OVER {
            if until_sample > 0 {
                until_sample -= 1;
                recorder.note(step(random)?);
            } else {
                until_sample = sample_steps;
                let started = self.clock.nanos();
                let done = step(random)?;
                recorder.note(done);
                recorder.sample(done, started, self.clock.nanos());
            }
            let durable = durable();
            if recorder.has_moved(durable) {
                recorder.release(durable, self.clock.nanos());
            }
        }
        Ok(())
    }
}
