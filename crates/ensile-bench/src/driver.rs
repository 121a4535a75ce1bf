//! Runs several systems under the same load in one process: kept worker threads, interleaved slices, timed windows.
//!
//! In every round each system has the machine for one slice (A B C, A B C, ...). So noise slower than a round hits the
//! systems alike. A slice is a lead-in, in which caches and pipelines fill, and then the timed window.
//!
//! Invariants:
//! - The loop around a transaction ([`Slice::repeat`]) is the same code for every system: one load of the phase, a
//!   countdown to the next latency sample, the counters.
//! - For a system with a log both ends of the window stand at a step of the durable epoch. So the length of an epoch
//!   does not blur the number of results made durable in between (see [`crate::tally`]).
//! - A timed window stays open until every worker has done a step in the window, and steps before the window never
//!   count: on a busy machine a worker may not run for longer than a short window lasts.
//! - A worker that fails or panics ends the run; no other worker is left waiting at a barrier.
//!
//! Neighbours: the systems of each workload implement [`Subject`]; `report` makes figures of rounds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_base::panic_text;
use ensile_base::random::Random;
use ensile_base::sync::{AtomicU32, Mutex, Ordering};
use hdrhistogram::Histogram;

use crate::failure::{Failure, Result};
use crate::machine;
use crate::tally::{SAMPLE_EVERY, Step, Tally, new_histogram};
use crate::timeline::Recorder;

pub(crate) mod conducted;
mod over_time;

pub use over_time::over_time;

/// A system under load, as the driver sees it.
pub trait Subject: Sync {
    /// Name of the system in tables and JSON.
    fn name(&self) -> &'static str;

    /// The durable epoch, for a system whose transactions count when durable.
    fn durable_epoch(&self) -> Option<u64> {
        None
    }

    /// Number of threads that the system can use, of the `asked` worker threads.
    fn threads(&self, asked: usize) -> usize {
        asked
    }

    /// Number of transactions that run beside each other. The default is the number of threads.
    fn parallelism(&self, asked: usize) -> usize {
        self.threads(asked)
    }

    /// Runs transactions through [`Slice::repeat`] until the slice ends.
    fn work(&self, slice: &mut Slice<'_>) -> Result<()>;

    /// Called between slices, when no worker runs. The system has time to settle.
    fn settle(&self) {}
}

/// Begin and end of a slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// After this many seconds of window.
    Timed(f64),
    /// After this many transactions in total, without a lead-in: for counting instructions.
    Counted(u64),
    /// Begin and end are commands of another process on standard input: see `system::processes`.
    Conducted,
}

/// Length and number of slices, and number of threads.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of worker threads.
    pub threads: usize,
    /// Transactions per step.
    pub batch: usize,
    /// Begin and end of a slice.
    pub pace: Pace,
    /// Number of rounds.
    pub rounds: usize,
    /// Seed of the random numbers of all workers.
    pub seed: u64,
    /// The core of the first worker; `None` if workers are not pinned.
    pub pin: Option<usize>,
}

/// The figures of one system in one round.
#[derive(Clone, Debug)]
pub struct Round {
    pub(crate) seconds: f64,
    /// Number of transactions that count.
    pub transactions: u64,
    pub(crate) attempts: u64,
    pub(crate) conflicts: u64,
    /// Sampled latencies, in nanoseconds.
    pub latencies: Histogram<u64>,
}

impl Round {
    /// Transactions per second.
    pub fn rate(&self) -> f64 {
        self.transactions as f64 / self.seconds
    }

    /// The share of attempts that ended in a conflict.
    pub fn abort_rate(&self) -> f64 {
        if self.attempts == 0 { 0.0 } else { self.conflicts as f64 / self.attempts as f64 }
    }
}

/// The present phase of the workers: one word, written by the conductor only.
#[derive(Debug)]
struct Phase(AtomicU32);

impl Phase {
    const LEAD_IN: u32 = 0;
    const WINDOW: u32 = 1;
    const OVER: u32 = 2;

