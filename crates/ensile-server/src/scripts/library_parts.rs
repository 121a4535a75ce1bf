//! Parts of several libraries.
//!
//! Neighbours: the libraries of scripts.

use mlua::{Lua, LuaString, MultiValue, Result, Table, Value};

use super::raised::raise_reply;

/// Adds functions of redis' libraries that raise an error with their name.
pub(super) fn add_missing(lua: &Lua, library: &Table, name: &str, functions: &[&str]) -> Result<()> {
    for function in functions {
        let text = format!("ERR {name}.{function} is not available in this version of ensile");
        let refuse =
            lua.create_function(move |_, _: MultiValue| Err::<(), _>(raise_reply(text.as_bytes())))?;
        library.raw_set(*function, refuse)?;
    }
    Ok(())
}

/// Largest memory of a state of Lua in bytes.
pub(super) const LUA_BYTES_MAX: usize = 128 << 20;
/// Length of a string before which garbage is collected, in bytes.
const LARGE_BYTES: usize = 1 << 20;

/// Length of arguments or of a reply for which the limit is lifted, in bytes.
const LIFTED_BYTES_MAX: usize = 64 << 10;
/// Largest ratio of Lua's memory for a reply to the reply's length: an empty table has a reply of four bytes.
const LUA_BYTES_RATIO: usize = 32;
/// Memory of a string of Lua beside its text, in bytes.
pub(super) const STRING_BYTES: usize = 64;

/// A state without its limit of memory, until the drop. With a limit, mlua prepares each allocation of the server's
/// functions for a failure, which takes longer than a small allocation. Lua's own code runs within the limit.
pub(super) struct LiftedLimit<'l> {
    lua: &'l Lua,
}

impl<'l> LiftedLimit<'l> {
    /// Lifts the limit for arguments or a reply of this length in bytes. `None` if the length is too large, or if Lua
    /// may need more memory than is left.
    pub(super) fn new(lua: &'l Lua, bytes: usize) -> Option<Self> {
        let fits = bytes <= LIFTED_BYTES_MAX && lua.used_memory() + bytes * LUA_BYTES_RATIO <= LUA_BYTES_MAX;
        (fits && lua.set_memory_limit(0).is_ok()).then_some(Self { lua })
    }
}

impl Drop for LiftedLimit<'_> {
    fn drop(&mut self) {
        let limited = self.lua.set_memory_limit(LUA_BYTES_MAX);
        debug_assert!(limited.is_ok(), "the limit was lifted before");
    }
}

/// A string of Lua. Lua itself collects no garbage when an allocation meets the limit of the memory.
pub(super) fn new_string(lua: &Lua, bytes: &[u8]) -> Result<LuaString> {
    if bytes.len() >= LARGE_BYTES && lua.used_memory() > LUA_BYTES_MAX / 2 {
        lua.gc_collect()?;
    }
    lua.create_string(bytes)
}

/// A number, or a text that is a number.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        Value::String(text) => text.to_str().ok()?.trim().parse().ok(),
        _ => None,
    }
}
