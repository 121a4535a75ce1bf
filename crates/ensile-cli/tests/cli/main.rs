//! The `ensile` command from outside, in one program, so that the engine's code for its tables is made once.
//!
//! Neighbours: `objects` and `services` beside this folder are also the programs that the command calls or takes over
//! from.

#[cfg(feature = "serve")]
mod admin_port;
mod archives;
mod backups;
mod commands;
#[cfg(feature = "serve")]
mod connections;
#[cfg(feature = "serve")]
mod guide;
#[path = "../outside/mod.rs"]
mod outside;
#[cfg(feature = "serve")]
mod redis_tools;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "serve")]
mod server;
mod two_tids;
