//! The log of an application that keeps its own objects.
//!
//! Invariant: O7: an operation's TID is above the TID of its slot, and is chosen under the slot's lock.
//!
//! Neighbours: `changes` makes the logged changes; `slots` has the last TIDs; `crate::runtime` logs.

use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::limits::TRANSACTION_BYTES_MAX;
use ensile_durability::{DurabilityError, RecoveryReport};

use super::call_backs::Application;
use super::object_tids;
use super::poison::PoisonedObjects;
use super::shadow_copy::CheckedCopy;
use super::slots::{NewOperation, Slots};
use super::state::ApplicationState;
use crate::error::{ObjectsError, ObjectsResult as Result};
use crate::format::{CALL_HEAD_BYTES, ObjectLife, call_head};
use crate::receipt::ObjectReceipt;
use crate::runtime::{CheckpointHandle, LogAttempt, LogWorker, ObjectsSettings, ObjectsStats, OpenRuntime};

/// An application's log and checkpoints, open (SLACH §3.2's `API`). The last handle closes them.
///
/// Figure 4 of the paper, with the guard that the figure leaves out, and with items that come and go:
/// ```
/// use std::sync::{Arc, Mutex};
/// use ensile_objects::{
///     Application, ApplicationLog, CallBackResult, ObjectLife, ObjectWriter, ObjectsBuilder, ObjectsResult,
/// };
///
/// /// An item for sale.
/// #[derive(Clone, Copy)]
/// struct Item { price: f64, quantity: i32 }
///
/// struct Items(Vec<Mutex<Option<Item>>>);
///
/// const OP_LIST: u32 = 0;
/// const OP_PRICE: u32 = 1;
/// const OP_WITHDRAW: u32 = 2;
///
/// impl Application for Items {
///     fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
///         for (id, item) in (0..).zip(&self.0).skip(from as usize) {
///             let item = item.lock().unwrap(); // over the bytes and `ckpt`
///             let Some(item) = *item else { continue };
///             let bytes = [&item.price.to_le_bytes()[..], &item.quantity.to_le_bytes()].concat();
///             if !out.ckpt(id, &bytes) {
///                 return Some(id + 1);
///             }
///         }
///         None
///     }
///
///     fn load_one(&self, id: u64, bytes: &[u8]) -> CallBackResult {
///         let (price, quantity) = bytes.split_first_chunk().ok_or("no price")?;
///         let quantity = i32::from_le_bytes(quantity.try_into().map_err(|_| "no quantity")?);
///         *self.0[id as usize].lock().unwrap() = Some(Item { price: f64::from_le_bytes(*price), quantity });
///         Ok(())
///     }
///
///     fn replay_one(&self, id: u64, operation: u32, parameters: &[&[u8]]) -> CallBackResult {
///         let item = &mut *self.0[id as usize].lock().unwrap();
///         match (operation, parameters) {
///             (OP_LIST, []) => *item = Some(Item { price: 0.0, quantity: 0 }),
///             (OP_PRICE, [price]) => {
///                 let price = (*price).try_into().map_err(|_| "no price")?;
///                 // Recovery asks for no change of an item that is not there.
///                 item.as_mut().ok_or("no item")?.price = f64::from_le_bytes(price);
///             }
///             (OP_WITHDRAW, []) => *item = None,
///             _ => return Err("no such operation".into()),
///         }
///         Ok(())
///     }
/// }
///
/// fn list(items: &Items, log: &ApplicationLog, id: u64) -> ObjectsResult<()> {
///     let mut item = items.0[id as usize].lock().unwrap(); // over the log call and the change
///     let receipt = log.log_life(id, ObjectLife::Creation, OP_LIST, &[])?;
///     *item = Some(Item { price: 0.0, quantity: 0 });
///     drop(item);
///     receipt.durable()
/// }
///
/// /// False if the item is not for sale.
/// fn update_price(items: &Items, log: &ApplicationLog, id: u64, price: f64) -> ObjectsResult<bool> {
///     let mut item = items.0[id as usize].lock().unwrap();
///     let Some(known) = &mut *item else { return Ok(false) };
///     let receipt = log.log(id, OP_PRICE, &[&price.to_le_bytes()])?; // marked as a change
///     known.price = price;
///     drop(item);
///     receipt.durable()?;
///     Ok(true)
/// }
///
/// fn withdraw(items: &Items, log: &ApplicationLog, id: u64) -> ObjectsResult<()> {
///     let mut item = items.0[id as usize].lock().unwrap();
///     let receipt = log.log_life(id, ObjectLife::Removal, OP_WITHDRAW, &[])?;
///     *item = None;
///     drop(item);
///     receipt.durable()
/// }
///
/// # fn main() -> ObjectsResult<()> {
/// # let folder = std::env::temp_dir().join(format!("ensile-objects-figure-4-{}", std::process::id()));
/// let new = || Arc::new(Items((0..1000).map(|_| Mutex::default()).collect()));
/// let builder = ObjectsBuilder::new(&folder).mark_lives();
/// let items = new();
/// let log = builder.clone().open_application(Arc::clone(&items))?;
/// for id in [7, 8] {
///     list(&items, &log, id)?;
///     assert!(update_price(&items, &log, id, 9.95)?);
/// }
/// withdraw(&items, &log, 8)?;
/// drop(log);
///
/// let items = new();
/// let log = builder.open_application(Arc::clone(&items))?;
/// assert_eq!(items.0[7].lock().unwrap().map(|item| item.price), Some(9.95));
/// assert!(items.0[8].lock().unwrap().is_none());
/// # drop(log);
/// # std::fs::remove_dir_all(&folder).expect("it is there");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ApplicationLog {
    pub(super) slots: Arc<dyn Slots>,
    version: u16,
    /// True if operations are logged with the marks of lives.
    pub(super) marks_lives: bool,
    /// True if every operation is replayed on a copy.
    is_checked: bool,
    pub(crate) runtime: Arc<OpenRuntime>,
}

