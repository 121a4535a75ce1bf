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
