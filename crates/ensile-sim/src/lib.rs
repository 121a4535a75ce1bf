//! What the simulator stands on: a disk that loses what was not synced, fails when told to, and counts; schedules of
//! threads that a seed decides; histories of what transactions did and saw, and the checker that looks for a serial
//! order in them; ledgers of what a database promised, and the verdict on what recovery brings back.
//!
//! Neighbours: used by tests of the durability crate and of the floors above; stands on `ensile-disk`'s traits.
#![forbid(unsafe_code)]

pub mod checker;
pub mod environment;
pub mod history;
pub mod ledger;
#[cfg(target_os = "linux")]
pub mod process_threads;
#[cfg(shuttle)]
pub mod schedules;
mod sim_disk;

pub use sim_disk::{Call, Calls, Fault, InChild, Moment, SimDisk, Survival};
