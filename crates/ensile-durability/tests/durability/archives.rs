//! The archive of closed log files (A1 to A3): what it has behind any crash, what is refused, and what it says.

mod crashes;
mod lives;
mod operators;
mod put_back;
pub(crate) mod restoring;
pub(crate) mod rig;
mod unlisted;
