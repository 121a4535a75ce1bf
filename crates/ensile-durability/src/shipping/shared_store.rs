//! The shared store, as needed by shipping and take-overs. Objects have names and are put as a whole. One operation
//! decides between two machines.
//!
//! Promises of an implementation:
//! - An object becomes visible as a whole. An object survives a power failure once its upload or
//!   [`SharedStore::settle`] has ended.
//! - [`SharedStore::create`] makes an object with a free name, in one step. Among any number of callers on any number
//!   of machines, one caller gets [`Creation::Created`].
//! - A listing shows every object whose upload or creation ended before the listing began.
//!
//! Neighbours: `folder` is a store in a folder that several machines see, `object_store` a store in an object store;
//! the shipper and a take-over use them.

use std::fmt::Debug;

/// The store cannot be used now. The error has the store's reason. The request may have succeeded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct SharedStoreError {
    /// Reason from the store.
    pub detail: String,
}

impl SharedStoreError {
    /// Error with this reason.
    #[must_use]
    pub fn new(detail: impl ToString) -> Self {
        Self { detail: detail.to_string() }
    }
}

/// An object in the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedObject {
    /// Name of the object, parts separated by `/`.
    pub name: String,
    /// Length of the object in bytes.
    pub bytes: u64,
}

/// Result of a conditional creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Creation {
    /// The caller created the object.
    Created,
    /// Another object has the name.
    Taken,
}

/// Store of finished files, from which another machine can take over. Every method may be called from any thread, and
/// may take as long as a network takes.
pub trait SharedStore: Send + Sync + Debug {
    /// Place of the store, for messages.
    fn place(&self) -> String;

    /// All objects whose names begin with `folder` and `/`, sorted by name.
    ///
    /// # Errors
    /// The reason from the store.
    fn list(&self, folder: &str) -> Result<Vec<SharedObject>, SharedStoreError>;

    /// Reads from `offset` until `bytes` is full or the object ends, and returns the number of bytes read. `None` if
    /// the object does not exist.
    ///
    /// # Errors
    /// The reason from the store.
    fn read_at(&self, name: &str, bytes: &mut [u8], offset: u64) -> Result<Option<usize>, SharedStoreError>;

    /// Begins an object. An existing object of the same name has the same bytes.
    ///
    /// # Errors
    /// The reason from the store.
    fn upload(&self, name: &str) -> Result<Box<dyn SharedUpload>, SharedStoreError>;

    /// Makes an object with these bytes, if the name is free.
    ///
    /// # Errors
    /// The reason from the store; the object may then exist or not.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<Creation, SharedStoreError>;

    /// Removes an object; a missing object is no error.
    ///
    /// # Errors
    /// The reason from the store.
    fn remove(&self, name: &str) -> Result<(), SharedStoreError>;

    /// Names of the remains of unfinished uploads and creations below a folder, including the files of running uploads
    /// and creations. [`SharedStore::remove`] accepts these names. An upload or a creation fails if its own file is
    /// removed. The list is empty for a store with removal rules of its own.
    ///
    /// # Errors
    /// The reason from the store.
    fn list_unfinished(&self, folder: &str) -> Result<Vec<String>, SharedStoreError>;

    /// Makes all listed objects below this folder survive a power failure. An upload may have stopped between the
    /// listing of its object and the end of the upload.
    ///
    /// # Errors
    /// The reason from the store.
    fn settle(&self, folder: &str) -> Result<(), SharedStoreError>;
}

/// An upload of an object. A drop before `finish` leaves no object.
pub trait SharedUpload: Send + Debug {
    /// Appends bytes to the object.
    ///
    /// # Errors
    /// The reason from the store; the upload is over.
    fn write(&mut self, bytes: &[u8]) -> Result<(), SharedStoreError>;

    /// Completes the object: from here on the object is visible, and survives a power failure.
    ///
    /// # Errors
    /// The reason from the store; the object may exist.
    fn finish(self: Box<Self>) -> Result<(), SharedStoreError>;
}
