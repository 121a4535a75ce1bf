//! Words that every floor of Ensile shares.
//!
//! Nothing here knows of indexes, records, logs or transactions. This is the only crate that reads a clock or
//! draws random numbers, and [`sync`] is the one door to atomics: behind it stand std's types, loom's or
//! shuttle's, so that the types that ship are the types that are model checked.
//!
//! Neighbours: every other crate of the workspace stands on this one; it stands on none.
#![forbid(unsafe_code)]

pub mod checksum;
pub mod clock;
pub mod limits;
mod panics;
pub mod random;
pub mod sync;
mod tid;

pub use panics::panic_text;
pub use tid::{Epoch, Tid};
