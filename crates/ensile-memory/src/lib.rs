//! Where nodes and records live: slabs on huge pages, one cache per worker (Silo §5.1).
//!
//! Knows neither nodes nor records, only sizes; knows no epochs, so it never decides *when* memory may be freed.
//! A [`Memory`] belongs to one database and unmaps everything when it goes, or is told that nothing is used any more; a
//! [`Cache`] belongs to one worker, so that allocating and freeing touch no shared line.
//!
//! Invariants:
//! - A block is freed under the size class that it was allocated under.
//! - Chunks are aligned to their size and every span of a chunk serves one class, until all its blocks are free (M1).
//! - Memory that is free serves every size class, and goes back to the system at a bounded pace (M2).
//! - Some memory is ready before it is written, if a thread sees to it (M3).
//!
//! Neighbours: index nodes and records are allocated here by the engine's workers; the epoch floor says when what
//! was retired may come back.

mod cache;
mod class;
mod exchange;
mod general;
mod in_use;
mod map;
mod memory;
mod pool;
pub mod prefetch;
mod span;
#[cfg(all(test, not(any(loom, shuttle))))]
mod testing;

pub use cache::{Cache, FREED_WORD};
pub use class::SizeClass;
pub use exchange::Exchange;
pub use memory::{Memory, MemoryConfig, MemoryStats};
