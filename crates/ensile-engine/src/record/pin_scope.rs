//! A pin, and the data that a transaction keeps between its calls under the pin.
//!
//! ```text
//! Resting --begin--> Kept --end--> Resting          Kept: enter (a call of the pin), run_outside_call, renew_after
//!            open_snapshot --> KeptSnapshot --end--> Resting          KeptSnapshot: enter, run_outside_call
//! ```
//! Kept data has a type for each pin: [`Family::Under`]`<'p>`, with records as [`Handle`]`<'p>`. Between calls `'p` is
//! erased. Each call names the lifetime anew, for a closure that must work with any `'p`.
//!
//! Invariants, each with its ground:
//! - *A handle is followed under its own pin.* A closure knows nothing of its `'p`, so a handle of another pin has
//!   another type, also in nested transactions; a handle's `'p` neither grows nor shrinks. Only [`Kept::enter`] and
//!   [`KeptSnapshot::enter`] make the token that follows handles of `'p`.
//! - *A handle is followed within a call.* `run_outside_call` gives no token. [`Record`](super::Record) and [`Pinned`]
//!   are not `Send`, and kept data must be `Send`, so neither is kept.
//! - *No handle outlives its pin.* Every function that ends or moves a pin forgets all handles first: `end`,
//!   [`Kept::renew_after`], [`Kept::open_snapshot`], and each [`KeptSnapshot::enter`]. [`Forget`] is unsafe to
//!   implement; `forgets!` writes the implementation from a list of all fields. The compiler proves that each remaining
//!   field holds no handle.
//! - *A call needs a pin that was begun*: [`Resting`] and [`Kept`] are two types.
//! - *A chain of versions is followed by a registered reader*: [`KeptSnapshot::enter`] alone makes a [`Boundary`].
//!
//! A leaked transaction leaves its pin standing. A closure that panics leaves its handles, and the handles stay good.
//! An expired pin lets no call in; forgetting follows no handle.
//!
//! Neighbours: `sets::context` is the kept data; `session` keeps the data at rest; transactions and snapshots enter.

use ensile_base::Epoch;
use ensile_epoch::{Epochs, Expired, PinHandle, Pinned};

use super::reference::Handle;

/// Types of data kept under a pin: a type for each lifetime of a pin.
pub(crate) trait Family {
    /// Data kept under the pin of `'p`.
    type Under<'p>: Forget + Send;
}

/// Data that can forget its handles.
///
/// # Safety
/// After [`Forget::forget`] the data holds no [`Handle`].
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

// SAFETY: each element forgets its handles, and the vector holds nothing else.
unsafe impl<T: Forget> Forget for Vec<T> {
    #[inline(always)]
    fn forget(&mut self) {
        self.iter_mut().for_each(Forget::forget);
    }
}

/// Boundary of a snapshot with a registered reader (S1): nothing frees the snapshot's versions during `'p`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Boundary<'p> {
    epoch: Epoch,
    _pinned: Pinned<'p>,
}

impl<'p> Boundary<'p> {
    /// Claims that a reader is registered.
    ///
    /// # Safety
    /// During `'p` a reader of the snapshot of this boundary is registered, or no version is freed.
    #[inline]
    pub(super) unsafe fn assume(epoch: Epoch, pinned: Pinned<'p>) -> Self {
        Self { epoch, _pinned: pinned }
    }

    /// The boundary: the snapshot shows versions with an epoch below this epoch.
    #[inline]
    pub(crate) fn epoch(self) -> Epoch {
        self.epoch
    }
}

/// Implements [`Forget`] from a list of all fields: `emptied` fields, fields `forgotten` by their own [`Forget`], and
/// fields without handles.
macro_rules! forgets {
    ($of:ident: emptied [$($emptied:ident),*], forgotten [$($forgotten:ident),*], free [$($free:ident),*]) => {
        #[expect(unsafe_code, reason = "written out by `record::pin_scope`, which argues for it")]
        // SAFETY: the pattern names each field. A field is an emptied vector, forgets its handles, or proves to be
        // `'static`.
        unsafe impl $crate::record::pin_scope::Forget for $of<'_> {
            #[inline(always)]
            fn forget(&mut self) {
                let Self { $($emptied,)* $($forgotten,)* $($free,)* } = self;
                $(Vec::clear($emptied);)*
                $($crate::record::pin_scope::Forget::forget($forgotten);)*
                $($crate::record::pin_scope::holds_no_handle($free);)*
            }
        }
    };
}
pub(crate) use forgets;

/// Compiles only for values that outlive every pin.
#[inline(always)]
pub(crate) fn holds_no_handle<T: 'static>(_: &T) {}

/// A pin, and the data kept under the pin. At rest the data holds no handle, whatever its type says.
struct PinAndKept<F: Family> {
    pin: PinHandle,
    kept: F::Under<'static>,
}

/// Kept data without a pin: empty space.
pub(crate) struct Resting<F: Family>(Box<PinAndKept<F>>);

/// Data kept under a standing pin.
pub(crate) struct Kept<F: Family>(Box<PinAndKept<F>>);

/// Data that the registered reader of a snapshot keeps. The reader's pin stands only within its calls.
pub(crate) struct KeptSnapshot<F: Family>(Box<PinAndKept<F>>);

