//! Fuzzy checkpoints (SiloR §4): what bounds the log, written beside running transactions.
//!
//! ```text
//! walk (the recoverable's) --entries--> block --round-robin--> m files of a checkpointer --all synced, D >= e_h--> manifest
//! ```
//! Invariants: K1 (`docs/protocols/checkpoints.md` argues it): an installed checkpoint `[e_l, e_h]` and the log from e_l
//! on give the state at any D >= e_h.
//!
//! Neighbours: below, `names`, the log's entry framing; `recovery` reads what is written here; the engine walks.

pub(crate) mod block;
pub(crate) mod read;
pub(crate) mod walk;
