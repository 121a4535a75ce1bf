//! Guards of an application's objects: a lock for every object, the epoch that a look at the object rests on, and the
//! poisoning of an object whose change panics.
//!
//! ```text
//! look      lock: its last epoch is noted (R1) | shown | unlock
//! change    lock | log | its epoch is noted | make, timed | unlock              if either panics: poisoned
//! walk      lock: refused if it is poisoned | its bytes, ckpt | unlock
//! replay    lock: passed over if it is poisoned | make again | unlock           if that panics: poisoned
//! ```
//! Invariants: O7: the lock is held over all of a line. O6: an object whose change panics is poisoned before its lock
//! is free, and the half-changed object is dropped, so nothing can show it.
//!
//! Neighbours: an application that keeps its own objects has the objects here, and calls from its
//! [`Application`](crate::Application). An application whose own locks do the same needs nothing from here.

use std::fmt;
use std::mem;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::Epoch;
use ensile_base::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use ensile_durability::HeldGuard;
use ensile_memory::prefetch;

use crate::application::{CallBackResult, ObjectWriter};
use crate::read_dependency::RestsOn;
use crate::receipt::ChangeReceipt;

/// A change of this object panicked after the log entry, so the object's state is unknown. All other objects go on. The
/// next open makes the change again, perhaps by a mended program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "object {number} is poisoned: its change panicked; the object is refused until the objects are opened again; the open \
     makes a logged change again: mend the change if the change panics then too"
)]
pub struct PoisonedObject {
    /// Number of the object.
    pub number: u64,
}

/// An application's own objects, with numbers from zero on, each under its guard.
///
/// Implements the discipline that [`Application`](crate::Application) asks of guards. A change that panics poisons its
/// object: the object is removed from memory, is refused from then on, and prevents checkpoints, while all other
/// objects are served. The operation is in the log, and the next open makes the change again. If the change panics
/// again, the object is poisoned again, and the open goes on ([`replay`](Self::replay)).
///
/// An object takes one line of memory or more, its lock included, so threads that use two objects share no line.
///
/// ```
/// use std::sync::Arc;
/// use ensile_objects::{
///     Application, ApplicationLog, CallBackResult, GuardedObjects, ObjectWriter, ObjectsBuilder, ObjectsResult, RestsOn,
/// };
///
/// struct Balances(GuardedObjects<i64>);
///
/// const OP_ADD: u32 = 0;
///
/// fn number(bytes: &[u8]) -> Result<i64, Box<str>> {
///     Ok(i64::from_le_bytes(bytes.try_into().map_err(|_| "a balance has eight bytes")?))
/// }
///
/// impl Application for Balances {
///     fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
///         self.0.checkpoint(from, out, |balance, bytes| {
///             bytes.extend_from_slice(&balance.to_le_bytes());
///             true
///         })
///     }
///
///     fn load_one(&self, account: u64, bytes: &[u8]) -> CallBackResult {
///         let loaded = number(bytes)?;
///         self.0.replay(account, |balance| Ok(*balance = loaded))
///     }
///
///     fn replay_one(&self, account: u64, operation: u32, parameters: &[&[u8]]) -> CallBackResult {
///         let (OP_ADD, [by]) = (operation, parameters) else { return Err("no such operation".into()) };
///         let by = number(by)?;
///         self.0.replay(account, |balance| Ok(*balance += by))
///     }
/// }
///
/// /// The new balance: its account is durable once `rests` is.
/// fn add(all: &Balances, log: &ApplicationLog, account: u64, by: i64, rests: &RestsOn) -> ObjectsResult<i64> {
///     let mut balance = all.0.lock(account, rests).expect("no change of a balance panics");
///     let logged = || log.log(account, OP_ADD, &[&by.to_le_bytes()]);
///     balance.change(rests, logged, |balance| {
///         *balance += by;
///         *balance
///     })
/// }
///
/// # fn main() -> ObjectsResult<()> {
/// # let folder = std::env::temp_dir().join(format!("ensile-objects-guarded-{}", std::process::id()));
/// let new = || Arc::new(Balances(GuardedObjects::new(1000, |_| 0)));
/// let balances = new();
/// let log = ObjectsBuilder::new(&folder).open_application(Arc::clone(&balances))?;
/// let rests = RestsOn::default();
/// assert_eq!(add(&balances, &log, 7, 20, &rests)?, 20);
/// log.receipt(rests.epoch()).durable()?;
/// drop(log);
///
/// let balances = new();
/// let log = ObjectsBuilder::new(&folder).open_application(Arc::clone(&balances))?;
/// assert_eq!(*balances.0.lock(7, &rests).expect("it is whole"), 20);
/// # drop(log);
/// # std::fs::remove_dir_all(&folder).expect("it is there");
/// # Ok(())
/// # }
/// ```
pub struct GuardedObjects<T> {
    objects: Box<[ObjectLine<T>]>,
    poisoned: AtomicU64,
}

