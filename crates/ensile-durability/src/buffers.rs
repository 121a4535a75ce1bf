//! Buffers: a worker writes a buffer while the worker commits. Another thread takes the buffer without a wait for the
//! worker.
//!
//! ```text
//! worker --reserve, append, release--> its slot --part-filled, by one exchange--------> the thread that writes
//!    \--full, to the queue-------------------------------------------------------------/        |
//!     <--empty, from the queue, as far as the bound allows-------------------------------------/
//! ```
//! The room knows neither files nor claims: a thread knows which entries the thread needs and may vouch for.
//!
//! Invariants:
//! - E1: a step that may allocate or wait comes before the worker binds; an append neither allocates nor waits.
//! - L2: another thread can take a buffer that no worker holds. The worker need not run.
//! - B1 to B3: in a process-safe log, the entries of every buffer stand in a mapped file too (`mapped`).
//!
//! Neighbours: below, `block` has the format of appended entries; above, the log's appenders and loggers.

mod buffer;
mod mapped_entries;
mod queue;
mod worker_slot;

pub(crate) use buffer::Buffer;
pub(crate) use mapped_entries::{BLOCKS_AT, COUNT_AT, Counted, FRONT_BYTES, MappedEntries, MappedFiles};
pub(crate) use queue::BufferQueue;
pub(crate) use worker_slot::{SlotScan, WorkerSlot};
