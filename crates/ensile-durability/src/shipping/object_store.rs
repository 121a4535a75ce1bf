//! A shared store in an object store of Amazon, Google or Azure, or in any other store of the crate `object_store`.
//!
//! Calls of the crate are futures. The calling thread (the shipper's or a take-over's) drives the futures, by a runtime
//! without threads. A thread that drives an asynchronous runtime cannot wait: a call on such a thread is an error, and
//! a drop waits for nothing.
//!
//! Invariants: H2: a manifest is created by a conditional put (`PutMode::Create`); a store without conditional puts
//! gives an error. H1: an object is put as a whole: at once, or in parts with a completion at the end.
//!
//! Neighbours: [`super::shared_store`] states the promises; the feature `object-store` enables the module.

use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ::object_store::path::Path;
use ::object_store::{
    Error, MultipartUpload, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
};
use ensile_base::sync::Mutex;
use futures_util::TryStreamExt as _;
use tokio::runtime::{Builder, Handle, Runtime};

use super::shared_store::{Creation, SharedObject, SharedStore, SharedStoreError, SharedUpload};
use crate::error::kind::{Returns, into_caller_error};
use crate::{DurabilityError, StorageError};

/// Bytes of a part of a large object, except the last part: stores ask for at least 5 MiB.
const PART_BYTES: usize = 8 << 20;
const _: () = assert!(PART_BYTES >= 5 << 20, "stores refuse smaller parts");

impl From<Error> for SharedStoreError {
    fn from(error: Error) -> Self {
        Self::new(error)
    }
}

/// Error text for a call on a thread that cannot wait.
const ON_AN_ASYNCHRONOUS_THREAD: &str = "its calls wait, and this thread drives an asynchronous runtime: call it from a \
                                         thread of its own, or from tokio's `spawn_blocking`";

/// Objects below a prefix of an object store. Calls wait, and are an error on a thread that drives an asynchronous
/// runtime. The store itself may be made and dropped on such a thread. `E` is the error that [`new`](Self::new)
/// returns: each public crate names its own.
pub struct SharedObjects<E = DurabilityError> {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// Runtime for the calls, one call at a time.
    runtime: Arc<Mutex<CallRuntime>>,
    returns: Returns<E>,
}

impl<E> SharedObjects<E> {
    /// The same objects, with calls that return errors of type `F`.
    fn returning<F>(&self) -> SharedObjects<F> {
        let (store, runtime) = (Arc::clone(&self.store), Arc::clone(&self.runtime));
        SharedObjects { store, prefix: self.prefix.clone(), runtime, returns: PhantomData }
    }
}

impl<E> Clone for SharedObjects<E> {
    fn clone(&self) -> Self {
        self.returning()
    }
}

impl<E> fmt::Debug for SharedObjects<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedObjects").field("store", &self.store).field("prefix", &self.prefix).finish()
    }
}

/// Runtime for the calls. The drop waits for nothing: tokio's own drop would panic on a thread that drives a runtime.
#[derive(Debug)]
struct CallRuntime(Option<Runtime>);

impl CallRuntime {
    /// Drives a call to its end.
    fn drive<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let runtime = self.0.as_ref().expect("it is there until the drop");
        if Handle::try_current().is_ok() && !may_wait(runtime) {
            return Err(Error::Generic { store: "SharedObjects", source: ON_AN_ASYNCHRONOUS_THREAD.into() });
        }
        runtime.block_on(call)
    }
}

impl Drop for CallRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// True if this thread of another runtime may wait. Tokio answers only by a panic: threads of `spawn_blocking` may
/// wait.
fn may_wait(runtime: &Runtime) -> bool {
    // Without unwinding the panic would end the process.
    cfg!(panic = "unwind") && catch_unwind(AssertUnwindSafe(|| runtime.block_on(async {}))).is_ok()
}

impl<E: From<StorageError>> SharedObjects<E> {
    /// The objects of this store whose names begin with `prefix` and `/`; all objects if `prefix` is empty.
    ///
    /// # Errors
    /// The system refuses a runtime.
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str) -> Result<Self, E> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| {
            into_caller_error(DurabilityError::config(format!("no runtime for the object store: {error}")))
        })?;
        let runtime = Arc::new(Mutex::new(CallRuntime(Some(runtime))));
        Ok(Self { store, prefix: Path::from(prefix), runtime, returns: PhantomData })
    }
}

impl<E> SharedObjects<E> {
    /// Path of an object in the store, with the prefix.
    fn path(&self, name: &str) -> Path {
        let parts = self.prefix.parts().map(|part| part.as_ref().to_owned());
        parts.chain(name.split('/').map(str::to_owned)).collect()
    }

