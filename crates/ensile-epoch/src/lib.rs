//! The heartbeat: global epoch, commit bindings, pins, snapshot boundaries, deferred frees (Silo §4.1, §4.8, §4.9), and
//! the freezes of pictures (SIREN §3.1).
//!
//! Three registrations with three lifetimes, which the paper folds into one `e_w`:
//! - [`CommitSlot`]: a worker is *bound* to an epoch only inside the commit's short critical section (E1), so that
//!   nothing that waits can hold epochs back.
//! - [`PinHandle`]: an open transaction *pins* the memory that it may still point to (E3), and can be expired (E4).
//! - the same slot's snapshot registration, for readers of version chains (S1).
//!
//! [`Epochs`] owns the global epoch and offers steps (`try_advance`, `scan`) for threads of other crates: the engine's
//! heartbeat and the loggers. Higher crates read epochs here, and this crate calls no higher crate.
//!
//! Neighbours: the engine's workers and transactions register; the durability crate reads bindings to compute the
//! durable epoch; the engine's collector frees garbage below [`Epochs::limits`].

mod asymmetric_fence;
mod boundary_set;
mod commit_slot;
mod epochs;
mod freezes;
mod garbage_list;
mod pin_slot;
mod pin_token;
mod registry;
mod revisited_list;

pub use boundary_set::ShownBoundaries;
pub use commit_slot::{CommitHandle, CommitSlot, InIndex};
pub use epochs::{Advance, EpochConfig, Epochs, ReclaimLimits};
pub use garbage_list::GarbageList;
pub use pin_slot::{Call, Expired, PinHandle};
pub use pin_token::Pinned;
pub use revisited_list::RevisitedList;
