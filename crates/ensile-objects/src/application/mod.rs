//! The floor form: an application keeps its own objects, logs each change before it makes it, and gives three
//! call-backs (SLACH §3.2).
//!
//! ```text
//! the application's guard of an object, held over all of this:   log(object, operation, parameters) | change the object
//! checkpoint (call-back)   object by object, under its guard:    ckpt(object, bytes)
//! open                     load_one (call-back) for each object -> replay_one (call-back) for each operation behind it
//! ```
//! The objects have no room for a TID, so last TIDs stand in slots, by a hash of the object's number.
//!
//! Invariants:
//! - O7: an operation's TID is above its slot's, and chosen under the slot's lock. A checkpoint's entry has the TID of
//!   its object's slot, read while the application holds the object's guard.
//! - O4: at recovery an object's operations come in the order of TIDs, none that its loaded bytes include.
//!
//! Neighbours: applications implement [`Application`]; `recover` and `walk` call it, and `check` both of a recorded
//! folder.

mod check;
mod copied;
mod loaded;
mod recover;
mod walk;

use std::sync::Arc;

use ensile_base::clock::Clock;
use ensile_base::limits::TRANSACTION_BYTES_MAX;
use ensile_base::sync::{Mutex, OnceLock};
use ensile_base::{Epoch, Tid};
use ensile_durability::{CheckpointHandle, DurabilityError, RecoveryReport};

use crate::applied::AppliedTime;
use crate::error::{ObjectsError, ObjectsResult as Result};
use crate::format::{BodyForm, encode_body};
use crate::pieces::Assembly;
use crate::receipt::{ChangeReceipt, ObjectReceipt};
use crate::replay::WaitingOperations;
use crate::runtime::{LogAttempt, LogWorker, ObjectsSettings, ObjectsStats, OpenRuntime};
use copied::CheckedCopy;
use loaded::LoadedTids;
pub use walk::ObjectWriter;

/// Slots for last TIDs. Objects that share one get TIDs as if they were one object; nothing else comes of it.
const SLOTS: usize = if cfg!(shuttle) { 2 } else { 4096 };

/// What a call-back of a recovery returns: nothing, or what is wrong. The open fails then.
pub type CallBackResult = Result<(), Box<str>>;

