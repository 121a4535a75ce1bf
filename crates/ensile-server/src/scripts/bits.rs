//! The library `bit`: operations on the bits of numbers.
//!
//! Neighbours: `libraries` adds the library.

use mlua::{Lua, MultiValue, Result, Table, Value};

use super::library_parts::number;
use super::raised::raise;

/// A function of the library with its name.
struct BitFunction<F> {
    name: &'static str,
    of: F,
}

type OfOne = fn(i32) -> i32;
type OfTwo = fn(i32, i32) -> i32;
type OfPlaces = fn(i32, u32) -> i32;

const UNARY: [BitFunction<OfOne>; 3] = [
    BitFunction { name: "tobit", of: |bits| bits },
    BitFunction { name: "bnot", of: |bits| !bits },
    BitFunction { name: "bswap", of: i32::swap_bytes },
];
/// Functions of any number of arguments.
const FOLDED: [BitFunction<OfTwo>; 3] = [
    BitFunction { name: "band", of: |all, bits| all & bits },
    BitFunction { name: "bor", of: |all, bits| all | bits },
    BitFunction { name: "bxor", of: |all, bits| all ^ bits },
];
/// Functions of the bits and a number of places below 32.
const SHIFTED: [BitFunction<OfPlaces>; 5] = [
    BitFunction { name: "lshift", of: |bits, by| bits << by },
    BitFunction { name: "rshift", of: |bits, by| (bits as u32 >> by) as i32 },
    BitFunction { name: "arshift", of: |bits, by| bits >> by },
    BitFunction { name: "rol", of: i32::rotate_left },
    BitFunction { name: "ror", of: i32::rotate_right },
];

/// The lowest 32 bits of a number, rounded to the nearest whole number.
fn bits_of(lua: &Lua, arguments: &MultiValue, at: usize, function: &str) -> Result<i32> {
    match arguments.get(at).and_then(number) {
        Some(number) => Ok(number.round_ties_even().rem_euclid(4_294_967_296.0) as u32 as i32),
        None => {
            let got = arguments.get(at).map_or("no value", Value::type_name);
            let text = format!("bad argument #{} to '{function}' (number expected, got {got})", at + 1);
            Err(raise(lua, &text))
        }
    }
}

pub(super) fn library(lua: &Lua) -> Result<Table> {
    let bit = lua.create_table()?;
    for BitFunction { name, of } in UNARY {
        let function = lua.create_function(move |lua, all: MultiValue| Ok(of(bits_of(lua, &all, 0, name)?)));
        bit.raw_set(name, function?)?;
    }
    for BitFunction { name, of } in FOLDED {
        let function = lua.create_function(move |lua, all: MultiValue| {
            let first = bits_of(lua, &all, 0, name)?;
            (1..all.len()).try_fold(first, |bits, at| Ok(of(bits, bits_of(lua, &all, at, name)?)))
        });
        bit.raw_set(name, function?)?;
    }
    for BitFunction { name, of } in SHIFTED {
        let function = lua.create_function(move |lua, all: MultiValue| {
            let bits = bits_of(lua, &all, 0, name)?;
            Ok(of(bits, bits_of(lua, &all, 1, name)? as u32 & 31))
        });
        bit.raw_set(name, function?)?;
    }
    bit.raw_set("tohex", lua.create_function(to_hex)?)?;
    Ok(bit)
}

/// `bit.tohex`
fn to_hex(lua: &Lua, all: MultiValue) -> Result<String> {
    let bits = bits_of(lua, &all, 0, "tohex")?;
    let digits = if all.len() > 1 { bits_of(lua, &all, 1, "tohex")? } else { 8 };
    let hex = format!("{:08x}", bits as u32);
    let shown = &hex[8 - digits.unsigned_abs().min(8) as usize..];
    Ok(if digits < 0 { shown.to_ascii_uppercase() } else { shown.to_owned() })
}
