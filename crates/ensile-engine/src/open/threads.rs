//! The threads of a database: a heartbeat, one per logger, one per checkpointer, and recovery's for as long as it lasts.
//!
//! They only call steps that lower floors offer, so that whoever opens a database `without_threads` can drive the
//! same steps from one seed.
//!
//! Neighbours: started by `builder`; steps of `ensile-epoch` and `ensile-durability`.

use std::sync::Arc as StdArc;
use std::thread::JoinHandle;
use std::time::Duration;

use ensile_base::sync::{Arc, AtomicBool, Condvar, Mutex, MutexGuard, Ordering, yield_now};
use ensile_durability::{CheckpointStep, LoggerStep};
use ensile_epoch::Advance;

use crate::database::Core;
use crate::error::{Error, Result};

/// How often a checkpointer looks whether the epoch that it waits for has come.
const EPOCH_WAIT: Duration = Duration::from_millis(2);
/// How often it looks whether a checkpoint is due; who asks for one rings.
const TRIGGER_WAIT: Duration = Duration::from_millis(100);

/// How much a checkpointer gives way: about a third of the weight of a thread that does not.
#[cfg(target_os = "linux")]
const CHECKPOINTER_NICE: i32 = 5;

/// Tells the heartbeat to stop, without waiting for its interval to pass.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    pub(crate) fn stop(&self) {
        *self.stopped.lock() = true;
        self.changed.notify_all();
    }

    /// Waits; true once stopped.
    fn wait(&self, timeout: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped {
            // One wait: if it ends early for no reason, the epoch's next step comes early.
            stopped = self.changed.wait_timeout(stopped, timeout);
        }
        *stopped
    }
}

/// The threads of one database.
pub(crate) struct Threads {
    handles: Mutex<Vec<JoinHandle<()>>>,
}

impl Threads {
    pub(crate) fn none() -> Self {
        Self { handles: Mutex::new(Vec::new()) }
    }

    /// Starts them. If the system refuses one, those before it run: the caller closes the database.
    pub(crate) fn start(&self, core: &Arc<Core>) -> Result<()> {
        let heart = Arc::clone(core);
        self.spawn("ensile-heartbeat".to_owned(), move || {
            keep(&heart, 0);
            heartbeat(&heart, step);
        })?;
        if let Some(log) = &core.log {
            for logger in 0..log.loggers() {
                let (log, core) = (StdArc::clone(log), Arc::clone(core));
                self.spawn(format!("ensile-log-{logger}"), move || {
                    keep(&core, logger);
                    while log.logger_step(logger) != LoggerStep::Stopped {
                        log.logger_prepare(logger);
                        log.logger_wait(logger, core.epoch_interval);
                    }
                })?;
            }
        }
        for checkpointer in 0..core.checkpoints.as_ref().map_or(0, |checkpoints| checkpoints.checkpointers())
        {
            let core = Arc::clone(core);
            let loggers = core.log.as_ref().map_or(0, |log| log.loggers());
            self.spawn(format!("ensile-ckpt-{checkpointer}"), move || {
                keep(&core, loggers + checkpointer);
                give_way();
                checkpoint(&core, checkpointer);
            })?;
        }
        Ok(())
    }

    fn spawn(&self, name: String, life: impl FnOnce() + Send + 'static) -> Result<()> {
        let handle = std::thread::Builder::new().name(name).spawn(life).map_err(Error::NoThread)?;
        self.lock().push(handle);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.handles.lock()
    }

    /// Waits for all of them; whoever calls has told them to stop.
    pub(crate) fn join(&self) {
        // A database closed on one of its own threads (a future's waker) does not wait for itself.
        self.join_those(|handle| handle.thread().id() != std::thread::current().id());
    }

    /// Whether none of them runs any more. After `join` there is one at most: that on which it was called.
    pub(crate) fn have_ended(&self) -> bool {
        self.join_those(JoinHandle::is_finished)
    }

    /// Waits for those of which this is true; whether there are no others.
    fn join_those(&self, which: impl Fn(&JoinHandle<()>) -> bool) -> bool {
        let mut handles = self.lock();
        for handle in handles.extract_if(.., |handle| which(handle)) {
            let _ = handle.join();
        }
        handles.is_empty()
    }
}

/// Keeps one of the database's own threads on a core, if workers are kept on theirs.
fn keep(core: &Core, number: usize) {
    if let Some(cores) = &core.cores {
        cores.keep_own_thread(number);
    }
}

