//! Records: a TID word, a link to the version before and inline data (Silo §4.3), and the optimistic read (§4.5).
//!
//! ```text
//! 0        8        16   20                      capacity = class - HEADER_BYTES
//! +--------+--------+----+-----------------...
//! |TID word|chain   |len |data                   all in 8-byte words; the third holds len and the first 4 data bytes
//! +--------+--------+----+-----------------...
//!           48 bits address of the version before, 8 bits size class; marks in its low bits
//! ```
//!
//! Invariants:
//! - C5: A writer overwrites data in place under the lock, as atomic words, behind the commit's fence. A reader clamps
//!   the length to the capacity, which is fixed for the record's life, and trusts nothing before a second read of the
//!   TID word.
//! - K3: The version before is linked before the new TID is stored.
//! - E3: Code follows a [`Record`] or a [`Handle`] only under the pin of the search that found it (`reference`).
//!
//! Neighbours: `tree` maps keys to records; `optimistic_read` and `version_read` read, `locked_write` locks and
//! installs; `prune` unlinks versions that no snapshot can show; `garbage` destroys.

#[cfg(feature = "audit")]
pub(crate) mod block_audit;
pub(crate) mod blocks;
mod fetch;
pub(crate) mod layout;
mod locked_write;
mod optimistic_read;
pub(crate) mod ownership;
pub(crate) mod pin_scope;
mod prune;
mod reference;
mod scratch;
pub(crate) mod tid_word;
pub(crate) mod tree;
pub(crate) mod version_page;
mod version_read;
mod witness;

pub(crate) use fetch::Fetch;
pub(crate) use layout::HEADER_BYTES;
pub(crate) use optimistic_read::Seen;
pub(crate) use reference::{Address, Handle, Record};
pub(crate) use scratch::{CopyTarget, KeptRow, NoData, RowSpace, Scratch};
pub(crate) use witness::{LeafChange, LeafChanges, LeafWitness};

#[cfg(all(test, loom))]
pub(crate) mod loom_tests;
#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) mod testing;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
