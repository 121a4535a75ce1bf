//! The pin of one open transaction: objects that the transaction may still point to are not freed (E3), unless the pin
//! is expired (E4).
//!
//! A pin stands from begin to end of the transaction. Between the transaction's calls the heartbeat may *expire* the
//! pin. The transaction's next call then fails before touching a pointer, and from then on the pin is ignored.
//!
//! The race between a call and an expiry is a Dekker pair over two words, `in_call` (owner) and `expiry` (heartbeat):
//! - the owner's call first: `in_call` is stored, then the expiry is read; the heartbeat, after its heavy fence, sees
//!   the call and leaves the pin alone until a later scan finds the owner between calls;
//! - the expiry first: the owner, after its light fence, sees the expiry and fails.
//!
//! `expiry` moves `NONE -> ASKED -> IGNORED`. The heartbeat makes the first step; the heartbeat, or the owner after a
//! refused call, makes the second step. The owner's `begin` resets `expiry` to `NONE`. The reset makes the heartbeat's
//! second step fail, because the step is a compare-exchange from `ASKED`. The heartbeat may choose a slot for its
//! previous pin, and ask while the owner is within the next `begin`. `begin` is therefore a call like every other, and
//! loads `expiry` only behind its fence.
//!
//! A reader of a snapshot finds versions by its registration, and keeps nothing else from call to call. So its pin
//! counts within its calls only, and each call pins anew. Between calls the reader holds back versions, and nothing
//! else.
//!
//! Neighbours: the engine's transactions own slots; [`crate::Epochs::scan`] reads a slot, and lets its pin expire.

use crossbeam_utils::CachePadded;
use ensile_base::Epoch;
use ensile_base::sync::{Arc, AtomicBool, AtomicU8, AtomicU64, Ordering};

use crate::asymmetric_fence::Fences;
use crate::pin_token::Pinned;
use crate::registry::Registry;

/// The pin word without a pin, and the snapshot word without a registration.
const IDLE: u64 = u64::MAX;

const NONE: u8 = 0;
const ASKED: u8 = 1;
const IGNORED: u8 = 2;

/// The transaction was expired, because it held back too much garbage while idle (E4). Retry the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired;

/// A transaction's registration, on a cache line of its own.
#[derive(Debug)]
pub(crate) struct PinSlot {
    words: CachePadded<Words>,
    fences: Fences,
}

#[derive(Debug)]
struct Words {
    pin: AtomicU64,
    snapshot: AtomicU64,
    in_call: AtomicBool,
    expiry: AtomicU8,
}

/// Epochs that a slot holds back, as a scan reads them.
pub(crate) struct HeldBack {
    pub(crate) pin: Option<Epoch>,
    pub(crate) snapshot: Option<Epoch>,
}

impl PinSlot {
    pub(crate) fn new(fences: Fences) -> Self {
        let words = Words {
            pin: AtomicU64::new(IDLE),
            snapshot: AtomicU64::new(IDLE),
            in_call: AtomicBool::new(false),
            expiry: AtomicU8::new(NONE),
        };
        Self { words: CachePadded::new(words), fences }
    }

    /// Pins `epoch` and enters the first call.
    #[inline]
    fn begin(&self, epoch: Epoch) {
        // Relaxed: ordered before the load of `expiry` and before every later pointer load by the light fence;
        // partners: `try_expire` and the heavy fence of `scan`.
        self.words.in_call.store(true, Ordering::Relaxed);
        // Release: a scan that reads this pin, and not the end of the last pin, sees the last transaction's loads done;
        // partner: Acquire in `held_epochs`. The light fence below orders the store before every pointer load; partner:
        // the heavy fence of `scan`.
        self.words.pin.store(epoch.number(), Ordering::Release);
        self.fences.light();
        // Relaxed: a thread that asks for an expiry fences, then looks for our call. If the thread missed our call, the
        // light fence lets us see its demand here.
        if self.words.expiry.load(Ordering::Relaxed) != NONE {
            self.forget_expiry();
        }
    }

    /// Drops an expiry that was meant for this slot's previous transaction.
    #[cold]
    fn forget_expiry(&self) {
        // AcqRel: an exchange, so that the heartbeat's steps come wholly before or wholly after the reset.
        self.words.expiry.swap(NONE, Ordering::AcqRel);
        // A scan that still read `IGNORED` fenced before this fence: objects freed by the scan are not found any more.
        self.fences.light();
    }

    /// Registers snapshot `boundary`. Afterwards the caller must check again that `boundary` is still served (S1).
    #[inline]
    pub(crate) fn register_snapshot(&self, boundary: Epoch) {
        // Relaxed: ordered before the caller's second look by the light fence; partner: heavy fence of `scan`.
        self.words.snapshot.store(boundary.number(), Ordering::Relaxed);
        self.fences.light();
    }

