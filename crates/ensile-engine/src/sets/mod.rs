//! What an open transaction carries: what it has seen, what it will change, and the buffers for both.
//!
//! Neighbours: `session` keeps a context for the next transaction; `reading` and `transaction` fill it; commit uses it up.

pub(crate) mod context;
pub(crate) mod hints;
pub(crate) mod node_set;
pub(crate) mod write_set;
