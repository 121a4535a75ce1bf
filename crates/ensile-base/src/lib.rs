//! Basic types that every layer of Ensile shares.
//!
//! The crate is independent of indexes, records, logs and transactions. Only this crate reads a clock or draws random
//! numbers. [`sync`] is the only door to atomics and re-exports the types of std, loom or shuttle. The model checkers
//! therefore test the shipping types.
//!
//! Neighbours: every crate of the workspace depends on `ensile-base`, and `ensile-base` depends on no crate of the
//! workspace.
#![forbid(unsafe_code)]

pub mod checksum;
pub mod clock;
pub mod figures;
pub mod limits;
mod panics;
pub mod random;
pub mod sync;
pub mod text;
mod tid;
pub mod wakers;

pub use panics::panic_text;
pub use tid::{Epoch, Tid};
