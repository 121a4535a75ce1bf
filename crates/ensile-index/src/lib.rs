//! The index: an ordered, concurrent map from byte strings to one 64-bit value (Masstree, EuroSys'12). The index hands
//! out its node versions as witnesses (Silo's node-set, SOSP'13 §4.6).
//!
//! The index knows no records and no transactions: a value is any `u64`, and memory comes from a [`NodeMemory`]. The
//! pin promises that the memory outlives its readers ([`ensile_epoch::Pinned`]).
//!
//! **The way of a read:** `tree` (layer by layer) -> `descent` (down one layer's B+-tree) -> `node` (leaf search) ->
//! `version` (check for one consistent state). Reads write nothing shared.
//! **The way of a write:** the same read, then the leaf is locked *at the version that was read* -> `insert`, `split`,
//! `remove`, `prune`, `fold`. No writer waits for a lock while holding a lock. If a lock is not free, the writer lets
//! go of its locks and starts again, before any change. No order of locks can be wrong.
//!
//! Invariants have names and places: COVER, VERSIONED, LINK, KIND, CHILD, EAGER ROOT in `node`; LEAF TRUTH in
//! `descent`; APPEND in `suffix_block`; SKIP in `skip_block`; FOLD in `fold`; the seqlock recipe in `version`.
//!
//! Neighbours: up, `ensile_engine` (tables: index entries meet records there); down, `ensile_base::sync`,
//! `ensile_memory::prefetch`, `ensile_epoch::Pinned`.

mod batch;
mod bulk_insert;
mod check;
mod descent;
mod entry;
mod fold;
mod insert;
mod key;
mod memory;
mod new_layer;
mod node;
mod partition;
mod permutation;
mod prune;
mod remove;
mod scan;
mod seqlock_word;
mod skip_block;
mod split;
mod suffix_block;
mod tags;
mod tree;
mod version;
mod witness;

pub use batch::{Gap, Place, Probe};
pub use bulk_insert::OrderedInserts;
pub use check::Shape;
pub use insert::Insert;
pub use memory::NodeMemory;
pub use remove::KeyRemoval;
pub use scan::{Direction, Range, ScanVisitor};
pub use tree::{Lookup, Masstree};
pub use witness::{NodeChange, NodeChanges, NodeId, Witness};

#[cfg(any(feature = "testing", all(test, not(loom))))]
pub mod testing;
