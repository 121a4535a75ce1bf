//! Ships the finished files of an open database, one piece in each step, on a thread for which no other thread waits.
//!
//! ```text
//! find the place in the chain --> upload a piece of a file --> install a manifest --> remove unnamed objects
//!    log files go first, also between two pieces of a checkpoint's file, which is held open; so do manifests
//! ```
//! Invariants:
//! - H1: A manifest names an object only after the upload of the object has ended and is durable in the store.
//! - H3: S does not go back from one manifest to the next, unless an object of the newest manifest is gone.
//! - H5: The database's open store learns of a shipped log file before the file may be removed.
//! - H4, H6: see `object_removal` and `chain_position`.
//! - I4: In a forked process every call does nothing.
//!
//! Neighbours: `state_composition` decides which state the store has, `chain` installs manifests, and the log has the
//! closed files.
//!
//! Files, low to high: `state`; `chain_position` and `uploads`; `object_removal` and `publication`; `calls`; `steps`.

mod calls;
mod chain_position;
mod object_removal;
mod publication;
mod state;
mod steps;
mod uploads;

pub use state::Shipper;
