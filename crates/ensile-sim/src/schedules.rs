//! Schedules: runs a body of threads again and again under shuttle; a seed decides each run.
//!
//! The seed of a run decides the running thread at each step and the random numbers of the body. A failure is reported
//! with its seed, and the seed repeats the run. The pace of a run is drawn first: threads change at every step, or run
//! on for a while. Now and then a thread rests for long at an arbitrary point, a rare event with evenly drawn steps. A
//! run with too many steps (a deadlock of spinning threads, a livelock) fails as well.
//!
//! Neighbours: tests of whole structures under `--cfg shuttle`; threads are shuttle's, atomics are from
//! `ensile_base::sync`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Once;

use ensile_base::panic_text;
use ensile_base::random::Random;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use crate::environment;

/// Stack of each thread in bytes: the engine's scans copy a leaf and collect paths there.
const STACK_BYTES: usize = 256 << 10;
/// Longest rest of a thread, in steps of the other threads.
const REST_STEPS_MAX: u64 = 3_000;

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Seed that repeats the failure.
    pub seed: u64,
    /// Number of runs up to the failure.
    pub runs: u64,
    /// Text of the run's panic.
    pub what: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "run {} failed; ENSILE_SEED={} ENSILE_SCHEDULES=1 runs it again:\n{}",
            self.runs, self.seed, self.what
        )
    }
}

/// Runs `body` under `ENSILE_SCHEDULES` (or `count`) schedules, from seed `ENSILE_SEED` (or 0) on, each of at most
/// `steps_max` steps.
///
/// # Panics
/// With the seed and text of the first failure.
pub fn check(count: u64, steps_max: usize, body: impl Fn() + Send + Sync + 'static) {
    let first_seed = environment::number("ENSILE_SEED", 0);
    let count = environment::count("ENSILE_SCHEDULES", count);
    if let Err(failure) = find_failure(first_seed, move |runs| runs < count, steps_max, body) {
        panic!("{failure}");
    }
}

/// Runs `body` under schedules from `first_seed` on, as long as `going_on` is true for the number of runs. Returns the
/// number of runs.
///
/// # Errors
/// The first failure.
pub fn find_failure(
    first_seed: u64,
    going_on: impl FnMut(u64) -> bool + 'static,
    steps_max: usize,
    body: impl Fn() + Send + Sync + 'static,
) -> Result<u64, Failure> {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(steps_max);
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    // The other threads may wait for a lock or value that the panic took away.
    config.ungraceful_shutdown_config.immediately_return_on_panic = true;
    note_first_panic();
    let runs = Rc::new(Cell::new(0));
    let runner = Runner::new(Seeded::new(first_seed, runs.clone(), Box::new(going_on)), config);
    // The runner belongs to this call, and is not used after a panic.
    match catch_unwind(AssertUnwindSafe(|| runner.run(body))) {
        Ok(_) => Ok(runs.get()),
        Err(panic) => {
            let text = panic_text(&*panic).map(str::to_owned);
            // Shuttle's own panic says only that a thread panicked; the first panic has the reason.
            let what = FIRST_PANIC.take().or(text).unwrap_or_else(|| "a panic without a text".to_owned());
            Err(Failure { seed: first_seed + runs.get() - 1, runs: runs.get(), what })
        }
    }
}

std::thread_local! {
    /// First panic of a run. The threads of a run are one thread of the machine.
    static FIRST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs a hook that notes panics before the usual hook reports them.
fn note_first_panic() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            FIRST_PANIC.with_borrow_mut(|first| first.get_or_insert_with(|| info.to_string()).len());
            tell(info);
        }));
    });
    FIRST_PANIC.take();
}

/// Scheduler with the choices of one seed after another.
struct Seeded {
    first_seed: u64,
    runs: Rc<Cell<u64>>,
    going_on: Box<dyn FnMut(u64) -> bool>,
    random: Random,
    /// Number of steps in a thousand at which the thread changes.
    changes: u64,
    /// Number of steps in a hundred thousand at which a thread goes to rest.
    rests: u64,
    /// Resting threads, and the number of further steps of their rest.
    resting: BTreeMap<usize, u64>,
}

impl Seeded {
    fn new(first_seed: u64, runs: Rc<Cell<u64>>, going_on: Box<dyn FnMut(u64) -> bool>) -> Self {
        let (random, resting) = (Random::from_seed(0), BTreeMap::new());
        Self { first_seed, runs, going_on, random, changes: 0, rests: 0, resting }
    }

    /// Shortens each rest by a step.
    fn pass_time(&mut self) {
        self.resting.retain(|_, steps| {
            *steps -= 1;
            *steps > 0
        });
    }
}

impl Scheduler for Seeded {
    fn new_execution(&mut self) -> Option<Schedule> {
        let runs = self.runs.get();
        if !(self.going_on)(runs) {
            return None;
        }
        self.runs.set(runs + 1);
        let seed = self.first_seed + runs;
        self.random = Random::from_seed(seed);
        self.changes = [1_000, 300, 100, 30][self.random.next_below(4) as usize];
        self.rests = [0, 30, 100, 400][self.random.next_below(4) as usize];
        self.resting.clear();
        Some(Schedule::new(seed))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        if !self.resting.is_empty() {
            self.pass_time();
        }
        let current = current.filter(|current| runnable.iter().any(|task| task.id() == *current));
        if let Some(current) = current {
            if self.rests > 0 && self.random.next_below(100_000) < self.rests {
                let steps = self.random.next_between(1, REST_STEPS_MAX);
                self.resting.insert(usize::from(current), steps);
            } else if !is_yielding && self.random.next_below(1_000) >= self.changes {
                return Some(current);
            }
        }
        let awake = |task: &&&Task| {
            let id = task.id();
            !self.resting.contains_key(&usize::from(id)) && !(is_yielding && Some(id) == current)
        };
        let count = runnable.iter().filter(awake).count();
        if count == 0 {
            // Only resting threads are left: the rest of the chosen thread is over.
            let chosen = runnable[self.random.next_below(runnable.len() as u64) as usize].id();
            self.resting.remove(&usize::from(chosen));
            return Some(chosen);
        }
        let at = self.random.next_below(count as u64) as usize;
        runnable.iter().filter(awake).nth(at).map(|task| task.id())
    }

    fn next_u64(&mut self) -> u64 {
        self.random.next_u64()
    }
}