/// An application that keeps its own objects, each with a number below `u64::MAX` (SLACH §3.2).
///
/// # Discipline
/// Each object has a guard of the application's, a lock. It is held over the call of [`ApplicationLog::log`] *and* the
/// change behind it, and over the making of an object's bytes *and* its [`ObjectWriter::ckpt`]. Without it a checkpoint
/// may have an object without an operation that its TID includes, and that operation is lost. An object is to be found
/// by [`checkpoint`](Self::checkpoint) before its first operation is logged, or under a guard that keeps the call-back
/// from passing it.
///
/// Operations are deterministic, and depend on their own object only. One may be replayed on an object that a later
/// operation removes, without those before it, unless [`ObjectWriter::absent`] said so: a removal therefore does not
/// depend on what it finds.
///
/// # A panic between the log and the change
/// leaves a logged operation that its object does not have. A recovery applies it; a checkpoint that takes the object
/// before loses it for good, as it has the operation's TID. So what can fail comes before [`ApplicationLog::log`].
/// Where the change can fail all the same, its object is in no checkpoint from then on, and shown to nobody:
/// [`checkpoint`](Self::checkpoint) calls [`ObjectWriter::refuse`] at it, or panics, as it does by itself where the
/// guard is a lock of std's that a panic has poisoned. What becomes of it is known when the objects are opened again.
///
/// A replay that panics fails the open, unless the application poisons the object there as well and goes on.
/// [`GuardedObjects`](crate::GuardedObjects) has guards that do all of this.
///
/// # Versions
/// [`version`](Self::version) is written with every object and operation. What an older program has written goes to
/// [`load_older`](Self::load_older) and [`replay_older`](Self::replay_older); what a newer one has written is an error
/// with file and offset, before anything is served.
pub trait Application: Send + Sync + 'static {
    /// The version of all that this application writes: its objects' bytes, the numbers of its operations and their
    /// parameters. Raise it when one of these changes. It is asked once, at open.
    fn version(&self) -> u16 {
        0
    }

    /// Writes a checkpoint of the application's selected objects with this number or a larger one, in the order of
    /// their numbers, each by [`ObjectWriter::ckpt`] under its guard. When that says that there is no more room,
    /// returns the number to go on from; `None` once there is no further object. [`ObjectWriter::refuse`] gives the
    /// checkpoint up.
    ///
    /// It is called for a slice of the numbers at a time ([`slice_starts`](Self::slice_starts)), from several threads
    /// where there are several slices and checkpointers. It needs to know nothing of the end of a slice: the writer
    /// takes no object behind that, and says that there is no more room.
    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64>;

    /// Numbers of objects, ascending, at which a new slice of a checkpoint begins: `parts` slices, which are as many as
    /// there are [checkpointers](crate::ObjectsBuilder::checkpointers), are for as many threads. Slices that take about
    /// as long as each other are the best. Without an implementation there is one slice, which one thread writes,
    /// whatever the number of checkpointers. It is asked when a checkpoint begins; more slices than asked for, and
    /// fewer, are written too.
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

    /// Loads one object from what its checkpoint has. It is called from several threads, for one object once.
    ///
    /// # Errors
    /// What is wrong with the bytes: the open fails.
    fn load_one(&self, object: u64, bytes: &[u8]) -> CallBackResult;

    /// Replays one logged operation on an object, with its list of parameters. It is called from several threads, for
    /// one object by one at a time, and in order.
    ///
    /// # Errors
    /// What is wrong with the operation: the open fails.
    fn replay_one(&self, object: u64, operation: u32, parameters: &[&[u8]]) -> CallBackResult;

    /// As [`load_one`](Self::load_one), from bytes of an older version, which are made an object of today (an up-cast).
    ///
    /// # Errors
    /// What is wrong with the bytes; without an implementation that there is none. The open fails.
    fn load_older(&self, version: u16, object: u64, bytes: &[u8]) -> CallBackResult {
        let _ = (object, bytes);
        Err(no_up_cast(version, self.version()))
    }

    /// As [`replay_one`](Self::replay_one), of an operation of an older version, which does what it did then.
    ///
    /// # Errors
    /// What is wrong with the operation; without an implementation that there is none. The open fails.
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

/// Why an older version is refused that an application has no up-cast for.
fn no_up_cast(version: u16, newest: u16) -> Box<str> {
    format!("it is of version {version}; this program writes version {newest}, and has no up-cast from that")
        .into()
}

/// What recovery and checkpoints keep beside an application.
pub(crate) struct ApplicationState<A> {
    application: Arc<A>,
    /// Of what it writes now.
    version: u16,
    /// Last TIDs (O7).
    slots: Box<[Mutex<Tid>]>,
    /// While it recovers.
    loaded: LoadedTids,
    waiting: WaitingOperations<(u64, Box<[u8]>)>,
    pieces: Assembly,
    /// The first operation that could not be replayed, and why.
    failure: Mutex<Option<ObjectsError>>,
    /// Why the walk under way cannot become a checkpoint.
    refusal: Mutex<Option<String>>,
    /// What its changes take, at first and at recovery.
    applied: Arc<AppliedTime>,
    replayed: AppliedTime,
    /// In the debug mode.
    copy: OnceLock<Box<CheckedCopy<A>>>,
}

impl<A: Application> ApplicationState<A> {
    pub(crate) fn new(application: Arc<A>, clock: &Clock) -> Self {
        Self {
            version: application.version(),
            application,
            slots: (0..SLOTS).map(|_| Mutex::default()).collect(),
            loaded: LoadedTids::new(),
            waiting: WaitingOperations::new(),
            pieces: Assembly::default(),
            failure: Mutex::default(),
            refusal: Mutex::default(),
            applied: Arc::new(AppliedTime::new(clock)),
            replayed: AppliedTime::new(clock),
            copy: OnceLock::new(),
        }
    }

    /// The slot of an object's last TID.
    fn slot(&self, object: u64) -> &Mutex<Tid> {
        // Neighbouring numbers in slots of their own (Knuth's multiplicative hash).
        let hash = object.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.slots[hash as usize % SLOTS]
    }
}

