//! Commands that run scripts and procedures, and the calls of commands from them.
//!
//! - `command_calls` carries out commands within the transaction.
//! - `script_commands` has `EVAL` and `SCRIPT`, and `procedure_commands` has `FCALL` and `FUNCTION`.
//!
//! Invariant: a call of a script passes the same check of rights as a direct request.
//!
//! Neighbours: `execution` begins and commits; `command_table` names the commands; [`crate::scripts`] has Lua.

mod command_calls;
pub(crate) mod procedure_commands;
pub(crate) mod script_commands;
