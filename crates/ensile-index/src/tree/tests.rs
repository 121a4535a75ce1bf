//! The tree as a map: against a model, at its edges, and under threads.

mod concurrent;
mod edges;
mod folds;
mod interference;
mod late_prunes;
mod many;
mod model;
mod partly_equal;
mod reclaim;
mod scans;
