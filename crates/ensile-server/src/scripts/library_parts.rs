//! Parts of several libraries.
//!
//! Neighbours: the libraries of scripts.

use mlua::{Lua, MultiValue, Result, Table, Value};

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

/// A number, or a text that is a number.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        Value::String(text) => text.to_str().ok()?.trim().parse().ok(),
        _ => None,
    }
}
