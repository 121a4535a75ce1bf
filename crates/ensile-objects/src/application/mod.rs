//! The floor form: an application keeps its own objects, logs every change before the change, and gives three
//! call-backs (SLACH §3.2).
//!
//! ```text
//! the application's guard of an object, held over all of this:   log(object, operation, parameters) | change the
//! object checkpoint (call-back)   object by object, under its guard:    ckpt(object, bytes) open
//! load_one (call-back) for each object -> replay_one (call-back) for each operation behind it
//! ```
//! The objects have no room for a TID, so last TIDs stand in slots, by a hash of the object's number.
//!
//! Invariants:
//! - O7: an operation's TID is above the TID of its slot, and is chosen under the slot's lock. A checkpoint's entry has
//!   the TID of its object's slot, read while the application holds the object's guard.
//! - O4: at recovery an object's operations come in the order of TIDs, without the operations that the loaded bytes
//!   include.
//! - O10: an operation that is marked as a change or a removal is not replayed on a missing object.
//!
//! Neighbours: applications implement [`Application`]; `recovery` and `walk` call the application, and `check` runs
//! both on a recorded folder.

mod check;
mod object_tids;
mod poison;
mod recovery;
mod shadow_copy;
mod walk;

use std::sync::Arc;

use ensile_base::clock::Clock;
use ensile_base::limits::TRANSACTION_BYTES_MAX;
use ensile_base::sync::{AtomicU64, Mutex, OnceLock};
use ensile_base::{Epoch, Tid};
use ensile_durability::{DurabilityError, RecoveryReport};

use crate::apply_time::AppliedTime;
use crate::chunks::Assembly;
use crate::error::{ObjectsError, ObjectsResult as Result};
use crate::format::{ObjectLife, call_head};
use crate::receipt::ObjectReceipt;
use crate::replay::WaitingOperations;
use crate::runtime::watchdog::CallBackWatch;
use crate::runtime::{CheckpointHandle, LogAttempt, LogWorker, ObjectsSettings, ObjectsStats, OpenRuntime};
use object_tids::LoadedObjects;
use poison::PoisonedObjects;
use shadow_copy::CheckedCopy;
pub use walk::ObjectWriter;

/// Number of slots for last TIDs. Objects that share a slot get TIDs as if they were a single object; the sharing has
/// no other effect.
const SLOTS: usize = if cfg!(shuttle) { 2 } else { 4096 };

/// Result of a call-back of a recovery: nothing, or the fault. A fault fails the open.
pub type CallBackResult = Result<(), Box<str>>;