    /// Enters a call of a snapshot's reader, pinned at `epoch`.
    #[inline]
    fn enter_snapshot(&self, epoch: Epoch) -> Result<(), Expired> {
        // Release: a scan that finds this call and its pin sees the last call's loads done; partner: Acquire in
        // `held_epochs`. The light fence in `enter` orders the store before every pointer load; partner: the heavy
        // fence of `scan`.
        self.words.pin.store(epoch.number(), Ordering::Release);
        self.enter()
    }

    /// Enters a call of an open transaction.
    #[inline]
    fn enter(&self) -> Result<(), Expired> {
        // Relaxed: ordered before the load of `expiry` by the light fence; partner: `try_expire`.
        self.words.in_call.store(true, Ordering::Relaxed);
        self.fences.light();
        // Acquire: partner is the store in `ask_expiry`.
        if self.words.expiry.load(Ordering::Acquire) == NONE {
            Ok(())
        } else {
            self.leave();
            Err(Expired)
        }
    }

    /// Ends a call: until the next `enter` the owner follows no shared pointer.
    #[inline]
    fn leave(&self) {
        // Release: every load of the call comes before; partner: the Acquire in `try_expire`.
        self.words.in_call.store(false, Ordering::Release);
    }

    /// Ends the transaction, between calls: nothing is pinned, no snapshot is read.
    #[inline]
    fn end(&self) {
        // Relaxed: the owner reads its own store.
        debug_assert!(!self.words.in_call.load(Ordering::Relaxed), "a transaction ends between its calls");
        // Release, all three: the transaction's loads come before the pinned objects may be freed; partner:
        // `held_epochs`.
        self.words.snapshot.store(IDLE, Ordering::Release);
        // Release: the transaction's loads come before the garbage held back by its pin may be freed; partner:
        // `held_epochs`.
        self.words.pin.store(IDLE, Ordering::Release);
        // Release: the last call's loads come before a scan sees that no call runs; partner: Acquire in `try_expire`.
        self.words.in_call.store(false, Ordering::Release);
    }

    /// Epochs that this slot holds back. The caller has fenced (heavy) since reading the epoch.
    pub(crate) fn held_epochs(&self) -> HeldBack {
        // Acquire: a thread that reads `IGNORED` or `IDLE` sees the owner's last loads done (partners: `try_expire`,
        // `end`).
        if self.words.expiry.load(Ordering::Acquire) == IGNORED {
            return HeldBack { pin: None, snapshot: None };
        }
        let read = |word: &AtomicU64| match word.load(Ordering::Acquire) {
            IDLE => None,
            number => Some(Epoch::new(number)),
        };
        let snapshot = read(&self.words.snapshot);
        // Acquire: the last call's loads are done; partner: `leave`. A call that this load misses fences after our
        // caller did, and finds no object that was unlinked before.
        if snapshot.is_some() && !self.words.in_call.load(Ordering::Acquire) {
            return HeldBack { pin: None, snapshot };
        }
        HeldBack { pin: read(&self.words.pin), snapshot }
    }

    /// Asks that the transaction fail at its next call. The caller fences (heavy) before [`PinSlot::try_expire`].
    pub(crate) fn ask_expiry(&self) {
        // Release and Relaxed on failure: partner is the Acquire in `enter`; an earlier request stands.
        let _ = self.words.expiry.compare_exchange(NONE, ASKED, Ordering::Release, Ordering::Relaxed);
    }

    /// Stops honouring the pin if the expired owner is between calls. True if the pin is ignored from now on.
    pub(crate) fn try_expire(&self) -> bool {
        // Acquire: partner is the Release in `leave`.
        if self.words.in_call.load(Ordering::Acquire) {
            return false;
        }
        // AcqRel: succeeds only if no `begin` came since the request; Acquire on failure is not needed.
        self.words.expiry.compare_exchange(ASKED, IGNORED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// True if a request to expire stands and is not yet carried out.
    pub(crate) fn expiry_is_asked(&self) -> bool {
        // Relaxed: only the heartbeat, the sole caller, asks. If the owner is faster, `try_expire` finds out.
        self.words.expiry.load(Ordering::Relaxed) == ASKED
    }
}

/// A call of an open transaction. While the call lives, the pin is honoured in spite of the heartbeat's requests.
///
/// Pointers found under an earlier call of the same transaction are still good: the pin has stood since `begin`.
#[derive(Debug)]
#[must_use = "the call ends when this is dropped"]
pub struct Call<'s> {
    slot: &'s PinSlot,
}

impl Call<'_> {
    /// The evidence that the pin stands.
    #[inline]
    #[must_use]
    pub fn pin_token(&self) -> Pinned<'_> {
        // SAFETY: the slot was begun before this call was entered, the heartbeat does not ignore the pin while the
        // call lasts (module header), and the token outlives neither the call nor the pin's present place.
        unsafe { Pinned::assume() }
    }

    /// The snapshot whose registered reader is the owner of the pin (S1).
    #[inline]
    #[must_use]
    pub fn snapshot(&self) -> Option<Epoch> {
        // Relaxed: the owner reads its own store.
        match self.slot.words.snapshot.load(Ordering::Relaxed) {
            IDLE => None,
            number => Some(Epoch::new(number)),
        }
    }
}