/// An application's log and checkpoints, open (SLACH §3.2's `API`). The last handle closes them.
///
/// Figure 4 of the paper, with the guard that it leaves out:
/// ```
/// use std::sync::{Arc, Mutex};
/// use ensile_objects::{Application, ApplicationLog, CallBackResult, ObjectWriter, ObjectsBuilder, ObjectsResult};
///
/// /// An item for sale.
/// #[derive(Clone, Copy, Default)]
/// struct Item { price: f64, quantity: i32 }
///
/// struct Items(Vec<Mutex<Item>>);
///
/// const OP_PRICE: u32 = 0;
///
/// impl Application for Items {
///     fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
///         for (id, item) in (0..).zip(&self.0).skip(from as usize) {
///             let item = item.lock().unwrap(); // over the bytes and `ckpt`
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
///         *self.0[id as usize].lock().unwrap() = Item { price: f64::from_le_bytes(*price), quantity };
///         Ok(())
///     }
///
///     fn replay_one(&self, id: u64, operation: u32, parameters: &[&[u8]]) -> CallBackResult {
///         match (operation, parameters) {
///             (OP_PRICE, [price]) => {
///                 let price = (*price).try_into().map_err(|_| "no price")?;
///                 self.0[id as usize].lock().unwrap().price = f64::from_le_bytes(price);
///                 Ok(())
///             }
///             _ => Err("no such operation".into()),
///         }
///     }
/// }
///
/// fn update_price(items: &Items, log: &ApplicationLog, id: u64, price: f64) -> ObjectsResult<()> {
///     let mut item = items.0[id as usize].lock().unwrap(); // over `log` and the change
///     let receipt = log.log(id, OP_PRICE, &[&price.to_le_bytes()])?;
///     item.price = price;
///     drop(item);
///     receipt.durable()
/// }
///
/// # fn main() -> ObjectsResult<()> {
/// # let folder = std::env::temp_dir().join(format!("ensile-objects-figure-4-{}", std::process::id()));
/// let new = || Arc::new(Items((0..1000).map(|_| Mutex::default()).collect()));
/// let items = new();
/// let log = ObjectsBuilder::new(&folder).open_application(Arc::clone(&items))?;
/// update_price(&items, &log, 7, 9.95)?;
/// drop(log);
///
/// let items = new();
/// let log = ObjectsBuilder::new(&folder).open_application(Arc::clone(&items))?;
/// assert_eq!(items.0[7].lock().unwrap().price, 9.95);
/// # drop(log);
/// # std::fs::remove_dir_all(&folder).expect("it is there");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ApplicationLog {
    slots: Arc<dyn Slots>,
    /// Of its operations.
    version: u16,
    /// Whether each operation is replayed on a copy.
    is_checked: bool,
    runtime: Arc<OpenRuntime>,
}

impl std::fmt::Debug for ApplicationLog {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ApplicationLog").finish_non_exhaustive()
    }
}

/// An application's slots, and its copy in the debug mode, whatever it is.
trait Slots: Send + Sync {
    fn of(&self, object: u64) -> &Mutex<Tid>;

    /// An operation was logged.
    fn logged(&self, object: u64, operation: u32, parameters: &[&[u8]]);

    /// Why an object's bytes, or that there is none, are not what its operations make of it.
    fn difference(&self, object: u64, bytes: Option<&[u8]>) -> Option<String>;

    /// The first difference so far.
    fn first_difference(&self) -> Option<String>;
}

impl<A: Application> Slots for ApplicationState<A> {
    fn of(&self, object: u64) -> &Mutex<Tid> {
        self.slot(object)
    }

    fn logged(&self, object: u64, operation: u32, parameters: &[&[u8]]) {
        if let Some(copy) = self.copy.get() {
            copy.replay(object, operation, parameters);
        }
    }

    fn difference(&self, object: u64, bytes: Option<&[u8]>) -> Option<String> {
        self.copy.get().and_then(|copy| copy.compare(object, bytes))
    }

    fn first_difference(&self) -> Option<String> {
        self.copy.get().and_then(|copy| copy.found())
    }
}