    // Relaxed, here and in `set`: the phase carries no data. A mutex hands over the tallies of the workers, and the
    // barrier orders slices against each other.
    #[inline]
    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, phase: u32) {
        // Relaxed: see `get`.
        self.0.store(phase, Ordering::Relaxed);
    }
}

/// One worker's turn on one system.
#[derive(Debug)]
pub struct Slice<'a> {
    /// Number of this worker, from 0.
    pub worker: usize,
    /// Number of worker threads that run this slice.
    pub workers: usize,
    /// Transactions per step.
    pub(crate) batch: usize,
    /// Random numbers of this worker, the same for each system of a round.
    pub(crate) random: Random,
    durable_source: bool,
    /// Number of transactions of this worker; `None` if the slice is timed.
    count: Option<u64>,
    /// Recorder of results over time, if the run has a timeline.
    recorder: Option<Recorder>,
    phase: &'a Phase,
    clock: &'a Clock,
    /// Number of workers that have done a step in the window.
    seen_window: &'a AtomicU32,
    tally: Tally,
}

impl Slice<'_> {
    /// Repeats `step` until the slice ends. `durable` returns the durable epoch when a latency is sampled.
    #[inline]
    pub fn repeat(
        &mut self,
        durable: impl Fn() -> u64,
        mut step: impl FnMut(&mut Random) -> Result<Step>,
    ) -> Result<()> {
        if let Some(count) = self.count {
            self.tally.open_window();
            while self.tally.committed() < count {
                self.tally.note(step(&mut self.random)?);
            }
            return Ok(());
        }
        if let Some(mut recorder) = self.recorder.take() {
            let mut random = self.random.clone();
            let outcome = self.repeat_over_time(&mut random, &mut recorder, durable, step);
            self.recorder = Some(recorder);
            return outcome;
        }
        let sample_steps = (SAMPLE_EVERY / u32::try_from(self.batch).unwrap_or(SAMPLE_EVERY)).max(1);
        let mut until_sample = 0;
        let mut phase = Phase::LEAD_IN;
        let mut is_first = false;
        loop {
            let now = self.phase.get();
            if now != phase {
                if now == Phase::OVER {
                    return Ok(());
                }
                phase = now;
                self.tally.open_window();
                // The first step in the window is sampled.
                until_sample = 0;
                is_first = true;
            }
            if until_sample > 0 {
                until_sample -= 1;
                self.tally.note(step(&mut self.random)?);
                continue;
            }
            until_sample = sample_steps;
            let started = self.clock.nanos();
            let done = step(&mut self.random)?;
            let durable = self.durable_source.then(&durable);
            self.tally.note(done);
            self.tally.sample(done, started, self.clock.nanos(), durable);
            if std::mem::take(&mut is_first) {
                // Relaxed: the conductor only counts; a mutex hands over the tallies.
                self.seen_window.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// The slice of a subject whose transactions run in other processes.
impl Slice<'_> {
    /// Waits for the window to open.
    pub(crate) fn until_window(&self) {
        while self.phase.get() == Phase::LEAD_IN {
            thread::sleep(GLANCE);
        }
        // Relaxed: as in `repeat`.
        self.seen_window.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for the slice to end.
    pub(crate) fn until_over(&self) {
        while self.phase.get() != Phase::OVER {
            thread::sleep(GLANCE);
        }
    }

    /// Counts a step of another process.
    pub(crate) fn note(&mut self, step: Step) {
        self.tally.note(step);
    }
}

/// Time between two looks of a thread that waits for a phase or an epoch.
const GLANCE: Duration = Duration::from_micros(200);

/// The measured length of a timed window.
struct Window {
    nanos: u64,
    /// The durable epochs at both ends, if transactions count when durable.
    durable: Option<(u64, u64)>,
}

/// The state shared by the conductor and the workers.
struct Stage<'a> {
    subjects: &'a [&'a dyn Subject],
    plan: &'a Plan,
    clock: Clock,
    phase: Phase,
    seen_window: AtomicU32,
    barrier: Barrier,
    tallies: Mutex<Vec<Tally>>,
    failure: Mutex<Option<Failure>>,
}

impl Stage<'_> {
    fn fail(&self, failure: Failure) {
        self.failure.lock().get_or_insert(failure);
    }

    fn failed(&self) -> bool {
        self.failure.lock().is_some()
    }

    /// The life of a worker thread: its share of every slice of every round.
    fn worker(&self, worker: usize) {
        if let Some(first) = self.plan.pin
            && let Err(failure) = machine::pin_to_core(first + worker)
        {
            self.fail(failure);
        }
        for round in 0..self.plan.rounds {
            for subject in self.subjects {
                self.barrier.wait();
                let workers = subject.threads(self.plan.threads);
                if worker < workers && !self.failed() {
                    self.slice(*subject, worker, workers, round);
                }
                self.barrier.wait();
            }
        }
    }

    fn slice(&self, subject: &dyn Subject, worker: usize, workers: usize, round: usize) {
        let seed = self.plan.seed ^ ((worker as u64 + 1) << 32) ^ ((round as u64 + 1) << 48);
        let mut slice = Slice {
            worker,
            workers,
            batch: self.plan.batch,
            random: Random::from_seed(seed),
            durable_source: subject.durable_epoch().is_some(),
            count: match self.plan.pace {
                Pace::Counted(count) => Some(count.div_ceil(workers as u64)),
                Pace::Timed(_) | Pace::Conducted => None,
            },
            recorder: None,
            phase: &self.phase,
            clock: &self.clock,
            seen_window: &self.seen_window,
            tally: Tally::new(),
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| subject.work(&mut slice)));
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => self.fail(failure),
            Err(panic) => self.fail(Failure::Panic(panic_message(panic.as_ref()))),
        }
        self.tallies.lock().push(slice.tally);
    }

    /// Conducts one slice; returns the window, and the sum of the workers' counters.
    fn conduct(&self, subject: &dyn Subject) -> Round {
        self.phase.set(Phase::LEAD_IN);
        // Relaxed: no worker runs; the barrier orders this before their slices.
        self.seen_window.store(0, Ordering::Relaxed);
        let window = match self.plan.pace {
            Pace::Timed(seconds) => self.timed(subject, seconds),
            Pace::Counted(_) => self.counted(),
            Pace::Conducted => self.conducted(),
        };
        let mut round = Round {
            seconds: window.nanos.max(1) as f64 / 1e9,
            transactions: 0,
            attempts: 0,
            conflicts: 0,
            latencies: new_histogram(),
        };
        for tally in self.tallies.lock().drain(..) {
            round.transactions += match window.durable {
                Some((after, up_to)) => tally.released(after, up_to),
                None => tally.committed(),
            };
            round.attempts += tally.committed() + tally.conflicts();
            round.conflicts += tally.conflicts();
            round.latencies.add(tally.latencies()).expect("histograms of the same bounds");
        }
        round
    }

    fn timed(&self, subject: &dyn Subject, seconds: f64) -> Window {
        self.barrier.wait();
        self.sleep((seconds / 4.0).min(0.5));
        let ([opened, _], after) = self.edge(subject, seconds);
        self.phase.set(Phase::WINDOW);
        self.sleep(seconds);
        self.await_workers(subject);
        let ([_, closed], up_to) = self.edge(subject, seconds);
        self.phase.set(Phase::OVER);
        // Without a durable epoch every step done by now counts, and the conductor may have been kept from running.
        let closed = if up_to.is_some() { closed } else { self.clock.nanos() };
        self.barrier.wait();
        Window { nanos: closed.saturating_sub(opened), durable: after.zip(up_to) }
    }

    fn counted(&self) -> Window {
        self.barrier.wait();
        let opened = self.clock.nanos();
        self.barrier.wait();
        Window { nanos: self.clock.nanos() - opened, durable: None }
    }

    fn conducted(&self) -> Window {
        conducted::await_word(conducted::START);
        self.barrier.wait();
        conducted::await_word(conducted::OPEN);
        let opened = self.clock.nanos();
        self.phase.set(Phase::WINDOW);
        conducted::await_word(conducted::CLOSE);
        self.phase.set(Phase::OVER);
        let nanos = self.clock.nanos() - opened;
        self.barrier.wait();
        Window { nanos, durable: None }
    }

    /// Waits until each worker has done a step in the window.
    fn await_workers(&self, subject: &dyn Subject) {
        let workers = subject.threads(self.plan.threads).min(self.plan.threads) as u32;
        // Relaxed: a count.
        while self.seen_window.load(Ordering::Relaxed) < workers && !self.failed() {
            thread::sleep(GLANCE);
        }
    }

    /// An end of the window: the time just before, the time just after and, if transactions count when durable, the
    /// durable epoch in between. The end is the next step of the durable epoch, or a tenth of the window later if the
    /// epoch does not move.
    fn edge(&self, subject: &dyn Subject, seconds: f64) -> ([u64; 2], Option<u64>) {
        let Some(before) = subject.durable_epoch() else {
            return ([self.clock.nanos(); 2], None);
        };
        let give_up = self.clock.nanos() + (seconds * 1e8) as u64;
        loop {
            let looked = self.clock.nanos();
            let durable = subject.durable_epoch();
            let now = self.clock.nanos();
            if durable != Some(before) || now >= give_up || self.failed() {
                return ([looked, now], durable);
            }
            thread::sleep(GLANCE);
        }
    }

    /// Sleeps in pieces, so that the failure of a worker ends the run soon.
    fn sleep(&self, seconds: f64) {
        let until = self.clock.nanos() + (seconds * 1e9) as u64;
        loop {
            let left = until.saturating_sub(self.clock.nanos());
            if left == 0 || self.failed() {
                return;
            }
            thread::sleep(Duration::from_nanos(left.min(100_000_000)));
        }
    }
}

