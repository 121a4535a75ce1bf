//! A guard for a step of a thread: if the step panics, the guard tells the other threads.
//!
//! Neighbours: the guard of a logger's step stops the log, the guard of a checkpointer's step ends the checkpoints.

/// Calls its function if a panic drops the guard, and the panic began after the guard was made. A panic that began
/// before belongs to another step: unwinding may drop a handle, which closes the database, and the steps of this close
/// have not failed.
pub(crate) struct OnPanic<F: Fn()> {
    tell: F,
    was_panicking: bool,
}

impl<F: Fn()> OnPanic<F> {
    pub(crate) fn new(tell: F) -> Self {
        Self { tell, was_panicking: std::thread::panicking() }
    }
}

impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.was_panicking {
            (self.tell)();
        }
    }
}
