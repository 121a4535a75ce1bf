//! A collection of objects: keys, each with an object. Every object keeps the TID of its last operation.
//!
//! ```text
//! update   encode | find the cell, lock it, log, apply, unlock | receipt          beside it: a walk, cell by cell
//! open     load objects -> operations wait for their epochs -> applied in the order of TIDs -> served
//! ```
//! Invariants:
//! - O1, O3, E1: as `crate::runtime` logs.
//! - O2: the cell is in its shard before the operation is logged.
//! - O6: the object of an operation that does not return is poisoned before the object's lock is free.
//! - R1: the result of a read rests on the epoch of the object's last operation. R2: a refusal rests on the same epoch,
//!   because a refusal has seen the object as a read does.
//!
//! Neighbours: applications call; `persistent` has the applications' codecs, `shards` the objects, `recovery` and
//! `walk` the sides of recovery and checkpoints, `shadow_copy` the debug mode, `check` the debug mode for a folder.

pub(crate) mod check;
pub(crate) mod persistent;
mod recovery;
mod shadow_copy;
mod shards;
mod walk;

use std::borrow::Borrow;
use std::convert::Infallible;
use std::hash::Hash;
use std::sync::Arc;

use ensile_base::clock::Clock;
use ensile_base::limits::KEY_BYTES_MAX;
use ensile_base::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use ensile_base::{Epoch, Tid};
use ensile_durability::{RecoveryReport, UserCode};
use ensile_memory::prefetch;

use crate::apply_time::AppliedTime;
use crate::chunks::Assembly;
use crate::error::{ObjectsError, ObjectsResult as Result};
use crate::format::{BodyForm, encode_body};
use crate::receipt::ObjectReceipt;
use crate::replay::WaitingOperations;
use crate::runtime::{
    CheckpointHandle, KeyCheck, LockedObject, LogAttempt, LogWorker, ObjectsSettings, ObjectsStats,
    OpenRuntime,
};
use persistent::{ObjectKey, Persistent};
use recovery::LoggedChange;
use shadow_copy::Checked;
use shards::{CellState, KeyHash, KeyHasher, ObjectCell, Shards};

/// Number of keys that are looked up side by side. More keys do not shorten the wait for memory.
const TOGETHER: usize = 16;
/// Largest number of bytes of a cell that are prefetched; the processor predicts the further bytes.
const PREFETCHED_BYTES_MAX: usize = 512;

/// Lookup of a key before its object is locked.
struct KeyLookup<'c, K, T> {
    hash: KeyHash,
    /// Guessed cell of the key: a cell without a lock, perhaps of another key.
    guess: Option<&'c ObjectCell<K, T>>,
}

/// The objects, and the state of recovery and checkpoints beside the objects.
pub(crate) struct ObjectsState<K, T: Persistent> {
    shards: Shards<K, T>,
    waiting: WaitingOperations<(KeyHash, K, LoggedChange<T>)>,
    pieces: Assembly,
    /// Reason why the walk under way cannot become a checkpoint.
    refusal: Mutex<Option<String>>,
    poisoned: AtomicU64,
    /// Check of the keys that the collection may have, and the error of the first refused key.
    accepts: Option<KeyCheck>,
    refused: Mutex<Option<ObjectsError>>,
    /// Time to apply operations: of calls, and of recovery.
    applied: Arc<AppliedTime>,
    replayed: AppliedTime,
}

