//! The library `cmsgpack`: values in MessagePack's form.
//!
//! Neighbours: `libraries` adds the library; `rmp` has the form.

use std::rc::Rc;

use mlua::{Lua, LuaString, MultiValue, Result, Table, Value};
use rmp::Marker;
use rmp::encode::{
    write_array_len, write_bool, write_f32, write_f64, write_map_len, write_nil, write_sint, write_str_len,
};

use super::library_parts::{new_string, number};
use super::raised::raise;
use super::run_guard::RunGuard;

/// Largest number of nested tables: deeper tables are written as nil, as in redis.
const LEVELS_MAX: usize = 16;
/// Longest packed text in bytes.
const PACKED_BYTES_MAX: usize = 64 << 20;
/// Largest number of nested arrays and maps that are read.
const READ_LEVELS_MAX: usize = 100;
/// Text of the error for bytes of another form.
const BAD_FORM: &str = "Bad data format in input.";
/// Text of the error for a value whose bytes end early.
const TOO_SHORT: &str = "Missing bytes in input.";

pub(super) fn library(lua: &Lua, guard: &Rc<RunGuard>) -> Result<Table> {
    let library = lua.create_table()?;
    let of_pack = Rc::clone(guard);
    library.raw_set("pack", lua.create_function(move |lua, values| pack(lua, &of_pack, &values))?)?;
    let of_unpack = Rc::clone(guard);
    library.raw_set(
        "unpack",
        lua.create_function(move |lua, input: Value| {
            of_unpack.check()?;
            let mut results = unpack(lua, &input, i64::MAX, 0)?;
            results.pop_front();
            Ok(results)
        })?,
    )?;
    let of_one = Rc::clone(guard);
    library.raw_set(
        "unpack_one",
        lua.create_function(move |lua, (input, from): (Value, Value)| {
            of_one.check()?;
            unpack(lua, &input, 1, number(&from).unwrap_or(0.0) as i64)
        })?,
    )?;
    let of_limit = Rc::clone(guard);
    library.raw_set(
        "unpack_limit",
        lua.create_function(move |lua, (input, limit, from): (Value, Value, Value)| {
            of_limit.check()?;
            let Some(limit) = number(&limit) else {
                return Err(raise(lua, "bad argument #2 to 'unpack_limit' (number expected)"));
            };
            unpack(lua, &input, limit as i64, number(&from).unwrap_or(0.0) as i64)
        })?,
    )?;
    Ok(library)
}

/// `cmsgpack.pack(value ..)`
fn pack(lua: &Lua, guard: &RunGuard, values: &MultiValue) -> Result<LuaString> {
    guard.check()?;
    if values.is_empty() {
        return Err(raise(lua, "bad argument #0 to 'pack' (MessagePack pack needs input.)"));
    }
    let mut packer = Packer { lua, guard, bytes: Vec::new() };
    for value in values {
        packer.write(value, 0)?;
    }
    new_string(lua, &packer.bytes)
}

/// Writes values as a packed text.
struct Packer<'p> {
    lua: &'p Lua,
    guard: &'p RunGuard,
    bytes: Vec<u8>,
}

impl Packer<'_> {
    fn write(&mut self, value: &Value, levels: usize) -> Result<()> {
        self.guard.visit()?;
        let long = if let Value::String(text) = value { text.as_bytes().len() } else { 0 };
        if self.bytes.len().saturating_add(long) > PACKED_BYTES_MAX {
            return Err(raise(self.lua, &format!("the result of pack has {PACKED_BYTES_MAX} bytes at most")));
        }
        let bytes = &mut self.bytes;
        // A write to memory does not fail.
        match value {
            Value::String(text) => {
                let text = text.as_bytes();
                let _ = write_str_len(bytes, u32::try_from(text.len()).unwrap_or(u32::MAX));
                bytes.extend_from_slice(&text);
            }
            Value::Boolean(is_true) => {
                let _ = write_bool(bytes, *is_true);
            }
            Value::Integer(number) => {
                let _ = write_sint(bytes, *number);
            }
            Value::Number(number) if f64::from(*number as f32) == *number => {
                let _ = write_f32(bytes, *number as f32);
            }
            Value::Number(number) => {
                let _ = write_f64(bytes, *number);
            }
            Value::Table(table) if levels < LEVELS_MAX => return self.write_table(table, levels + 1),
            _ => {
                let _ = write_nil(bytes);
            }
        }
        Ok(())
    }

    fn write_table(&mut self, table: &Table, levels: usize) -> Result<()> {
        let (mut longest, mut is_array, mut count) = (0, true, 0_u32);
        for pair in table.pairs::<Value, Value>() {
            self.guard.visit()?;
            match pair? {
                (Value::Integer(index), _) if index > 0 => longest = longest.max(index),
                _ => is_array = false,
            }
            count += 1;
        }
        if is_array && longest == i64::from(count) {
            // A write to memory does not fail.
            let _ = write_array_len(&mut self.bytes, count);
            return (1..=longest).try_for_each(|at| self.write(&table.raw_get(at)?, levels));
        }
        // A write to memory does not fail.
        let _ = write_map_len(&mut self.bytes, count);
        table.pairs::<Value, Value>().try_for_each(|pair| {
            let (key, value) = pair?;
            self.write(&key, levels)?;
            self.write(&value, levels)
        })
    }
}

