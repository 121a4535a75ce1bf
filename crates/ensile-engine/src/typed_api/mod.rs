//! The typed API: tables of `K` to `V` over the engine's tables of bytes.
//!
//! ```text
//! table, index      handles: names and types, checked once when they are opened
//! read              every read, for transactions and snapshots alike
//! source            sources of reads: a table or an index
//! iterator          rows of a range as an iterator, fetched in batches
//! transaction       writes
//! removals          rows removed in key order
//! prefetch          names of keys to prefetch
//! ```
//!
//! Invariant: a handle's types are those of the catalogue, so bytes that do not decode are damage or another
//! program's work, and reported as [`Error::Decode`](crate::Error::Decode).
//!
//! Neighbours: applications above; below, the `raw_` functions of transactions and snapshots, which know bytes only.

mod index;
mod iterator;
mod prefetch;
pub(crate) mod read;
mod removals;
mod source;
mod table;
mod transaction;

pub use index::Index;
pub use iterator::Rows;
pub use read::Readable;
pub use removals::RangeDeletion;
pub use source::Source;
pub use table::{Table, TableBuilder};
