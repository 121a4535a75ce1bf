//! The threads of a database: a heartbeat, a thread that prepares memory, loggers, checkpointers, a shipper if files
//! are shipped, and the threads of a recovery.
//!
//! The threads only call steps of lower crates. A caller that opens a database `without_threads` drives the same steps
//! from a single seed.
//!
//! Neighbours: `startup` starts the threads. The steps are in `ensile-epoch` and `ensile-durability`.

use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::{Arc, AtomicBool, Ordering, spin_loop};
use ensile_durability::{CheckpointStep, LoggerStep, ShipStep};
use ensile_epoch::Advance;

use crate::database::threads::{SHIPPER, Threads};
use crate::error::Result;
use crate::shared_state::SharedState;

/// Interval at which a checkpointer checks for the awaited epoch.
const EPOCH_WAIT: Duration = Duration::from_millis(2);
/// Interval at which a checkpointer checks for a due checkpoint. A request wakes the checkpointer earlier.
const TRIGGER_WAIT: Duration = Duration::from_millis(100);

/// Interval at which the shipper checks for closed files.
const SHIP_WAIT: Duration = Duration::from_millis(250);
/// Largest interval at which the shipper checks for the close of the database.
const SHIP_WAIT_MAX: Duration = Duration::from_secs(1);

/// Longest time for which the heartbeat spins to close a boundary's epoch. An epoch lasts some hundred microseconds at
/// least (E5), and a busy machine wakes a sleeping thread late.
const BOUNDARY_SPIN: Duration = Duration::from_micros(300);
/// Length of each sleep after the spin, before a further attempt: commits of the epoch before may run on this core.
const BOUNDARY_SLEEP: Duration = Duration::from_micros(EPOCH_MICROS_MIN);
/// Longest total time of these sleeps.
const BOUNDARY_SLEEPS: Duration = Duration::from_millis(3);
/// Parts of a tick for the spin and for the sleeps: shorter ticks spin and sleep less.
const BOUNDARY_SPIN_PART: u32 = 16;
const BOUNDARY_SLEEPS_PART: u32 = 4;
/// Limits of spins and sleeps for a clock that stands still, above the number that fits the times.
const BOUNDARY_SPINS_MAX: u32 = 1 << 13;
const BOUNDARY_SLEEPS_MAX: u32 = 32;

/// Starts the threads. If the system refuses a thread, the threads before it run already, and the caller closes the
/// database.
pub(crate) fn start(threads: &Threads, shared: &Arc<SharedState>) -> Result<()> {
    let heart = Arc::clone(shared);
    threads.spawn("ensile-heartbeat".to_owned(), move || {
        pin_own_thread(&heart, 0);
        heartbeat(&heart, heartbeat_tick);
    })?;
    // With several memory nodes a worker's memory belongs on the worker's node (Silo §5.1), so the worker touches the
    // memory first.
    if ensile_disk::has_one_memory_node() {
        let shared = Arc::clone(shared);
        shared.memory.begin_preparing();
        threads.spawn("ensile-memory".to_owned(), move || while shared.memory.prepare() {})?;
    }
    if let Some(log) = &shared.storage.log {
        for logger in 0..log.loggers() {
            let (log, shared) = (StdArc::clone(log), Arc::clone(shared));
            threads.spawn(format!("ensile-log-{logger}"), move || {
                pin_own_thread(&shared, logger);
                while log.logger_step(logger) != LoggerStep::Stopped {
                    log.logger_prepare(logger);
                    log.logger_wait(logger, shared.settings.epoch_interval);
                }
            })?;
        }
    }
    for checkpointer in
        0..shared.storage.checkpoints.as_ref().map_or(0, |checkpoints| checkpoints.checkpointers())
    {
        let shared = Arc::clone(shared);
        let loggers = shared.storage.log.as_ref().map_or(0, |log| log.loggers());
        threads.spawn(format!("ensile-ckpt-{checkpointer}"), move || {
            pin_own_thread(&shared, loggers + checkpointer);
            checkpoint(&shared, checkpointer);
        })?;
    }
    if let Some(shipping) = &shared.storage.shipping {
        let shipping = StdArc::clone(shipping);
        threads.spawn(SHIPPER.to_owned(), move || {
            shipping.give_way();
            loop {
                match shipping.step() {
                    ShipStep::Stopped => return,
                    ShipStep::Worked => {}
                    ShipStep::Paced(wait) => shipping.wait(wait.min(SHIP_WAIT_MAX)),
                    ShipStep::Idle => shipping.wait(SHIP_WAIT),
                }
            }
        })?;
    }
    Ok(())
}