impl ApplicationLog {
    /// Bytes of memory that an open takes for each object of the checkpoint until it has ended, at most: the objects
    /// have no room for the TID of each. The log adds no more than the parts of it that are being read, so
    /// what stands beside the objects does not grow with the log. 256 MiB are come to at 14 million objects. A
    /// collection keeps this in its objects.
    pub const OPEN_BYTES_EACH: usize = loaded::BYTES_EACH;

    pub(crate) fn open<A: Application>(settings: ObjectsSettings, application: Arc<A>) -> Result<Self> {
        let state = Arc::new(ApplicationState::new(application, &settings.clock));
        let runtime = settings.open(Arc::clone(&state) as _)?;
        Ok(Self { version: state.version, slots: state, is_checked: false, runtime: Arc::new(runtime) })
    }

    /// As [`open`](Self::open), in the debug mode.
    pub(crate) fn open_checked<A: Application>(
        settings: ObjectsSettings,
        application: Arc<A>,
        fresh: A,
    ) -> Result<Self> {
        let state = Arc::new(ApplicationState::new(application, &settings.clock));
        let runtime = settings.open(Arc::clone(&state) as _)?;
        let copy = CheckedCopy::of(&state, fresh)?;
        assert!(state.copy.set(Box::new(copy)).is_ok(), "it is set once");
        Ok(Self { version: state.version, slots: state, is_checked: true, runtime: Arc::new(runtime) })
    }