/// An application's objects of one kind, in memory and persistent (SLACH).
///
/// Operations change the objects. Every operation is logged and applied under the object's lock. Objects are
/// independent: an operation on an object waits for no other object. Operations, codecs, checks and looks call no
/// handle: each such call returns [`InCallBack`](crate::ObjectsError::InCallBack). A clone is another handle on the
/// same objects; the last handle closes the objects. One folder holds one collection.
///
/// ```
/// use ensile_objects::{ObjectsBuilder, Objects, Persistent};
/// # use ensile_objects::{CodecResult, ObjectsResult};
/// # struct Counter(u64);
/// # impl Persistent for Counter {
/// #     type Operation = u64;
/// #     type Output = u64;
/// #     const VERSION: u16 = 1;
/// #     const OPERATION_VERSION: u16 = 1;
/// #     fn apply(counter: &mut Option<Self>, by: &u64) -> u64 {
/// #         let counter = counter.get_or_insert(Counter(0));
/// #         counter.0 += by;
/// #         counter.0
/// #     }
/// #     fn encode(&self, out: &mut Vec<u8>) { out.extend_from_slice(&self.0.to_le_bytes()) }
/// #     fn decode(_: u16, bytes: &[u8]) -> CodecResult<Self> { Self::decode_operation(1, bytes).map(Self) }
/// #     fn encode_operation(by: &u64, out: &mut Vec<u8>) { out.extend_from_slice(&by.to_le_bytes()) }
/// #     fn decode_operation(_: u16, bytes: &[u8]) -> CodecResult<u64> {
/// #         bytes.try_into().map(u64::from_le_bytes).map_err(|_| "not eight bytes".into())
/// #     }
/// # }
/// # fn main() -> ObjectsResult<()> {
/// # let folder = std::env::temp_dir().join(format!("ensile-objects-doc-{}", std::process::id()));
/// let counters: Objects<String, Counter> = ObjectsBuilder::new(&folder).open()?;
/// let now = counters.update("visits".to_owned(), &1)?; // durable when it returns
/// assert_eq!(now, 1);
/// let (now, receipt) = counters.submit("visits".to_owned(), &1)?; // durable when the receipt says so
/// receipt.durable()?;
/// assert_eq!(now, 2);
/// counters.close()?;
///
/// let counters: Objects<String, Counter> = ObjectsBuilder::new(&folder).open()?;
/// assert_eq!(counters.read(&"visits".to_owned(), |counter| counter.map(|counter| counter.0))?, Some(2));
/// # drop(counters);
/// # std::fs::remove_dir_all(&folder).expect("it is there");
/// # Ok(())
/// # }
/// ```
pub struct Objects<K: ObjectKey, T: Persistent> {
    state: Arc<ObjectsState<K, T>>,
    runtime: Arc<OpenRuntime>,
    /// True if every operation is also applied to a copy.
    is_checked: bool,
    /// True if operations are logged and not checked.
    is_usual: bool,
}

impl<K: ObjectKey, T: Persistent> Clone for Objects<K, T> {
    fn clone(&self) -> Self {
        let (state, runtime) = (Arc::clone(&self.state), Arc::clone(&self.runtime));
        Self { state, runtime, is_checked: self.is_checked, is_usual: self.is_usual }
    }
}

impl<K: ObjectKey, T: Persistent> std::fmt::Debug for Objects<K, T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Objects").field("cells", &self.state.shards.count()).finish_non_exhaustive()
    }
}

impl<K: ObjectKey, T: Persistent> ObjectsState<K, T> {
    pub(crate) fn new(clock: &Clock) -> Self {
        Self {
            shards: Shards::new(KeyHasher::new(clock.is_manual())),
            waiting: WaitingOperations::new(),
            pieces: Assembly::default(),
            refusal: Mutex::default(),
            poisoned: AtomicU64::new(0),
            accepts: None,
            refused: Mutex::default(),
            applied: Arc::new(AppliedTime::new(clock)),
            replayed: AppliedTime::new(clock),
        }
    }

    /// Number of objects, with objects of which only a removal is remembered; and number of poisoned objects.
    pub(crate) fn counts(&self) -> (u64, u64) {
        // Relaxed: a figure for people.
        (self.shards.count(), self.poisoned.load(Ordering::Relaxed))
    }
}

impl<K: ObjectKey, T: Persistent> Objects<K, T> {
    pub(crate) fn open(settings: ObjectsSettings, is_checked: bool) -> Result<Self> {
        let state = ObjectsState { accepts: settings.accepts.clone(), ..ObjectsState::new(&settings.clock) };
        let state = Arc::new(state);
        let runtime = settings.open(Arc::clone(&state) as _)?;
        let is_usual = runtime.is_logged() && !is_checked;
        Ok(Self { state, runtime: Arc::new(runtime), is_checked, is_usual })
    }

    /// Logs an operation on the object of this key and applies the operation. With strict durability the operation is
    /// durable at the return; with relaxed durability soon afterwards.
    ///
    /// # Errors
    /// As for [`Objects::submit`]; with strict durability also the errors of [`ObjectReceipt::durable`]: the operation
    /// was logged and applied then.
    ///
    /// # Panics
    /// If the operation panics. The operation was logged then, and its object is poisoned: see
    /// [`ObjectsError::Poisoned`].
    #[inline]
    pub fn update(&self, key: K, operation: &T::Operation) -> Result<T::Output> {
        let (output, receipt) = self.submit(key, operation)?;
        self.runtime.wait_if_strict(receipt.epoch())?;
        Ok(output)
    }

    /// As [`Objects::update`], without waiting: the receipt tells when the operation is durable.
    ///
    /// # Errors
    /// [`ObjectsError::Poisoned`], [`ObjectsError::KeyTooLong`], or [`ObjectsError::Storage`] while the log takes no
    /// entries: nothing was changed. [`ObjectsError::NotDeterministic`]: the operation was logged and applied.
    ///
    /// # Panics
    /// As for [`Objects::update`].
    #[inline]
    pub fn submit(&self, key: K, operation: &T::Operation) -> Result<(T::Output, ObjectReceipt<'_>)> {
        if !self.is_usual {
            return self.submit_unusual(&key, operation);
        }
        let lookup = self.find_ahead(&key);
        let worker = self.operation(&key, operation)?;
        self.change(&key, lookup, worker, Poison::Refuses, |state| self.apply_unchecked(state, operation))
    }

