//! The objects of a collection, and the state of recovery and checkpoints beside the objects.
//!
//! Neighbours: `recovery` rebuilds the state at an open, and `walk` writes the state into checkpoints; `objects` has
//! the handle.

use std::sync::Arc;

use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicU64, Mutex, Ordering};

use super::logged_change::LoggedChange;
use super::persistent::{ObjectKey, Persistent};
use super::shards::{KeyHash, KeyHasher, Shards};
use crate::apply_time::AppliedTime;
use crate::chunks::Assembly;
use crate::error::ObjectsError;
use crate::replay::WaitingOperations;
use crate::runtime::KeyCheck;

pub(crate) struct ObjectsState<K, T: Persistent> {
    pub(super) shards: Shards<K, T>,
    pub(super) waiting: WaitingOperations<(KeyHash, K, LoggedChange<T>)>,
    pub(super) pieces: Assembly,
    /// Reason why the walk under way cannot become a checkpoint.
    pub(super) refusal: Mutex<Option<String>>,
    pub(super) poisoned: AtomicU64,
    /// Check of the keys that the collection may have, and the error of the first refused key.
    pub(super) accepts: Option<KeyCheck>,
    pub(super) refused: Mutex<Option<ObjectsError>>,
    /// Time to apply operations: of calls, and of recovery.
    pub(super) applied: Arc<AppliedTime>,
    pub(super) replayed: AppliedTime,
}

impl<K: ObjectKey, T: Persistent> ObjectsState<K, T> {
    pub(super) fn new(clock: &Clock) -> Self {
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
    pub(super) fn counts(&self) -> (u64, u64) {
        // Relaxed: a figure for people.
        (self.shards.count(), self.poisoned.load(Ordering::Relaxed))
    }
}
