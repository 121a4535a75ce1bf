//! What the simulator stands on: for now a disk that loses what was not synced, fails when told to, and counts.
//!
//! Neighbours: used by tests of the durability crate and of the floors above; stands on `ensile-disk`'s traits.
#![forbid(unsafe_code)]

mod sim_disk;

pub use sim_disk::{Calls, SimDisk};
