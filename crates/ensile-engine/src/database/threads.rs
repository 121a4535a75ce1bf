//! The threads that belong to one database: started, waited for.
//!
//! Neighbours: `open` starts them; the owner waits for them.

use std::thread::JoinHandle;

use ensile_base::sync::Mutex;

use crate::error::{Error, Result};

/// The name of the thread that ships.
pub(crate) const SHIPPER: &str = "ensile-ship";

/// The threads of one database.
pub(crate) struct Threads {
    handles: Mutex<Vec<JoinHandle<()>>>,
}

impl Threads {
    pub(crate) fn none() -> Self {
        Self { handles: Mutex::new(Vec::new()) }
    }

    /// Starts one.
    ///
    /// # Errors
    /// [`Error::NoThread`] if the system refuses it.
    pub(crate) fn spawn(&self, name: String, life: impl FnOnce() + Send + 'static) -> Result<()> {
        let handle = std::thread::Builder::new().name(name).spawn(life).map_err(Error::NoThread)?;
        self.handles.lock().push(handle);
        Ok(())
    }

    /// Waits for all of them. The caller has stopped what they do.
    pub(crate) fn join(&self) {
        // A database closed on one of its own threads (a future's waker) does not wait for itself.
        self.join_those(|handle| handle.thread().id() != std::thread::current().id());
    }

    /// Leaves the one of this name to itself, which is in a call that does not return. It ends with that.
    pub(crate) fn leave(&self, name: &str) {
        self.handles.lock().retain(|handle| handle.thread().name() != Some(name));
    }

    /// Whether none of them runs any more. After `join` there is one at most: that on which it was called.
    pub(crate) fn have_ended(&self) -> bool {
        self.join_those(JoinHandle::is_finished)
    }

    /// Waits for those of which this is true; whether there are no others.
    fn join_those(&self, which: impl Fn(&JoinHandle<()>) -> bool) -> bool {
        let mut handles = self.handles.lock();
        for handle in handles.extract_if(.., |handle| which(handle)) {
            let _ = handle.join();
        }
        handles.is_empty()
    }
}
