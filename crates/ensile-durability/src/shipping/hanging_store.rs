//! A shared store for tests, with uploads that hang. Tests show that databases and objects close although the store
//! does not answer.
//!
//! Neighbours: [`super::shared_store`] has the trait of a store.

use std::sync::Arc;

use ensile_base::sync::{Condvar, Mutex};

use super::shared_store::{Creation, SharedObject, SharedStore, SharedStoreError, SharedUpload};

/// A store with uploads that do not return until the test lets uploads go.
#[derive(Debug)]
pub struct HangingStore {
    store: Arc<dyn SharedStore>,
    /// Number of waiting uploads, and true once uploads are let go.
    waiting: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl HangingStore {
    /// A hanging store over `store`.
    #[must_use]
    pub fn new(store: Arc<dyn SharedStore>) -> Arc<Self> {
        Arc::new(Self { store, waiting: Mutex::new((0, false)), changed: Condvar::new() })
    }

    /// True if an upload waits.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.waiting.lock().0 > 0
    }

    /// Holds uploads from now on, as in the beginning.
    pub fn hang(&self) {
        self.waiting.lock().1 = false;
    }

    /// Lets waiting and later uploads return.
    pub fn let_go(&self) {
        self.waiting.lock().1 = true;
        self.changed.notify_all();
    }
}

impl SharedStore for HangingStore {
    fn place(&self) -> String {
        self.store.place()
    }

    fn list(&self, folder: &str) -> Result<Vec<SharedObject>, SharedStoreError> {
        self.store.list(folder)
    }

    fn read_at(&self, name: &str, bytes: &mut [u8], offset: u64) -> Result<Option<usize>, SharedStoreError> {
        self.store.read_at(name, bytes, offset)
    }

    fn upload(&self, name: &str) -> Result<Box<dyn SharedUpload>, SharedStoreError> {
        let mut waiting = self.waiting.lock();
        waiting.0 += 1;
        while !waiting.1 {
            waiting = self.changed.wait(waiting);
        }
        assert!(waiting.0 > 0, "this upload waits");
        waiting.0 -= 1;
        drop(waiting);
        self.store.upload(name)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Creation, SharedStoreError> {
        self.store.create(name, bytes)
    }

    fn remove(&self, name: &str) -> Result<(), SharedStoreError> {
        self.store.remove(name)
    }

    fn list_unfinished(&self, folder: &str) -> Result<Vec<String>, SharedStoreError> {
        self.store.list_unfinished(folder)
    }

    fn settle(&self, folder: &str) -> Result<(), SharedStoreError> {
        self.store.settle(folder)
    }
}