    /// As [`submit`](Self::submit), without a log or with checked operations.
    #[inline(never)]
    fn submit_unusual(&self, key: &K, operation: &T::Operation) -> Result<(T::Output, ObjectReceipt<'_>)> {
        let apply = |state: &mut CellState<K, T>| self.apply(key, state, operation);
        let (output, receipt) = if self.runtime.is_logged() {
            let worker = self.operation(key, operation)?;
            self.change(key, self.find_ahead(key), worker, Poison::Refuses, apply)?
        } else {
            self.change_unlogged(key, Poison::Refuses, apply)?
        };
        Ok((output?, receipt))
    }

    /// As [`Objects::update`], if `check` allows the operation: `check` sees the object under the object's lock, before
    /// anything is logged. An error of `check` is returned unchanged, and nothing was changed. The error is an answer
    /// too: with strict durability it is returned once the state that `check` saw is durable.
    ///
    /// # Errors
    /// As for [`Objects::update`].
    ///
    /// # Panics
    /// As for [`Objects::update`]; also if `check` panics: nothing was logged then.
    pub fn update_if<E>(
        &self,
        key: K,
        operation: &T::Operation,
        check: impl Fn(Option<&T>) -> Result<(), E>,
    ) -> Result<Result<T::Output, E>> {
        let (outcome, receipt) = self.submit_if(key, operation, check)?;
        self.runtime.wait_if_strict(receipt.epoch())?;
        Ok(outcome)
    }

    /// As [`Objects::update_if`], without waiting: the receipt tells when the operation is durable, or when the state
    /// behind a refusal is durable.
    ///
    /// # Errors
    /// As for [`Objects::submit`].
    ///
    /// # Panics
    /// As for [`Objects::update_if`].
    pub fn submit_if<E>(
        &self,
        key: K,
        operation: &T::Operation,
        check: impl Fn(Option<&T>) -> Result<(), E>,
    ) -> Result<(Result<T::Output, E>, ObjectReceipt<'_>)> {
        if !self.runtime.is_logged() {
            let change = |state: &mut CellState<K, T>| self.apply(&key, state, operation);
            let (outcome, receipt) = self.change_unlogged_if(&key, Poison::Refuses, check, change)?;
            return Ok(match outcome {
                Ok(output) => (Ok(output?), receipt),
                Err(refusal) => (Err(refusal), receipt),
            });
        }
        let worker = self.operation(&key, operation)?;
        let mut worker = self.runtime.unless_refused(worker)?;
        let KeyLookup { hash, mut guess } = self.find_ahead(&key);
        loop {
            // Without log space: `check` is user code (O3).
            let guessed = guess.take().and_then(|cell| locked_guess(cell, &key));
            let mut state = guessed.unwrap_or_else(|| self.state.shards.find_or_make(&key, hash).lock());
            if !state.belongs_to(&key) {
                continue;
            }
            if state.is_poisoned {
                drop(state);
                self.runtime.give_back(worker);
                return Err(poisoned_error(&key));
            }
            if let Err(refusal) = self.check_object(&state, &check) {
                let epoch = self.rests_on(&state, hash);
                drop(state);
                self.runtime.give_back(worker);
                return Ok((Err(refusal), ObjectReceipt::new(&self.runtime, epoch)));
            }
            if let Some(tid) = self.runtime.log_at_once(&mut worker, &mut state.tid) {
                self.runtime.give_back(worker);
                let output = self.apply(&key, &mut state, operation)?;
                return Ok((Ok(output), ObjectReceipt::new(&self.runtime, tid.epoch())));
            }
            let locked = self.runtime.with_space(state, worker)?;
            match self.log_and(locked, |state| self.apply(&key, state, operation))? {
                Ok((output, receipt)) => return Ok((Ok(output?), receipt)),
                Err(again) => worker = again,
            }
        }
    }

