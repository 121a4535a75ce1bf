//! The handle of a collection.
//!
//! Neighbours: `reads` and `changes` have the calls on objects; `crate::runtime` has the log and the checkpoints.

use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_durability::RecoveryReport;

use super::persistent::{ObjectKey, Persistent};
use super::state::ObjectsState;
use crate::error::ObjectsResult as Result;
use crate::receipt::ObjectReceipt;
use crate::runtime::{CheckpointHandle, ObjectsSettings, ObjectsStats, OpenRuntime};

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
    pub(super) state: Arc<ObjectsState<K, T>>,
    pub(crate) runtime: Arc<OpenRuntime>,
    /// True if every operation is also applied to a copy.
    pub(super) is_checked: bool,
    /// True if operations are logged and not checked.
    pub(super) is_usual: bool,
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

impl<K: ObjectKey, T: Persistent> Objects<K, T> {
    pub(crate) fn open(settings: ObjectsSettings, is_checked: bool) -> Result<Self> {
        let state = ObjectsState { accepts: settings.accepts.clone(), ..ObjectsState::new(&settings.clock) };
        let state = Arc::new(state);
        let runtime = settings.open(Arc::clone(&state) as _)?;
        assert!(state.waiting.is_empty() && state.pieces.is_whole(), "L8: the open applies all operations");
        let is_usual = runtime.is_logged() && !is_checked;
        Ok(Self { state, runtime: Arc::new(runtime), is_checked, is_usual })
    }

    /// Reports the requests served since the last report, and the requests lost for lack of capacity. From then on the
    /// load of an [`AdaptiveThreshold`](crate::AdaptiveThreshold) is the rate of requests, whatever the requests write.
    /// A probed capacity is the rate at which 5 % of the requests are lost (SLACH §4, §6.1). Call about
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

    /// As [`ApplicationLog::ship`](crate::ApplicationLog::ship).
    ///
    /// # Errors
    /// As for [`ApplicationLog::ship`](crate::ApplicationLog::ship).
    pub fn ship(&self, timeout: Duration) -> Result<Epoch> {
        self.runtime.ship(timeout)
    }

    /// As [`ApplicationLog::cancel_shipping`](crate::ApplicationLog::cancel_shipping).
    pub fn cancel_shipping(&self) {
        self.runtime.cancel_shipping();
    }

    /// As [`ApplicationLog::drive`](crate::ApplicationLog::drive).
    pub fn drive(&self) -> Option<Duration> {
        self.runtime.drive()
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
    /// [`ObjectsError::InCallBack`](crate::ObjectsError::InCallBack): close on a thread of your own.
    /// [`ObjectsError::Storage`](crate::ObjectsError::Storage): not everything could be made durable; or ("not shipped
    /// yet") a shared store did not answer within [`close_wait`](crate::ShippingConfig::close_wait), and all is durable
    /// in the folder.
    pub fn close(&self) -> Result<()> {
        self.runtime.close()
    }

    /// Calls `f` with a lock of the collection held.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn while_locked<R>(&self, f: impl FnOnce() -> R) -> R {
        self.state.shards.while_locked(f)
    }
}
