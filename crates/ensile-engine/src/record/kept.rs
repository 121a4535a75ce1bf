//! A pin, and what a transaction keeps between its calls of what it found under that pin.
//!
//! ```text
//! Resting --begin--> Kept --end--> Resting             Kept: enter (a call of the pin), between (no call), renew
//!            open_snapshot --> KeptSnapshot --end--> Resting                 KeptSnapshot: enter, between
//! ```
//! What is kept has a type for each pin: [`Family::Under`]`<'p>`, in which records stand as [`Handle`]`<'p>`. Between
//! calls `'p` is erased. Each call names it anew, for a closure that must work with any `'p`.
//!
//! Invariants, and what each rests on:
//! - *A handle is followed under its own pin.* A closure knows nothing of its `'p`, so a handle of another pin has
//!   another type, also where transactions nest; a handle's `'p` neither grows nor shrinks. Only [`Kept::enter`] and
//!   [`KeptSnapshot::enter`] make the token that follows handles of `'p`.
//! - *A handle is followed within a call.* `between` gives no token. [`Record`](super::Record) and [`Pinned`]
//!   are not `Send`, and what is kept must be: none of them is kept.
//! - *No handle outlives its pin.* What ends or moves a pin forgets all handles first: `end`, [`Kept::renew_after`],
//!   [`Kept::open_snapshot`], and each [`KeptSnapshot::enter`].
//!   [`Forget`] is unsafe to implement; `forgets!` writes it from a list of all fields, and the compiler proves of each
//!   field that is passed over that it holds no handle.
//! - *A call needs a pin that was begun*: [`Resting`] and [`Kept`] are two types.
//! - *A chain of versions is followed by a registered reader*: [`KeptSnapshot::enter`] alone makes a [`Boundary`].
//!
//! A transaction that is leaked leaves its pin standing. A closure that panics leaves its handles, which stay good. An
//! expired pin lets no call in; forgetting follows no handle.
//!
//! Neighbours: `sets::context` is what is kept; `session` keeps it at rest; transactions and snapshots enter.

use ensile_base::Epoch;
use ensile_epoch::{Epochs, Expired, PinHandle, Pinned};

use super::Handle;

/// What is kept under a pin: one type for each pin's lifetime.
pub(crate) trait Family {
    /// What is kept under the pin of `'p`.
    type Under<'p>: Forget + Send;
}

/// What can forget the handles in it.
///
/// # Safety
/// After [`Forget::forget`] it holds no [`Handle`].
pub(crate) unsafe trait Forget {
    /// Forgets all handles, and follows none.
    fn forget(&mut self);
}

// SAFETY: `None` holds no handle.
unsafe impl Forget for Option<Handle<'_>> {
    #[inline(always)]
    fn forget(&mut self) {
        *self = None;
    }
}

// SAFETY: each of its elements forgets its own, and it holds nothing else.
unsafe impl<T: Forget> Forget for Vec<T> {
    #[inline(always)]
    fn forget(&mut self) {
        self.iter_mut().for_each(Forget::forget);
    }
}

/// The boundary of a snapshot that a reader is registered for (S1): the versions that it needs are not freed for `'p`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Boundary<'p> {
    epoch: Epoch,
    _pinned: Pinned<'p>,
}

impl<'p> Boundary<'p> {
    /// Claims that a reader is registered.
    ///
    /// # Safety
    /// For `'p` a reader of the snapshot of this boundary is registered, or no version is freed.
    #[inline]
    pub(super) unsafe fn assume(epoch: Epoch, pinned: Pinned<'p>) -> Self {
        Self { epoch, _pinned: pinned }
    }

    /// The snapshot shows versions with an epoch below this.
    #[inline]
    pub(crate) fn epoch(self) -> Epoch {
        self.epoch
    }
}