    /// Replaces the object, even a poisoned object, by this whole value (SLACH's value log).
    ///
    /// # Errors
    /// As for [`Objects::submit`].
    pub fn put(&self, key: K, object: T) -> Result<ObjectReceipt<'_>> {
        let worker = match self.runtime.is_logged() {
            true => Some(self.entry(&key, BodyForm::Value, T::VERSION, |bytes| object.encode(bytes))?),
            false => None,
        };
        let mut object = Some(object);
        let become_it = |state: &mut CellState<K, T>| state.become_known(object.take(), &self.state.poisoned);
        self.become_known(&key, worker, become_it)
    }

    /// Removes the object, even a poisoned object. The removal of a missing object is logged as well.
    ///
    /// # Errors
    /// As for [`Objects::submit`].
    pub fn remove(&self, key: K) -> Result<ObjectReceipt<'_>> {
        let worker = match self.runtime.is_logged() {
            true => Some(self.entry(&key, BodyForm::Removal, 0, |_| {})?),
            false => None,
        };
        let remove = |state: &mut CellState<K, T>| state.become_known(None, &self.state.poisoned);
        self.become_known(&key, worker, remove)
    }

    /// Shows the object, or `None`, under the object's lock. With strict durability `read` returns once the shown state
    /// is durable.
    ///
    /// # Errors
    /// [`ObjectsError::Poisoned`]; with strict durability also the errors of [`ObjectReceipt::durable`].
    #[inline]
    pub fn read<R>(&self, key: &K, look: impl FnOnce(Option<&T>) -> R) -> Result<R> {
        let (seen, receipt) = self.look(key, look)?;
        self.runtime.wait_if_strict(receipt.epoch())?;
        Ok(seen)
    }

    /// As [`Objects::read`], without waiting: the receipt tells when the shown state is durable.
    ///
    /// # Errors
    /// [`ObjectsError::Poisoned`].
    #[inline]
    pub fn look<R>(&self, key: &K, look: impl FnOnce(Option<&T>) -> R) -> Result<(R, ObjectReceipt<'_>)> {
        self.runtime.check_caller()?;
        let hash = self.state.shards.hash(key);
        let guess = self.state.shards.guess(hash);
        let (seen, epoch) = self.look_at(key, KeyLookup { hash, guess }, look)?;
        Ok((seen, ObjectReceipt::new(&self.runtime, epoch)))
    }

    /// As [`Objects::look`], for several keys in order: `look` gets a key's number and the key's object, under the
    /// object's lock. The memory of sixteen keys is requested at once, so a thread waits for memory once per sixteen
    /// keys. Memory behind pointers of objects and keys is not requested. The receipt covers all shown objects.
    ///
    /// # Errors
    /// [`ObjectsError::Poisoned`] at the first key with a poisoned object; later keys are not shown.
    pub fn look_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k K>,
        mut look: impl FnMut(usize, Option<&T>),
    ) -> Result<ObjectReceipt<'_>>
    where
        K: 'k,
    {
        self.runtime.check_caller()?;
        let (mut keys, mut number, mut rests_on) = (keys.into_iter(), 0, Epoch::ZERO);
        loop {
            let found = self.find_ahead_of(&mut keys);
            if found[0].is_none() {
                return Ok(ObjectReceipt::new(&self.runtime, rests_on));
            }
            for (key, lookup) in found.into_iter().flatten() {
                let ((), epoch) = self.look_at(key, lookup, |object| look(number, object))?;
                rests_on = rests_on.max(epoch);
                number += 1;
            }
        }
    }

    /// Requests the memory of these keys' objects for later calls of this thread: a hint, for a thread with several
    /// calls ahead. The call waits for the memory of sixteen keys at once, and for no lock. Memory behind pointers of
    /// the objects is not requested; memory behind pointers of the keys is.
    pub fn prefetch<'k, Q>(&self, keys: impl IntoIterator<Item = &'k Q>)
    where
        K: Borrow<Q>,
        Q: Hash + ?Sized + 'k,
    {
        let mut keys = keys.into_iter();
        loop {
            let found = self.find_ahead_of(&mut keys);
            if found[0].is_none() {
                return;
            }
            for (_, lookup) in found.into_iter().flatten() {
                let _user_code = UserCode::begin();
                let state = lookup.guess.and_then(|cell| cell.try_lock());
                state.iter().filter_map(|state| state.key.as_ref()).for_each(ObjectKey::prefetch);
            }
        }
    }

    /// As [`find_ahead`](Self::find_ahead), for the next keys, up to sixteen.
    #[inline]
    fn find_ahead_of<'k, Q>(
        &self,
        keys: &mut impl Iterator<Item = &'k Q>,
    ) -> [Option<(&'k Q, KeyLookup<'_, K, T>)>; TOGETHER]
    where
        K: Borrow<Q>,
        Q: Hash + ?Sized + 'k,
    {
        let shards = &self.state.shards;
        let mut found = [const { None }; TOGETHER];
        for (place, key) in found.iter_mut().zip(keys) {
            let hash = shards.hash(key);
            shards.prefetch_slot(hash);
            *place = Some((key, KeyLookup { hash, guess: None }));
        }
        for (_, lookup) in found.iter_mut().flatten() {
            lookup.guess = shards.guess(lookup.hash);
            if let Some(cell) = lookup.guess {
                prefetch::lines(cell, size_of_val(cell).min(PREFETCHED_BYTES_MAX));
            }
        }
        found
    }

    /// As [`Objects::look_many`]. With strict durability `read_many` returns once all shown states are durable.
    ///
    /// # Errors
    /// As for [`Objects::look_many`]; with strict durability also the errors of [`ObjectReceipt::durable`].
    pub fn read_many<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k K>,
        look: impl FnMut(usize, Option<&T>),
    ) -> Result<()>
    where
        K: 'k,
    {
        let receipt = self.look_many(keys, look)?;
        self.runtime.wait_if_strict(receipt.epoch())
    }

    /// Shows a key's object, perhaps from the guessed cell. Returns the epoch that the result rests on.
    #[inline]
    fn look_at<R>(
        &self,
        key: &K,
        mut lookup: KeyLookup<'_, K, T>,
        look: impl FnOnce(Option<&T>) -> R,
    ) -> Result<(R, Epoch)> {
        loop {
            let state = match lookup.guess.take().and_then(|cell| locked_guess(cell, key)) {
                Some(state) => state,
                None => match self.state.shards.find(key, lookup.hash) {
                    Ok(cell) => cell.lock(),
                    Err(epoch) => {
                        let _user_code = self.runtime.user_code();
                        return Ok((look(None), epoch));
                    }
                },
            };
            if !state.belongs_to(key) {
                continue;
            }
            if state.is_poisoned {
                return Err(poisoned_error(key));
            }
            let _user_code = self.runtime.user_code();
            return Ok((look(state.object.as_ref()), self.rests_on(&state, lookup.hash)));
        }
    }

    /// Shows every object, each under its own lock. Objects made or removed meanwhile may be shown or not. With strict
    /// durability `for_each` returns once all shown states are durable.
    ///
    /// # Errors
    /// [`ObjectsError::Poisoned`] with the first poisoned object: all other objects were shown.
    /// [`ObjectsError::Storage`] in a forked process; with strict durability also the errors of
    /// [`ObjectReceipt::durable`].
    pub fn for_each(&self, show: impl FnMut(&K, &T)) -> Result<()> {
        let (rests_on, first_poisoned) = self.show_each(show)?;
        self.runtime.wait_if_strict(rests_on)?;
        first_poisoned.map_or(Ok(()), Err)
    }

    /// As [`Objects::for_each`], without waiting: the receipt tells when the shown objects, and the absence of further
    /// objects, are durable.
    ///
    /// # Errors
    /// [`ObjectsError::Poisoned`] with the first poisoned object: all other objects were shown, and have no receipt.
    /// [`ObjectsError::Storage`] in a forked process.
    pub fn look_each(&self, show: impl FnMut(&K, &T)) -> Result<ObjectReceipt<'_>> {
        let (rests_on, first_poisoned) = self.show_each(show)?;
        first_poisoned.map_or(Ok(ObjectReceipt::new(&self.runtime, rests_on)), Err)
    }

    /// Shows every object that is not poisoned. Returns the epoch that the shown states rest on, and the error of the
    /// first poisoned object.
    fn show_each(&self, mut show: impl FnMut(&K, &T)) -> Result<(Epoch, Option<ObjectsError>)> {
        self.runtime.check_caller()?;
        let (mut rests_on, mut first_poisoned) = (Epoch::ZERO, None);
        for shard in 0..shards::SHARDS {
            for (_, cell) in self.state.shards.from(shard, 0, u32::MAX) {
                let state = cell.lock();
                // A removed object counts too: its last operation is the reason why nothing is shown.
                rests_on = rests_on.max(state.tid.epoch());
                match (&state.key, &state.object) {
                    (Some(key), _) if state.is_poisoned => {
                        first_poisoned.get_or_insert_with(|| poisoned_error(key));
                    }
                    (Some(key), Some(object)) => {
                        let _user_code = self.runtime.user_code();
                        show(key, object);
                    }
                    _ => {}
                }
            }
            // After the cells: a cell that left before the visit has left its epoch here.
            rests_on = rests_on.max(self.state.shards.removal_epoch(shard));
        }
        Ok((rests_on, first_poisoned))
    }

    /// Reports the requests served since the last report, and the requests lost for lack of capacity. From then on the
    /// load of an [`AdaptiveThreshold`](crate::AdaptiveThreshold) is the rate of requests, whatever the requests write.
    /// Where the capacity is probed, it is the rate at which 5 % of the requests are lost (SLACH §4, §6.1). Call about
    /// once a second. A call from a call-back has no effect.
    pub fn report_requests(&self, served: u64, lost: u64) {
        self.runtime.report_requests(served, lost);
    }

    /// Receipt for everything logged in epochs up to `epoch`, for a caller that keeps the epochs of receipts instead of
    /// the receipts. An epoch above E comes from other objects: its receipt is never durable, and a wait for it is an
    /// error.
    #[must_use]
    pub fn receipt(&self, epoch: Epoch) -> ObjectReceipt<'_> {
        ObjectReceipt::new(&self.runtime, epoch)
    }

    /// Requests a checkpoint that begins from now on.
    #[must_use]
    pub fn checkpoint(&self) -> CheckpointHandle {
        self.runtime.demand_checkpoint()
    }

    /// Figures of the collection. Figures behind a lock are 0 in a forked child; the child's
    /// [`log_health`](ObjectsStats::log_health) reports the fork.
    #[must_use]
    pub fn stats(&self) -> ObjectsStats {
        // I4: a lock that another thread of the parent held at the fork is never released.
        let is_own = self.runtime.check_process().is_ok();
        let (objects, poisoned) = if is_own { self.state.counts() } else { (0, 0) };
        self.runtime.stats(objects, poisoned)
    }

    /// Report of the recovery at the open.
    #[must_use]
    pub fn recovery(&self) -> &RecoveryReport {
        &self.runtime.report
    }

    /// Makes all logged operations durable and releases the folder, for all handles. Later changes are errors. A second
    /// call waits for the first, and returns the result of the first. A close in a future's waker is refused while
    /// another thread closes (O8).
    ///
    /// # Errors
    /// [`ObjectsError::InCallBack`]: close on a thread of your own. [`ObjectsError::Storage`]: not everything could be
    /// made durable; or ("not shipped yet") a shared store did not answer within
    /// [`close_wait`](crate::ShippingConfig::close_wait), and all is durable in the folder.
    pub fn close(&self) -> Result<()> {
        self.runtime.close()
    }

    pub(crate) fn runtime(&self) -> &OpenRuntime {
        &self.runtime
    }

    /// Calls `f` with a lock of the collection held.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn while_locked<R>(&self, f: impl FnOnce() -> R) -> R {
        self.state.shards.while_locked(f)
    }

    /// True if a key's cell is found and locked on the usual path.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn is_found_at_once(&self, key: &K) -> bool {
        let shards = &self.state.shards;
        shards.guess(shards.hash(key)).is_some_and(|cell| locked_guess(cell, key).is_some())
    }
}

