//! A list of registered slots that a scan can walk.
//!
//! Adding, removing and scanning share one lock, outside of hot paths. The lock orders a scan before a later added
//! slot, so the slot reads an epoch at least as large as the epoch of the scan. The slot behaves as if the fence of
//! the slot came later in the Dekker pair.
//!
//! Neighbours: [`crate::Epochs`] owns one registry per kind of slot.

use ensile_base::sync::{Arc, Mutex, MutexGuard};

#[derive(Debug)]
pub(crate) struct Registry<T> {
    slots: Mutex<Vec<Arc<T>>>,
}

impl<T> Registry<T> {
    pub(crate) fn new() -> Self {
        Self { slots: Mutex::new(Vec::new()) }
    }

    pub(crate) fn add(&self, slot: &Arc<T>) {
        self.lock().push(Arc::clone(slot));
    }

    pub(crate) fn remove(&self, slot: &Arc<T>) {
        let mut slots = self.lock();
        if let Some(at) = slots.iter().position(|other| Arc::ptr_eq(other, slot)) {
            slots.swap_remove(at);
        }
    }

    /// The slots, locked for a scan.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Arc<T>>> {
        // No code that can panic runs under the lock, so a poisoned lock still holds a complete list.
        self.slots.lock()
    }
}
