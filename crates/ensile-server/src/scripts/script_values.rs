//! Values of Lua as replies, and replies as values of Lua, by redis' rules.
//!
//! | reply | value | | value | reply |
//! |---|---|---|---|---|
//! | integer, bulk string, array | number, string, table | | number | integer, without the fraction |
//! | status, error | table with `ok`, with `err` | | table with `ok`, `err` | status, error |
//! | null | `false`; of the third version `nil` | | `nil`, `false` | null |
//! | map, set, double, boolean, .. | table with `map`, `set`, `double`; boolean; .. | | `true` | 1; of the third version true |
//!
//! Neighbours: `lua_state` replies the value of a script, and gives a script the replies of its commands.

use ensile_resp::{Replies, Reply, ReplyEncoder, RespVersion};
use mlua::{Lua, Result, Table, Value};

use super::number_text::general;
use super::run_guard::RunGuard;

/// Largest number of nested tables in a reply. Clients read as many levels.
const LEVELS_MAX: usize = 30;

/// Reason why a value is no reply.
#[derive(Debug)]
pub(super) enum NoReply {
    /// Tables are nested too deeply.
    Levels,
    /// The reply is longer than its limit.
    Beyond,
    /// Lua has failed, such as for lack of memory.
    Lua(mlua::Error),
}

impl From<mlua::Error> for NoReply {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

/// Writes values of a script as replies.
pub(super) struct ValueWriter<'r, 'b> {
    pub(super) reply: &'r mut ReplyEncoder<'b>,
    /// Version of the client.
    pub(super) version: RespVersion,
    /// Version that the script has chosen for its commands.
    pub(super) script_version: RespVersion,
    pub(super) guard: &'r RunGuard,
}

impl ValueWriter<'_, '_> {
    pub(super) fn write(&mut self, value: &Value, levels: usize) -> std::result::Result<(), NoReply> {
        self.guard.visit()?;
        // A table that is many times within another is many times within the reply.
        if self.reply.is_beyond() {
            return Err(NoReply::Beyond);
        }
        match value {
            Value::String(text) => self.reply.bulk(&text.as_bytes()),
            Value::Integer(number) => self.reply.integer(*number),
            // The largest numbers become the smallest integer, as in redis on this processor.
            Value::Number(number) if *number < i64::MAX as f64 && *number >= i64::MIN as f64 => {
                self.reply.integer(*number as i64);
            }
            Value::Number(_) => self.reply.integer(i64::MIN),
            Value::Boolean(is_true) if self.script_version == RespVersion::Resp3 => {
                self.reply.boolean(*is_true);
            }
            Value::Boolean(true) => self.reply.integer(1),
            Value::Table(table) => return self.write_table(table, levels),
            _ => self.reply.null(),
        }
        Ok(())
    }

    fn write_table(&mut self, table: &Table, levels: usize) -> std::result::Result<(), NoReply> {
        debug_assert!(levels <= LEVELS_MAX, "a deeper table is refused before");
        if levels == LEVELS_MAX {
            return Err(NoReply::Levels);
        }
        if let Value::String(text) = table.raw_get("err")? {
            self.reply.error_line(&text.as_bytes());
            return Ok(());
        }
        if let Value::String(text) = table.raw_get("ok")? {
            self.reply.simple_bytes(&text.as_bytes());
            return Ok(());
        }
        match table.raw_get("double")? {
            Value::Integer(number) => return self.write_double(number as f64),
            Value::Number(number) => return self.write_double(number),
            _ => {}
        }
        if let Value::Table(map) = table.raw_get("map")? {
            self.reply.map(map.pairs::<Value, Value>().count());
            return map.pairs::<Value, Value>().try_for_each(|pair| {
                let (key, value) = pair?;
                self.write(&key, levels + 1)?;
                self.write(&value, levels + 1)
            });
        }
        if let Value::Table(set) = table.raw_get("set")? {
            self.reply.set(set.pairs::<Value, Value>().count());
            return set.pairs::<Value, Value>().try_for_each(|pair| self.write(&pair?.0, levels + 1));
        }
        if let Value::String(digits) = table.raw_get("big_number")? {
            self.reply.big_number(&digits.to_string_lossy());
            return Ok(());
        }
        if let Value::Table(verbatim) = table.raw_get("verbatim_string")?
            && let (Value::String(format), Value::String(text)) =
                (verbatim.raw_get("format")?, verbatim.raw_get("string")?)
        {
            let mut letters = [b' '; 3];
            letters.iter_mut().zip(format.as_bytes().iter()).for_each(|(letter, given)| *letter = *given);
            self.reply.verbatim(letters, &text.as_bytes());
            return Ok(());
        }
        // A reference to each element at once would exceed the room of Lua's stack.
        let mut count = 0_usize;
        while !matches!(table.raw_get(count + 1)?, Value::Nil) {
            count += 1;
        }
        self.reply.array(count);
        (1..=count).try_for_each(|at| self.write(&table.raw_get(at)?, levels + 1))
    }