/// Effect of a change on a poisoned object: the object refuses the change, or the change ends the poison.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Poison {
    Refuses,
    Ends,
}

/// Prefetches a cell's first and last line: the lock is in the first line, and the last line would be missed only after
/// the lock.
#[inline]
fn ask_for_ends<K, T>(cell: &ObjectCell<K, T>) {
    let first = std::ptr::from_ref(cell).cast::<u8>();
    prefetch::line(first);
    prefetch::line(first.wrapping_add(size_of_val(cell) - 1));
}

/// Locks a guessed cell if the cell is of this key. The lock of a guess is never waited for: the cell may be of another
/// object, whose operation may take long.
#[inline]
fn locked_guess<'c, K: ObjectKey, T>(
    cell: &'c ObjectCell<K, T>,
    key: &K,
) -> Option<MutexGuard<'c, CellState<K, T>>> {
    cell.try_lock().filter(|state| state.belongs_to(key))
}

fn poisoned_error<K: ObjectKey>(key: &K) -> ObjectsError {
    ObjectsError::Poisoned { object: format!("{key:?}").into() }
}

/// Outcome of a change and its receipt; or the worker, to try again.
type ChangeAttempt<'o, O> = Result<(O, ObjectReceipt<'o>), Box<LogWorker>>;

// Steps of a change.
impl<K: ObjectKey, T: Persistent> Objects<K, T> {
    /// Returns a worker with the entry of an operation.
    #[inline]
    fn operation(&self, key: &K, operation: &T::Operation) -> Result<Box<LogWorker>> {
        self.entry(key, BodyForm::Operation, T::OPERATION_VERSION, |bytes| {
            T::encode_operation(operation, bytes);
        })
    }

