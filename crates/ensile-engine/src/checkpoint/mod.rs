//! Schedule, strategies and reports of checkpoints.
//!
//! ```text
//! schedule            schedule of automatic checkpoints
//! walk                walk of tables beside their writers: the rows of a checkpoint
//! row_counts          bytes of rows: bounds of pages, ranges of a cycling checkpoint
//! pages               pages of a picture: maps, marks, walks, the end of an attempt
//! ```
//!
//! Neighbours: down, `pictures` has the data of pictures, and `shared_state` has the database. Up, the durability
//! crate's checkpointers call the walk and the pages, and `open` hands the walk and the pages to that crate. The
//! heartbeat frees versions and ends a picture over the limit.

mod pages;
mod row_counts;
mod schedule;
mod walk;

#[cfg(feature = "simulation")]
pub use ensile_durability::CheckpointStep;
pub use ensile_durability::{
    AdaptiveThreshold, CheckpointProgress, CheckpointReason, CheckpointReport, CheckpointTurn,
    CheckpointVerdict, RecoveryForecast, RecoveryRates, Strategy, ThresholdMeasure, ThresholdReading,
};

pub use crate::database::CheckpointHandle;
pub use schedule::Schedule;
