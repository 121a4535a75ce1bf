//! The state of an open transaction: its reads, its writes, and the buffers for both (Silo §4.4).
//!
//! Neighbours: `session` keeps a context for the next transaction; `read_path` and `transaction` fill the context;
//! commit uses the context up.

pub(crate) mod context;
pub(crate) mod dead_ranges;
pub(crate) mod entry_keys;
mod key_order;
pub(crate) mod keys;
pub(crate) mod multi_get;
pub(crate) mod node_set;
pub(crate) mod rows;
mod transaction_sets;
pub(crate) mod write_set;

pub(crate) use ensile_base::limits::KEEP_BYTES_MAX;
pub(crate) use transaction_sets::{LockOrder, Read, Sets};
