//! Libraries of scripts: redis' own functions, random numbers.
//!
//! Neighbours: `sandbox.lua` shows the libraries to scripts; `bits`, `json` and `message_pack` have further libraries.

use std::cell::Cell;
use std::rc::Rc;

use ensile_resp::RespVersion;
use mlua::{Lua, MultiValue, Result, Table, Value};

use super::library_parts::{add_missing, new_string, number};
use super::raised::{caught, raise, raise_reply, script_line};
use super::run_guard::RunGuard;
use super::script_cache::{hash_of, hex_of};
use super::{bits, json, message_pack};

/// State of a run that functions of the libraries change.
#[derive(Debug, Default)]
pub(super) struct RunState {
    /// Version of the replies to commands of the script.
    pub(super) version: Cell<RespVersion>,
    /// State of the random numbers, 48 bits.
    random: Cell<u64>,
    /// State of the seeds of runs.
    seeds: Cell<u64>,
}

impl RunState {
    /// State whose runs draw random numbers by this seed.
    pub(super) fn new(seed: u64) -> Self {
        Self { seeds: Cell::new(seed), ..Self::default() }
    }

    /// Begins a run: each run draws other random numbers, whatever seed a run before has set.
    pub(super) fn begin(&self) {
        self.version.set(RespVersion::Resp2);
        let next = self.seeds.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.seeds.set(next);
        self.seed((next >> 32) as u32);
    }

    fn seed(&self, seed: u32) {
        self.random.set((u64::from(seed) << 16) | 0x330E);
    }

    /// A number from 0 to below 1, by redis' generator.
    fn random(&self) -> f64 {
        const BITS: u64 = (1 << 48) - 1;
        let next = self.random.get().wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & BITS;
        self.random.set(next);
        let drawn = next >> 17;
        const RANDOM_MAX: u64 = i32::MAX as u64;
        let number = (drawn % RANDOM_MAX) as f64 / RANDOM_MAX as f64;
        debug_assert!((0.0..1.0).contains(&number), "the number is within its range");
        number
    }
}

/// The functions and libraries that the sandbox gets.
pub(super) fn server_table(
    lua: &Lua,
    guard: &Rc<RunGuard>,
    state: &Rc<RunState>,
    redis_version: &str,
) -> Result<Table> {
    let server = lua.create_table()?;
    let of_caught = Rc::clone(guard);
    server
        .raw_set("caught", lua.create_function(move |lua, error: Value| caught(lua, &of_caught, error))?)?;
    let of_line = Rc::clone(guard);
    server.raw_set(
        "note_line",
        lua.create_function(move |lua, error: Value| {
            of_line.note_line(script_line(lua));
            Ok(error)
        })?,
    )?;
    let of_look = Rc::clone(guard);
    server.raw_set("look", lua.create_function(move |_, ()| of_look.check())?)?;
    let of_repeat = Rc::clone(guard);
    server.raw_set(
        "rep",
        lua.create_function(move |lua, arguments| {
            of_repeat.check()?;
            repeat(lua, &arguments)
        })?,
    )?;
    let of_random = Rc::clone(state);
    server.raw_set(
        "random",
        lua.create_function(move |lua, limits| random_within(lua, &of_random, &limits))?,
    )?;
    let of_seed = Rc::clone(state);
    server.raw_set(
        "randomseed",
        lua.create_function(move |lua, seed: Value| {
            let seed = number(&seed)
                .ok_or_else(|| raise(lua, "bad argument #1 to 'randomseed' (number expected)"))?;
            of_seed.seed(seed as i64 as u32);
            Ok(())
        })?,
    )?;
    let libraries = lua.create_table()?;
    libraries.raw_set("redis", redis_library(lua, guard, state, redis_version)?)?;
    libraries.raw_set("bit", bits::library(lua)?)?;
    libraries.raw_set("cjson", json::library(lua, guard)?)?;
    libraries.raw_set("cmsgpack", message_pack::library(lua, guard)?)?;
    let structs = lua.create_table()?;
    add_missing(lua, &structs, "struct", &["pack", "unpack", "size"])?;
    libraries.raw_set("struct", structs)?;
    server.raw_set("libraries", libraries)?;
    Ok(server)
}

/// Longest result of `string.rep` in bytes.
const REPEATED_BYTES_MAX: usize = 64 << 20;

/// `string.rep`
fn repeat(lua: &Lua, arguments: &MultiValue) -> Result<Value> {
    let wrong = |at: usize, expected: &str| {
        let got = arguments.get(at - 1).map_or("no value", Value::type_name);
        raise(lua, &format!("bad argument #{at} to 'rep' ({expected} expected, got {got})"))
    };
    let text = match arguments.front() {
        Some(Value::String(text)) => text.clone(),
        Some(number @ (Value::Integer(_) | Value::Number(_))) => {
            lua.coerce_string(number.clone())?.ok_or_else(|| wrong(1, "string"))?
        }
        _ => return Err(wrong(1, "string")),
    };
    let times = arguments.get(1).and_then(number).ok_or_else(|| wrong(2, "number"))?;
    let times = if times > 0.0 { times as usize } else { 0 };
    let bytes = text.as_bytes();
    if bytes.len().saturating_mul(times) > REPEATED_BYTES_MAX {
        return Err(raise(lua, &format!("the result of string.rep has {REPEATED_BYTES_MAX} bytes at most")));
    }
    let times = if bytes.is_empty() { 0 } else { times };
    new_string(lua, &bytes.repeat(times)).map(Value::String)
}