/// Implements [`Forget`] from a list of all fields: those that are `emptied`, those that are `forgotten` by their own
/// [`Forget`], and those that hold no handle.
macro_rules! forgets {
    ($of:ident: emptied [$($emptied:ident),*], forgotten [$($forgotten:ident),*], free [$($free:ident),*]) => {
        #[expect(unsafe_code, reason = "written out by `record::kept`, which argues for it")]
        // SAFETY: the pattern names each field. It is an emptied vector, forgets its own, or proves to be `'static`.
        unsafe impl $crate::record::kept::Forget for $of<'_> {
            #[inline(always)]
            fn forget(&mut self) {
                let Self { $($emptied,)* $($forgotten,)* $($free,)* } = self;
                $(Vec::clear($emptied);)*
                $($crate::record::kept::Forget::forget($forgotten);)*
                $($crate::record::kept::holds_no_handle($free);)*
            }
        }
    };
}
pub(crate) use forgets;

/// Compiles for what outlives every pin only.
#[inline(always)]
pub(crate) fn holds_no_handle<T: 'static>(_: &T) {}

/// A pin, and what is kept under it. At rest it holds no handle, whatever its type says.
struct PinAndKept<F: Family> {
    pin: PinHandle,
    kept: F::Under<'static>,
}

/// What is kept while no pin stands: space.
pub(crate) struct Resting<F: Family>(Box<PinAndKept<F>>);

/// What is kept under a pin that stands.
pub(crate) struct Kept<F: Family>(Box<PinAndKept<F>>);

/// What the registered reader of a snapshot keeps: its pin stands within its calls only.
pub(crate) struct KeptSnapshot<F: Family>(Box<PinAndKept<F>>);

impl<F: Family> Resting<F> {
    /// A pin that is not begun, and what is to be kept under it.
    pub(crate) fn new(pin: PinHandle, kept: F::Under<'static>) -> Self {
        let mut resting = Self(Box::new(PinAndKept { pin, kept }));
        resting.0.kept.forget();
        resting
    }

    /// What is kept at rest.
    #[inline(always)]
    pub(crate) fn get(&self) -> &F::Under<'static> {
        &self.0.kept
    }

    /// Begins a pin at `epoch` (just read from the global epoch).
    #[inline(always)]
    pub(crate) fn begin(mut self, epoch: Epoch) -> Kept<F> {
        drop(self.0.pin.begin(epoch));
        Kept(self.0)
    }
}

impl<F: Family> PinAndKept<F> {
    /// What is kept, under a name for the pin.
    #[inline(always)]
    fn under<'k, 'p: 'k>(kept: &'k mut F::Under<'static>) -> &'k mut F::Under<'p> {
        // SAFETY: a type is laid out alike whatever its lifetimes are. `'p` is a name that the callers' closures know
        // nothing of: no handle with another name gets in, and none in it goes by another name (module header).
        unsafe { &mut *std::ptr::from_mut(kept).cast() }
    }
}

impl<F: Family> Kept<F> {
    /// Runs a call under the pin, or `expired` if the pin was taken away.
    #[inline(always)]
    pub(crate) fn enter<R>(
        &mut self,
        call: impl for<'p> FnOnce(Pinned<'p>, &mut F::Under<'p>) -> R,
        expired: impl FnOnce(Expired) -> R,
    ) -> R {
        let PinAndKept { pin, kept } = &mut *self.0;
        // SAFETY: the pin was begun when `self` was made, and ends with `self`.
        match unsafe { pin.enter() } {
            Ok(entered) => call(entered.pinned(), PinAndKept::<F>::under(kept)),
            Err(why) => expired(why),
        }
    }