/// Reason for the refusal of a mark.
const MARKS_NO_LIVES: &str = "the life of an object is marked, and the log has no such marks: open it with `mark_lives`, or log without \
     the mark; nothing was logged";

impl std::fmt::Debug for ApplicationLog {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ApplicationLog").finish_non_exhaustive()
    }
}

impl ApplicationLog {
    /// Largest memory of an open, in bytes for every object of the checkpoint, until the open ends: the objects have no
    /// room for their TIDs. The log adds only the parts that are being read, so the memory beside the objects does not
    /// grow with the log. 14 million objects take 256 MiB. A collection keeps the TIDs in its objects. If the
    /// application [marks lives](crate::ObjectsBuilder::mark_lives), an object that the log creates or removes takes up
    /// to 31 bytes more, and an object with passed over changes up to 31 bytes until its removal.
    pub const OPEN_BYTES_EACH: usize = object_tids::BYTES_EACH;

    /// Opens the log of an application; in the debug mode, if a fresh application is given.
    pub(crate) fn open<A: Application>(
        settings: ObjectsSettings,
        application: Arc<A>,
        fresh: Option<A>,
    ) -> Result<Self> {
        let mut state = ApplicationState::new(application, &settings.clock);
        state.replayed.opens_poisoned = settings.opens_poisoned;
        state.replayed.judges_marks = settings.marks_lives;
        state.called.poisoned = PoisonedObjects::new(settings.is_logged);
        let (state, marks_lives) = (Arc::new(state), settings.marks_lives);
        let runtime = Arc::new(settings.open(Arc::clone(&state) as _)?);
        if state.called.poisoned.count() > 0 {
            runtime.take_detour();
        }
        assert!(state.replayed.waiting.is_empty(), "L8: the open applies all operations");
        assert_eq!(runtime.is_detour_taken(), state.called.poisoned.count() > 0, "O6");
        let is_checked = fresh.is_some();
        if let Some(fresh) = fresh {
            let copy = CheckedCopy::from_original(&state.called, fresh)?;
            assert!(state.copy.set(Box::new(copy)).is_ok(), "it is set once");
        }
        Ok(Self { version: state.called.version, slots: state, marks_lives, is_checked, runtime })
    }

