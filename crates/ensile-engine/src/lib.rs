//! The engine: index, records and log meet in serializable transactions (Silo, SOSP'13).
//!
//! The life of a commit, by file:
//! ```text
//! run / transaction   a closure, or begin .. commit
//!   reading           table -> index -> record (optimistic read)      what was seen    -> read-set, node-set
//!   transaction       puts are kept private                           what will change -> write-set
//!   transaction::commit   place, reserve, bind, lock, fence/epoch/fence, validate, stamp, install, append, unbind
//!   receipt           durable once D reaches the commit's epoch
//!   collect           what the commit left behind is freed when nobody can reach it
//! walk              tables are written out beside their writers: what a checkpoint holds
//! builder -> replay   at open: the log becomes records again
//! folder              what is in a database's folder, and whether it is whole, without an open
//! ```
//! Applications use the crate `ensile`, which re-exports what is public here.
//!
//! Neighbours: below, `ensile-index`, `ensile-durability`, `ensile-epoch`, `ensile-memory`; above, `ensile`.
#![deny(unsafe_code)]

// The rooms in the order of the stair, each above those that it uses.

mod error;
mod variants;

pub mod codec;

#[expect(
    unsafe_code,
    reason = "records are shared memory: the one place of the engine that follows raw addresses"
)]
mod record;

mod formats;

mod tables;

mod garbage;

mod worker;

mod sets;

mod session;

mod database;

mod reading;

mod commit;

mod transaction;

mod open;

mod typed;

#[cfg(feature = "laboratory")]
mod laboratory;

// At the root too, as applications name them through `ensile`: examples are written against that crate.
#[cfg(feature = "serde")]
pub use codec::Serde;
pub use codec::{
    AsKey, AsValue, ByteRange, CodecError, Descending, Key, KeyBounds, KeyBuffer, KeyPrefix, Prefix,
    TotalF32, TotalF64, Value, zerocopy,
};
pub use database::Database;
pub use database::health::{DatabaseHealth, Stats};
pub use ensile_base::{Epoch, Tid};
#[cfg(feature = "simulation")]
pub use ensile_durability::CheckpointStep;
pub use ensile_durability::{
    CheckpointConfig, CheckpointHandle, CheckpointProgress, CheckpointReport, CheckpointStats,
    DurabilityError, Health, LogStats, Phase, PhaseReport, Progress, RecoveryReport, TornTail,
};
pub use ensile_memory::MemoryStats;
pub use error::{Error, Result};
#[cfg(feature = "laboratory")]
pub use laboratory::KeyValue;
#[cfg(feature = "experiments")]
pub use laboratory::{Exclusive, ExclusiveRows};
pub use open::builder::Builder;
pub use open::folder;
pub use reading::snapshot::Snapshot;
pub use sets::hints::Touch;
pub use transaction::Transaction;
pub use transaction::receipt::{Durability, DurableFuture, Receipt};
pub use typed::*;
#[cfg(feature = "experiments")]
pub use variants::{LogRecords, Variants};

/// Bytes of a record before its value: what benchmarks hold measured memory against.
#[cfg(feature = "laboratory")]
pub const RECORD_HEADER_BYTES: usize = record::HEADER_BYTES;
