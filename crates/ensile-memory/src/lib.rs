//! Memory of nodes and records: slabs on huge pages, one cache per worker (Silo §5.1).
//!
//! The crate knows sizes, no nodes and no records. The crate knows no epochs and never decides *when* memory may be
//! freed. A [`Memory`] belongs to a database. A memory unmaps everything at the drop, or at the explicit end of every
//! use. A [`Cache`] belongs to a worker: allocating and freeing touch no shared line.
//!
//! Invariants:
//! - A block is freed under the size class of its allocation.
//! - Chunks are aligned to their size. A span serves one class until every block of the span is free (M1).
//! - Free memory serves every size class, and goes back to the system at a bounded pace (M2).
//! - Some memory is ready before a write, if a thread makes chunks ready (M3).
//! - A memory with a limit says if new data must wait (M4).
//!
//! Neighbours: the engine's workers allocate index nodes and records here; the epoch crate decides when retired blocks
//! may come back.

mod address_space;
mod cache;
mod exchange;
pub mod heap;
mod live_blocks;
mod memory;
mod meter;
mod pool;
pub mod prefetch;
mod size_class;
mod span;
mod system_allocator;
#[cfg(all(test, not(any(loom, shuttle))))]
mod testing;

/// True in the build for measurements (`laboratory`).
const IS_LABORATORY: bool = cfg!(feature = "laboratory");

pub use cache::{Cache, FREED_WORD};
pub use exchange::Exchange;
pub use memory::{Memory, MemoryConfig, MemoryStats};
pub use meter::{MemoryRoom, MemoryUse};
pub use size_class::SizeClass;