    /// Returns a worker with an entry.
    #[inline(always)]
    fn entry(
        &self,
        key: &K,
        form: BodyForm,
        version: u16,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Box<LogWorker>> {
        self.runtime.check_caller()?;
        let mut worker = self.runtime.worker()?;
        let encoded = {
            let _user_code = self.runtime.user_code();
            encode_body(&mut worker.body, form, version, |out| key.encode(out), encode)
        };
        if let Err(bytes) = encoded {
            self.runtime.give_back(worker);
            return Err(ObjectsError::KeyTooLong { bytes, limit: KEY_BYTES_MAX });
        }
        Ok(worker)
    }

    /// Lookup of a key. The guessed cell's memory is prefetched: the entry is encoded meanwhile.
    #[inline]
    fn find_ahead(&self, key: &K) -> KeyLookup<'_, K, T> {
        let hash = self.state.shards.hash(key);
        let guess = self.state.shards.guess(hash);
        guess.iter().for_each(|cell| ask_for_ends(cell));
        KeyLookup { hash, guess }
    }

    /// Logs the worker's entry under the object's lock, and applies `change` to the object.
    #[inline]
    fn change<O>(
        &self,
        key: &K,
        lookup: KeyLookup<'_, K, T>,
        mut worker: Box<LogWorker>,
        poison: Poison,
        mut change: impl FnMut(&mut CellState<K, T>) -> O,
    ) -> Result<(O, ObjectReceipt<'_>)> {
        // The usual case: the guessed cell is the key's, its lock is free, and the log has space.
        if let Some(mut state) = lookup.guess.and_then(|cell| locked_guess(cell, key))
            && !(state.is_poisoned && poison == Poison::Refuses)
            && let Some(tid) = self.runtime.log_at_once(&mut worker, &mut state.tid)
        {
            self.runtime.give_back(worker);
            return Ok((change(&mut state), ObjectReceipt::new(&self.runtime, tid.epoch())));
        }
        self.change_waiting(key, lookup.hash, worker, poison, change)
    }