/// An application that keeps its own objects, each with a number below `u64::MAX` (SLACH §3.2).
///
/// # Discipline
/// Each object has a guard, a lock of the application. The application holds the guard over the call of
/// [`ApplicationLog::log`] *and* the change behind it, and over the encoding of an object *and* its
/// [`ObjectWriter::ckpt`]. Without the guard, a checkpoint may have an object without an operation that the object's
/// TID includes, and the operation is lost. [`checkpoint`](Self::checkpoint) must be able to find an object before the
/// object's first operation is logged, or a guard must keep the call-back from passing the object.
///
/// Operations are deterministic, and depend on their own object only.
///
/// The call-backs call no handle, neither of objects nor of a database: such a call returns
/// [`InCallBack`](crate::ObjectsError::InCallBack) and changes nothing.
///
/// # Objects that come and go
/// A checkpoint may come after an object's removal, and lack the object, while the log still has operations from before
/// the removal. If the application [marks lives](crate::ObjectsBuilder::mark_lives), recovery passes these operations
/// over. Otherwise recovery replays these operations on a missing object, unless [`ObjectWriter::absent`] reported the
/// absence: [`replay_one`](Self::replay_one) must accept such an operation, and a removal must not depend
/// on the object's state.
///
/// # A change that fails after its log entry
/// leaves a logged operation that the object lacks. A recovery applies the operation. A checkpoint that takes the
/// object before loses the operation for good, because the entry has the operation's TID. [`ApplicationLog::change`]
/// makes the change itself: if the change panics, the object is poisoned, and no checkpoint is made until the next
/// open, which applies the operation. With [`ApplicationLog::log`] alone, the application runs steps that can fail
/// before the call, or calls [`ApplicationLog::poison`] after a failure.
///
/// A poisoned object must be shown to nobody ([`ApplicationLog::is_poisoned`]). A replay that fails or panics fails the
/// open; with [`open_poisoned`](crate::ObjectsBuilder::open_poisoned) the replay poisons its object, and the open goes
/// on. The guards of [`GuardedObjects`](crate::GuardedObjects) drop and refuse a poisoned object by themselves.
///
/// # Versions
/// [`version`](Self::version) is written with every object and operation. Bytes of an older program go to
/// [`load_older`](Self::load_older) and [`replay_older`](Self::replay_older); bytes of a newer program are an error
/// with file and offset, before anything is served.
pub trait Application: Send + Sync + 'static {
    /// Version of everything that this application writes: its objects' bytes, the numbers of its operations and their
    /// parameters. Raise the version when one of these changes. The method is called once, at open.
    fn version(&self) -> u16 {
        0
    }

    /// Writes a checkpoint of the application's selected objects with this number or a larger number, in the order of
    /// numbers, each by [`ObjectWriter::ckpt`] under its guard. When `ckpt` reports no more room, returns the number to
    /// go on from; `None` after the last object. [`ObjectWriter::refuse`] gives the checkpoint up.
    ///
    /// The method is called for a slice of the numbers at a time ([`slice_starts`](Self::slice_starts)), from several
    /// threads if there are several slices and checkpointers. The method need not know the end of a slice: the writer
    /// takes no object after the end, and reports no more room.
    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64>;

    /// Numbers of objects, ascending, at which a new slice of a checkpoint begins. `parts` slices occupy `parts`
    /// threads, the number of [checkpointers](crate::ObjectsBuilder::checkpointers). Slices of equal duration are best.
    /// By default a single slice is written by a single thread, for any number of checkpointers. The method is called
    /// when a checkpoint begins; more slices than `parts`, and fewer, are written too.
    ///
    /// ```
    /// // Objects with the numbers 0 to 999,999, whose bytes are about as long as each other.
    /// fn slice_starts(parts: usize) -> Vec<u64> {
    ///     (1..parts as u64).map(|part| part * 1_000_000 / parts as u64).collect()
    /// }
    /// assert_eq!(slice_starts(4), [250_000, 500_000, 750_000]);
    /// ```
    fn slice_starts(&self, parts: usize) -> Vec<u64> {
        let _ = parts;
        Vec::new()
    }

    /// Loads an object from its bytes in a checkpoint. Several threads call, once for every object.
    ///
    /// # Errors
    /// The fault of the bytes: the open fails.
    fn load_one(&self, object: u64, bytes: &[u8]) -> CallBackResult;

    /// Replays a logged operation on an object, with the list of parameters. Several threads call; an object's
    /// operations come in order, one at a time.
    ///
    /// # Errors
    /// The fault of the operation: the open fails.
    fn replay_one(&self, object: u64, operation: u32, parameters: &[&[u8]]) -> CallBackResult;

    /// As [`load_one`](Self::load_one), from bytes of an older version, which become an object of today (an up-cast).
    ///
    /// # Errors
    /// The fault of the bytes; by default, that no up-cast exists. The open fails.
    fn load_older(&self, version: u16, object: u64, bytes: &[u8]) -> CallBackResult {
        let _ = (object, bytes);
        Err(no_up_cast(version, self.version()))
    }

    /// As [`replay_one`](Self::replay_one), for an operation of an older version, with the effect of that version.
    ///
    /// # Errors
    /// The fault of the operation; by default, that no up-cast exists. The open fails.
    fn replay_older(
        &self,
        version: u16,
        object: u64,
        operation: u32,
        parameters: &[&[u8]],
    ) -> CallBackResult {
        let _ = (object, operation, parameters);
        Err(no_up_cast(version, self.version()))
    }
}

/// Error for an older version for which an application has no up-cast.
fn no_up_cast(version: u16, newest: u16) -> Box<str> {
    format!("it is of version {version}; this program writes version {newest}, and has no up-cast from that")
        .into()
}

/// State of recovery and checkpoints beside an application.
pub(crate) struct ApplicationState<A> {
    application: Arc<A>,
    /// Version of the entries written now.
    version: u16,
    /// Last TIDs (O7).
    slots: Box<[Mutex<Tid>]>,
    /// TIDs and existence of objects, during a recovery.
    loaded: LoadedObjects,
    /// True if a recovery passes over operations by their marks of lives; false if it replays them all.
    judges_marks: bool,
    /// Number of operations that were not replayed, because their object did not exist.
    passed_over: AtomicU64,
    waiting: WaitingOperations<(u64, Box<[u8]>)>,
    pieces: Assembly,
    /// Objects whose change or replay failed.
    poisoned: PoisonedObjects,
    /// True if an object whose replay fails is poisoned, and the open goes on.
    opens_poisoned: bool,
    /// First operation that could not be replayed, and the reason.
    failure: Mutex<Option<ObjectsError>>,
    /// Reason why the walk under way cannot become a checkpoint.
    refusal: Mutex<Option<String>>,
    /// Time of changes: of calls, and of recovery.
    applied: Arc<AppliedTime>,
    replayed: AppliedTime,
    /// Copy of the debug mode.
    copy: OnceLock<Box<CheckedCopy<A>>>,
    watch: CallBackWatch,
}