/// An object and its lock, on lines of memory of their own.
#[repr(align(64))]
struct ObjectLine<T>(Mutex<KnownObject<T>>);
const _: () = assert!(size_of::<ObjectLine<u8>>().is_multiple_of(64), "two objects share no line");

struct KnownObject<T> {
    /// Epoch of the last change.
    last: Epoch,
    /// `None` if the object is poisoned (O6).
    object: Option<T>,
}

const WHOLE: &str = "a guard is of an object that is not poisoned";

impl<T> fmt::Debug for GuardedObjects<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (objects, poisoned) = (self.objects.len(), self.poisoned_count());
        out.debug_struct("GuardedObjects").field("objects", &objects).field("poisoned", &poisoned).finish()
    }
}

impl<T> GuardedObjects<T> {
    /// Bytes of memory that an object takes here, its lock included.
    pub const BYTES_EACH: usize = size_of::<ObjectLine<T>>();

    /// Creates `count` objects, each made from its number.
    #[must_use]
    pub fn new(count: u64, mut make: impl FnMut(u64) -> T) -> Self {
        let made = |number| KnownObject { last: Epoch::ZERO, object: Some(make(number)) };
        Self {
            objects: (0..count).map(made).map(|known| ObjectLine(Mutex::new(known))).collect(),
            poisoned: AtomicU64::new(0),
        }
    }

    /// Locks the object of this number. A thread with a guard neither closes nor waits for a checkpoint or a backup of
    /// objects: these calls are refused, as they might wait for the guard. `rests` notes the object's last change, of a
    /// poisoned object too.
    ///
    /// # Errors
    /// The object is poisoned.
    ///
    /// # Panics
    /// If there is no object of this number.
    #[inline]
    pub fn lock(&self, number: u64, rests: &RestsOn) -> Result<ObjectGuard<'_, T>, PoisonedObject> {
        let known = self.objects[number as usize].0.lock();
        rests.note(known.last);
        match known.object {
            Some(_) => Ok(ObjectGuard { number, known, poisoned: &self.poisoned, _held: HeldGuard::begin() }),
            None => Err(PoisonedObject { number }),
        }
    }

    /// As [`lock`](Self::lock), if the lock is free and the object not poisoned. A thread that holds a guard takes
    /// further guards by this method: two threads that wait for each other's guards wait for ever.
    ///
    /// # Panics
    /// If there is no object of this number.
    #[inline]
    pub fn try_lock(&self, number: u64, rests: &RestsOn) -> Option<ObjectGuard<'_, T>> {
        let known = self.objects[number as usize].0.try_lock()?;
        known.object.as_ref()?;
        rests.note(known.last);
        Some(ObjectGuard { number, known, poisoned: &self.poisoned, _held: HeldGuard::begin() })
    }

    /// Prefetches the memory of an object that is locked soon: a hint.
    ///
    /// # Panics
    /// If there is no object of this number.
    #[inline]
    pub fn prefetch(&self, number: u64) {
        prefetch::line(&raw const self.objects[number as usize]);
    }

    /// Loads an object, or makes a logged change of an object again, on behalf of
    /// [`load_one`](crate::Application::load_one) and [`replay_one`](crate::Application::replay_one). If `make` panics,
    /// the object is poisoned, and later replays skip the object: the open goes on, all other objects are served, and
    /// no checkpoint is made, so the log keeps the failed change.
    ///
    /// # Errors
    /// The errors of `make`, which fail the open; and that no object has this number.
    pub fn replay(&self, number: u64, make: impl FnOnce(&mut T) -> CallBackResult) -> CallBackResult {
        let locked = usize::try_from(number).ok().and_then(|number| self.objects.get(number));
        let known = locked.ok_or("there is no object of this number")?.0.lock();
        if known.object.is_none() {
            return Ok(());
        }
        let mut guard = ObjectGuard { number, known, poisoned: &self.poisoned, _held: HeldGuard::begin() };
        let made = catch_unwind(AssertUnwindSafe(|| guard.poison_if_it_panics(|known| make(known.whole()))));
        debug_assert_eq!(made.is_err(), guard.known.object.is_none(), "O6: a panic poisons its object");
        // The panic hook and the poison have reported the panic.
        made.unwrap_or(Ok(()))
    }

    /// Writes the objects with this number or a larger number, and returns the result of
    /// [`checkpoint`](crate::Application::checkpoint). `write` appends an object's bytes to an empty buffer, under the
    /// object's guard. `write` returns false if nothing must be kept of the object: no operation was logged, or only
    /// operations of [objects that came and went](crate::Application#objects-that-come-and-go). With
    /// [`mark_lives`](crate::ObjectsBuilder::mark_lives) `write` returns true for every existing object: recovery
    /// treats an object that is not written as removed.
    ///
    /// The first poisoned object gives the checkpoint up.
    pub fn checkpoint(
        &self,
        from: u64,
        out: &mut ObjectWriter<'_>,
        mut write: impl FnMut(&T, &mut Vec<u8>) -> bool,
    ) -> Option<u64> {
        out.ckpt_each(from..self.objects.len() as u64, |number, bytes| {
            let guard = self.lock(number, &RestsOn::default()).map_err(|why| why.to_string())?;
            Ok(write(&guard, bytes).then_some(guard))
        })
    }

    /// Starts of slices with about equally many objects, as [`slice_starts`](crate::Application::slice_starts) returns.
    #[must_use]
    pub fn slice_starts(&self, parts: usize) -> Vec<u64> {
        // In 128 bits: the product of two 64-bit numbers.
        let start = |part| (part as u128 * self.objects.len() as u128 / parts as u128) as u64;
        let mut starts: Vec<u64> = (1..parts).map(start).collect();
        starts.dedup();
        starts
    }

    /// Number of poisoned objects.
    #[must_use]
    pub fn poisoned_count(&self) -> u64 {
        // Relaxed: a figure for people.
        self.poisoned.load(Ordering::Relaxed)
    }
}