    /// As [`change`](Self::change), with every wait, creation and refusal.
    #[cold]
    #[inline(never)]
    fn change_waiting<O>(
        &self,
        key: &K,
        hash: KeyHash,
        mut worker: Box<LogWorker>,
        poison: Poison,
        mut change: impl FnMut(&mut CellState<K, T>) -> O,
    ) -> Result<(O, ObjectReceipt<'_>)> {
        loop {
            // A refused change leaves no cell for a new key.
            worker = self.runtime.unless_refused(worker)?;
            // The cell is the key's own, unless the cell is removed meanwhile. Space comes first: no thread waits for
            // the disk under a lock.
            let cell = self.state.shards.find_or_make(key, hash);
            let locked = self.runtime.lock(cell, worker)?;
            if !locked.state.belongs_to(key) {
                worker = self.runtime.unlock(locked);
                continue;
            }
            if locked.state.is_poisoned && poison == Poison::Refuses {
                worker = self.runtime.unlock(locked);
                self.runtime.give_back(worker);
                return Err(poisoned_error(key));
            }
            match self.log_and(locked, &mut change)? {
                Ok(done) => return Ok(done),
                Err(again) => worker = again,
            }
        }
    }

    /// Epoch that must be durable before the contents of a key's locked cell are shown (R1). A cell without an
    /// operation shows an absence, as do the cells that left its shard.
    fn rests_on(&self, state: &CellState<K, T>, hash: KeyHash) -> Epoch {
        if state.tid == Tid::ZERO { self.state.shards.gone_of(hash) } else { state.tid.epoch() }
    }