/// `math.random`
fn random_within(lua: &Lua, state: &RunState, limits: &MultiValue) -> Result<f64> {
    let limit = |at: usize| {
        limits
            .get(at)
            .and_then(number)
            .ok_or_else(|| raise(lua, &format!("bad argument #{} to 'random' (number expected)", at + 1)))
    };
    let (low, high) = match limits.len() {
        0 => return Ok(state.random()),
        1 => (1.0, limit(0)?),
        2 => (limit(0)?, limit(1)?),
        _ => return Err(raise(lua, "wrong number of arguments")),
    };
    if low > high {
        return Err(raise(lua, &format!("bad argument #{} to 'random' (interval is empty)", limits.len())));
    }
    Ok((state.random() * (high - low + 1.0)).floor() + low)
}

/// Longest line that a script writes to the log, in bytes.
const LOG_BYTES_MAX: usize = 1024;
/// Lowest level that is written: `redis.LOG_NOTICE`.
const LOG_LEVEL: f64 = 2.0;

fn redis_library(
    lua: &Lua,
    guard: &Rc<RunGuard>,
    state: &Rc<RunState>,
    redis_version: &str,
) -> Result<Table> {
    let redis = lua.create_table()?;
    redis.raw_set("REDIS_VERSION", redis_version)?;
    let number_of_version =
        redis_version.split('.').fold(0, |all, part| (all << 8) | part.parse::<i64>().unwrap_or(0));
    redis.raw_set("REDIS_VERSION_NUM", number_of_version)?;
    for (level, name) in ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"].iter().enumerate() {
        redis.raw_set(*name, level)?;
    }
    for (name, flag) in
        [("REPL_NONE", 0), ("REPL_SLAVE", 1), ("REPL_REPLICA", 1), ("REPL_AOF", 2), ("REPL_ALL", 3)]
    {
        redis.raw_set(name, flag)?;
    }
    redis.raw_set("error_reply", lua.create_function(|lua, texts| reply_table(lua, "err", &texts))?)?;
    redis.raw_set("status_reply", lua.create_function(|lua, texts| reply_table(lua, "ok", &texts))?)?;
    let (of_hash, of_log) = (Rc::clone(guard), Rc::clone(guard));
    redis.raw_set(
        "sha1hex",
        lua.create_function(move |lua, arguments| {
            of_hash.check()?;
            sha1_hex(lua, &arguments)
        })?,
    )?;
    redis.raw_set(
        "log",
        lua.create_function(move |lua, arguments| {
            of_log.check()?;
            log(lua, &arguments)
        })?,
    )?;
    let of_version = Rc::clone(state);
    redis.raw_set(
        "setresp",
        lua.create_function(move |_, arguments: MultiValue| {
            if arguments.len() != 1 {
                return Err(raise_reply("ERR redis.setresp() requires one argument."));
            }
            let version = match arguments.front().and_then(number) {
                Some(2.0) => RespVersion::Resp2,
                Some(3.0) => RespVersion::Resp3,
                _ => return Err(raise_reply("ERR RESP version must be 2 or 3.")),
            };
            of_version.version.set(version);
            Ok(())
        })?,
    )?;
    // Scripts are replicated by their effects only, which is redis' rule since version 7.
    redis.raw_set("replicate_commands", lua.create_function(|_, _: MultiValue| Ok(true))?)?;
    redis.raw_set("set_repl", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    add_missing(lua, &redis, "redis", &["acl_check_cmd", "breakpoint", "debug"])?;
    Ok(redis)
}

/// `redis.error_reply`, `redis.status_reply`
fn reply_table(lua: &Lua, field: &str, texts: &MultiValue) -> Result<Table> {
    let table = lua.create_table_with_capacity(0, 1)?;
    let (1, Some(Value::String(text))) = (texts.len(), texts.front()) else {
        table.raw_set("err", "ERR wrong number or type of arguments")?;
        return Ok(table);
    };
    if field == "ok" {
        table.raw_set(field, text)?;
        return Ok(table);
    }
    let bytes = text.as_bytes();
    let line = bytes.strip_prefix(b"-").unwrap_or(&bytes);
    let code: &[u8] = if line.contains(&b' ') { b"" } else { b"ERR " };
    table.raw_set(field, lua.create_string([code, line].concat())?)?;
    Ok(table)
}

/// `redis.sha1hex`
fn sha1_hex(lua: &Lua, arguments: &MultiValue) -> Result<String> {
    if arguments.len() != 1 {
        return Err(raise_reply("ERR wrong number of arguments"));
    }
    let text = arguments.front().cloned().and_then(|value| lua.coerce_string(value).ok().flatten());
    let hash = match text {
        Some(text) => hash_of(&text.as_bytes()),
        None => hash_of(b""),
    };
    Ok(hex_of(&hash))
}

/// `redis.log`
fn log(lua: &Lua, arguments: &MultiValue) -> Result<()> {
    if arguments.len() < 2 {
        return Err(raise_reply("ERR redis.log() requires two arguments or more."));
    }
    let level = match arguments.front() {
        Some(Value::Integer(level)) => *level as f64,
        Some(Value::Number(level)) => *level,
        _ => return Err(raise_reply("ERR First argument must be a number (log level).")),
    };
    if !(0.0..=3.0).contains(&level) {
        return Err(raise_reply("ERR Invalid debug level."));
    }
    let mut line = Vec::new();
    for argument in arguments.iter().skip(1) {
        if let Some(text) = lua.coerce_string(argument.clone())? {
            line.extend_from_slice(if line.is_empty() { b"" } else { b" " });
            let text = text.as_bytes();
            line.extend_from_slice(&text[..text.len().min(LOG_BYTES_MAX)]);
        }
        if line.len() >= LOG_BYTES_MAX {
            break;
        }
    }
    if level >= LOG_LEVEL {
        line.truncate(LOG_BYTES_MAX);
        eprintln!("ensile-server: a script logs: {}", String::from_utf8_lossy(&line).escape_debug());
    }
    Ok(())
}
