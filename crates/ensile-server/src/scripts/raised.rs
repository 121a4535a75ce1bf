//! Errors that functions of the server raise in a script, and errors that a script has caught.
//!
//! Invariant: no script sees the userdata of an error: `caught` turns the userdata into text or a table, or raises the
//! end of the run again.
//!
//! Neighbours: the libraries of scripts raise; `sandbox.lua` gives caught errors to [`caught`].

use mlua::{Error, Lua, Result, Table, Value};

use super::run_guard::{RunEnd, RunGuard, end_error};

/// Chunk name of a script.
pub(super) const SCRIPT_NAME: &str = "@user_script";
/// Beginning of a text with a position in the sandbox, in place of a script's position.
const SANDBOX_PLACE: &str = "sandbox:";
/// End of Lua's text for a failed allocation. A coroutine may put a position before the text.
const NO_MEMORY: &[u8] = b"not enough memory";

/// An error of a function of the server.
#[derive(Debug)]
pub(super) struct Raised {
    /// Text with the code of a reply, for a table; otherwise a text of Lua.
    pub(super) text: Vec<u8>,
    /// True if the script catches a table with the field `err`.
    pub(super) is_table: bool,
}

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text))
    }
}

impl std::error::Error for Raised {}

/// An error as redis' own functions raise it: a table with the text of a reply.
pub(super) fn raise_reply(text: impl Into<Vec<u8>>) -> Error {
    Error::external(Raised { text: text.into(), is_table: true })
}

/// An error as Lua's functions raise it: a text behind the script's position.
pub(super) fn raise(lua: &Lua, text: &str) -> Error {
    let line = lua.inspect_stack(1, |frame| {
        let is_script = frame.source().source.is_some_and(|source| source == SCRIPT_NAME);
        frame.current_line().filter(|_| is_script)
    });
    let text = match line.flatten() {
        Some(line) => format!("user_script:{line}: {text}"),
        None => text.to_owned(),
    };
    Error::external(Raised { text: text.into_bytes(), is_table: false })
}

/// The error that a script gets for a caught error.
///
/// # Errors
/// The end of the run.
pub(super) fn caught(lua: &Lua, guard: &RunGuard, error: Value) -> Result<Value> {
    if guard.has_ended() {
        return Err(end_error());
    }
    if let Some(reason) = early_end(&error) {
        guard.end(reason);
        return Err(end_error());
    }
    match error {
        Value::Error(wrapped) => match wrapped.downcast_ref::<Raised>() {
            Some(raised) if raised.is_table => error_table(lua, lua.create_string(&raised.text)?),
            Some(raised) => lua.create_string(&raised.text).map(Value::String),
            None => Err(*wrapped),
        },
        error => Ok(error),
    }
}

/// Reason of the end of a run for an error that no script may catch.
pub(super) fn early_end(error: &Value) -> Option<RunEnd> {
    match error {
        Value::Error(wrapped) if wrapped.downcast_ref::<Raised>().is_none() => Some(reason_of(wrapped)),
        Value::String(text) if text.as_bytes().ends_with(NO_MEMORY) => Some(RunEnd::MemoryFull),
        _ => None,
    }
}

/// Reason of the end behind an error that no function of the server raises.
pub(super) fn reason_of(error: &Error) -> RunEnd {
    if error.chain().any(|cause| matches!(cause.downcast_ref(), Some(Error::MemoryError(_)))) {
        return RunEnd::MemoryFull;
    }
    RunEnd::Failed(error.to_string())
}

fn error_table(lua: &Lua, text: mlua::LuaString) -> Result<Value> {
    let table: Table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("err", text)?;
    Ok(Value::Table(table))
}

/// Text of the reply to a script that has raised this error. `line` is the line of the script.
pub(super) fn reply_text(error: &Value, line: Option<usize>) -> Vec<u8> {
    let behind_code = |text: &[u8]| [b"ERR ", text].concat();
    match error {
        Value::Error(wrapped) => match wrapped.downcast_ref::<Raised>() {
            Some(raised) if raised.is_table => raised.text.clone(),
            Some(raised) => behind_code(&raised.text),
            None => behind_code(wrapped.to_string().as_bytes()),
        },
        Value::String(text) => behind_code(&at_script(&text.as_bytes(), line)),
        Value::Table(table) => match table.raw_get("err") {
            Ok(Value::String(text)) => text.as_bytes().to_vec(),
            _ => behind_code(b"the script has raised a table without a field err"),
        },
        Value::Nil => behind_code(b"nil"),
        Value::Integer(number) => behind_code(number.to_string().as_bytes()),
        Value::Number(number) => behind_code(super::number_text::general(*number, 14).as_bytes()),
        Value::Boolean(is_true) => behind_code(is_true.to_string().as_bytes()),
        other => behind_code(format!("the script has raised a {}", other.type_name()).as_bytes()),
    }
}

/// The text with the script's position in place of a position in the sandbox.
fn at_script(text: &[u8], line: Option<usize>) -> Vec<u8> {
    let behind = text.strip_prefix(SANDBOX_PLACE.as_bytes()).and_then(|rest| {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        rest[digits..].strip_prefix(b": ")
    });
    match (behind, line) {
        (Some(behind), Some(line)) => [format!("user_script:{line}: ").as_bytes(), behind].concat(),
        (Some(behind), None) => behind.to_vec(),
        (None, _) => text.to_vec(),
    }
}

/// Line of the script in the newest frame of a script.
pub(super) fn script_line(lua: &Lua) -> Option<usize> {
    /// Number of frames that are looked at: the function that raised, and functions of the sandbox.
    const FRAMES: usize = 8;
    (1..=FRAMES).find_map(|level| {
        lua.inspect_stack(level, |frame| {
            let is_script = frame.source().source.is_some_and(|source| source == SCRIPT_NAME);
            frame.current_line().filter(|_| is_script)
        })?
    })
}