    /// Gives an object a known state, whatever its state was. The worker, if present, logs the change.
    #[inline]
    fn become_known(
        &self,
        key: &K,
        worker: Option<Box<LogWorker>>,
        mut become_it: impl FnMut(&mut CellState<K, T>),
    ) -> Result<ObjectReceipt<'_>> {
        let change = |state: &mut CellState<K, T>| {
            // The old object is dropped here.
            let _user_code = self.runtime.user_code();
            become_it(state);
        };
        let ((), receipt) = match worker {
            Some(worker) => self.change(key, self.find_ahead(key), worker, Poison::Ends, change)?,
            None => self.change_unlogged(key, Poison::Ends, change)?,
        };
        Ok(receipt)
    }

    /// Refuses a key that is too long for an entry.
    #[cold]
    fn check_key(&self, key: &K) -> Result<()> {
        let _user_code = self.runtime.user_code();
        let mut encoded = Vec::new();
        key.encode(&mut encoded);
        let bytes = encoded.len();
        if bytes > KEY_BYTES_MAX {
            Err(ObjectsError::KeyTooLong { bytes, limit: KEY_BYTES_MAX })
        } else {
            Ok(())
        }
    }

    /// Result of a check of a locked object.
    fn check_object<E>(
        &self,
        state: &CellState<K, T>,
        check: impl Fn(Option<&T>) -> Result<(), E>,
    ) -> Result<(), E> {
        let _user_code = self.runtime.user_code();
        check(state.object.as_ref())
    }

    /// As [`change`](Self::change), without a log.
    fn change_unlogged<O>(
        &self,
        key: &K,
        poison: Poison,
        change: impl FnMut(&mut CellState<K, T>) -> O,
    ) -> Result<(O, ObjectReceipt<'_>)> {
        let allow = |_: Option<&T>| Ok::<(), Infallible>(());
        self.change_unlogged_if(key, poison, allow, change).map(|(Ok(output), receipt)| (output, receipt))
    }

    /// Applies `change` to an object under its lock, if `check` allows the change. Nothing is logged.
    fn change_unlogged_if<O, E>(
        &self,
        key: &K,
        poison: Poison,
        check: impl Fn(Option<&T>) -> Result<(), E>,
        mut change: impl FnMut(&mut CellState<K, T>) -> O,
    ) -> Result<(Result<O, E>, ObjectReceipt<'_>)> {
        UserCode::check_outside()?;
        self.runtime.check_open()?;
        let hash = self.state.shards.hash(key);
        let mut guess = self.state.shards.guess(hash).and_then(|cell| locked_guess(cell, key));
        loop {
            let mut state = match guess.take() {
                Some(state) => state,
                None => {
                    self.check_key(key)?;
                    self.state.shards.find_or_make(key, hash).lock()
                }
            };
            if !state.belongs_to(key) {
                continue;
            }
            if state.is_poisoned && poison == Poison::Refuses {
                return Err(poisoned_error(key));
            }
            if let Err(refusal) = self.check_object(&state, &check) {
                let receipt = ObjectReceipt::new(&self.runtime, self.rests_on(&state, hash));
                return Ok((Err(refusal), receipt));
            }
            state.tid = self.runtime.unlogged_tid(state.tid);
            let receipt = ObjectReceipt::new(&self.runtime, state.tid.epoch());
            return Ok((Ok(change(&mut state)), receipt));
        }
    }

    #[inline]
    fn log_and<O>(
        &self,
        locked: LockedObject<'_, CellState<K, T>>,
        change: impl FnOnce(&mut CellState<K, T>) -> O,
    ) -> Result<ChangeAttempt<'_, O>> {
        Ok(match self.runtime.log(locked, |state| &mut state.tid)? {
            LogAttempt::Logged(mut state, tid) => {
                let output = change(&mut state);
                Ok((output, ObjectReceipt::new(&self.runtime, tid.epoch())))
            }
            LogAttempt::Again(worker) => Err(worker),
        })
    }

    /// Applies a logged operation. If the operation panics, the object stays poisoned (O6).
    #[inline]
    fn apply(&self, key: &K, state: &mut CellState<K, T>, operation: &T::Operation) -> Result<T::Output> {
        if self.is_checked {
            return self.apply_checked(key, state, operation);
        }
        Ok(self.apply_unchecked(state, operation))
    }

    /// As [`apply`](Self::apply), to the object alone.
    #[inline]
    fn apply_unchecked(&self, state: &mut CellState<K, T>, operation: &T::Operation) -> T::Output {
        let _user_code = self.runtime.user_code();
        let (place, tid) = (std::ptr::from_ref(state).addr() as u64, state.tid.bits());
        let applying = Applying::begin(state, &self.state.poisoned);
        self.state.applied.measure(place, tid, || applying.apply(operation))
    }

    #[cold]
    fn apply_checked(
        &self,
        key: &K,
        state: &mut CellState<K, T>,
        operation: &T::Operation,
    ) -> Result<T::Output> {
        let _user_code = self.runtime.user_code();
        let copy = Checked::new(state.object.as_ref(), operation);
        let output = Applying::begin(state, &self.state.poisoned).apply(operation);
        match copy.difference(state.object.as_ref()) {
            None => Ok(output),
            Some(difference) => {
                let object = format!("{key:?}").into();
                Err(ObjectsError::NotDeterministic { object, difference })
            }
        }
    }
}

/// An operation under way. If the operation panics, its object is poisoned (O6).
struct Applying<'s, K, T: Persistent> {
    state: &'s mut CellState<K, T>,
    poisoned: &'s AtomicU64,
}

impl<'s, K, T: Persistent> Applying<'s, K, T> {
    #[inline]
    fn begin(state: &'s mut CellState<K, T>, poisoned: &'s AtomicU64) -> Self {
        Self { state, poisoned }
    }

    #[inline]
    fn apply(self, operation: &T::Operation) -> T::Output {
        let output = T::apply(&mut self.state.object, operation);
        // The operation has returned.
        std::mem::forget(self);
        output
    }
}

impl<K, T: Persistent> Drop for Applying<'_, K, T> {
    #[cold]
    fn drop(&mut self) {
        self.state.is_poisoned = true;
        // Relaxed: a figure for people.
        self.poisoned.fetch_add(1, Ordering::Relaxed);
    }
}