    /// A number with a fraction, in redis' digits.
    fn write_double(&mut self, number: f64) -> std::result::Result<(), NoReply> {
        match self.version {
            RespVersion::Resp2 => self.reply.bulk(general(number, 17).as_bytes()),
            RespVersion::Resp3 => self.reply.double(number),
        }
        Ok(())
    }
}

/// The value of Lua for a reply.
pub(super) fn value_of(lua: &Lua, reply: Reply<'_>, version: RespVersion) -> Result<Value> {
    Ok(match reply {
        Reply::Integer(number) => Value::Integer(number),
        Reply::Bulk(text) => Value::String(lua.create_string(text)?),
        Reply::Simple(text) => with_field(lua, "ok", Value::String(lua.create_string(text)?))?,
        Reply::Error(text) => with_field(lua, "err", Value::String(lua.create_string(text)?))?,
        Reply::Null if version == RespVersion::Resp3 => Value::Nil,
        Reply::Null => Value::Boolean(false),
        Reply::Boolean(is_true) => Value::Boolean(is_true),
        Reply::Double(number) => with_field(lua, "double", Value::Number(number))?,
        Reply::BigNumber(digits) => with_field(lua, "big_number", Value::String(lua.create_string(digits)?))?,
        Reply::Verbatim(format, text) => {
            let verbatim = lua.create_table_with_capacity(0, 2)?;
            verbatim.raw_set("format", lua.create_string(format)?)?;
            verbatim.raw_set("string", lua.create_string(text)?)?;
            with_field(lua, "verbatim_string", Value::Table(verbatim))?
        }
        Reply::Array(replies) | Reply::Push(replies) => {
            let table = lua.create_table_with_capacity(replies.len(), 0)?;
            for (at, reply) in replies.enumerate() {
                table.raw_set(at + 1, value_of(lua, reply, version)?)?;
            }
            Value::Table(table)
        }
        Reply::Map(replies) => with_field(lua, "map", map_of(lua, replies, version)?)?,
        Reply::Set(replies) => {
            let table = lua.create_table_with_capacity(0, replies.len())?;
            for reply in replies {
                table.raw_set(value_of(lua, reply, version)?, true)?;
            }
            with_field(lua, "set", Value::Table(table))?
        }
    })
}

fn map_of(lua: &Lua, mut replies: Replies<'_>, version: RespVersion) -> Result<Value> {
    let table = lua.create_table_with_capacity(0, replies.len() / 2)?;
    while let (Some(key), Some(value)) = (replies.next(), replies.next()) {
        table.raw_set(value_of(lua, key, version)?, value_of(lua, value, version)?)?;
    }
    Ok(Value::Table(table))
}

fn with_field(lua: &Lua, field: &str, value: Value) -> Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(field, value)?;
    Ok(Value::Table(table))
}
