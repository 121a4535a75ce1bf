//! The counting door (feature `counted`): std's atomics and locks. A thread that records notes each access.
//!
//! The cost on many cores comes from the written lines: a cache line in another worker's hot path has to travel. Every
//! load, store and read-modify-write notes its cache line and its place in the source; a lock, an unlock and a change
//! of a count of owners note a read-modify-write. Types have std's layout, so lines fall as in a shipped build. Plain
//! writes are noted through [`super::plain_access`]. The door does not see memory that one thread owns, nor std's
//! `Arc`.
//!
//! Neighbours: [`super`] exports the door; the bench's `shared-writes` reads the notes.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult, WaitTimeoutResult};
use std::time::Duration;

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// Kind of access to a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Touch {
    /// The line was read.
    Load,
    /// The line was written.
    Store,
    /// The line was read and written in one step.
    ReadModifyWrite,
}

impl Touch {
    /// True if the access needs the line exclusively.
    #[must_use]
    pub fn writes(self) -> bool {
        self != Self::Load
    }
}

/// Touches of one cache line, of one kind, by one place of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Address of the line divided by [`LINE_BYTES`].
    pub line: usize,
    /// Kind of the access.
    pub touch: Touch,
    /// Place in the source.
    pub place: &'static Location<'static>,
    /// Number of accesses.
    pub count: u64,
}

type Notes = HashMap<(usize, Touch, &'static Location<'static>), u64>;

thread_local! {
    static RECORDS: Cell<bool> = const { Cell::new(false) };
    static NOTES: RefCell<Notes> = RefCell::new(Notes::new());
}

/// Runs `f` and returns the accesses of this thread meanwhile, in no order. Recordings do not nest.
///
/// # Panics
/// If this thread is recording already.
pub fn record<R>(f: impl FnOnce() -> R) -> (R, Vec<Touched>) {
    /// Ends the recording also when `f` panics.
    struct Recording;
    impl Drop for Recording {
        fn drop(&mut self) {
            RECORDS.set(false);
        }
    }
    assert!(!RECORDS.replace(true), "recordings do not nest");
    NOTES.with_borrow_mut(Notes::clear);
    let recording = Recording;
    let result = f();
    drop(recording);
    let touched = NOTES.with_borrow_mut(|notes| {
        notes.drain().map(|((line, touch, place), count)| Touched { line, touch, place, count }).collect()
    });
    (result, touched)
}

/// Notes a touch of `bytes` bytes from `address` on.
#[inline]
pub(super) fn note(address: usize, bytes: usize, touch: Touch, place: &'static Location<'static>) {
    // A thread that ends may drop its values after its notes are gone; the thread does not record then.
    if bytes == 0 || !RECORDS.try_with(Cell::get).unwrap_or(false) {
        return;
    }
    let lines = address / LINE_BYTES..=(address + bytes - 1) / LINE_BYTES;
    let _ = NOTES.try_with(|notes| {
        let mut notes = notes.borrow_mut();
        for line in lines {
            *notes.entry((line, touch, place)).or_default() += 1;
        }
    });
}

#[inline]
#[track_caller]
fn note_value<T: ?Sized>(value: &T, touch: Touch) {
    note(std::ptr::from_ref(value).addr(), size_of_val(value), touch, Location::caller());
}

#[inline]
#[track_caller]
pub(super) fn before_load<T>(value: &T) {
    note_value(value, Touch::Load);
}

#[inline]
#[track_caller]
pub(super) fn before_store<T>(value: &T) {
    note_value(value, Touch::Store);
}

/// A failed exchange is noted too, as it takes the line all the same. Repeated tries are noted once.
#[inline]
#[track_caller]
pub(super) fn before_change<T>(value: &T) {
    note_value(value, Touch::ReadModifyWrite);
}

/// As std's, counted: a read-modify-write on lock, and a read-modify-write on unlock.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

/// As std's.
#[derive(Debug)]
pub struct MutexGuard<'a, T: ?Sized> {
    /// `None` during a wait of a [`Condvar`].
    guard: Option<std::sync::MutexGuard<'a, T>>,
    lock: usize,
    place: &'static Location<'static>,
}

impl<T> Mutex<T> {
    /// As std's.
    #[inline]
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// As std's.
    ///
    /// # Errors
    /// If a thread panicked while holding the lock.
    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    fn guard<'a>(
        &'a self,
        guard: std::sync::MutexGuard<'a, T>,
        place: &'static Location<'static>,
    ) -> MutexGuard<'a, T> {
        MutexGuard { guard: Some(guard), lock: std::ptr::from_ref(self).addr(), place }
    }

    /// As std's.
    ///
    /// # Errors
    /// If a thread panicked while holding the lock.
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let place = Location::caller();
        // The lock's word comes first in the mutex; the data behind the word is noted neither read nor written.
        note(std::ptr::from_ref(self).addr(), size_of::<u32>(), Touch::ReadModifyWrite, place);
        match self.0.lock() {
            Ok(guard) => Ok(self.guard(guard, place)),
            Err(poisoned) => Err(PoisonError::new(self.guard(poisoned.into_inner(), place))),
        }
    }

    /// As std's.
    ///
    /// # Errors
    /// If another thread holds the lock, or a thread panicked while holding the lock.
    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let place = Location::caller();
        // As in `lock`; a lock that another thread holds is touched as well.
        note(std::ptr::from_ref(self).addr(), size_of::<u32>(), Touch::ReadModifyWrite, place);
        match self.0.try_lock() {
            Ok(guard) => Ok(self.guard(guard, place)),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(poisoned)) => {
                Err(TryLockError::Poisoned(PoisonError::new(self.guard(poisoned.into_inner(), place))))
            }
        }
    }

    /// As std's.
    ///
    /// # Errors
    /// If a thread panicked while holding the lock.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}