/// An object, locked, to be read and [changed](Self::change).
pub struct ObjectGuard<'o, T> {
    number: u64,
    known: MutexGuard<'o, KnownObject<T>>,
    poisoned: &'o AtomicU64,
    _held: HeldGuard,
}

impl<T: fmt::Debug> fmt::Debug for ObjectGuard<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("ObjectGuard").field(&**self).finish()
    }
}

impl<T> Deref for ObjectGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.known.object.as_ref().expect(WHOLE)
    }
}

impl<T> ObjectGuard<'_, T> {
    /// Epoch of the object's last change; `Epoch::ZERO` without a change since the open.
    #[inline]
    #[must_use]
    pub fn last(&self) -> Epoch {
        self.known.last
    }

    /// Logs a change by `log`, which returns the receipt, and then makes the change. `rests` notes the receipt's epoch.
    /// If `log` or `make` panics, the object may be half changed, or lack the logged change: the object is poisoned,
    /// and the panic goes on.
    ///
    /// With a receipt, the duration of one change in 64 is measured; with an epoch in place of the receipt, no duration
    /// is measured ([`ChangeReceipt`]). With [`NoLog`](crate::ObjectDurability::NoLog), no log keeps the changes. If
    /// `log` returns a receipt and the change panics, later changes of all objects are refused, since no checkpoint
    /// would keep the changes.
    ///
    /// # Errors
    /// The error of `log`: nothing was logged, and nothing is made.
    ///
    /// # Panics
    /// If `log` or `make` panics; and on an object that an earlier change through this guard has poisoned.
    #[inline]
    pub fn change<R, L: ChangeReceipt, E>(
        &mut self,
        rests: &RestsOn,
        log: impl FnOnce() -> Result<L, E>,
        make: impl FnOnce(&mut T) -> R,
    ) -> Result<R, E> {
        let number = self.number;
        self.poison_if_it_panics(|known| {
            let receipt = log()?;
            known.last = receipt.epoch();
            rests.note(known.last);
            let made = receipt.make(number, || make(known.whole()));
            debug_assert!(known.last <= rests.epoch(), "R1: an answer rests on the change");
            Ok(made)
        })
    }

    #[inline]
    fn poison_if_it_panics<R>(&mut self, change: impl FnOnce(&mut KnownObject<T>) -> R) -> R {
        let changing = ChangingObject { known: &mut self.known, poisoned: self.poisoned };
        let outcome = change(&mut *changing.known);
        // The change has returned.
        mem::forget(changing);
        outcome
    }
}

impl<T> KnownObject<T> {
    #[inline]
    fn whole(&mut self) -> &mut T {
        self.object.as_mut().expect(WHOLE)
    }
}

/// An object under change. If the change does not return, the object is poisoned.
struct ChangingObject<'c, T> {
    known: &'c mut KnownObject<T>,
    poisoned: &'c AtomicU64,
}

impl<T> Drop for ChangingObject<'_, T> {
    #[cold]
    fn drop(&mut self) {
        let Some(half) = self.known.object.take() else { return };
        // Relaxed: a figure for people.
        self.poisoned.fetch_add(1, Ordering::Relaxed);
        // The drop of a half-changed object may panic, and a second panic that escapes here ends the process.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(half)));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
