//! The shared store, as far as shipping and taking over need one: objects by name, that are put whole, and one
//! operation that decides between two machines.
//!
//! What an implementation promises:
//! - An object is seen by nobody before all of it is there, and as a whole from then on. It survives a power failure
//!   once its upload has ended, or [`SharedStore::settle`] has.
//! - [`SharedStore::create`] makes an object where there is none, in one step: of any number of callers, on any number
//!   of machines, one gets [`Creation::Created`].
//! - A listing shows every object whose upload or creation had ended before it began.
//!
//! Neighbours: `folder` is one in a folder that several machines see, `object_store` one in an object store; the
//! shipper and a take-over use them.

use std::fmt::Debug;

/// The store cannot be used now: what it said. What was asked for may have been done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct SharedStoreError {
    /// What the store said.
    pub detail: String,
}

impl SharedStoreError {
    /// An error of which this is said.
    #[must_use]
    pub fn new(detail: impl ToString) -> Self {
        Self { detail: detail.to_string() }
    }
}

/// An object that is there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedObject {
    /// Its name, parts separated by `/`.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// What came of a conditional create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Creation {
    /// The object is this caller's.
    Created,
    /// Another object has the name.
    Taken,
}

/// Where finished files go, so that another machine can take over. Every method may be called from any thread, and may
/// take as long as a network takes.
pub trait SharedStore: Send + Sync + Debug {
    /// Where it is, for messages.
    fn place(&self) -> String;

    /// All objects whose names begin with `folder` and `/`, sorted by name.
    ///
    /// # Errors
    /// What the store said.
    fn list(&self, folder: &str) -> Result<Vec<SharedObject>, SharedStoreError>;

    /// Reads from `offset` until `bytes` is full or the object ends; how many bytes were read. `None` if there is no
    /// such object.
    ///
    /// # Errors
    /// What the store said.
    fn read_at(&self, name: &str, bytes: &mut [u8], offset: u64) -> Result<Option<usize>, SharedStoreError>;

    /// Begins an object. One of that name that is there has the same bytes.
    ///
    /// # Errors
    /// What the store said.
    fn upload(&self, name: &str) -> Result<Box<dyn SharedUpload>, SharedStoreError>;

    /// Makes an object with these bytes, if none has that name.
    ///
    /// # Errors
    /// What the store said; then it is not known whether the object is there.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<Creation, SharedStoreError>;

    /// Removes an object; one that is gone already is fine.
    ///
    /// # Errors
    /// What the store said.
    fn remove(&self, name: &str) -> Result<(), SharedStoreError>;

    /// What uploads and creations have left below this folder that were cut short, and what they have of those under
    /// way: names that [`SharedStore::remove`] takes. An upload or a creation fails if its own goes. A store that
    /// removes such things by rules of its own has none.
    ///
    /// # Errors
    /// What the store said.
    fn unfinished(&self, folder: &str) -> Result<Vec<String>, SharedStoreError>;

    /// Makes all objects below this folder survive a power failure that a listing has shown: an upload may have been
    /// cut short when its object was listed already.
    ///
    /// # Errors
    /// What the store said.
    fn settle(&self, folder: &str) -> Result<(), SharedStoreError>;
}

/// An object that is being put. Dropped before its end it never was.
pub trait SharedUpload: Send + Debug {
    /// Adds bytes behind those before.
    ///
    /// # Errors
    /// What the store said; the upload is over.
    fn write(&mut self, bytes: &[u8]) -> Result<(), SharedStoreError>;

    /// The object is whole: from here on it is there, and survives a power failure.
    ///
    /// # Errors
    /// What the store said; the object may be there.
    fn finish(self: Box<Self>) -> Result<(), SharedStoreError>;
}
