//! The door's locks: std's, loom's, shuttle's or the counted ones, without std's poison.
//!
//! A panic of ours never leaves a lock's data half changed: the code under a lock either cannot panic, or its floor
//! stops the database when it does. So [`Mutex::lock`] and [`Mutex::try_lock`] take the lock even if an earlier holder
//! panicked. Where a panic does leave half a step behind, as in a logger's writer, the caller asks by
//! [`Mutex::lock_unless_panicked`].
//!
//! Neighbours: [`super`] re-exports these and chooses the locks inside them.

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

    /// A free lock around `value`. Loom makes its locks while it runs, not in constants.
    #[cfg(loom)]
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(machine::Mutex::new(value))
    }

    /// Waits for the lock and takes it.
    #[inline]
    #[cfg_attr(feature = "counted", track_caller)]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the lock and takes it. `None` if a thread panicked while it held the lock.
    #[inline]
    #[cfg_attr(feature = "counted", track_caller)]
    pub fn lock_unless_panicked(&self) -> Option<MutexGuard<'_, T>> {
        self.0.lock().ok()
    }

    /// Takes the lock if it is free.
    #[inline]
    #[cfg_attr(feature = "counted", track_caller)]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Takes the lock if it is free. `None` if it is not, or if a thread panicked while it held the lock.
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

/// Where threads wait until another changes what a lock guards. A thread may wake for no reason: ask again.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Condvar(machine::Condvar);

impl Condvar {
    /// Nobody waits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the lock back, waits for a wake-up, and takes the lock again.
    #[cfg_attr(feature = "counted", track_caller)]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`wait`](Self::wait), for `timeout` at most. Model checkers have no time: there it waits for the wake-up.
    #[cfg_attr(feature = "counted", track_caller)]
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, timeout: Duration) -> MutexGuard<'a, T> {
        self.0.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes one waiting thread.
    #[cfg_attr(feature = "counted", track_caller)]
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    #[cfg_attr(feature = "counted", track_caller)]
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A value that is set once, and read without a lock from then on.
///
/// It is std's under model checkers too. Reading and setting are one step there, so shuttle sees both orders of the two
/// by the steps around them; loom does not see that a reader comes after the setter.
#[derive(Debug)]
#[repr(transparent)]
pub struct OnceLock<T>(std::sync::OnceLock<T>);

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> OnceLock<T> {
    /// Not set.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self(std::sync::OnceLock::new())
    }

    /// The value, if it is set.
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

    /// The value, made by `make` and set if there is none. A checker may run another thread while this one makes its
    /// value, which must not wait in std's lock: the first value that is set stays.
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
    /// Gives `value` back if one is set.
    #[inline]
    pub fn set(&self, value: T) -> Result<(), T> {
        self.0.set(value)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