/// The text of a panic, or "no message".
pub fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic_text(panic).unwrap_or("no message").to_owned()
}

/// Runs every subject in every round; returns one list of rounds per subject. `progress` is called after each slice.
pub fn run(
    subjects: &[&dyn Subject],
    plan: &Plan,
    progress: impl FnMut(usize, &dyn Subject, &Round),
) -> Result<Vec<Vec<Round>>> {
    run_by(Clock::machine(), subjects, plan, progress)
}

/// Runs as [`run`] does, with the given clock.
fn run_by(
    clock: Clock,
    subjects: &[&dyn Subject],
    plan: &Plan,
    mut progress: impl FnMut(usize, &dyn Subject, &Round),
) -> Result<Vec<Vec<Round>>> {
    let stage = Stage {
        subjects,
        plan,
        clock,
        phase: Phase(AtomicU32::new(Phase::LEAD_IN)),
        seen_window: AtomicU32::new(0),
        barrier: Barrier::new(plan.threads + 1),
        tallies: Mutex::new(Vec::new()),
        failure: Mutex::new(None),
    };
    let mut rounds: Vec<Vec<Round>> = subjects.iter().map(|_| Vec::new()).collect();
    thread::scope(|scope| {
        for worker in 0..plan.threads {
            let stage = &stage;
            scope.spawn(move || stage.worker(worker));
        }
        for number in 0..plan.rounds {
            for (subject, done) in subjects.iter().zip(&mut rounds) {
                let round = stage.conduct(*subject);
                if !stage.failed() {
                    progress(number, *subject, &round);
                }
                done.push(round);
                subject.settle();
            }
        }
    });
    match stage.failure.into_inner() {
        Some(failure) => Err(failure),
        None => Ok(rounds),
    }
}

#[cfg(test)]
mod tests;
