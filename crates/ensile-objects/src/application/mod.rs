//! The floor form: an application keeps its own objects, logs every change before the change, and gives three
//! call-backs (SLACH §3.2).
//!
//! ```text
//! change                   under the object's guard: log(object, operation, parameters) | change the object
//! checkpoint (call-back)   object by object, under its guard: ckpt(object, bytes)
//! open (call-backs)        load_one for each object -> replay_one for each operation behind it
//! ```
//! The objects have no room for a TID, so last TIDs stand in slots, by a hash of the object's number.
//!
//! Neighbours: applications implement [`Application`]; `recovery` and `walk` call the application; the application
//! calls `log` and `changes`; `check` runs recovery and walk on a recorded folder.

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

mod log;

mod changes;
mod check;

pub use call_backs::{Application, CallBackResult};
pub use log::ApplicationLog;
pub use object_writer::ObjectWriter;