/// Pins the calling thread of the database to a core, if workers are pinned. `number` selects a core, from the end of
/// the list of cores.
fn pin_own_thread(shared: &SharedState, number: usize) {
    if let Some(cores) = &shared.workers.cores {
        cores.keep_own_thread(number);
    }
}

/// Runs a tick each interval. Between ticks the heartbeat serves a boundary soon after its begin, and frees the garbage
/// of workers in small steps.
fn heartbeat(shared: &SharedState, tick: impl Fn(&SharedState, &mut dyn FnMut(Advance))) {
    let _guard = StopOnPanic { shared };
    let interval = shared.settings.epoch_interval;
    let mut left = interval;
    while !shared.heartbeat.stop.wait(left) {
        left = interval;
        tick(shared, &mut |advanced| {
            if shared.settings.snapshots {
                left = interval.saturating_sub(serve_boundary(shared, advanced));
            }
        });
        // A waker has closed the database.
        if shared.heartbeat.stop.is_stopped() {
            return;
        }
        left = shared.collect_for(&mut shared.heartbeat.collector.lock(), left);
    }
}

/// Serves the boundary begun by a tick, so that rows have versions for two boundaries for a short time only (V1). A
/// tick too soon after an early close tries again for a moment, because boundaries begin at ticks. Returns the elapsed
/// time by the database's clock.
fn serve_boundary(shared: &SharedState, ticked: Advance) -> Duration {
    let (began, mut last) = (shared.clock.nanos(), ticked);
    let (mut spins_left, mut sleeps_left) = (BOUNDARY_SPINS_MAX, BOUNDARY_SLEEPS_MAX);
    loop {
        let passed = Duration::from_nanos(shared.clock.nanos().saturating_sub(began));
        let is_ahead = shared.epochs.has_boundary_ahead();
        match next_serving_step(last, is_ahead, passed, shared.settings.epoch_interval) {
            Serving::Again => {}
            Serving::Spin if spins_left > 0 => {
                spins_left -= 1;
                spin_loop();
            }
            Serving::Sleep if sleeps_left > 0 && !shared.heartbeat.stop.wait(BOUNDARY_SLEEP) => {
                sleeps_left -= 1
            }
            _ => return passed,
        }
        last = if is_ahead { boundary_step(shared) } else { advance(shared) };
    }
}

/// Next action of the heartbeat for a boundary.
#[derive(Debug, PartialEq, Eq)]
enum Serving {
    /// Try at once.
    Again,
    /// Try in a moment, on the same core.
    Spin,
    /// Try after a short sleep.
    Sleep,
    /// Stop: the boundary is served, does not exist, or is left to the next tick.
    Over,
}

/// The action after the `last` attempt, `passed` after the tick; `is_ahead` is true for a boundary not yet served.
fn next_serving_step(last: Advance, is_ahead: bool, passed: Duration, interval: Duration) -> Serving {
    let spin = BOUNDARY_SPIN.min(interval / BOUNDARY_SPIN_PART);
    match last {
        Advance::AtLimit => Serving::Over,
        Advance::Advanced(_) if is_ahead => Serving::Again,
        Advance::Advanced(_) => Serving::Over,
        Advance::TooSoon if passed < spin => Serving::Spin,
        // Without a boundary the tick is over: the next tick comes soon.
        _ if is_ahead && passed < spin + BOUNDARY_SLEEPS.min(interval / BOUNDARY_SLEEPS_PART) => {
            Serving::Sleep
        }
        _ => Serving::Over,
    }
}