/// The values in these bytes, `limit` at most, behind the place of the byte that follows, or -1 at the end.
fn unpack(lua: &Lua, input: &Value, limit: i64, from: i64) -> Result<MultiValue> {
    /// Largest number of values that a call returns.
    const VALUES_MAX: usize = 7000;
    let Value::String(text) = input else {
        let got = input.type_name();
        return Err(raise(lua, &format!("bad argument #1 to 'unpack' (string expected, got {got})")));
    };
    let bytes = text.as_bytes();
    let begin = usize::try_from(from).ok().filter(|from| *from <= bytes.len());
    let (Some(begin), 0..) = (begin, limit) else {
        let text = format!("Invalid request to unpack with offset of {from} and limit of {limit}.");
        return Err(raise(lua, &text));
    };
    let limit = if limit == 0 { usize::MAX } else { usize::try_from(limit).unwrap_or(usize::MAX) };
    let (mut rest, mut values) = (&bytes[begin..], MultiValue::new());
    while !rest.is_empty() && values.len() < limit {
        if values.len() == VALUES_MAX {
            return Err(raise(lua, &format!("more than {VALUES_MAX} values: use unpack_limit")));
        }
        values.push_back(read(lua, &mut rest, 0)?);
    }
    let next = if rest.is_empty() { -1.0 } else { (bytes.len() - rest.len()) as f64 };
    values.push_front(Value::Number(next));
    Ok(values)
}

/// Takes bytes off the input.
fn take<'i>(lua: &Lua, input: &mut &'i [u8], count: usize) -> Result<&'i [u8]> {
    let (taken, rest) = input.split_at_checked(count).ok_or_else(|| raise(lua, TOO_SHORT))?;
    *input = rest;
    Ok(taken)
}

/// A whole number of this many bytes, the highest first.
fn take_number(lua: &Lua, input: &mut &[u8], count: usize) -> Result<u64> {
    debug_assert!(count <= size_of::<u64>(), "the number has 64 bits");
    Ok(take(lua, input, count)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn read(lua: &Lua, input: &mut &[u8], levels: usize) -> Result<Value> {
    let marker = Marker::from_u8(take(lua, input, 1)?[0]);
    let mut number = |count: usize| take_number(lua, input, count);
    Ok(match marker {
        Marker::Null => Value::Nil,
        Marker::True => Value::Boolean(true),
        Marker::False => Value::Boolean(false),
        Marker::FixPos(number) => Value::Integer(i64::from(number)),
        Marker::FixNeg(number) => Value::Integer(i64::from(number)),
        Marker::U8 => Value::Number(number(1)? as f64),
        Marker::U16 => Value::Number(number(2)? as f64),
        Marker::U32 => Value::Number(number(4)? as f64),
        Marker::U64 => Value::Number(number(8)? as f64),
        Marker::I8 => Value::Integer(i64::from(number(1)? as u8 as i8)),
        Marker::I16 => Value::Integer(i64::from(number(2)? as u16 as i16)),
        Marker::I32 => Value::Integer(i64::from(number(4)? as u32 as i32)),
        Marker::I64 => Value::Number(number(8)? as i64 as f64),
        Marker::F32 => Value::Number(f64::from(f32::from_bits(number(4)? as u32))),
        Marker::F64 => Value::Number(f64::from_bits(number(8)?)),
        Marker::FixStr(length) => read_text(lua, input, u64::from(length))?,
        Marker::Str8 | Marker::Bin8 => {
            let length = number(1)?;
            read_text(lua, input, length)?
        }
        Marker::Str16 | Marker::Bin16 => {
            let length = number(2)?;
            read_text(lua, input, length)?
        }
        Marker::Str32 | Marker::Bin32 => {
            let length = number(4)?;
            read_text(lua, input, length)?
        }
        Marker::FixArray(length) => read_array(lua, input, u64::from(length), levels + 1)?,
        Marker::Array16 => {
            let length = number(2)?;
            read_array(lua, input, length, levels + 1)?
        }
        Marker::Array32 => {
            let length = number(4)?;
            read_array(lua, input, length, levels + 1)?
        }
        Marker::FixMap(length) => read_map(lua, input, u64::from(length), levels + 1)?,
        Marker::Map16 => {
            let length = number(2)?;
            read_map(lua, input, length, levels + 1)?
        }
        Marker::Map32 => {
            let length = number(4)?;
            read_map(lua, input, length, levels + 1)?
        }
        _ => return Err(raise(lua, BAD_FORM)),
    })
}

fn read_text(lua: &Lua, input: &mut &[u8], length: u64) -> Result<Value> {
    let text = take(lua, input, usize::try_from(length).unwrap_or(usize::MAX))?;
    new_string(lua, text).map(Value::String)
}

fn check_levels(lua: &Lua, levels: usize) -> Result<()> {
    if levels > READ_LEVELS_MAX {
        return Err(raise(lua, &format!("more than {READ_LEVELS_MAX} levels in input")));
    }
    Ok(())
}

fn read_array(lua: &Lua, input: &mut &[u8], length: u64, levels: usize) -> Result<Value> {
    check_levels(lua, levels)?;
    let table = lua.create_table()?;
    for at in 1..=length {
        table.raw_set(at, read(lua, input, levels)?)?;
    }
    Ok(Value::Table(table))
}

fn read_map(lua: &Lua, input: &mut &[u8], length: u64, levels: usize) -> Result<Value> {
    check_levels(lua, levels)?;
    let table = lua.create_table()?;
    for _ in 0..length {
        let key = read(lua, input, levels)?;
        let value = read(lua, input, levels)?;
        if matches!(key, Value::Nil) || matches!(key, Value::Number(number) if number.is_nan()) {
            return Err(raise(lua, BAD_FORM));
        }
        table.raw_set(key, value)?;
    }
    Ok(Value::Table(table))
}
