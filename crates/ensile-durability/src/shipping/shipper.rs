//! Ships the finished files of an open database, one piece in each step, on a thread for which no other thread waits.
//!
//! ```text
//! find the place in the chain --> upload a piece of a file --> install a manifest --> remove unnamed objects
//!    log files go first, also between two pieces of a checkpoint's file, which is held open; so do manifests
//! ```
//! Invariants: H1 to H6, see [`super`]. In a forked process every call does nothing (I4).
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