impl Drop for Call<'_> {
    #[inline]
    fn drop(&mut self) {
        self.slot.leave();
    }
}

/// Ownership of a registered pin; dropping the handle takes the pin out of the registry.
///
/// A pin does not end while one of its calls lasts, and pointers found in a call are not followed after the call:
/// ```compile_fail,E0499
/// # use std::time::Duration;
/// # use ensile_base::Epoch;
/// # use ensile_epoch::{EpochConfig, Epochs};
/// # let epochs = Epochs::new(&EpochConfig { first: Epoch::FIRST, snapshot_interval: Duration::MAX });
/// let mut pin = epochs.register_pin();
/// let call = pin.begin(epochs.now());
/// let pinned = call.pin_token();
/// pin.end(); // the second mutable borrow
/// let _ = pinned;
/// ```
///
/// The evidence of a call stays on its thread:
/// ```compile_fail,E0277
/// fn sent<T: Send>() {}
/// sent::<ensile_epoch::Pinned<'static>>();
/// ```
#[derive(Debug)]
pub struct PinHandle {
    slot: Arc<PinSlot>,
    registry: Arc<Registry<PinSlot>>,
    /// Number of expired transactions and snapshots.
    expired: Arc<AtomicU64>,
}

impl PinHandle {
    pub(crate) fn register(
        registry: &Arc<Registry<PinSlot>>,
        fences: Fences,
        expired: &Arc<AtomicU64>,
    ) -> Self {
        let slot = Arc::new(PinSlot::new(fences));
        registry.add(&slot);
        Self { slot, registry: Arc::clone(registry), expired: Arc::clone(expired) }
    }

    /// Carries out a request to expire that the owner has met before a scan.
    #[cold]
    fn expire(&self) -> Expired {
        if self.slot.try_expire() {
            // Relaxed: a figure.
            self.expired.fetch_add(1, Ordering::Relaxed);
        }
        Expired
    }
}

// Exclusive references: a pin does not end, and is not begun anew, while a call of the pin lasts.
impl PinHandle {
    pub(crate) fn slot(&self) -> &PinSlot {
        &self.slot
    }

    /// Pins `epoch` and enters the first call. Callers pass the global epoch just read; a stale epoch only holds back
    /// more. The caller may load shared pointers once this function returns.
    #[inline]
    pub fn begin(&mut self, epoch: Epoch) -> Call<'_> {
        let slot: &PinSlot = &self.slot;
        slot.begin(epoch);
        Call { slot }
    }

    /// Enters a call of an open transaction.
    ///
    /// # Errors
    /// [`Expired`] if the heartbeat gave up on this transaction: touch no pointer of the transaction, end the
    /// transaction, retry.
    ///
    /// # Safety
    /// The pin was begun, and has not ended since; no snapshot was opened under the pin.
    #[inline]
    pub unsafe fn enter(&mut self) -> Result<Call<'_>, Expired> {
        match self.slot.enter() {
            Ok(()) => Ok(Call { slot: &self.slot }),
            Err(Expired) => Err(self.expire()),
        }
    }

    /// Enters a call of a snapshot's reader, pinned at `epoch` (just read from the global epoch). Pointers found by
    /// earlier calls may be invalid.
    ///
    /// # Errors
    /// [`Expired`] if the heartbeat gave up on this reader: end the reader, retry.
    #[inline]
    pub fn enter_snapshot(&mut self, epoch: Epoch) -> Result<Call<'_>, Expired> {
        let slot: &PinSlot = &self.slot;
        slot.enter_snapshot(epoch)?;
        Ok(Call { slot })
    }

    /// Ends the transaction, between calls: nothing is pinned, no snapshot is read.
    #[inline]
    pub fn end(&mut self) {
        self.slot.end();
    }
}

impl Drop for PinHandle {
    fn drop(&mut self) {
        self.slot.end();
        self.registry.remove(&self.slot);
    }
}
