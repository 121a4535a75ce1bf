//! Keeps worker threads on cores (Silo §5.1), if the application asks for it.
//!
//! The threads belong to the application. So a thread is kept on a core from the moment when the thread gets a worker
//! of the database, and stays there, whichever databases it works on. Threads inherit the allowed cores of their
//! parent. So this module notes each thread that was kept on a core, and takes the allowed cores of the opening thread.
//!
//! Heartbeat, loggers and checkpointers are the database's own threads. The database keeps them on cores from the other
//! end of the list, so that with fewer workers than cores workers have cores to themselves.
//!
//! Neighbours: `open::tuning` has the setting; `session` calls when a thread gets a worker for the first time,
//! `open::threads` for the database's own threads.

use std::cell::Cell;

use ensile_base::sync::{AtomicUsize, Ordering, thread_local};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::{Error, Result};

thread_local! {
    /// True if this thread was kept on a core.
    static KEPT: Cell<bool> = const { Cell::new(false) };
}

/// The cores of this process, handed out in turn.
#[derive(Debug)]
pub(crate) struct Cores {
    allowed: Vec<usize>,
    next: AtomicUsize,
}

impl Cores {
    /// The cores that the calling thread may run on.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the system does not tell the cores.
    pub(crate) fn of_this_thread() -> Result<Self> {
        let set = sched_getaffinity(None).map_err(|errno| {
            Error::Misuse(format!("pin_workers: the system does not tell its cores: {errno}"))
        })?;
        Ok(Self { allowed: cores_of(&set).collect(), next: AtomicUsize::new(0) })
    }

    /// Keeps the calling thread on the next core, unless the thread is kept already. If the system refuses, the thread
    /// stays as free as before: only speed depends on the core.
    #[cold]
    pub(crate) fn keep_this_thread(&self) {
        if self.allowed.is_empty() || KEPT.with(|kept| kept.replace(true)) {
            return;
        }
        // Relaxed: threads only take turns.
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        self.keep_on(turn % self.allowed.len());
    }

    /// Keeps the calling thread, a thread of the database with this number, on a core from the end of the list. Workers
    /// take cores from the beginning of the list.
    pub(crate) fn keep_own_thread(&self, number: usize) {
        if let Some(last) = self.allowed.len().checked_sub(1) {
            self.keep_on(last - number % self.allowed.len());
        }
    }

    /// Keeps the calling thread on the core at this position of `allowed`. A refusal of the system is ignored.
    fn keep_on(&self, at: usize) {
        let mut one = CpuSet::new();
        one.set(self.allowed[at]);
        let _ = sched_setaffinity(None, &one);
    }
}

fn cores_of(set: &CpuSet) -> impl Iterator<Item = usize> + '_ {
    (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