    /// Logs an operation on an object, with its list of parameters. The caller holds the object's guard, and changes
    /// the object behind this, under the same hold. The receipt tells when the operation is durable; it is waited for
    /// without the guard, in either kind of durability.
    ///
    /// What can fail comes before this: a panic between this and the change leaves an operation that its object does
    /// not have, and that a checkpoint of the object would lose ([`Application`]).
    ///
    /// # Errors
    /// [`ObjectsError::Durability`] while the log takes no entries, or for parameters above
    /// [`TRANSACTION_BYTES_MAX`](crate::limits::TRANSACTION_BYTES_MAX); [`ObjectsError::NoObject`]. Nothing was
    /// logged: do not change the object.
    #[inline]
    pub fn log(&self, object: u64, operation: u32, parameters: &[&[u8]]) -> Result<ObjectReceipt<'_>> {
        let receipt = self.log_unchecked(object, operation, parameters)?;
        if self.is_checked {
            self.slots.logged(object, operation, parameters);
        }
        Ok(receipt)
    }

    fn log_unchecked(&self, object: u64, operation: u32, parameters: &[&[u8]]) -> Result<ObjectReceipt<'_>> {
        self.runtime.check_process()?;
        if object == u64::MAX {
            return Err(ObjectsError::NoObject);
        }
        let bytes = parameters.iter().map(|parameter| 4 + parameter.len()).sum();
        if bytes > TRANSACTION_BYTES_MAX {
            return Err(DurabilityError::TooLarge { bytes, limit: TRANSACTION_BYTES_MAX }.into());
        }
        if !self.runtime.is_logged {
            self.runtime.check_open()?;
            return Ok(ObjectReceipt::new(&self.runtime, Epoch::ZERO));
        }
        let mut worker = self.runtime.worker()?;
        let append_key = |out: &mut Vec<u8>| out.extend_from_slice(&object.to_le_bytes());
        let encoded = encode_body(&mut worker.body, (BodyForm::Call, self.version), append_key, |out| {
            out.extend_from_slice(&operation.to_le_bytes());
            for parameter in parameters {
                out.extend_from_slice(&(parameter.len() as u32).to_le_bytes());
                out.extend_from_slice(parameter);
            }
        });
        assert_eq!(encoded, Ok(()), "a number is no long key");
        let slot = self.slots.of(object);
        if let Some(mut last) = slot.try_lock()
            && let Some(tid) = self.runtime.log_at_once(&mut worker, &mut last)
        {
            drop(last);
            self.runtime.give_back(worker);
            return Ok(ObjectReceipt::of(&self.runtime, tid));
        }
        self.log_waiting(slot, worker)
    }

    /// Logs the worker's entry, whatever is to be waited for.
    #[cold]
    fn log_waiting(&self, last: &Mutex<Tid>, mut worker: Box<LogWorker>) -> Result<ObjectReceipt<'_>> {
        loop {
            let slot = self.runtime.lock(last, worker)?;
            match self.runtime.log(slot, |last| last)? {
                LogAttempt::Logged(slot, tid) => {
                    drop(slot);
                    return Ok(ObjectReceipt::of(&self.runtime, tid));
                }
                LogAttempt::Again(again) => worker = again,
            }
        }
    }

    /// Logs an operation on an object, and then changes the object by `make`. The caller holds the object's guard over
    /// this. What making takes is measured, of one change in 64, so that
    /// [`recovery_time`](crate::CheckpointPolicy::recovery_time) follows changes that become dearer. An application
    /// makes all its changes so, or by [`ObjectGuard::change`](crate::ObjectGuard::change) with the receipt, or none:
    /// of those that it makes behind [`log`](Self::log) alone nothing is known once one was measured.
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
    /// # Errors
    /// As for [`log`](Self::log): nothing was logged, and nothing is made.
    ///
    /// # Panics
    /// If `make` does: what is logged then lacks its change, as [`Application`] says.
    #[inline]
    pub fn change<R>(
        &self,
        object: u64,
        operation: u32,
        parameters: &[&[u8]],
        make: impl FnOnce() -> R,
    ) -> Result<(R, ObjectReceipt<'_>)> {
        let receipt = self.log(object, operation, parameters)?;
        Ok((receipt.make(object, make), receipt))
    }

    /// As [`Objects::report_requests`](crate::Objects::report_requests).
    pub fn report_requests(&self, served: u64, lost: u64) {
        self.runtime.checkpoints.report_requests(served, lost);
    }

    /// A receipt for all that was logged in epochs up to this one. An application that keeps the epoch of each object's
    /// last receipt, under its guard, so knows when what a read shows is durable (R1). One of an epoch above E is of
    /// other objects: it is never durable, and waiting for it is an error.
    #[must_use]
    pub fn receipt(&self, epoch: Epoch) -> ObjectReceipt<'_> {
        ObjectReceipt::new(&self.runtime, epoch)
    }

    /// E now: no receipt has a larger epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.runtime.epochs.now()
    }

    /// Asks for a checkpoint that begins from now on. A thread that [waits](CheckpointHandle::wait) for it has no
    /// object's guard, which is not noticed: the checkpoint may wait for the guard.
    #[must_use]
    pub fn checkpoint(&self) -> CheckpointHandle {
        self.runtime.demand_checkpoint()
    }

    /// In the [debug mode](crate::ObjectsBuilder::open_application_checked): the first object that is not what its
    /// operations make of it, and where it differs; as far as a checkpoint has looked.
    #[must_use]
    pub fn difference(&self) -> Option<String> {
        self.slots.first_difference()
    }

    /// Figures; of the objects nothing is known here.
    #[must_use]
    pub fn stats(&self) -> ObjectsStats {
        self.runtime.stats(0, 0)
    }

    /// What recovery found and did when this was opened.
    #[must_use]
    pub fn recovery(&self) -> &RecoveryReport {
        &self.runtime.report
    }

    /// Makes all that was logged durable and lets go of the folder, for all handles. A second call waits for the first,
    /// and returns what it returned. A call-back that a close waits for is refused: one of a checkpoint always, a
    /// future's waker while another thread closes, and code of another log, which it calls so, while code of this one
    /// waits for that log (O8). The caller has no object's guard, which is not noticed: a checkpoint may wait for the
    /// guard, and the close for the checkpoint.
    ///
    /// # Errors
    /// [`DurabilityError::InCallBack`](crate::DurabilityError::InCallBack): close on a thread of your own.
    /// [`ObjectsError::Durability`]: not everything could be made durable; or, as
    /// [`DurabilityError::NotShipped`](crate::DurabilityError::NotShipped), a shared store did not answer within
    /// [`close_wait`](crate::ShippingConfig::close_wait), and all is durable in the folder.
    pub fn close(&self) -> Result<()> {
        self.runtime.close()
    }

    pub(crate) fn runtime(&self) -> &OpenRuntime {
        &self.runtime
    }
}
