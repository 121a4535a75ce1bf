//! The threads of a database: a heartbeat, one that makes memory ready, one per logger, one per checkpointer, one
//! that ships if files are shipped, and recovery's for as long as it lasts.
//!
//! They only call steps that lower floors offer, so that a caller that opens a database `without_threads` can drive the
//! same steps from one seed.
//!
//! Neighbours: `opening` starts them; the steps are those of `ensile-epoch` and `ensile-durability`.

use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::{Arc, AtomicBool, Ordering, spin_loop};
use ensile_durability::{CheckpointStep, LoggerStep, ShipStep};
use ensile_epoch::Advance;

use crate::database::threads::{SHIPPER, Threads};
use crate::error::Result;
use crate::shared::SharedState;

/// How often a checkpointer looks whether the epoch that it waits for has come.
const EPOCH_WAIT: Duration = Duration::from_millis(2);
/// How often a checkpointer looks whether a checkpoint is due. A demand wakes it earlier.
const TRIGGER_WAIT: Duration = Duration::from_millis(100);

/// How often the shipper looks whether a file was closed.
const SHIP_WAIT: Duration = Duration::from_millis(250);
/// It looks at least so often whether the database is closed.
const SHIP_WAIT_MAX: Duration = Duration::from_secs(1);

/// The heartbeat tries to close a boundary's epoch without leaving its core for this long at most: an epoch lasts some
/// hundred microseconds at least (E5), and a thread that sleeps is woken late on a busy machine.
const BOUNDARY_SPIN: Duration = Duration::from_micros(300);
/// Then it tries again after each of some short sleeps: commits of the epoch before may be under way on this core.
const BOUNDARY_SLEEP: Duration = Duration::from_micros(EPOCH_MICROS_MIN);
/// It sleeps for this long at most.
const BOUNDARY_SLEEPS: Duration = Duration::from_millis(3);
/// These are parts of a tick: shorter ticks spin and sleep less.
const BOUNDARY_SPIN_PART: u32 = 16;
const BOUNDARY_SLEEPS_PART: u32 = 4;
/// A clock that stands still must not keep it: more tries and sleeps than fit these times.
const BOUNDARY_SPINS_MAX: u32 = 1 << 13;
const BOUNDARY_SLEEPS_MAX: u32 = 32;