impl<A: Application> ApplicationState<A> {
    pub(crate) fn new(application: Arc<A>, clock: &Clock) -> Self {
        Self {
            poisoned: PoisonedObjects::new(true),
            version: application.version(),
            application,
            slots: (0..SLOTS).map(|_| Mutex::default()).collect(),
            loaded: LoadedObjects::new(),
            judges_marks: true,
            passed_over: AtomicU64::new(0),
            waiting: WaitingOperations::new(),
            pieces: Assembly::default(),
            opens_poisoned: false,
            failure: Mutex::default(),
            refusal: Mutex::default(),
            applied: Arc::new(AppliedTime::new(clock)),
            replayed: AppliedTime::new(clock),
            copy: OnceLock::new(),
            watch: CallBackWatch::new(clock),
        }
    }

    /// The slot of an object's last TID.
    fn slot(&self, object: u64) -> &Mutex<Tid> {
        // Spreads neighbouring numbers over slots (Knuth's multiplicative hash).
        let hash = object.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.slots[hash as usize % SLOTS]
    }
}

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
    slots: Arc<dyn Slots>,
    /// Version of the operations.
    version: u16,
    /// True if operations are logged with the marks of lives.
    marks_lives: bool,
    /// True if every operation is replayed on a copy.
    is_checked: bool,
    runtime: Arc<OpenRuntime>,
}

/// An operation to be logged.
#[derive(Clone, Copy)]
struct NewOperation<'p> {
    object: u64,
    /// Mark of the object's life, if the application marks lives.
    life: Option<ObjectLife>,
    number: u32,
    parameters: &'p [&'p [u8]],
}

/// Reason for the refusal of a mark.
const MARKS_NO_LIVES: &str = "the life of an object is marked, and the log has no such marks: open it with `mark_lives`, or log without \
     the mark; nothing was logged";

impl std::fmt::Debug for ApplicationLog {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ApplicationLog").finish_non_exhaustive()
    }
}

/// Slots of an application of any type, and its copy in the debug mode.
trait Slots: Send + Sync {
    fn object_slot(&self, object: u64) -> &Mutex<Tid>;

    fn poisoned_objects(&self) -> &PoisonedObjects;

    /// Tells the copy of a logged operation.
    fn replay_on_copy(&self, operation: &NewOperation<'_>);

    /// Difference between an object's bytes, or its absence, and the outcome of its operations.
    fn difference(&self, object: u64, bytes: Option<&[u8]>) -> Option<String>;

    /// The first difference so far.
    fn first_difference(&self) -> Option<String>;
}

impl<A: Application> Slots for ApplicationState<A> {
    fn object_slot(&self, object: u64) -> &Mutex<Tid> {
        self.slot(object)
    }

    fn poisoned_objects(&self) -> &PoisonedObjects {
        &self.poisoned
    }

    fn replay_on_copy(&self, operation: &NewOperation<'_>) {
        if let Some(copy) = self.copy.get() {
            copy.replay(operation);
        }
    }

    fn difference(&self, object: u64, bytes: Option<&[u8]>) -> Option<String> {
        self.copy.get().and_then(|copy| copy.compare(object, bytes))
    }

    fn first_difference(&self) -> Option<String> {
        self.copy.get().and_then(|copy| copy.first_difference())
    }
}

impl ApplicationLog {
    /// Largest memory of an open, in bytes for every object of the checkpoint, until the open ends: the objects have no
    /// room for their TIDs. The log adds only the parts that are being read, so the memory beside the objects does not
    /// grow with the log. 14 million objects take 256 MiB. A collection keeps the TIDs in its objects. If the
    /// application [marks lives](crate::ObjectsBuilder::mark_lives), an object that the log creates or removes takes up
    /// to 31 bytes more, and an object with passed over changes up to 31 bytes until its removal.
    pub const OPEN_BYTES_EACH: usize = object_tids::BYTES_EACH;

    pub(crate) fn open<A: Application>(settings: ObjectsSettings, application: Arc<A>) -> Result<Self> {
        Ok(Self::open_state(settings, application, false)?.0)
    }

    fn open_state<A: Application>(
        settings: ObjectsSettings,
        application: Arc<A>,
        is_checked: bool,
    ) -> Result<(Self, Arc<ApplicationState<A>>)> {
        let mut state = ApplicationState::new(application, &settings.clock);
        (state.opens_poisoned, state.judges_marks) = (settings.opens_poisoned, settings.marks_lives);
        state.poisoned = PoisonedObjects::new(settings.is_logged);
        let (state, marks_lives) = (Arc::new(state), settings.marks_lives);
        let runtime = Arc::new(settings.open(Arc::clone(&state) as _)?);
        if state.poisoned.count() > 0 {
            runtime.take_detour();
        }
        let slots = Arc::clone(&state) as _;
        Ok((Self { version: state.version, slots, marks_lives, is_checked, runtime }, state))
    }

