//! The driver on toy systems whose rates and epochs are known.
//!
//! Neighbours: [`super`].

use std::thread;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicU64, Ordering};

use super::over_time::over_time_by;
use super::{Pace, Plan, Slice, Subject, over_time, run, run_by};
use crate::failure::{Failure, Result};
use crate::tally::Step;

fn plan(threads: usize, rounds: usize) -> Plan {
    Plan { threads, batch: 1, pace: Pace::Timed(0.05), rounds, seed: 1, pin: None }
}

/// What a toy's transaction takes by the toys' clock, which moves with their transactions only.
const TRANSACTION: Duration = Duration::from_micros(100);

/// Conflicts once in each transaction; a new durable epoch every ten transactions.
struct Toy {
    clock: Clock,
    done: AtomicU64,
    durable: bool,
}

impl Toy {
    fn new(clock: &Clock, durable: bool) -> Self {
        Self { clock: clock.clone(), done: AtomicU64::new(0), durable }
    }

    fn done(&self) -> u64 {
        // Relaxed: a counter that orders nothing.
        self.done.load(Ordering::Relaxed)
    }
}

impl Subject for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn durable_epoch(&self) -> Option<u64> {
        self.durable.then(|| self.done() / 10)
    }

    fn work(&self, slice: &mut Slice<'_>) -> Result<()> {
        slice.repeat(
            || self.durable_epoch().unwrap_or(0),
            |_| {
                // Lets the conductor run, and other tests.
                thread::sleep(Duration::from_micros(20));
                self.clock.advance(TRANSACTION);
                // Relaxed: a count; the threads are joined before it is judged.
                let number = self.done.fetch_add(1, Ordering::Relaxed);
                Ok(Step { committed: 1, conflicts: 1, epoch: if self.durable { number / 10 + 1 } else { 0 } })
            },
        )
    }
}

#[test]
fn systems_take_turns_and_every_round_is_measured() {
    const WORKERS: u64 = 2;
    let clock = Clock::manual();
    let (plain, durable) = (Toy::new(&clock, false), Toy::new(&clock, true));
    let mut turns = Vec::new();
    let rounds = run_by(clock, &[&plain, &durable], &plan(WORKERS as usize, 2), |round, subject, _| {
        turns.push((round, subject.durable_epoch().is_some()));
    })
    .expect("toys do not fail");
    assert_eq!(turns, [(0, false), (0, true), (1, false), (1, true)]);
    for (toy, rounds) in [&plain, &durable].into_iter().zip(&rounds) {
        for round in rounds {
            assert!(round.seconds >= 0.05, "{round:?}");
            // Each transaction that counts takes its time of the window, but for one of each worker and the durable
            // epoch's step.
            let at_most = round.seconds / TRANSACTION.as_secs_f64() + (2 * WORKERS + 10) as f64;
            assert!(round.transactions > 0 && round.transactions as f64 <= at_most, "{round:?}");
            assert!((round.abort_rate() - 0.5).abs() < 1e-9);
            assert!(!round.latencies.is_empty() && round.latencies.min() >= 99_000);
            assert!(!toy.durable || round.transactions % 10 == 0, "whole epochs: {round:?}");
        }
        // The lead-in is a quarter of the window, and does not count.
        let counted: u64 = rounds.iter().map(|round| round.transactions).sum();
        assert!(counted <= toy.done() - 2 * (125 - 2 * WORKERS), "{counted} of {}", toy.done());
    }
}

/// Fails at once in one of its workers, by error or by panic.
struct Broken {
    panics: bool,
}

impl Subject for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn work(&self, slice: &mut Slice<'_>) -> Result<()> {
        let worker = slice.worker;
        slice.repeat(
            || 0,
            |_| {
                assert!(worker == 0 || !self.panics, "planted");
                if worker == 0 { Ok(Step::default()) } else { Err(Failure::Usage("planted".to_owned())) }
            },
        )
    }
}

#[test]
fn a_failing_worker_ends_the_run_and_nobody_waits_for_ever() {
    let failure = run(&[&Broken { panics: false }], &plan(2, 3), |_, _, _| {}).expect_err("it fails");
    assert!(matches!(failure, Failure::Usage(_)), "{failure}");
    let failure = run(&[&Broken { panics: true }], &plan(2, 3), |_, _, _| {}).expect_err("it panics");
    assert!(failure.to_string().contains("planted"), "{failure}");
}

#[test]
fn a_counted_slice_ends_after_its_transactions() {
    let toy = Toy::new(&Clock::manual(), false);
    let plan = Plan { pace: Pace::Counted(50), ..plan(2, 1) };
    let rounds = run(&[&toy], &plan, |_, _, _| {}).expect("toys do not fail");
    assert_eq!(rounds[0][0].transactions, 50);
}

#[test]
fn over_time_a_run_goes_on_until_its_watcher_has_enough() {
    let clock = Clock::manual();
    let durable = Toy::new(&clock, true);
    let mut seen = 0;
    let timeline = over_time_by(&clock, &durable, &plan(2, 1), |nanos| {
        seen = nanos;
        nanos < 200_000_000
    })
    .expect("toys do not fail");
    assert!(seen >= 200_000_000 && timeline.step_count() == (seen / crate::timeline::STEP_NANOS) as usize);
    let all = timeline.part(|_| true);
    // A latency is the time of some of the ten transactions of an epoch, one at least.
    assert!(all.released > 0 && all.quantile_ms(0.5).is_some_and(|ms| ms >= 0.1), "{all:?}");
    assert!(all.released <= durable.done());
}

#[test]
fn over_time_a_failure_ends_the_run() {
    for panics in [false, true] {
        let ended = over_time(&Broken { panics }, &plan(2, 1), |nanos| nanos < 60_000_000_000);
        assert!(ended.expect_err("it fails").to_string().contains("planted"));
    }
}