/// A checkpointer takes what time loggers and workers leave: commits wait for those, and nobody waits for it.
fn give_way() {
    // Of this thread alone, as Linux has it; elsewhere it would be the whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(CHECKPOINTER_NICE);
}

fn heartbeat(core: &Core, step: impl Fn(&Core)) {
    let _guard = StopOnPanic { core };
    while !core.signal.wait(core.epoch_interval) {
        step(core);
    }
}

/// A heartbeat that panics closes no epoch any more: a thread that waits for one must not wait for ever.
struct StopOnPanic<'a> {
    core: &'a Core,
}

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.core.note_heartbeat_panic();
        }
    }
}

/// A checkpointer's life: a block, then whoever else wants the core.
fn checkpoint(core: &Core, checkpointer: usize) {
    let Some(checkpoints) = &core.checkpoints else { return };
    loop {
        match checkpoints.step(checkpointer, core) {
            CheckpointStep::Stopped => return,
            CheckpointStep::Worked => yield_now(),
            CheckpointStep::Waiting => checkpoints.wait(checkpointer, EPOCH_WAIT),
            CheckpointStep::Paced(wait) => checkpoints.wait(checkpointer, wait),
            CheckpointStep::Idle => checkpoints.wait(checkpointer, TRIGGER_WAIT),
        }
    }
}

/// One beat: a new epoch, new limits of what may be freed, the garbage of workers that nobody has, memory that was empty for
/// long (M2), and transactions that are idle for too long expire (E4).
pub(crate) fn step(core: &Core) {
    let advanced = core.epochs.try_advance(core.clock.nanos());
    if let (Advance::Advanced(_), Some(log)) = (advanced, &core.log) {
        log.wake_loggers();
    }
    if let Some(log) = &core.log {
        log.hint_step();
        if core.checkpoints.as_ref().is_some_and(|checkpoints| checkpoints.has_panicked()) {
            log.reserved_epochs_step();
        }
    }
    let limits = core.epochs.scan();
    let pin = core.epochs.register_pin();
    let call = pin.begin(core.epochs.now());
    for worker in core.pool.idle().iter_mut() {
        worker.collect_idle(core, call.pinned());
    }
    drop(call);
    core.memory.give_back_step();
    if core.held_bytes(limits) > core.garbage_bytes_max {
        // Whoever is two epochs old holds something back; younger ones will be gone before an expiry reaches them.
        let old = core.epochs.now().previous().previous();
        if limits.pins.min(limits.snapshots) < old && core.epochs.expire_oldest(old).is_some() {
            // Relaxed: a figure.
            core.expired.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Takes a step again and again on several threads, or as many as the system grants, until it says that none is left or
/// fails. `after` each step is told whether this is the first thread.
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
                    // Relaxed: as above.
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
mod tests {
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use ensile_durability::Health;
    use ensile_sim::SimDisk;

    use super::heartbeat;
    use crate::{Database, Error, Result};

    #[test]
    fn a_heartbeat_that_panics_is_told_and_nobody_waits_for_its_epochs() -> Result<()> {
        for disk in [Some(SimDisk::new()), None] {
            let has_log = disk.is_some();
            let builder = match disk {
                Some(disk) => Database::builder("unused").disk(Arc::new(disk)),
                None => Database::builder_in_memory(),
            };
            let db = builder.without_threads().open()?;
            let table = db.table::<u64, u64>("numbers")?;
            assert!(db.health().is_well());
            let receipt = db.submit(|tx| tx.put(&table, &1, &1))?.1;
            let mut answer = std::pin::pin!(receipt.durable_async());
            let mut poll = || answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(poll().is_pending(), has_log);
            std::thread::scope(|scope| {
                let panics =
                    scope.spawn(|| heartbeat(db.core(), |_| std::panic::resume_unwind(Box::new("a bug"))));
                assert!(panics.join().is_err());
            });
            let health = db.health();
            assert!(health.heartbeat_has_panicked && !health.is_well());
            let written = db.submit(|tx| tx.put(&table, &2, &2)).map(drop);
            if has_log {
                assert!(matches!(poll(), Poll::Ready(Err(Error::Durability(_)))));
                assert!(matches!(health.log, Some(Health::Poisoned(reason)) if reason.contains("heartbeat")));
                assert!(matches!(written, Err(Error::Durability(_))), "{written:?}");
                assert!(db.close().is_err());
            } else {
                db.close()?;
            }
        }
        Ok(())
    }
}
