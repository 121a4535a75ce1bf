//! What the simulator stands on: a disk that loses what was not synced, fails when told to, and counts; schedules of
//! threads that a seed decides.
//!
//! Neighbours: used by tests of the durability crate and of the floors above; stands on `ensile-disk`'s traits.
#![forbid(unsafe_code)]

#[cfg(shuttle)]
pub mod schedules;
pub mod history;
mod sim_disk;

pub use sim_disk::{Calls, SimDisk};
