//! Who owns open objects: the last handle closes them.
//!
//! Invariant: I4: in a forked child nothing is closed, joined or freed.
//!
//! Neighbours: `open` makes the owner; handles of collections and applications share it.

use std::sync::Arc as StdArc;
use std::time::Duration;

use ensile_base::limits::EPOCH_MICROS_MIN;
use ensile_base::sync::{Mutex, Ordering, fence, sleep};
use ensile_durability::DurabilityError;
use ensile_epoch::Advance;

use super::Runtime;
use super::threads::ObjectThreads;
use crate::error::ObjectsResult as Result;

/// A runtime and the threads that drive it.
pub(crate) struct OpenRuntime {
    runtime: StdArc<Runtime>,
    threads: ObjectThreads,
    /// The result of closing, once it was done.
    closed: Mutex<Option<Result<(), DurabilityError>>>,
}

impl std::ops::Deref for OpenRuntime {
    type Target = Runtime;

    #[inline]
    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}

impl OpenRuntime {
    pub(super) fn start(runtime: StdArc<Runtime>, own_threads: bool) -> Result<Self> {
        let open = Self { runtime, threads: ObjectThreads::default(), closed: Mutex::default() };
        if own_threads {
            open.threads.start(&open.runtime)?;
        }
        Ok(open)
    }

    /// Makes everything durable that was logged, and lets go of the folder. A second call returns what the first did.
    pub(crate) fn close(&self) -> Result<()> {
        self.check_process()?;
        let mut closed = self.closed.lock();
        let result = closed.get_or_insert_with(|| {
            // SeqCst: partner is the fence between an entry's bind and its look at this mark.
            self.runtime.closed.store(true, Ordering::SeqCst);
            // Before the log releases the folder.
            self.runtime.checkpoints.close(&*self.runtime.state);
            self.runtime.wait_for_entries();
            let result = self.runtime.log.close();
            if let Some(shipping) = &self.runtime.shipping {
                // Its next step finds the log ended.
                shipping.wake();
            }
            self.runtime.stop.stop();
            self.threads.join();
            self.runtime.workers.end();
            result
        });
        Ok(result.clone()?)
    }
}

impl Runtime {
    /// Waits until no entry is being appended that missed the mark of a close.
    fn wait_for_entries(&self) {
        // SeqCst: the mark comes before the look at E and at bindings; partner: the fence behind an entry's bind. An
        // entry that missed the mark is bound to this E or an earlier one.
        fence(Ordering::SeqCst);
        self.log.use_kept_epochs();
        let over = self.epochs.now().plus(2);
        while self.epochs.now() < over {
            // A clock that stands still would never let the epoch close; the machine's ignores this.
            self.clock.advance(Duration::from_micros(EPOCH_MICROS_MIN));
            match self.epochs.try_advance_early(self.clock.nanos()) {
                Advance::Advanced(_) => {}
                Advance::AtLimit => return,
                _ => sleep(Duration::from_micros(EPOCH_MICROS_MIN / 2)),
            }
        }
    }
}

impl Drop for OpenRuntime {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            // I4: the child's copy of the memory goes with it, and it has none of these threads.
            std::mem::forget(StdArc::clone(&self.runtime));
            self.threads.forget();
            return;
        }
        // An error has nowhere to go here. Strict results were waited for, and `close` returns errors.
        let _ = self.close();
    }
}
