//! The threads of open objects: a heartbeat, one per logger, one per checkpointer, one that ships if files
//! are shipped, and recovery's for as long as it lasts.
//!
//! They only call steps that lower floors offer, so that a caller who opens without threads can drive the same steps
//! from one seed.
//!
//! Neighbours: `open` starts them; the steps are those of `ensile-epoch` and `ensile-durability`.

use std::sync::Arc as StdArc;
use std::thread::JoinHandle;
use std::time::Duration;

use ensile_base::sync::{AtomicBool, Mutex, Ordering};
use ensile_durability::{CheckpointStep, LoggerStep, ShipStep, Shipper};
use ensile_epoch::Advance;

use super::Runtime;
use crate::error::{ObjectsError, ObjectsResult as Result};

/// How often a checkpointer looks whether the epoch that it waits for has come.
const EPOCH_WAIT: Duration = Duration::from_millis(2);
/// How often a checkpointer looks whether a checkpoint is due. A demand wakes it earlier.
const TRIGGER_WAIT: Duration = Duration::from_millis(100);

/// The name of the shipper's thread.
const SHIPPER: &str = "ensile-obj-ship";
/// How often the shipper looks whether a file was closed.
const SHIP_WAIT: Duration = Duration::from_millis(250);
/// It looks at least so often whether the objects are closed.
const SHIP_WAIT_MAX: Duration = Duration::from_secs(1);

/// The threads of one open folder.
#[derive(Default)]
pub(super) struct ObjectThreads(Mutex<Vec<JoinHandle<()>>>);

impl ObjectThreads {
    /// Starts all of them. If the system refuses one, those before it run already: the caller closes.
    pub(super) fn start(&self, runtime: &StdArc<Runtime>) -> Result<()> {
        let heart = StdArc::clone(runtime);
        self.spawn("ensile-obj-beat".to_owned(), move || heartbeat(&heart))?;
        for logger in 0..runtime.log.loggers() {
            let runtime = StdArc::clone(runtime);
            self.spawn(format!("ensile-obj-log-{logger}"), move || {
                while runtime.logger_step(logger) != LoggerStep::Stopped {
                    runtime.log.logger_wait(logger, runtime.epoch_interval);
                }
            })?;
        }
        for checkpointer in 0..runtime.checkpoints.checkpointers() {
            let runtime = StdArc::clone(runtime);
            self.spawn(format!("ensile-obj-ck-{checkpointer}"), move || checkpoint(&runtime, checkpointer))?;
        }
        if let Some(shipping) = &runtime.shipping {
            let shipping = StdArc::clone(shipping);
            self.spawn(SHIPPER.to_owned(), move || ship(&shipping))?;
        }
        Ok(())
    }

    fn spawn(&self, name: String, life: impl FnOnce() + Send + 'static) -> Result<()> {
        let spawned = std::thread::Builder::new().name(name).spawn(life);
        self.0.lock().push(spawned.map_err(|error| ObjectsError::NoThread(error.into()))?);
        Ok(())
    }

    /// Waits for all of them, but not for the one that calls: a future's waker may close the objects. The caller has
    /// stopped what they do.
    pub(super) fn join(&self) {
        let mut handles = self.0.lock();
        let own = std::thread::current().id();
        for handle in handles.extract_if(.., |handle| handle.thread().id() != own) {
            let _ = handle.join();
        }
    }

    /// Leaves the shipper to itself, which is in a call that does not return. It ends with that.
    pub(super) fn leave_shipper(&self) {
        self.0.lock().retain(|handle| handle.thread().name() != Some(SHIPPER));
    }

    /// Does none of them run any more, and was each waited for?
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn have_ended(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Forgets them: in a forked child there are none (I4).
    pub(super) fn forget(&self) {
        std::mem::forget(std::mem::take(&mut *self.0.lock()));
    }
}

/// A heartbeat that panics closes no epoch any more: no caller may wait for one.
struct StopLogOnPanic<'r>(&'r Runtime);

impl Drop for StopLogOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.log.stop("the heartbeat panicked");
        }
    }
}

fn heartbeat(runtime: &Runtime) {
    let _guard = StopLogOnPanic(runtime);
    while !runtime.stop.wait(runtime.epoch_interval) {
        runtime.heartbeat_step();
    }
}

/// A new epoch if there can be one. Nothing is scanned for readers: there are no pins and no snapshots here.
pub(super) fn tick(runtime: &Runtime) {
    if runtime.check_process().is_err() {
        return;
    }
    if matches!(runtime.epochs.try_advance(runtime.clock.nanos()), Advance::Advanced(_)) {
        runtime.log.wake_loggers();
    }
    runtime.log.hint_step();
    if runtime.checkpoints.has_panicked() {
        runtime.log.reserved_epochs_step();
    }
}

/// A checkpointer's life. It leaves the core to other threads where it waits only: giving it up behind each block costs
/// a whole slice on recent Linux, and beside busy threads a checkpoint takes minutes.
fn checkpoint(runtime: &Runtime, checkpointer: usize) {
    runtime.checkpoints.give_way();
    loop {
        match runtime.checkpoint_step(checkpointer) {
            CheckpointStep::Stopped => return,
            CheckpointStep::Worked => {}
            CheckpointStep::Waiting => runtime.checkpoints.wait(checkpointer, EPOCH_WAIT),
            CheckpointStep::Paced(wait) => runtime.checkpoints.wait(checkpointer, wait),
            CheckpointStep::Idle => runtime.checkpoints.wait(checkpointer, TRIGGER_WAIT),
        }
    }
}

/// A shipper's life: nothing waits for it. It keeps its core behind a piece, as a checkpointer does.
fn ship(shipping: &Shipper) {
    shipping.give_way();
    loop {
        match shipping.step() {
            ShipStep::Stopped => return,
            ShipStep::Worked => {}
            ShipStep::Paced(wait) => shipping.wait(wait.min(SHIP_WAIT_MAX)),
            ShipStep::Idle => shipping.wait(SHIP_WAIT),
        }
    }
}

/// Takes a step again and again, on several threads if the system grants them, until none is left or one fails.
pub(super) fn share<E: Send>(threads: usize, step: impl Fn() -> Result<bool, E> + Sync) -> Result<(), E> {
    let failed = AtomicBool::new(false);
    let work = || {
        // Relaxed, all: another thread's failure only saves work; the results are joined.
        while !failed.load(Ordering::Relaxed) {
            match step() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let helper = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
        let helpers: Vec<_> = (1..threads).map_while(helper).collect();
        let own = work();
        let others = helpers.into_iter().map(|helper| match helper.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        others.fold(own, Result::and)
    })
}
