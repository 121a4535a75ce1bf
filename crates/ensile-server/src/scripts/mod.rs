//! Scripts in Lua, and procedures of the program. They know nothing of the server: a host calls commands for them.
//!
//! Files, in the order from below:
//! - `number_text` writes numbers, `shebang` reads a script's options, `script_cache` has the sources of scripts,
//!   `script_times` the settings.
//! - `run_guard` has the limits and the early end of a run, `raised` has the errors. `command_host` is the host.
//! - `library_parts`, `bits`, `json`, `message_pack` and `libraries` are functions for scripts, and `sandbox.lua` shows
//!   them.
//! - `script_values` translates values and replies, `lua_state` runs scripts, `procedures` has the procedures.
//!
//! Invariant: a script sees nothing of another run, and reaches no file, no process and no socket.
//!
//! Neighbours: `script_calls` runs scripts and procedures; `served_database` keeps them.

mod bits;
mod command_host;
mod json;
mod libraries;
mod library_parts;
mod lua_state;
mod message_pack;
mod number_text;
mod procedures;
mod raised;
mod run_guard;
mod script_cache;
mod script_times;
mod script_values;
mod shebang;

pub(crate) use command_host::{CallRefusal, CommandHost};
pub(crate) use lua_state::{CompiledScript, LuaState, RunFailure, ScriptArguments};
pub(crate) use procedures::Procedures;
pub use procedures::{ProcedureCall, ProcedureError, ReplyValue};
pub(crate) use run_guard::LoopScripts;
pub(crate) use script_cache::{ScriptCache, ScriptHash, hash_from, hash_of, hex_of};
pub(crate) use script_times::{RunTimes, ScriptTimes, millis_of};