impl<F: Family> Resting<F> {
    /// A pin that is not begun, and the data to keep under the pin.
    pub(crate) fn new(pin: PinHandle, kept: F::Under<'static>) -> Self {
        let mut resting = Self(Box::new(PinAndKept { pin, kept }));
        resting.0.kept.forget();
        resting
    }

    /// The kept data at rest.
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
    /// The kept data, under a name for the pin.
    #[inline(always)]
    fn cast_lifetime<'k, 'p: 'k>(kept: &'k mut F::Under<'static>) -> &'k mut F::Under<'p> {
        // SAFETY: the layout of a type does not depend on lifetimes. `'p` is a name that the callers' closures know
        // nothing of: no handle with another name gets in, and no handle inside goes by another name (module header).
        unsafe { &mut *std::ptr::from_mut(kept).cast() }
    }
}

impl<F: Family> Kept<F> {
    /// Runs `call` under the pin, or `expired` if the pin was taken away.
    #[inline(always)]
    pub(crate) fn enter<R>(
        &mut self,
        call: impl for<'p> FnOnce(Pinned<'p>, &mut F::Under<'p>) -> R,
        expired: impl FnOnce(Expired) -> R,
    ) -> R {
        let PinAndKept { pin, kept } = &mut *self.0;
        // SAFETY: the pin was begun when `self` was made, and ends with `self`.
        match unsafe { pin.enter() } {
            Ok(entered) => call(entered.pin_token(), PinAndKept::<F>::cast_lifetime(kept)),
            Err(why) => expired(why),
        }
    }

    /// Runs `call` under the pin, and afterwards `then`, which follows no handle; or `expired` if the pin was taken
    /// away.
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
            Ok(entered) => call(entered.pin_token(), PinAndKept::<F>::cast_lifetime(kept)),
            Err(why) => return expired(why),
        };
        then(found, PinAndKept::<F>::cast_lifetime(kept))
    }

    /// Runs `work`, which follows no handle, outside the pin's calls.
    #[inline(always)]
    pub(crate) fn run_outside_call<R>(&mut self, work: impl for<'p> FnOnce(&mut F::Under<'p>) -> R) -> R {
        work(PinAndKept::<F>::cast_lifetime(&mut self.0.kept))
    }

    /// Registers the owner as a reader of the newest snapshot; returns the boundary. Earlier handles are forgotten.
    pub(crate) fn open_snapshot(mut self, epochs: &Epochs) -> (KeptSnapshot<F>, Epoch) {
        self.0.kept.forget();
        let boundary = epochs.open_snapshot(&mut self.0.pin);
        (KeptSnapshot(self.0), boundary)
    }

    /// Forgets all handles, ends the pin, calls `wait`, and begins the pin anew: the transaction holds nothing back
    /// during the wait.
    #[cold]
    pub(crate) fn renew_after<R>(&mut self, epochs: &Epochs, wait: impl FnOnce() -> R) -> R {
        /// Begins the pin of the kept data at its drop, also after a panic of the wait.
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

    /// Forgets all handles, and ends the pin.
    #[inline(always)]
    pub(crate) fn end(mut self) -> Resting<F> {
        self.0.kept.forget();
        self.0.pin.end();
        Resting(self.0)
    }
}

impl<F: Family> KeptSnapshot<F> {
    /// Runs `call` under a pin at `epoch` (just read from the global epoch), as a registered reader of the snapshot.
    /// Handles of earlier calls are forgotten (E4).
    ///
    /// # Errors
    /// [`Expired`] if the database gave the reader up: `call` does not run.
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
        let pinned = entered.pin_token();
        // SAFETY: the pin is registered as a reader of the snapshot of this boundary, until the pin ends.
        let boundary = unsafe { Boundary::assume(boundary, pinned) };
        Ok(call(pinned, boundary, PinAndKept::<F>::cast_lifetime(kept)))
    }

    /// Runs `work`, which follows no handle, outside the reader's calls.
    #[inline]
    pub(crate) fn run_outside_call<R>(&mut self, work: impl for<'p> FnOnce(&mut F::Under<'p>) -> R) -> R {
        work(PinAndKept::<F>::cast_lifetime(&mut self.0.kept))
    }

    /// Forgets all handles, and ends the pin and the registration.
    pub(crate) fn end(mut self) -> Resting<F> {
        self.0.kept.forget();
        self.0.pin.end();
        Resting(self.0)
    }
}

/// Space for handles within one call. At rest the space is empty.
#[derive(Debug, Default)]
pub(crate) struct HandleSpace(Vec<Option<Handle<'static>>>);

impl HandleSpace {
    /// The space, for one call.
    #[inline]
    pub(crate) fn take<'p>(&mut self) -> Vec<Option<Handle<'p>>> {
        debug_assert!(self.0.is_empty(), "no handle outlives its call");
        // An empty vector of one type becomes a vector of another type, in the same allocation.
        std::mem::take(&mut self.0).into_iter().map(|_| None).collect()
    }

    /// Takes the space back.
    #[inline]
    pub(crate) fn put(&mut self, mut used: Vec<Option<Handle<'_>>>) {
        used.clear();
        self.0 = used.into_iter().map(|_| None).collect();
        debug_assert!(self.0.is_empty(), "no handle outlives its call");
    }

    /// Memory of the space in bytes.
    #[inline]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Option<Handle<'static>>>()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