/// Begins a new epoch if possible, and then scans at once for freeable garbage. Commits of a boundary's epoch put
/// versions into pages until a scan has seen the readers of the boundary before (V1).
fn advance(shared: &SharedState) -> Advance {
    let advanced = shared.epochs.try_advance(shared.clock.nanos());
    if matches!(advanced, Advance::Advanced(_)) {
        if let Some(log) = &shared.storage.log {
            log.wake_loggers();
        }
        shared.epochs.scan();
    }
    advanced
}

/// Guard of the heartbeat. A panicked heartbeat closes no epoch any more, and a thread that waits for an epoch must not
/// wait for ever.
struct StopOnPanic<'a> {
    shared: &'a SharedState,
}

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.note_heartbeat_panic();
        }
    }
}

/// Runs a checkpointer. The thread yields its core only where it waits. A yield after each block costs a whole time
/// slice on recent Linux, and a picture beside busy threads took minutes.
fn checkpoint(shared: &SharedState, checkpointer: usize) {
    let Some(checkpoints) = &shared.storage.checkpoints else { return };
    checkpoints.give_way();
    loop {
        match checkpoints.step(checkpointer, shared) {
            CheckpointStep::Stopped => return,
            CheckpointStep::Worked => {}
            CheckpointStep::Waiting => checkpoints.wait(checkpointer, EPOCH_WAIT),
            CheckpointStep::Paced(wait) => checkpoints.wait(checkpointer, wait),
            CheckpointStep::Idle => checkpoints.wait(checkpointer, TRIGGER_WAIT),
        }
    }
}

/// Runs a tick: begins an epoch, updates the limits of freeable garbage, frees some garbage of workers and long unused
/// memory (M2), and expires readers that hold back too much (E6). `then` is called as soon as the result of the epoch's
/// begin is known.
///
/// The tick ends overdue turns, and calls wakers of tasks at its end: wakers may be slow, and may close the database.
pub(crate) fn heartbeat_tick(shared: &SharedState, then: &mut dyn FnMut(Advance)) {
    let advanced = advance(shared);
    if !matches!(advanced, Advance::Advanced(_)) {
        shared.epochs.scan();
    }
    then(advanced);
    if let Some(log) = &shared.storage.log {
        log.hint_step();
        if shared.storage.checkpoints.as_ref().is_some_and(|checkpoints| checkpoints.has_panicked()) {
            log.reserved_epochs_step();
        }
    }
    // Another thread in this step frees instead.
    if let Some(mut collector) = shared.heartbeat.collector.try_lock_unless_panicked() {
        shared.collection_tick(&mut collector);
        shared.collection_step(&mut collector);
        shared.report_idle_use(&mut collector);
    }
    shared.memory.give_back_step();
    shared.life.gate.tick(&shared.clock);
    if let Some(log) = &shared.storage.log {
        // A logger in a slow sync has given buffers back, and calls nobody before the end of its step.
        log.wake_for_space();
    }
}

/// Step between two ticks: closes the epoch of a boundary that is not served yet. The step wakes no logger: the next
/// tick wakes the loggers, and the log gets no additional writes.
pub(crate) fn boundary_step(shared: &SharedState) -> Advance {
    shared.epochs.try_serve_boundary(shared.clock.nanos())
}

/// Runs a step again and again on several threads, or on as many as the system grants, until the step returns false or
/// fails. After each step `after` is called, with true on the first thread.
pub(crate) fn in_parallel<E: Send>(
    threads: usize,
    step: impl Fn() -> Result<bool, E> + Sync,
    after: impl Fn(bool) + Sync,
) -> Result<(), E> {
    let failed = AtomicBool::new(false);
    let work = |first: bool| {
        // Relaxed: another thread's failure only saves work.
        while !failed.load(Ordering::Relaxed) {
            let more = step();
            after(first);
            match more {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => {
                    // Relaxed: the results are joined; the mark only saves the other threads work.
                    failed.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(())
    };
    let results = std::thread::scope(|scope| {
        let helper = || std::thread::Builder::new().name("ensile-recover".to_owned());
        let helpers = (1..threads).map_while(|_| helper().spawn_scoped(scope, || work(false)).ok());
        let helpers: Vec<_> = helpers.collect();
        let mut results = vec![work(true)];
        results.extend(helpers.into_iter().map(|helper| match helper.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }));
        results
    });
    results.into_iter().collect()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
