//! The floor form: an application keeps its own objects, logs every change before the change, and gives three
//! call-backs (SLACH §3.2).
//!
//! ```text
//! the application's guard of an object, held over all of this:   log(object, operation, parameters) | change the
//! object checkpoint (call-back)   object by object, under its guard:    ckpt(object, bytes) open
//! load_one (call-back) for each object -> replay_one (call-back) for each operation behind it
//! ```
//! The objects have no room for a TID, so last TIDs stand in slots, by a hash of the object's number.
//!
//! Invariants:
//! - O7: an operation's TID is above the TID of its slot, and is chosen under the slot's lock. A checkpoint's entry has
//!   the TID of its object's slot, read while the application holds the object's guard.
//! - O4: at recovery an object's operations come in the order of TIDs, without the operations that the loaded bytes
//!   include.
//! - O10: an operation that is marked as a change or a removal is not replayed on a missing object.
//!
//! Neighbours: applications implement [`Application`]; `recovery` and `walk` call the application; `log` and `changes`
//! are called by it; `check` runs recovery and walk on a recorded folder.

// A file uses only files above it.
mod object_tids;
mod poison;
mod slots;

mod object_writer;

mod call_backs;
mod called_application;
mod shadow_copy;
mod state;

mod recovery;
mod walk;

mod changes;
mod check;
mod log;

pub use call_backs::{Application, CallBackResult};
pub use log::ApplicationLog;
pub use object_writer::ObjectWriter;
