//! Decisions as functions of numbers, tested by tables: the beginning of a checkpoint, its write rate, and the expected
//! time of a recovery. Nothing here reads a clock, a disk or a lock.
//!
//! Neighbours: `checkpoint::manager` measures and acts; `checkpoint::state_machine` asks for the decisions.

pub(crate) mod adaptive;
pub(crate) mod load;
pub(crate) mod pace;
pub(crate) mod recovery_time;
pub(crate) mod trigger;
