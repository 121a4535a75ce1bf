//! The engine: serializable transactions over index, records and log (Silo, SOSP'13).
//!
//! The modules, lowest first. A module uses only the modules above it in this list:
//! ```text
//! error         errors, by the caller's next action
//! variants      variants of the engine for experiments
//! codec         keys and values as bytes
//! record        rows in shared memory: one word decides, optimistic reads, versions
//! formats       formats of files: log entry, checkpoint entry, a table's definition
//! commit_gate   the closed state, and the turn of a closure with many conflicts
//! pictures      pictures in memory: maps of pages, marks, versions left by commits
//! tables        trees of records by id; the tables known to this process
//! garbage       memory released by commits, until no thread can reach it
//! worker        resources of a committing thread: binding, log buffer, memory, garbage
//! shared_state  state shared by all transactions of a database
//! sets          read-set, node-set and write-set of an open transaction
//! session       assignment of contexts and workers to threads
//! database      the handle, the owner, health
//! read_path     table -> index -> record; snapshots
//! commit        place, reserve, bind, lock, fence/epoch/fence, validate, stamp, install, append, unbind
//! transaction   reads, writes, upkeep of secondary indexes, closures, receipts
//! checkpoint    schedule of checkpoints; walks of tables, pages of pictures
//! open          settings, recovery, catalogue, threads; a folder without an open
//! typed_api     tables of `K` to `V`
//! laboratory    entry points for measurements
//! ```
//! The life of a commit: `transaction::retry_loop` calls the closure. `read_path` fills the read-set and the node-set,
//! and writes go to the write-set. `commit` takes effect and appends to the log. `transaction::receipt` waits until D
//! reaches the commit's epoch. `garbage` frees the replaced memory.
//!
//! Applications use the crate `ensile`, which re-exports the public items and documents the features.
//!
//! Neighbours: below, `ensile-index`, `ensile-durability`, `ensile-epoch`, `ensile-memory`; above, `ensile`.
#![deny(unsafe_code)]

// In the order of the list above: each module stands after the modules that it uses.

mod error;
mod variants;

pub mod codec;

#[expect(unsafe_code, reason = "records are shared memory, reached by raw addresses")]
mod record;

mod formats;

mod commit_gate;

mod pictures;

mod tables;

#[expect(unsafe_code, reason = "what waited long enough is freed: the one caller of what frees")]
mod garbage;

mod worker;

mod shared_state;

mod sets;

mod session;

mod database;

mod read_path;

mod commit;

mod transaction;

pub mod checkpoint;

mod open;

mod typed_api;

#[cfg(feature = "laboratory")]
mod laboratory;

// At the root, because applications and examples name these items through `ensile`.
#[cfg(feature = "serde")]
pub use codec::Serde;
pub use codec::{Descending, Key, Prefix, Value};
pub use database::Database;
pub use ensile_durability::ErrorKind;
pub use error::{Error, Result};
#[cfg(feature = "laboratory")]
pub use laboratory::{Exclusive, ExclusiveRows, KeyValue, Variants};
pub use open::builder::Builder;
pub use open::folder;
pub use open::tuning::Tuning;
pub use read_path::snapshot::Snapshot;
pub use shared_state::Durability;
pub use transaction::Transaction;
pub use transaction::prefetch::Prefetch;
pub use transaction::receipt::Receipt;
pub use typed_api::{Index, Readable, Rows, Source, Table, TableBuilder};

/// Results of writes: the epoch and the TID of a commit, the wait for durability, and the rows of a deleted range.
/// Turns of event loops.
pub mod receipt {
    pub use ensile_base::{Epoch, Tid};

    pub use crate::transaction::receipt::DurableFuture;
    pub use crate::transaction::turn_request::{CommitTurn, TurnRequest};
    pub use crate::typed_api::RangeDeletion;
}

/// Report of an open.
pub mod recovery {
    pub use ensile_durability::{
        NotProven, NotProvenReason, Phase, PhaseReport, Progress, RecoveryReport, RememberedStore, TornTail,
    };
}

/// Statistics and health of an open database.
pub mod stats {
    pub use ensile_base::figures::{Figure, FigureKind, FigureUnit};
    pub use ensile_durability::{CheckpointStats, Health, LogStats};
    pub use ensile_memory::{MemoryStats, MemoryUse};

    pub use crate::database::figures::{figures, prometheus};
    pub use crate::database::health::{DatabaseHealth, Stats};

    /// Size of a record before its value, in bytes.
    pub const RECORD_HEADER_BYTES: usize = crate::record::HEADER_BYTES;
}

/// True in the build for measurements (`laboratory`).
const IS_LABORATORY: bool = cfg!(feature = "laboratory");