const TAKEN_BY_A_WAIT: &str =
    "only a wait on a condition variable takes the guard, and nobody looks meanwhile";

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect(TAKEN_BY_A_WAIT)
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect(TAKEN_BY_A_WAIT)
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.guard.take().is_some() {
            note(self.lock, size_of::<u32>(), Touch::ReadModifyWrite, self.place);
        }
    }
}

/// As std's, counted: a read-modify-write per call.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// As std's.
    #[must_use]
    pub const fn new() -> Self {
        Self(std::sync::Condvar::new())
    }

    /// As std's.
    ///
    /// # Errors
    /// If a thread panicked while holding the lock.
    #[track_caller]
    pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        note_value(self, Touch::ReadModifyWrite);
        let inner = guard.guard.take().expect("a guard that is not waiting");
        let (lock, place) = (guard.lock, guard.place);
        let back = |inner| MutexGuard { guard: Some(inner), lock, place };
        match self.0.wait(inner) {
            Ok(inner) => Ok(back(inner)),
            Err(poisoned) => Err(PoisonError::new(back(poisoned.into_inner()))),
        }
    }

    /// As std's.
    ///
    /// # Errors
    /// If a thread panicked while holding the lock.
    #[track_caller]
    pub fn wait_timeout<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        note_value(self, Touch::ReadModifyWrite);
        let inner = guard.guard.take().expect("a guard that is not waiting");
        let (lock, place) = (guard.lock, guard.place);
        let back = |inner| MutexGuard { guard: Some(inner), lock, place };
        match self.0.wait_timeout(inner, timeout) {
            Ok((inner, waited)) => Ok((back(inner), waited)),
            Err(poisoned) => {
                let (inner, waited) = poisoned.into_inner();
                Err(PoisonError::new((back(inner), waited)))
            }
        }
    }

    /// As std's.
    #[track_caller]
    pub fn notify_one(&self) {
        note_value(self, Touch::ReadModifyWrite);
        self.0.notify_one();
    }

    /// As std's.
    #[track_caller]
    pub fn notify_all(&self) {
        note_value(self, Touch::ReadModifyWrite);
        self.0.notify_all();
    }
}

/// As std's, counted: a read-modify-write of the counts of owners per new owner, and per dropped owner.
#[derive(PartialEq, Eq)]
#[repr(transparent)]
pub struct Arc<T: ?Sized>(std::sync::Arc<T>);

impl<T> Arc<T> {
    /// As std's.
    #[inline]
    pub fn new(value: T) -> Self {
        Self(std::sync::Arc::new(value))
    }
}

impl<T: ?Sized> Arc<T> {
    /// As std's.
    #[inline]
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        std::sync::Arc::get_mut(&mut this.0)
    }

    /// As std's.
    #[inline]
    #[must_use]
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        std::sync::Arc::ptr_eq(&this.0, &other.0)
    }

    /// As std's.
    #[inline]
    #[must_use]
    pub fn strong_count(this: &Self) -> usize {
        std::sync::Arc::strong_count(&this.0)
    }

    /// As std's.
    #[inline]
    #[must_use]
    pub fn as_ptr(this: &Self) -> *const T {
        std::sync::Arc::as_ptr(&this.0)
    }

    /// Notes an access to the counts of owners: two words, in front of the value and of its alignment's padding.
    fn note_counts(&self, place: &'static Location<'static>) {
        const COUNTS_BYTES: usize = 2 * size_of::<usize>();
        let front = COUNTS_BYTES.next_multiple_of(align_of_val(&*self.0));
        let value = std::sync::Arc::as_ptr(&self.0).addr();
        note(value - front, COUNTS_BYTES, Touch::ReadModifyWrite, place);
    }
}

impl<T: ?Sized> Clone for Arc<T> {
    #[track_caller]
    fn clone(&self) -> Self {
        self.note_counts(Location::caller());
        Self(std::sync::Arc::clone(&self.0))
    }
}

impl<T: ?Sized> Drop for Arc<T> {
    #[track_caller]
    fn drop(&mut self) {
        self.note_counts(Location::caller());
    }
}

impl<T: ?Sized> Deref for Arc<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Default> Default for Arc<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> From<T> for Arc<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: ?Sized + std::fmt::Debug> std::fmt::Debug for Arc<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests;