    /// Logs an operation on an object, with the list of parameters. The caller holds the object's guard, and changes
    /// the object after the call, under the same hold. The receipt tells when the operation is durable. A caller waits
    /// for the receipt without the guard, in either kind of durability.
    ///
    /// Steps that can fail come before the call, or in the `make` of [`change`](Self::change): a panic between the call
    /// and the change leaves an operation that the object lacks, and that a checkpoint of the object would lose
    /// ([`Application`]).
    ///
    /// # Errors
    /// [`ObjectsError::Storage`] while the log takes no entries, or for parameters above
    /// [`TRANSACTION_BYTES_MAX`](crate::limits::TRANSACTION_BYTES_MAX); [`ObjectsError::DiskFull`];
    /// [`ObjectsError::Misuse`] for `u64::MAX`, which is the number of no object;
    /// [`ObjectsError::PoisonedUntilOpen`]; [`ObjectsError::PoisonedUnlogged`]. Nothing was logged: do not change the
    /// object.
    #[inline]
    pub fn log(&self, object: u64, operation: u32, parameters: &[&[u8]]) -> Result<ObjectReceipt<'_>> {
        let life = self.marks_lives.then_some(ObjectLife::Change);
        self.log_new(NewOperation { object, life, number: operation, parameters })
    }

    /// As [`log`](Self::log), with a mark of the object's life, for an application that [marks
    /// lives](crate::ObjectsBuilder::mark_lives): recovery then passes over operations on objects that do not exist.
    /// [`log`](Self::log) itself marks a [change](ObjectLife::Change).
    ///
    /// ```
    /// # use ensile_objects::{ApplicationLog, ObjectLife, ObjectsResult};
    /// # use std::collections::BTreeMap;
    /// # const OP_SELL_OUT: u32 = 2;
    /// fn sell_out(items: &mut BTreeMap<u64, u32>, log: &ApplicationLog, id: u64) -> ObjectsResult<()> {
    ///     log.log_life(id, ObjectLife::Removal, OP_SELL_OUT, &[])?;
    ///     items.remove(&id);
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// As for [`log`](Self::log); [`ObjectsError::Misuse`] if the log was opened without
    /// [`mark_lives`](crate::ObjectsBuilder::mark_lives).
    #[inline]
    pub fn log_life(
        &self,
        object: u64,
        life: ObjectLife,
        operation: u32,
        parameters: &[&[u8]],
    ) -> Result<ObjectReceipt<'_>> {
        self.check_marks()?;
        self.log_new(NewOperation { object, life: Some(life), number: operation, parameters })
    }

    #[inline]
    pub(super) fn check_marks(&self) -> Result<()> {
        if self.marks_lives { Ok(()) } else { Err(DurabilityError::Config(MARKS_NO_LIVES.into()).into()) }
    }

    #[inline]
    pub(super) fn log_new(&self, operation: NewOperation<'_>) -> Result<ObjectReceipt<'_>> {
        let receipt = self.log_unchecked(operation)?;
        if self.is_checked {
            self.slots.replay_on_copy(&operation);
        }
        Ok(receipt)
    }

    fn log_unchecked(&self, operation: NewOperation<'_>) -> Result<ObjectReceipt<'_>> {
        let NewOperation { object, life, number, parameters } = operation;
        self.runtime.check_caller()?;
        if object == u64::MAX {
            return Err(ObjectsError::no_object());
        }
        let bytes = parameters.iter().map(|parameter| 4 + parameter.len()).sum();
        if bytes > TRANSACTION_BYTES_MAX {
            return Err(DurabilityError::TooLarge { bytes, limit: TRANSACTION_BYTES_MAX }.into());
        }
        if !self.runtime.is_logged() {
            self.runtime.check_open()?;
            self.check_whole(object)?;
            return Ok(ObjectReceipt::new(&self.runtime, Epoch::ZERO));
        }
        let mut worker = self.runtime.worker()?;
        debug_assert!(worker.body.is_empty(), "a worker has no entry between two calls");
        worker.body.extend_from_slice(&call_head(life, self.version, object, number));
        for parameter in parameters {
            worker.body.extend_from_slice(&(parameter.len() as u32).to_le_bytes());
            worker.body.extend_from_slice(parameter);
        }
        debug_assert_eq!(worker.body.len(), CALL_HEAD_BYTES + bytes, "the limit is on the encoded bytes");
        let slot = self.slots.object_slot(object);
        if let Some(mut last) = slot.try_lock()
            && let Some(tid) = self.runtime.log_at_once(&mut worker, &mut last)
        {
            debug_assert_eq!(*last, tid, "O7: the slot has the TID of its last operation");
            drop(last);
            self.runtime.give_back(worker);
            return Ok(ObjectReceipt::for_tid(&self.runtime, tid));
        }
        self.log_waiting(object, worker)
    }

    /// Logs the worker's entry, with every wait, unless the object is poisoned.
    #[cold]
    fn log_waiting(&self, object: u64, mut worker: Box<LogWorker>) -> Result<ObjectReceipt<'_>> {
        if let Err(error) = self.check_whole(object) {
            self.runtime.give_back(worker);
            return Err(error);
        }
        let last = self.slots.object_slot(object);
        loop {
            let slot = self.runtime.lock(last, worker)?;
            match self.runtime.log(slot, |last| last)? {
                LogAttempt::Logged(slot, tid) => {
                    debug_assert_eq!(*slot, tid, "O7: the slot has the TID of its last operation");
                    drop(slot);
                    return Ok(ObjectReceipt::for_tid(&self.runtime, tid));
                }
                LogAttempt::Again(again) => worker = again,
            }
        }
    }

    /// Fails if a change of the object is refused for a poison. Without a log, a change beside the failed change may be
    /// taken, as an earlier change was.
    fn check_whole(&self, object: u64) -> Result<()> {
        if self.runtime.is_detour_taken() { self.slots.poisoned_objects().check(object) } else { Ok(()) }
    }

    /// As [`Objects::report_requests`](crate::Objects::report_requests).
    pub fn report_requests(&self, served: u64, lost: u64) {
        self.runtime.report_requests(served, lost);
    }

    /// Receipt for everything logged in epochs up to `epoch`. An application that keeps the epoch of an object's last
    /// receipt, under the object's guard, thereby knows when a read's result is durable (R1). An epoch above E comes
    /// from other objects: its receipt is never durable, and a wait for it is an error.
    #[must_use]
    pub fn receipt(&self, epoch: Epoch) -> ObjectReceipt<'_> {
        ObjectReceipt::new(&self.runtime, epoch)
    }

    /// E now: no receipt has a larger epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.runtime.epochs.now()
    }

    /// Requests a checkpoint that begins from now on. A thread that [waits](CheckpointHandle::wait) for the checkpoint
    /// must hold no object's guard: the checkpoint may wait for the guard. A held guard of
    /// [`GuardedObjects`](crate::GuardedObjects) is [refused](crate::ObjectsError::InCallBack); another guard is not
    /// noticed, and [`ObjectsStats::waiting_call_back`] shows the call-back that waits for it.
    #[must_use]
    pub fn checkpoint(&self) -> CheckpointHandle {
        self.runtime.demand_checkpoint()
    }

    /// Brings all entries logged by now to the shared store, and waits at most `timeout`. A machine that takes over
    /// afterwards has all the entries. Returns the epoch up to which the store is complete.
    ///
    /// # Errors
    /// [`ObjectsError::Misuse`] if nothing is shipped;
    /// [`ObjectsError::Storage`] if another machine has taken over, or at the timeout;
    /// shipping goes on after a timeout.
    pub fn ship(&self, timeout: Duration) -> Result<Epoch> {
        self.runtime.ship(timeout)
    }

    /// Stops shipping until the next open, without a wait. From another thread, the call ends the wait of a close for a
    /// shared store that does not answer. Without a shared store the call has no effect.
    pub fn cancel_shipping(&self) {
        self.runtime.cancel_shipping();
    }

    /// Takes every due step of the log, of checkpoints and of shipping, for an application opened
    /// [`without_threads`](crate::ObjectsBuilder::without_threads). Returns the time until the next step is due; `None`
    /// once the log is closed or has stopped. A checkpoint's call-back runs in here, so the caller holds no guard.
    ///
    /// One thread at a time drives the log, and one thread checkpoints: for a concurrent caller fewer steps are due, or
    /// none. If the log has threads of its own, no step is due. In a call-back of objects the call takes no step, and
    /// on a thread with a guard of [`GuardedObjects`](crate::GuardedObjects) no step of a checkpoint.
    pub fn drive(&self) -> Option<Duration> {
        self.runtime.drive()
    }

    /// First object, in the [debug mode](crate::ObjectsBuilder::open_application_checked), that differs from the
    /// outcome of its operations, and the place of the difference; as far as a checkpoint has looked.
    #[must_use]
    pub fn difference(&self) -> Option<String> {
        self.slots.first_difference()
    }

    /// Figures of the log, and the number of [poisoned](Self::poison) objects; the number of objects is 0.
    #[must_use]
    pub fn stats(&self) -> ObjectsStats {
        self.runtime.stats(0, self.slots.poisoned_objects().count())
    }

    /// Report of the recovery at the open.
    #[must_use]
    pub fn recovery(&self) -> &RecoveryReport {
        &self.runtime.report
    }

    /// As [`Objects::close`](crate::Objects::close). The caller must hold no object's guard: a checkpoint may wait for
    /// the guard, and the close for the checkpoint. A held guard of [`GuardedObjects`](crate::GuardedObjects) is
    /// refused; another guard is not noticed, and [`ObjectsStats::waiting_call_back`] shows the call-back that waits
    /// for it.
    ///
    /// # Errors
    /// As for [`Objects::close`](crate::Objects::close).
    pub fn close(&self) -> Result<()> {
        self.runtime.close()
    }
}