/// Starts the threads. If the system refuses one, those before it run already: the caller closes the database.
pub(crate) fn start(threads: &Threads, shared: &Arc<SharedState>) -> Result<()> {
    let heart = Arc::clone(shared);
    threads.spawn("ensile-heartbeat".to_owned(), move || {
        keep(&heart, 0);
        heartbeat(&heart, step);
    })?;
    // With several nodes a worker's memory is to be on its own (Silo §5.1), so it touches it first.
    if ensile_disk::has_one_memory_node() {
        let shared = Arc::clone(shared);
        shared.memory.begin_preparing();
        threads.spawn("ensile-memory".to_owned(), move || while shared.memory.prepare() {})?;
    }
    if let Some(log) = &shared.log {
        for logger in 0..log.loggers() {
            let (log, shared) = (StdArc::clone(log), Arc::clone(shared));
            threads.spawn(format!("ensile-log-{logger}"), move || {
                keep(&shared, logger);
                while log.logger_step(logger) != LoggerStep::Stopped {
                    log.logger_prepare(logger);
                    log.logger_wait(logger, shared.settings.epoch_interval);
                }
            })?;
        }
    }
    for checkpointer in 0..shared.checkpoints.as_ref().map_or(0, |checkpoints| checkpoints.checkpointers()) {
        let shared = Arc::clone(shared);
        let loggers = shared.log.as_ref().map_or(0, |log| log.loggers());
        threads.spawn(format!("ensile-ckpt-{checkpointer}"), move || {
            keep(&shared, loggers + checkpointer);
            checkpoint(&shared, checkpointer);
        })?;
    }
    if let Some(shipping) = &shared.shipping {
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

/// Keeps one of the database's own threads on a core, if workers are kept on theirs.
fn keep(shared: &SharedState, number: usize) {
    if let Some(cores) = &shared.cores {
        cores.keep_own_thread(number);
    }
}

/// A tick each interval. In between a boundary is served soon after it began, and what workers leave lying is freed, in
/// small steps.
fn heartbeat(shared: &SharedState, step: impl Fn(&SharedState, &mut dyn FnMut(Advance))) {
    let _guard = StopOnPanic { shared };
    let interval = shared.settings.epoch_interval;
    let mut left = interval;
    while !shared.stop.wait(left) {
        left = interval;
        step(shared, &mut |advanced| {
            if shared.settings.snapshots {
                left = interval.saturating_sub(serve_boundary(shared, advanced));
            }
        });
        left = shared.collect_for(&mut shared.collector.lock(), left);
    }
}

/// Serves the boundary that a tick began, so that rows have versions for two boundaries for a short time only (V1). A
/// tick that comes too soon after an early close tries again for a moment, as boundaries begin at ticks. The time that
/// it took, by the database's clock.
fn serve_boundary(shared: &SharedState, ticked: Advance) -> Duration {
    let (began, mut last) = (shared.clock.nanos(), ticked);
    let (mut spins_left, mut sleeps_left) = (BOUNDARY_SPINS_MAX, BOUNDARY_SLEEPS_MAX);
    loop {
        let passed = Duration::from_nanos(shared.clock.nanos().saturating_sub(began));
        let is_ahead = shared.epochs.has_boundary_ahead();
        match serving(last, is_ahead, passed, shared.settings.epoch_interval) {
            Serving::Again => {}
            Serving::Spin if spins_left > 0 => {
                spins_left -= 1;
                spin_loop();
            }
            Serving::Sleep if sleeps_left > 0 && !shared.stop.wait(BOUNDARY_SLEEP) => sleeps_left -= 1,
            _ => return passed,
        }
        last = if is_ahead { boundary_step(shared) } else { advance(shared) };
    }
}

/// What the heartbeat does next for a boundary.
#[derive(Debug, PartialEq, Eq)]
enum Serving {
    /// It tries at once.
    Again,
    /// It tries in a moment, on its core.
    Spin,
    /// It tries after a short sleep.
    Sleep,
    /// The boundary is served, there is none, or it is left to the next tick.
    Over,
}

/// What comes after the `last` attempt, `passed` after the tick, while a boundary is not served or is.
fn serving(last: Advance, is_ahead: bool, passed: Duration, interval: Duration) -> Serving {
    let spin = BOUNDARY_SPIN.min(interval / BOUNDARY_SPIN_PART);
    match last {
        Advance::AtLimit => Serving::Over,
        Advance::Advanced(_) if is_ahead => Serving::Again,
        Advance::Advanced(_) => Serving::Over,
        Advance::TooSoon if passed < spin => Serving::Spin,
        // A tick that began no boundary is over: the next one comes soon.
        _ if is_ahead && passed < spin + BOUNDARY_SLEEPS.min(interval / BOUNDARY_SLEEPS_PART) => {
            Serving::Sleep
        }
        _ => Serving::Over,
    }
}

/// A new epoch if there can be one, and at once what may be freed then: commits of a boundary's epoch put versions into
/// pages until a scan has seen the readers of the boundary before (V1).
fn advance(shared: &SharedState) -> Advance {
    let advanced = shared.epochs.try_advance(shared.clock.nanos());
    if matches!(advanced, Advance::Advanced(_)) {
        if let Some(log) = &shared.log {
            log.wake_loggers();
        }
        shared.epochs.scan();
    }
    advanced
}

/// A heartbeat that panics closes no epoch any more: a thread that waits for one must not wait for ever.
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

/// A checkpointer's life. It leaves the core to other threads where it waits only: giving it up behind each block costs
/// a whole slice on recent Linux, and beside busy threads a picture took minutes.
fn checkpoint(shared: &SharedState, checkpointer: usize) {
    let Some(checkpoints) = &shared.checkpoints else { return };
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

/// One tick: a new epoch, new limits of what may be freed, some of the garbage that workers leave lying, memory that
/// was empty for long (M2), and readers that hold back too much expire (E6).
/// `then` is called as soon as it is known whether there is a new epoch.
pub(crate) fn step(shared: &SharedState, then: &mut dyn FnMut(Advance)) {
    shared.gate.end_overdue(&shared.clock);
    let advanced = advance(shared);
    if !matches!(advanced, Advance::Advanced(_)) {
        shared.epochs.scan();
    }
    then(advanced);
    if let Some(log) = &shared.log {
        log.hint_step();
        if shared.checkpoints.as_ref().is_some_and(|checkpoints| checkpoints.has_panicked()) {
            log.reserved_epochs_step();
        }
    }
    // Another thread that takes this step frees instead.
    if let Some(mut collector) = shared.collector.try_lock_unless_panicked() {
        shared.collection_tick(&mut collector);
        shared.collection_step(&mut collector);
    }
    shared.memory.give_back_step();
}

/// Between two ticks: closes the epoch of a boundary that is not served yet. No logger is woken for that: the next tick
/// wakes them, and the log is written no more often.
pub(crate) fn boundary_step(shared: &SharedState) -> Advance {
    shared.epochs.try_serve_boundary(shared.clock.nanos())
}

/// Takes a step again and again on several threads, or as many as the system grants, until it says that none is left or
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