    /// Runs a call under the pin, and once that call is over what follows no handle; or `expired`.
    #[inline(always)]
    pub(crate) fn enter_then<T, R>(
        &mut self,
        call: impl for<'p> FnOnce(Pinned<'p>, &mut F::Under<'p>) -> T,
        then: impl for<'p> FnOnce(T, &mut F::Under<'p>) -> R,
        expired: impl FnOnce(Expired) -> R,
    ) -> R {
        let PinAndKept { pin, kept } = &mut *self.0;
        // SAFETY: the pin was begun when `self` was made, and ends with `self`.
        let found = match unsafe { pin.enter() } {
            Ok(entered) => call(entered.pinned(), PinAndKept::<F>::under(kept)),
            Err(why) => return expired(why),
        };
        then(found, PinAndKept::<F>::under(kept))
    }

    /// Runs what follows no handle, outside the pin's calls.
    #[inline(always)]
    pub(crate) fn between<R>(&mut self, work: impl for<'p> FnOnce(&mut F::Under<'p>) -> R) -> R {
        work(PinAndKept::<F>::under(&mut self.0.kept))
    }

    /// Registers the owner as a reader of the newest snapshot; says which one. What was found before is forgotten.
    pub(crate) fn open_snapshot(mut self, epochs: &Epochs) -> (KeptSnapshot<F>, Epoch) {
        self.0.kept.forget();
        let boundary = epochs.open_snapshot(&mut self.0.pin);
        (KeptSnapshot(self.0), boundary)
    }

    /// Forgets everything that was found, ends the pin, waits as `wait` does, and begins the pin anew: nothing is held
    /// back meanwhile.
    #[cold]
    pub(crate) fn renew_after<R>(&mut self, epochs: &Epochs, wait: impl FnOnce() -> R) -> R {
        /// The pin of what is kept stands, whatever becomes of the wait.
        struct Begin<'k>(&'k mut PinHandle, &'k Epochs);

        impl Drop for Begin<'_> {
            fn drop(&mut self) {
                drop(self.0.begin(self.1.now()));
            }
        }

        self.0.kept.forget();
        self.0.pin.end();
        let _begin = Begin(&mut self.0.pin, epochs);
        wait()
    }

    /// Forgets everything that was found, and ends the pin.
    #[inline(always)]
    pub(crate) fn end(mut self) -> Resting<F> {
        self.0.kept.forget();
        self.0.pin.end();
        Resting(self.0)
    }
}

impl<F: Family> KeptSnapshot<F> {
    /// Runs a call under a pin at `epoch` (just read from the global epoch), as a registered reader of the snapshot.
    /// What earlier calls have found is forgotten (E4).
    ///
    /// # Errors
    /// [`Expired`] if the reader was given up: `call` is not run.
    #[inline]
    pub(crate) fn enter<R>(
        &mut self,
        epoch: Epoch,
        call: impl for<'p> FnOnce(Pinned<'p>, Boundary<'p>, &mut F::Under<'p>) -> R,
    ) -> Result<R, Expired> {
        let PinAndKept { pin, kept } = &mut *self.0;
        let entered = pin.enter_snapshot(epoch)?;
        kept.forget();
        let Some(boundary) = entered.snapshot() else {
            unreachable!("a snapshot is opened before it is read")
        };
        debug_assert!(epoch >= boundary, "a boundary is served once E has reached it (S1)");
        let pinned = entered.pinned();
        // SAFETY: the pin is registered as a reader of the snapshot of this boundary, until it ends.
        let boundary = unsafe { Boundary::assume(boundary, pinned) };
        Ok(call(pinned, boundary, PinAndKept::<F>::under(kept)))
    }

    /// Runs what follows no handle, outside the reader's calls.
    #[inline]
    pub(crate) fn between<R>(&mut self, work: impl for<'p> FnOnce(&mut F::Under<'p>) -> R) -> R {
        work(PinAndKept::<F>::under(&mut self.0.kept))
    }

    /// Forgets everything that was found, and ends the pin and the registration.
    pub(crate) fn end(mut self) -> Resting<F> {
        self.0.kept.forget();
        self.0.pin.end();
        Resting(self.0)
    }
}

/// Space for handles within one call: at rest it is empty.
#[derive(Debug, Default)]
pub(crate) struct HandleSpace(Vec<Option<Handle<'static>>>);

impl HandleSpace {
    /// The space, for one call.
    #[inline]
    pub(crate) fn take<'p>(&mut self) -> Vec<Option<Handle<'p>>> {
        debug_assert!(self.0.is_empty(), "no handle outlives its call");
        // An empty vector of one type becomes one of another, in the same allocation.
        std::mem::take(&mut self.0).into_iter().map(|_| None).collect()
    }

    /// Takes the space back.
    #[inline]
    pub(crate) fn put(&mut self, mut used: Vec<Option<Handle<'_>>>) {
        used.clear();
        self.0 = used.into_iter().map(|_| None).collect();
        debug_assert!(self.0.is_empty(), "no handle outlives its call");
    }

    /// Bytes of memory that it holds.
    #[inline]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Option<Handle<'static>>>()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
