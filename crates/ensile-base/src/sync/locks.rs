//! The door's locks: std's, loom's, shuttle's or the counted locks, without std's poison.
//!
//! A panic of ours never leaves a lock's data half changed: the code under a lock either cannot panic, or its crate
//! stops the database after a panic. So [`Mutex::lock`] and [`Mutex::try_lock`] take the lock even if an earlier holder
//! panicked. If a panic does leave half a step behind, as in a logger's writer, the caller uses
//! [`Mutex::lock_unless_panicked`].
//!
//! Neighbours: [`super`] re-exports these types and chooses the locks inside.

use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

use super::machine;
pub use super::machine::MutexGuard;

/// A value behind a lock.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Mutex<T>(machine::Mutex<T>);

impl<T> Mutex<T> {
    /// A free lock around `value`.
    #[cfg(not(loom))]
    #[inline]
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self(machine::Mutex::new(value))
    }

    /// A free lock around `value`. Loom makes its locks at run time, not in constants.
    #[cfg(loom)]
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(machine::Mutex::new(value))
    }

    /// Waits for the lock and takes the lock.
    #[inline]
    #[cfg_attr(feature = "counted", track_caller)]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the lock and takes the lock. `None` if a thread panicked while holding the lock.
    #[inline]
    #[cfg_attr(feature = "counted", track_caller)]
    pub fn lock_unless_panicked(&self) -> Option<MutexGuard<'_, T>> {
        self.0.lock().ok()
    }

    /// Takes the lock if free.
    #[inline]
    #[cfg_attr(feature = "counted", track_caller)]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Takes the lock if free. `None` if another thread has the lock, or if a thread panicked while holding the lock.
    #[inline]
    #[cfg_attr(feature = "counted", track_caller)]
    pub fn try_lock_unless_panicked(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }

    /// The value: no other thread can have the lock.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, without its lock.
    #[inline]
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait for another thread's change of the data under a lock. A thread may wake for no reason: check again.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Condvar(machine::Condvar);

impl Condvar {
    /// A condition variable without waiting threads.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the lock back, waits for a wake-up, and takes the lock again.
    #[cfg_attr(feature = "counted", track_caller)]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`wait`](Self::wait), for `timeout` at most. Model checkers have no time: under a checker the call waits for
    /// the wake-up.
    #[cfg_attr(feature = "counted", track_caller)]
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, timeout: Duration) -> MutexGuard<'a, T> {
        self.0.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes a waiting thread.
    #[cfg_attr(feature = "counted", track_caller)]
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes every waiting thread.
    #[cfg_attr(feature = "counted", track_caller)]
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A value that is set once, and read without a lock from then on.
///
/// The lock is std's under model checkers too. Reading and setting are single steps there. Shuttle therefore sees both
/// orders by the steps around; loom does not see that a reader comes after the setter.
#[derive(Debug)]
#[repr(transparent)]
pub struct OnceLock<T>(std::sync::OnceLock<T>);

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> OnceLock<T> {
    /// A lock without a value.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self(std::sync::OnceLock::new())
    }

    /// The value, if set.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// The value, made by `make` and set if there is none.
    #[cfg(not(any(loom, shuttle)))]
    #[inline]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(make)
    }

    /// The value, made by `make` and set if there is none. A checker may run another thread while this thread makes its
    /// value. The other thread must not wait in std's lock: the first value that is set stays.
    #[cfg(any(loom, shuttle))]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if self.0.get().is_none() {
            let _ = self.0.set(make());
        }
        self.0.get().expect("a value was set, by this thread or by another")
    }

    /// Sets the value.
    ///
    /// # Errors
    /// Gives `value` back if a value is set already.
    #[inline]
    pub fn set(&self, value: T) -> Result<(), T> {
        self.0.set(value)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
