//! Ways into a database that only measurements take: they lack what transactions are for.
//!
//! Neighbours: the bench is their user; index and records do the work.

#[cfg(feature = "experiments")]
mod exclusive;
mod key_value;
#[cfg(feature = "experiments")]
mod marked_pages;

#[cfg(feature = "experiments")]
pub use exclusive::{Exclusive, ExclusiveRows};
pub use key_value::KeyValue;
#[cfg(feature = "experiments")]
pub use marked_pages::MarkedPages;
