//! A thread that gives the heap's free memory back to the system, some seconds after the memory of connections has
//! fallen from a peak.
//!
//! Invariant: W17. Under a steady load the thread does nothing: a look at the heap of a large table takes milliseconds,
//! in which loops may wait.
//!
//! Neighbours: loops report each fall from a peak ([`crate::ServingState`]); `ensile-memory` calls the
//! allocator.

use std::io;
use std::sync::mpsc;
use std::time::Duration;

use ensile_memory::heap::trim_heap;

use crate::CLIENT_MEMORY_BYTES;

/// Memory freed by connections after which free memory goes back, in bytes.
const FALLEN_BYTES: usize = 16 << 20;

const _: () =
    assert!(FALLEN_BYTES < CLIENT_MEMORY_BYTES, "W17: clients within the default limit can free as much");

/// Pause between two looks at the memory of connections.
const LOOK_PAUSE: Duration = Duration::from_secs(3);

/// The thread, until its drop.
pub(super) struct HeapTrimmer(#[expect(dead_code, reason = "its drop ends the thread")] mpsc::Sender<()>);

impl HeapTrimmer {
    /// Starts the thread. `has_fallen` is true once if connections have freed at least this number of bytes.
    ///
    /// # Errors
    /// The system's error: there is no thread.
    pub(super) fn start(has_fallen: impl Fn(usize) -> bool + Send + 'static) -> io::Result<Self> {
        let (end, ended) = mpsc::channel();
        std::thread::Builder::new().name("ensile-heap".to_owned()).spawn(move || {
            while ended.recv_timeout(LOOK_PAUSE) == Err(mpsc::RecvTimeoutError::Timeout) {
                if has_fallen(FALLEN_BYTES) {
                    trim_heap();
                }
            }
        })?;
        Ok(Self(end))
    }
}
