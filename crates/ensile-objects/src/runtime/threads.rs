//! The threads of open objects: a heartbeat, one thread per logger, one per checkpointer, a shipper if files are
//! shipped, and the threads of a recovery until its end.
//!
//! The threads only call steps of lower modules, so that a caller who opens without threads can drive the same steps
//! from one seed.
//!
//! Neighbours: `close` starts and joins the threads; `open_folder` has the steps.

use std::sync::Arc as StdArc;
use std::thread::JoinHandle;
use std::time::Duration;

use ensile_base::sync::{AtomicBool, Mutex, Ordering};
use ensile_durability::{CheckpointStep, LoggerStep, ShipStep, Shipper};

use super::open_folder::Runtime;
use crate::error::{ObjectsError, ObjectsResult as Result};

/// Interval at which a checkpointer checks for the epoch that it waits for.
const EPOCH_WAIT: Duration = Duration::from_millis(2);
/// Interval at which a checkpointer checks for a due checkpoint. A demand wakes the checkpointer earlier.
const TRIGGER_WAIT: Duration = Duration::from_millis(100);

const SHIPPER: &str = "ensile-obj-ship";
/// Interval at which the shipper checks for closed files.
const SHIP_WAIT: Duration = Duration::from_millis(250);
/// Longest interval at which the shipper checks for the close of the objects.
const SHIP_WAIT_MAX: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct ObjectThreads(Mutex<Vec<JoinHandle<()>>>);

impl ObjectThreads {
    /// Starts all threads. If the system refuses a thread, earlier threads run already: the caller closes.
    pub(super) fn start(&self, runtime: &StdArc<Runtime>) -> Result<()> {
        let (loggers, checkpointers) = (runtime.log.loggers(), runtime.checkpoints.checkpointers());
        let heart = StdArc::clone(runtime);
        self.spawn("ensile-obj-beat".to_owned(), move || heartbeat(&heart))?;
        for logger in 0..loggers {
            let runtime = StdArc::clone(runtime);
            self.spawn(format!("ensile-obj-log-{logger}"), move || {
                while runtime.logger_step(logger) != LoggerStep::Stopped {
                    runtime.log.logger_wait(logger, runtime.mode.epoch_interval);
                }
            })?;
        }
        for checkpointer in 0..checkpointers {
            let runtime = StdArc::clone(runtime);
            self.spawn(format!("ensile-obj-ck-{checkpointer}"), move || checkpoint(&runtime, checkpointer))?;
        }
        if let Some(shipping) = &runtime.shipping {
            let shipping = StdArc::clone(shipping);
            self.spawn(SHIPPER.to_owned(), move || ship(&shipping))?;
        }
        let threads = 1 + loggers + checkpointers + usize::from(runtime.shipping.is_some());
        debug_assert_eq!(self.0.lock().len(), threads, "each part has a thread of its own");
        Ok(())
    }

    fn spawn(&self, name: String, life: impl FnOnce() + Send + 'static) -> Result<()> {
        let spawned = std::thread::Builder::new().name(name).spawn(life);
        self.0.lock().push(spawned.map_err(|error| ObjectsError::no_thread(&error))?);
        Ok(())
    }

    /// Waits for all threads except the calling thread: a future's waker may close the objects. The caller has stopped
    /// the work of the threads.
    pub(super) fn join(&self) {
        let mut handles = self.0.lock();
        let own = std::thread::current().id();
        for handle in handles.extract_if(.., |handle| handle.thread().id() != own) {
            let _ = handle.join();
        }
        debug_assert!(handles.len() <= 1, "a thread does not wait for itself alone");
    }

    /// Leaves the shipper to itself, in a call that does not return. The shipper ends with the call.
    pub(super) fn leave_shipper(&self) {
        self.0.lock().retain(|handle| handle.thread().name() != Some(SHIPPER));
    }

    /// True if no thread runs any more, and all were joined.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn have_ended(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Forgets the threads: a forked child has no threads (I4).
    pub(super) fn forget(&self) {
        std::mem::forget(std::mem::take(&mut *self.0.lock()));
    }
}

/// Stops the log if the heartbeat panics: a dead heartbeat closes no epoch, and no caller may wait for an epoch.
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
    while !runtime.stop.wait(runtime.mode.epoch_interval) {
        runtime.heartbeat_step();
    }
}

/// Life of a checkpointer. A checkpointer leaves the core to other threads only in its waits: a yield after every block
/// costs a whole slice on recent Linux, and beside busy threads a checkpoint takes minutes.
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

/// Life of a shipper: nothing waits for the shipper. A shipper keeps its core after a piece, as a checkpointer does.
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

/// Takes a step repeatedly, on several threads if the system grants them, until no step is left or a step fails.
pub(super) fn share<E: Send>(threads: usize, step: impl Fn() -> Result<bool, E> + Sync) -> Result<(), E> {
    assert!(threads > 0, "the calling thread takes steps, too");
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
