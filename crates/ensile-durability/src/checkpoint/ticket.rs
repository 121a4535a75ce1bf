//! One attempt at a checkpoint as those see it who asked for it: how far it is, and what came of it.
//!
//! Neighbours: `manager` makes one for each attempt and answers it; handles are the applications'.

use std::time::Duration;

use ensile_base::Epoch;
use std::sync::Arc;

use ensile_base::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering};

use ensile_disk::Process;

use crate::DurabilityError;

/// An installed checkpoint, in figures.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// Its number.
    pub number: u64,
    /// e_l: the log from this epoch on is still needed.
    pub low: Epoch,
    /// e_h: it took D to reach this to install it.
    pub high: Epoch,
    /// Entries written.
    pub entries: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// From its beginning until it was installed.
    pub elapsed: Duration,
}

/// How far an attempt is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CheckpointProgress {
    /// Bytes written.
    pub bytes: u64,
    /// Entries written.
    pub entries: u64,
    /// Which part of the walk is done, by slices: 0 before it begins, 1 once it has ended.
    pub share: f64,
}

type Outcome = Result<CheckpointReport, DurabilityError>;

/// Shared by an attempt and its handles.
#[derive(Debug, Default)]
pub(crate) struct Ticket {
    bytes: AtomicU64,
    entries: AtomicU64,
    slices: AtomicU64,
    slices_done: AtomicU64,
    outcome: Mutex<Option<Outcome>>,
    answered: Condvar,
}

impl Ticket {
    fn lock(&self) -> MutexGuard<'_, Option<Outcome>> {
        // The outcome is set in one step.
        self.outcome.lock()
    }

    pub(crate) fn set_slices(&self, slices: u64) {
        // Relaxed: a figure.
        self.slices.store(slices, Ordering::Relaxed);
    }

    pub(crate) fn add_slice(&self) {
        // Relaxed: a figure.
        self.slices_done.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_block(&self, bytes: u64, entries: u64) {
        // Relaxed: figures.
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.entries.fetch_add(entries, Ordering::Relaxed);
    }

    pub(crate) fn progress(&self) -> CheckpointProgress {
        // Relaxed: figures, each a little old.
        let read = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let slices = read(&self.slices);
        let share = if slices == 0 { 0.0 } else { read(&self.slices_done) as f64 / slices as f64 };
        CheckpointProgress { bytes: read(&self.bytes), entries: read(&self.entries), share }
    }

    /// Tells everybody who asked.
    pub(crate) fn answer(&self, outcome: Outcome) {
        *self.lock() = Some(outcome);
        self.answered.notify_all();
    }
}

/// A checkpoint that somebody asked for. Dropping it changes nothing: the checkpoint goes on.
#[derive(Clone, Debug)]
pub struct CheckpointHandle {
    ticket: Arc<Ticket>,
    process: Process,
}

impl CheckpointHandle {
    pub(crate) fn new(ticket: Arc<Ticket>, process: Process) -> Self {
        Self { ticket, process }
    }

    /// Waits until the checkpoint is installed, or has failed. Not for a thread that drives checkpointers.
    ///
    /// # Errors
    /// [`DurabilityError::CheckpointFailed`]: it was given up, and nothing else changed. [`DurabilityError::Stopped`]: the log
    /// has stopped, or the database was closed. [`DurabilityError::Forked`].
    pub fn wait(&self) -> Result<CheckpointReport, DurabilityError> {
        if !self.process.is_this() {
            return Err(DurabilityError::Forked);
        }
        let mut outcome = self.ticket.lock();
        loop {
            match &*outcome {
                Some(outcome) => return outcome.clone(),
                None => {
                    outcome = self.ticket.answered.wait(outcome);
                }
            }
        }
    }

    /// What came of it, if that is known yet.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<CheckpointReport, DurabilityError>> {
        if !self.process.is_this() {
            return Some(Err(DurabilityError::Forked));
        }
        self.ticket.lock().clone()
    }

    /// How far it is; all zero while it waits for its turn.
    #[must_use]
    pub fn progress(&self) -> CheckpointProgress {
        self.ticket.progress()
    }
}
