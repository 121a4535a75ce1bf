//! Decisions as functions of numbers: when a checkpoint begins, how fast it may write, and what a recovery would take.
//!
//! Nothing here reads a clock, a disk or a lock, so each decision is tested by a table of numbers.
//!
//! Neighbours: `checkpoint::manager` measures, asks, and does.

pub(crate) mod adaptive;
pub(crate) mod load;
pub(crate) mod pace;
pub(crate) mod recovery_time;
pub(crate) mod trigger;
