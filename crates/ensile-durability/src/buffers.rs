//! Buffers of log entries. A worker fills its buffer while it commits, and a logger takes the buffer without a wait for
//! the worker.
//!
//! ```text
//! worker --reserve, append, release--> its slot --part-filled, by one exchange--------> the thread that writes
//!    \--full, to the queue-------------------------------------------------------------/        |
//!     <--empty, from the queue, as far as the bound allows-------------------------------------/
//! ```
//! Invariants: E1 and L2. B1 to B3: in a process-safe log, the entries of every buffer stand in a mapped file too.
//!
//! Neighbours: below, `files::block` has the format of appended entries; above, the log's appenders and loggers.

mod buffer;
mod mapped_entries;
mod queue;
mod worker_slot;

pub(crate) use buffer::Buffer;
pub(crate) use mapped_entries::{BLOCKS_AT, COUNT_AT, Counted, FRONT_BYTES, MappedEntries, MappedFiles};
pub(crate) use queue::{BufferQueue, FoundBuffer};
pub(crate) use worker_slot::{SlotScan, WorkerSlot};
