//! The library `cjson`: tables as JSON, and JSON as tables.
//!
//! Texts are written as redis' cjson writes them, and read by `serde_json`: texts of UTF-8, of 128 levels at most.
//!
//! Neighbours: `libraries` adds the library.

use std::rc::Rc;

use mlua::{Lua, Result, Table, Value};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::library_parts::{add_missing, new_string, number};
use super::number_text::general;
use super::raised::raise;
use super::run_guard::RunGuard;

/// Largest number of levels of tables that are written.
const LEVELS_MAX: usize = 128;
/// Digits of a written number.
const DIGITS: usize = 14;
/// Largest index of an array with any number of gaps.
const SPARSE_SAFE: usize = 10;
/// Largest ratio of a longer array's length to its number of elements.
const SPARSE_RATIO: usize = 2;
/// Longest written text in bytes.
const JSON_BYTES_MAX: usize = 64 << 20;

pub(super) fn library(lua: &Lua, guard: &Rc<RunGuard>) -> Result<Table> {
    let (of_encode, of_decode) = (Rc::clone(guard), Rc::clone(guard));
    let json = lua.create_table()?;
    json.raw_set("null", Value::NULL)?;
    json.raw_set(
        "encode",
        lua.create_function(move |lua, value: Value| {
            of_encode.check()?;
            let mut writer = JsonWriter { guard: &of_encode, text: Vec::new() };
            match writer.write(&value, 0) {
                Ok(()) => new_string(lua, &writer.text),
                Err(NotJson::Why(why)) => Err(raise(lua, &why)),
                Err(NotJson::Lua(error)) => Err(error),
            }
        })?,
    )?;
    json.raw_set(
        "decode",
        lua.create_function(move |lua, value: Value| {
            of_decode.check()?;
            let Some(text) = lua.coerce_string(value)? else {
                return Err(raise(lua, "bad argument #1 to 'decode' (string expected)"));
            };
            let bytes = text.as_bytes();
            let mut decoder = serde_json::Deserializer::from_slice(&bytes);
            let decoded = IntoTable(lua).deserialize(&mut decoder);
            let decoded = decoded.and_then(|value| decoder.end().map(|()| value));
            decoded.map_err(|error| raise(lua, &format!("Expected value but found invalid token: {error}")))
        })?,
    )?;
    add_missing(
        lua,
        &json,
        "cjson",
        &[
            "new",
            "encode_max_depth",
            "decode_max_depth",
            "encode_invalid_numbers",
            "decode_invalid_numbers",
            "encode_keep_buffer",
            "encode_number_precision",
            "encode_sparse_array",
        ],
    )?;
    Ok(json)
}

/// Reason why a value is no JSON.
enum NotJson {
    Why(String),
    Lua(mlua::Error),
}

impl From<mlua::Error> for NotJson {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

fn no_json(why: &str) -> NotJson {
    NotJson::Why(format!("Cannot serialise {why}"))
}

/// Writes values as JSON.
struct JsonWriter<'g> {
    guard: &'g RunGuard,
    text: Vec<u8>,
}

impl JsonWriter<'_> {
    fn write(&mut self, value: &Value, levels: usize) -> std::result::Result<(), NotJson> {
        self.guard.visit()?;
        let text = &mut self.text;
        check_length(text)?;
        match value {
            Value::Nil => text.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => text.extend_from_slice(b"null"),
            Value::Boolean(is_true) => text.extend_from_slice(if *is_true { b"true" } else { b"false" }),
            Value::Integer(_) | Value::Number(_) => write_number(number(value).unwrap_or(0.0), text)?,
            Value::String(string) => write_string(&string.as_bytes(), text)?,
            Value::Table(table) => return self.write_table(table, levels + 1),
            other => return Err(no_json(&format!("{}: type not supported", other.type_name()))),
        }
        Ok(())
    }

    fn write_table(&mut self, table: &Table, levels: usize) -> std::result::Result<(), NotJson> {
        if levels > LEVELS_MAX {
            return Err(no_json(&format!(", excessive depth ({levels})")));
        }
        if let Some(length) = array_length(self.guard, table)? {
            self.text.push(b'[');
            for at in 1..=length {
                if at > 1 {
                    self.text.push(b',');
                }
                self.write(&table.raw_get(at)?, levels)?;
            }
            self.text.push(b']');
            return Ok(());
        }
        self.text.push(b'{');
        for (at, pair) in table.pairs::<Value, Value>().enumerate() {
            let (key, value) = pair?;
            if at > 0 {
                self.text.push(b',');
            }
            match &key {
                Value::String(key) => write_string(&key.as_bytes(), &mut self.text)?,
                Value::Integer(_) | Value::Number(_) => {
                    self.text.push(b'"');
                    write_number(number(&key).unwrap_or(0.0), &mut self.text)?;
                    self.text.push(b'"');
                }
                _ => return Err(no_json("table: table key must be a number or string")),
            }
            self.text.push(b':');
            self.write(&value, levels)?;
        }
        self.text.push(b'}');
        Ok(())
    }
}

