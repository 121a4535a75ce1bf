//! The base of both forms: an open folder with its epochs, log and checkpoints, and the path of an entry into the log.
//!
//! ```text
//! encode | lock the object | bind, log space, fence  E  TID  append  release  unbind | apply, unlock      => a receipt
//!                            from here to there nothing waits, fails or runs user code (E1)
//! else     reserve | lock the object | bind, fence  E  TID  append  release  unbind | ..          what is to be waited for
//! ```
//! Neighbours: `open` makes the runtime, `threads` drives it, `close` ends it; `collection` and `application` log by
//! `entry`.

// A file uses only files above it.
pub(crate) mod watchdog;
mod worker;

mod object_state;
mod stats;

pub(crate) mod figures;

mod open_folder;

mod entry;

mod driver;
mod threads;

mod close;

mod open;
mod waits;

pub(crate) use close::OpenRuntime;
pub(crate) use entry::{LockedObject, LogAttempt};
pub(crate) use object_state::ObjectState;
pub(crate) use open::{KeyCheck, ObjectsSettings};
pub(crate) use open_folder::Runtime;
pub use stats::ObjectsStats;
pub use waits::CheckpointHandle;
pub use watchdog::WaitingCallBack;
pub(crate) use worker::LogWorker;