    /// Drives a call to its end, after the calls of other threads.
    fn drive<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.runtime.lock().drive(call)
    }
}

/// The outcome, or `None` if the object does not exist.
fn unless_missing<T>(outcome: Result<T, Error>) -> Result<Option<T>, Error> {
    match outcome {
        Err(Error::NotFound { .. }) => Ok(None),
        outcome => outcome.map(Some),
    }
}

impl<E> SharedStore for SharedObjects<E> {
    fn place(&self) -> String {
        format!("{}/{}", self.store, self.prefix)
    }

    fn list(&self, folder: &str) -> Result<Vec<SharedObject>, SharedStoreError> {
        let path = self.path(folder);
        let listed: Vec<_> = self.drive(self.store.list(Some(&path)).try_collect())?;
        let named = listed.into_iter().filter_map(|object| {
            let parts: Vec<_> = object.location.prefix_match(&self.prefix)?.collect();
            let name = parts.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join("/");
            Some(SharedObject { name, bytes: object.size })
        });
        let mut objects: Vec<SharedObject> = named.collect();
        objects.sort_unstable();
        Ok(objects)
    }

    fn read_at(&self, name: &str, bytes: &mut [u8], offset: u64) -> Result<Option<usize>, SharedStoreError> {
        let path = self.path(name);
        let Some(found) = unless_missing(self.drive(self.store.head(&path)))? else { return Ok(None) };
        let end = found.size.min(offset + bytes.len() as u64);
        if offset >= end {
            return Ok(Some(0));
        }
        let Some(read) = unless_missing(self.drive(self.store.get_range(&path, offset..end)))? else {
            return Ok(None);
        };
        bytes[..read.len()].copy_from_slice(&read);
        Ok(Some(read.len()))
    }

    fn upload(&self, name: &str) -> Result<Box<dyn SharedUpload>, SharedStoreError> {
        let path = self.path(name);
        Ok(Box::new(ObjectUpload { store: self.returning(), path, waiting: Vec::new(), parts: None }))
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<Creation, SharedStoreError> {
        let options = PutOptions::from(PutMode::Create);
        let path = self.path(name);
        let put = self.store.put_opts(&path, PutPayload::from(bytes.to_vec()), options);
        match self.drive(put) {
            Ok(_) => Ok(Creation::Created),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(Creation::Taken),
            Err(error) => Err(error.into()),
        }
    }

    fn remove(&self, name: &str) -> Result<(), SharedStoreError> {
        unless_missing(self.drive(self.store.delete(&self.path(name))))?;
        Ok(())
    }

    fn list_unfinished(&self, _folder: &str) -> Result<Vec<String>, SharedStoreError> {
        // The store removes incomplete parts by the rules of the bucket.
        Ok(Vec::new())
    }

    fn settle(&self, _folder: &str) -> Result<(), SharedStoreError> {
        // A listed object is durable in such a store.
        Ok(())
    }
}

/// An upload of an object.
#[derive(Debug)]
struct ObjectUpload {
    store: SharedObjects,
    path: Path,
    /// Bytes that wait for the next part.
    waiting: Vec<u8>,
    /// Upload in parts, once the object has more than one part.
    parts: Option<Box<dyn MultipartUpload>>,
}

impl ObjectUpload {
    /// Uploads the waiting bytes as the next part. The first part begins the upload in parts.
    fn put_part(&mut self) -> Result<(), Error> {
        let mut parts = match self.parts.take() {
            Some(parts) => parts,
            None => self.store.drive(self.store.store.put_multipart(&self.path))?,
        };
        let part = PutPayload::from(std::mem::take(&mut self.waiting));
        let put = parts.put_part(part);
        self.parts = Some(parts);
        self.store.drive(put)
    }
}

impl SharedUpload for ObjectUpload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), SharedStoreError> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= PART_BYTES {
            self.put_part()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), SharedStoreError> {
        debug_assert!(self.waiting.len() < PART_BYTES, "a full part is put");
        if self.parts.is_none() {
            let whole = PutPayload::from(std::mem::take(&mut self.waiting));
            self.store.drive(self.store.store.put(&self.path, whole))?;
            return Ok(());
        }
        if !self.waiting.is_empty() {
            self.put_part()?;
        }
        if let Some(mut parts) = self.parts.take() {
            self.store.drive(parts.complete())?;
        }
        Ok(())
    }
}

impl Drop for ObjectUpload {
    fn drop(&mut self) {
        // The store removes the remains: all parts, if this thread cannot wait.
        if let Some(mut parts) = self.parts.take().filter(|_| Handle::try_current().is_err()) {
            let _ = self.store.drive(parts.abort());
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
