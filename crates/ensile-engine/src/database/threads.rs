//! The threads of a database: start and end.
//!
//! Neighbours: `open` starts the threads; the owner waits for the threads.

use std::thread::JoinHandle;

use ensile_base::sync::Mutex;

use crate::error::{Error, Result};

/// Name of the shipper's thread.
pub(crate) const SHIPPER: &str = "ensile-ship";

pub(crate) struct Threads {
    handles: Mutex<Vec<JoinHandle<()>>>,
}

impl Threads {
    pub(crate) fn new() -> Self {
        Self { handles: Mutex::new(Vec::new()) }
    }

    /// Starts a thread.
    ///
    /// # Errors
    /// The system refuses the thread.
    pub(crate) fn spawn(&self, name: String, life: impl FnOnce() + Send + 'static) -> Result<()> {
        let handle =
            std::thread::Builder::new().name(name).spawn(life).map_err(|reason| Error::no_thread(&reason))?;
        self.handles.lock().push(handle);
        Ok(())
    }

    /// Waits for the threads. The caller has stopped their work.
    pub(crate) fn join(&self) {
        // A close on a thread of the database (by a future's waker) does not wait for the own thread.
        self.join_those(|handle| handle.thread().id() != std::thread::current().id());
    }

    /// Detaches the thread with this name: no `join` waits for the thread. A close detaches a shipper whose store does
    /// not answer. The thread ends when its call to the store returns.
    pub(crate) fn detach(&self, name: &str) {
        self.handles.lock().retain(|handle| handle.thread().name() != Some(name));
    }

    /// True if no thread runs any more. After `join` at most the thread that called `join` runs.
    pub(crate) fn have_ended(&self) -> bool {
        self.join_those(JoinHandle::is_finished)
    }

    /// Waits for the threads selected by `which`. True if no other thread is left.
    fn join_those(&self, which: impl Fn(&JoinHandle<()>) -> bool) -> bool {
        let mut handles = self.handles.lock();
        for handle in handles.extract_if(.., |handle| which(handle)) {
            let _ = handle.join();
        }
        handles.is_empty()
    }
}
