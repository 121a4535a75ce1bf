//! Receipts: the epoch of logged operations, and the wait until the epoch is durable.
//!
//! Invariant: R1: once a receipt's epoch is durable, everything that the receipt covers survives a crash.
//!
//! Neighbours: `collection` and `application` make receipts; the durability crate has the waits. `object_guards` makes
//! changes by a receipt.

use std::future::{Future, IntoFuture};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use ensile_base::{Epoch, Tid};
use ensile_durability::{Durable, UserCode};

use crate::error::{ObjectsError, ObjectsResult as Result};
use crate::runtime::Runtime;

/// Receipt for a logged operation or for a read: tells when the result survives a crash. The receipt borrows its
/// handle.
#[derive(Clone, Copy)]
pub struct ObjectReceipt<'o> {
    runtime: &'o Runtime,
    /// TID of the logged operation; or the first TID of the covered epoch.
    tid: Tid,
}

impl std::fmt::Debug for ObjectReceipt<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ObjectReceipt").field("epoch", &self.epoch()).finish_non_exhaustive()
    }
}

impl<'o> ObjectReceipt<'o> {
    pub(crate) fn new(runtime: &'o Runtime, epoch: Epoch) -> Self {
        Self::for_tid(runtime, Tid::first_of(epoch))
    }

    /// Receipt for an operation that was logged with this TID.
    #[inline]
    pub(crate) fn for_tid(runtime: &'o Runtime, tid: Tid) -> Self {
        Self { runtime, tid }
    }

    /// Epoch that must be durable for the receipt to be durable.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.tid.epoch()
    }

    /// Joins this receipt and another receipt of the same objects: several operations are waited for at once.
    ///
    /// # Panics
    /// If `other` is of other objects, which have another log: wait for each receipt by itself.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        assert!(
            std::ptr::eq(self.runtime, other.runtime),
            "two receipts are of different objects, whose logs are two: wait for each by itself"
        );
        let both = Self { tid: self.tid.max(other.tid), ..self };
        debug_assert!(both.epoch() >= self.epoch() && both.epoch() >= other.epoch(), "R1: both are covered");
        both
    }

    /// True if the receipt is durable by now. Always false without a log.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.runtime.is_logged() && self.runtime.log.durable_epoch() >= self.epoch()
    }

    /// Waits until the receipt is durable.
    ///
    /// # Errors
    /// [`ObjectsError::Storage`](crate::ObjectsError::Storage): the log stopped before, so the outcome is unknown until
    /// the objects are opened again ([`ErrorKind::Reopen`](crate::ErrorKind::Reopen)); or the disk was full for long,
    /// and the receipt is not durable yet ([`ErrorKind::FreeSpace`](crate::ErrorKind::FreeSpace)).
    /// [`NotLogged`](crate::ObjectsError::NotLogged); [`Misuse`](crate::ObjectsError::Misuse) for a receipt of other
    /// objects; [`InCallBack`](crate::ObjectsError::InCallBack).
    pub fn durable(&self) -> Result<()> {
        self.runtime.check_caller()?;
        self.runtime.wait_durable(self.epoch())?;
        debug_assert!(self.is_durable(), "R1: the wait and the look agree");
        Ok(())
    }

    /// As [`ObjectReceipt::durable`], as a future for any executor, which borrows nothing. The waker is called on a
    /// thread of the objects, or on a thread that waits for a result by itself.
    pub fn durable_async(&self) -> DurableObjects {
        DurableObjects(self.runtime.durable(self.epoch()))
    }
}

/// Result of logging a change, before the change is made: an [`ObjectReceipt`], or its epoch alone.
pub trait ChangeReceipt {
    /// Epoch that must be durable for the change to be durable.
    fn epoch(&self) -> Epoch;

    /// Makes the change of the object with this number. If `make` panics with a receipt of
    /// [`NoLog`](crate::ObjectDurability::NoLog), later changes of all objects are refused. A receipt measures the
    /// duration of one change in 64, so that [`recovery_time`](crate::CheckpointPolicy::recovery_time) follows changes
    /// that become dearer. An epoch measures nothing. `make` calls no handle: a call returns
    /// [`InCallBack`](crate::ObjectsError::InCallBack).
    #[inline]
    fn make<R>(&self, object: u64, make: impl FnOnce() -> R) -> R {
        let _ = object;
        let _user_code = UserCode::begin();
        make()
    }
}

/// A change under way without a log. If the change panics, later changes are refused, since no checkpoint would cover
/// the changes (O6).
struct UnloggedChange<'r> {
    runtime: &'r Runtime,
    object: u64,
}

impl Drop for UnloggedChange<'_> {
    #[cold]
    fn drop(&mut self) {
        let panics = std::thread::panicking();
        debug_assert!(
            panics || !self.runtime.is_logged(),
            "O6: a log keeps the changes of all other objects"
        );
        self.runtime.change_failed(self.object);
    }
}

impl ChangeReceipt for Epoch {
    #[inline]
    fn epoch(&self) -> Epoch {
        *self
    }
}

impl ChangeReceipt for ObjectReceipt<'_> {
    #[inline]
    fn epoch(&self) -> Epoch {
        self.tid.epoch()
    }

    #[inline]
    fn make<R>(&self, object: u64, make: impl FnOnce() -> R) -> R {
        let _user_code = UserCode::begin();
        // Without a log nothing is replayed, and all receipts have the same TID: the same objects would be timed every
        // time.
        if !self.runtime.is_logged() {
            let unmade = UnloggedChange { runtime: self.runtime, object };
            let made = make();
            mem::forget(unmade);
            return made;
        }
        self.runtime.applied.measure(object, self.tid.bits(), make)
    }
}

impl IntoFuture for ObjectReceipt<'_> {
    type Output = Result<()>;
    type IntoFuture = DurableObjects;

    fn into_future(self) -> DurableObjects {
        self.durable_async()
    }
}

/// Ready once a receipt's operations are durable: see [`ObjectReceipt::durable_async`].
#[derive(Debug)]
#[must_use = "a future waits when it is awaited"]
pub struct DurableObjects(
    /// Error if there is nothing to wait for.
    Result<Durable>,
);

impl Future for DurableObjects {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if UserCode::is_running() {
            return Poll::Ready(Err(ObjectsError::InCallBack));
        }
        match &mut self.0 {
            Ok(durable) => Pin::new(durable).poll(context).map(|answer| Ok(answer?)),
            Err(error) => Poll::Ready(Err(error.clone())),
        }
    }
}