    /// As [`open`](Self::open), in the debug mode.
    pub(crate) fn open_checked<A: Application>(
        settings: ObjectsSettings,
        application: Arc<A>,
        fresh: A,
    ) -> Result<Self> {
        let (log, state) = Self::open_state(settings, application, true)?;
        let copy = CheckedCopy::from_original(&state, fresh)?;
        assert!(state.copy.set(Box::new(copy)).is_ok(), "it is set once");
        Ok(log)
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

    /// Fails if the log has no marks of lives.
    #[inline]
    fn check_marks(&self) -> Result<()> {
        if self.marks_lives { Ok(()) } else { Err(DurabilityError::Config(MARKS_NO_LIVES.into()).into()) }
    }

    #[inline]
    fn log_new(&self, operation: NewOperation<'_>) -> Result<ObjectReceipt<'_>> {
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
        if !self.runtime.is_logged {
            self.runtime.check_open()?;
            self.check_whole(object)?;
            return Ok(ObjectReceipt::new(&self.runtime, Epoch::ZERO));
        }
        let mut worker = self.runtime.worker()?;
        worker.body.extend_from_slice(&call_head(life, self.version, object, number));
        for parameter in parameters {
            worker.body.extend_from_slice(&(parameter.len() as u32).to_le_bytes());
            worker.body.extend_from_slice(parameter);
        }
        let slot = self.slots.object_slot(object);
        if let Some(mut last) = slot.try_lock()
            && let Some(tid) = self.runtime.log_at_once(&mut worker, &mut last)
        {
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
                    drop(slot);
                    return Ok(ObjectReceipt::for_tid(&self.runtime, tid));
                }
                LogAttempt::Again(again) => worker = again,
            }
        }
    }

    /// Logs an operation on an object, and then changes the object by `make`, which calls no handle. The caller holds
    /// the object's guard over the call. The duration of one change in 64 is measured, so that
    /// [`recovery_time`](crate::CheckpointPolicy::recovery_time) follows changes that become dearer. An application
    /// makes either all its changes this way, or by [`ObjectGuard::change`](crate::ObjectGuard::change) with the
    /// receipt, or none: after a first measurement, the durations of changes made after [`log`](Self::log) alone are
    /// unknown.
    ///
    /// ```
    /// # use std::sync::Mutex;
    /// # use ensile_objects::{ApplicationLog, ObjectsResult};
    /// # struct Item { price: f64 }
    /// # struct Items(Vec<Mutex<Item>>);
    /// # const OP_PRICE: u32 = 0;
    /// fn update_price(items: &Items, log: &ApplicationLog, id: u64, price: f64) -> ObjectsResult<()> {
    ///     let mut item = items.0[id as usize].lock().unwrap();
    ///     let ((), receipt) = log.change(id, OP_PRICE, &[&price.to_le_bytes()], || item.price = price)?;
    ///     drop(item);
    ///     receipt.durable()
    /// }
    /// ```
    ///
    ///
    /// # Errors
    /// As for [`log`](Self::log): nothing was logged, and nothing is made.
    ///
    /// # Panics
    /// If `make` panics. The object is poisoned before the panic goes on, under the caller's guard: see
    /// [`poison`](Self::poison).
    #[inline]
    pub fn change<R>(
        &self,
        object: u64,
        operation: u32,
        parameters: &[&[u8]],
        make: impl FnOnce() -> R,
    ) -> Result<(R, ObjectReceipt<'_>)> {
        let life = self.marks_lives.then_some(ObjectLife::Change);
        self.change_new(NewOperation { object, life, number: operation, parameters }, make)
    }

    /// As [`change`](Self::change), with a mark of the object's life: see [`log_life`](Self::log_life).
    ///
    /// # Errors
    /// As for [`log_life`](Self::log_life): nothing was logged, and nothing is made.
    ///
    /// # Panics
    /// As for [`change`](Self::change).
    #[inline]
    pub fn change_life<R>(
        &self,
        object: u64,
        life: ObjectLife,
        operation: u32,
        parameters: &[&[u8]],
        make: impl FnOnce() -> R,
    ) -> Result<(R, ObjectReceipt<'_>)> {
        self.check_marks()?;
        self.change_new(NewOperation { object, life: Some(life), number: operation, parameters }, make)
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

    /// Makes all logged operations durable and releases the folder, for all handles. A second call waits for the first,
    /// and returns the result of the first. A close in a future's waker is refused while another thread closes (O8).
    /// The caller must hold no object's guard: a checkpoint may wait for the guard, and the close for the checkpoint. A
    /// held guard of [`GuardedObjects`](crate::GuardedObjects) is refused; another guard is not noticed, and
    /// [`ObjectsStats::waiting_call_back`] shows the call-back that waits for it.
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
}
