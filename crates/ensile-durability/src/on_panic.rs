//! A guard for a step of a thread: what the others must be told if it panics.
//!
//! Neighbours: a logger's step stops the log with it, a checkpointer's ends the checkpoints.

/// Calls its function when it is dropped by a panic that began after it was made. One that was under way before is
/// another's: a handle dropped by it closes the database, and these steps are as good as any.
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