fn check_length(text: &[u8]) -> std::result::Result<(), NotJson> {
    if text.len() > JSON_BYTES_MAX {
        return Err(no_json(&format!("more than {JSON_BYTES_MAX} bytes")));
    }
    Ok(())
}

fn write_number(number: f64, text: &mut Vec<u8>) -> std::result::Result<(), NotJson> {
    if !number.is_finite() {
        return Err(no_json("number: must not be NaN or Inf"));
    }
    text.extend_from_slice(general(number, DIGITS).as_bytes());
    Ok(())
}

fn write_string(string: &[u8], text: &mut Vec<u8>) -> std::result::Result<(), NotJson> {
    text.push(b'"');
    for byte in string {
        check_length(text)?;
        match byte {
            b'"' | b'\\' | b'/' => text.extend_from_slice(&[b'\\', *byte]),
            b'\x08' => text.extend_from_slice(b"\\b"),
            b'\x0C' => text.extend_from_slice(b"\\f"),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\r' => text.extend_from_slice(b"\\r"),
            b'\t' => text.extend_from_slice(b"\\t"),
            0..0x20 | 0x7F => text.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => text.push(*byte),
        }
    }
    text.push(b'"');
    Ok(())
}

/// Length of a table that is an array, or `None` for a map.
fn array_length(guard: &RunGuard, table: &Table) -> std::result::Result<Option<usize>, NotJson> {
    let (mut longest, mut count) = (0, 0_usize);
    for pair in table.pairs::<Value, Value>() {
        guard.visit()?;
        let (Value::Integer(index), _) = pair? else { return Ok(None) };
        match usize::try_from(index) {
            Ok(index) if index > 0 => longest = longest.max(index),
            _ => return Ok(None),
        }
        count += 1;
    }
    if longest > SPARSE_SAFE && longest > count.saturating_mul(SPARSE_RATIO) {
        return Err(no_json("table: excessively sparse array"));
    }
    Ok((longest > 0).then_some(longest))
}

/// Reads a value of JSON into Lua.
#[derive(Clone, Copy)]
struct IntoTable<'l>(&'l Lua);

impl<'de> DeserializeSeed<'de> for IntoTable<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, decoder: D) -> std::result::Result<Value, D::Error> {
        decoder.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for IntoTable<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_bool<E>(self, is_true: bool) -> std::result::Result<Value, E> {
        Ok(Value::Boolean(is_true))
    }

    fn visit_i64<E>(self, number: i64) -> std::result::Result<Value, E> {
        Ok(Value::Number(number as f64))
    }

    fn visit_u64<E>(self, number: u64) -> std::result::Result<Value, E> {
        Ok(Value::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> std::result::Result<Value, E> {
        Ok(Value::Number(number))
    }

    fn visit_unit<E>(self) -> std::result::Result<Value, E> {
        Ok(Value::NULL)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Value, E> {
        new_string(self.0, text.as_bytes()).map(Value::String).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> std::result::Result<Value, A::Error> {
        let table = self.0.create_table().map_err(A::Error::custom)?;
        let mut at = 1;
        while let Some(element) = elements.next_element_seed(self)? {
            table.raw_set(at, element).map_err(A::Error::custom)?;
            at += 1;
        }
        Ok(Value::Table(table))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> std::result::Result<Value, A::Error> {
        let table = self.0.create_table().map_err(A::Error::custom)?;
        while let Some((key, value)) = pairs.next_entry_seed(self, self)? {
            table.raw_set(key, value).map_err(A::Error::custom)?;
        }
        Ok(Value::Table(table))
    }
}
