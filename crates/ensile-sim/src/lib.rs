//! What the simulator stands on: a disk that loses what was not synced, fails when told to, and counts; histories of
//! what transactions did and saw, and the checker that looks for a serial order in them.
//!
//! Neighbours: used by tests of the durability crate and of the floors above; stands on `ensile-disk`'s traits.
#![forbid(unsafe_code)]

pub mod checker;
pub mod history;
mod sim_disk;

pub use sim_disk::{Calls, SimDisk};
