//! Buffers: what a worker writes while it commits, and how another thread takes it without waiting for that worker.
//!
//! ```text
//! worker --reserve, append, release--> its slot --part-filled, by one exchange--------> the thread that writes
//!    \--full, to the queue-------------------------------------------------------------/        |
//!     <--empty, from the queue, as far as the bound allows-------------------------------------/
//! ```
//! The room knows neither files nor claims: which entries a thread needs, and what it may say of them, is its own.
//!
//! Invariants:
//! - E1: what may allocate or wait comes before the worker binds; an append does neither.
//! - L2: a buffer that no worker holds can be taken without the worker running.
//! - B1 to B3: where the log is process-safe, each buffer's entries stand in a mapped file too (`mapped`).
//!
//! Neighbours: below, `block` has the format of what is appended; above, the log's appenders and loggers.

mod buffer;
mod mapped;
mod queue;
mod worker_slot;

pub(crate) use buffer::Buffer;
pub(crate) use mapped::{BLOCKS_AT, COUNT_AT, Counted, FRONT_BYTES, MappedEntries, MappedFiles};
pub(crate) use queue::BufferQueue;
pub(crate) use worker_slot::{SlotScan, WorkerSlot};
