//! `EVAL`, `EVALSHA`, and the `SCRIPT` command.
//!
//! Invariants:
//! - A script runs in the transaction of its request, or of its queue. After a conflict the script runs again, with new
//!   globals and in a new attempt's time.
//! - Q5: a script that raises an error, or that a limit ends, has no effect. A script that returns an error has its
//!   effect.
//!
//! Neighbours: `execution` begins and commits the transaction; `lua_state` runs the script.

use ensile_serving::command::is_called;
use ensile_serving::{ANSWERED, NewReply, Outcome};

use super::command_calls::{CommandCalls, argument, script_arguments};
use crate::admin::REDIS_VERSION;
use crate::commands::{CommandError, CommandResult, RaisedError};
use crate::scripts::{CompiledScript, LuaState, RunFailure, ScriptHash, hash_from, hash_of, hex_of};
use crate::served_database::{LoopData, ScriptCall, ServedCall, ServedDatabase};

/// `EVAL script numkeys key .. argument ..`, `EVAL_RO ..`
pub(crate) fn eval(call: &mut ScriptCall<'_, '_>, reply: &mut NewReply<'_>) -> CommandResult {
    let source = argument(call, 1);
    run(call, hash_of(source), Some(source), reply)
}

/// `EVALSHA sha1 numkeys key .. argument ..`, `EVALSHA_RO ..`
pub(crate) fn eval_hash(call: &mut ScriptCall<'_, '_>, reply: &mut NewReply<'_>) -> CommandResult {
    let hash = hash_from(argument(call, 1)).ok_or(CommandError::NoScript)?;
    run(call, hash, None, reply)
}

/// The compiled script of a hash. `source` is the script itself, if the request has the script.
fn compiled(
    server: &ServedDatabase,
    lua: &mut LuaState,
    hash: ScriptHash,
    source: Option<&[u8]>,
) -> Result<CompiledScript, CommandError> {
    let cache = server.script_cache();
    if let Some(compiled) = lua.compiled(&hash, cache.generation()) {
        return Ok(compiled);
    }
    let cached = if source.is_none() { cache.get(&hash) } else { None };
    let source = source.or(cached.as_deref()).ok_or(CommandError::NoScript)?;
    let compiled = lua.compile(hash, source).map_err(refused_source)?;
    // A script beyond the limit of the cache runs all the same.
    cache.insert(hash, source);
    Ok(compiled)
}

/// The error for a script that cannot be compiled.
fn refused_source(text: Vec<u8>) -> CommandError {
    CommandError::Raised(RaisedError {
        line: [b"ERR ", text.as_slice()].concat(),
        has_written: false,
        is_final: false,
    })
}

/// Takes the loop's state of Lua, or makes the state.
fn take_lua(server: &ServedDatabase, loop_state: &mut LoopData) -> Result<Box<LuaState>, CommandError> {
    let made = || {
        LuaState::new(&loop_state.scripts, &loop_state.poll, server.calendar().clone(), REDIS_VERSION)
            .map(Box::new)
    };
    loop_state
        .lua
        .take()
        .map_or_else(made, Ok)
        .map_err(|error| refused_source(error.to_string().into_bytes()))
}

/// Gives the state of Lua back for the next script. A panic before drops the state.
fn give_back(loop_state: &mut LoopData, lua: Box<LuaState>) {
    if lua.stays() {
        loop_state.lua = Some(lua);
    }
}

/// Runs a script, and replies its value.
fn run(
    call: &mut ScriptCall<'_, '_>,
    hash: ScriptHash,
    source: Option<&[u8]>,
    reply: &mut NewReply<'_>,
) -> CommandResult {
    let given = script_arguments(call)?;
    let mut lua = take_lua(call.server, call.loop_state)?;
    let script = match compiled(call.server, &mut lua, hash, source) {
        Ok(script) => script,
        Err(error) => {
            give_back(call.loop_state, lua);
            return Err(error);
        }
    };
    let is_read_only_call = argument(call, 0).to_ascii_uppercase().ends_with(b"_RO");
    if is_read_only_call && script.has_options && !script.is_read_only {
        give_back(call.loop_state, lua);
        return Err(CommandError::Text("Can not execute a script with write flag using *_ro command."));
    }
    let mut calls = CommandCalls::new(call, is_read_only_call || script.is_read_only);
    let ran = lua.run(&script, &given, &mut calls, reply);
    let CommandCalls { has_written, copied_bytes, failed, .. } = calls;
    call.copied_bytes = copied_bytes;
    let line = lua.line();
    call.loop_state.request_millis.get_or_insert(lua.begun_millis);
    give_back(call.loop_state, lua);
    match ran {
        Ok(()) => Ok(()),
        Err(RunFailure::Ended) => {
            debug_assert!(failed.is_some(), "a call has ended the transaction");
            Err(CommandError::Engine(failed.unwrap_or(ensile::Error::Conflict)))
        }
        Err(RunFailure::Stopped(text)) => {
            Err(CommandError::Raised(RaisedError { line: text, has_written, is_final: true }))
        }
        Err(RunFailure::Raised(mut text)) => {
            if let Some(line) = line {
                let place = format!(" script: {}, on @user_script:{line}.", hex_of(&hash));
                text.extend_from_slice(place.as_bytes());
            }
            Err(CommandError::Raised(RaisedError { line: text, has_written, is_final: false }))
        }
    }
}

/// Lines of `SCRIPT HELP`.
const HELP: [&str; 13] = [
    "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "EXISTS <sha1> [<sha1> ...]",
    "    Return information about the existence of the scripts in the script cache.",
    "FLUSH [ASYNC|SYNC]",
    "    Flush the Lua scripts cache. Very dangerous on replicas.",
    "    When called without the optional mode argument, the behavior is determined",
    "    by the lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the scripts cache.",
    "    * SYNC: Synchronously flush the scripts cache.",
    "KILL",
    "    Kill the currently executing Lua script.",
    "LOAD <script>",
    "    Load a script into the scripts cache without executing it.",
];

/// `SCRIPT LOAD | EXISTS | FLUSH | KILL | HELP`
pub(crate) fn script(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    let server = call.server.service();
    let subcommand = call.request.get(1).unwrap_or_default();
    if is_called(subcommand, "LOAD") {
        load(server, call.loop_state, call.request.get(2).unwrap_or_default(), reply);
    } else if is_called(subcommand, "EXISTS") {
        let cache = server.script_cache();
        let is_cached = |hex: &[u8]| hash_from(hex).is_some_and(|hash| cache.get(&hash).is_some());
        reply.write(|reply| {
            reply.array(call.request.len() - 2);
            call.request.iter().skip(2).for_each(|hex| reply.integer(i64::from(is_cached(hex))));
        });
    } else if is_called(subcommand, "FLUSH") {
        let mode = call.request.get(2);
        if mode.is_none_or(|mode| is_called(mode, "SYNC") || is_called(mode, "ASYNC"))
            && call.request.len() < 4
        {
            server.script_cache().clear();
            reply.write(|reply| reply.simple("OK"));
        } else {
            reply.fail("ERR", "SCRIPT FLUSH only support SYNC|ASYNC option");
        }
    } else if is_called(subcommand, "KILL") {
        kill(server, reply);
    } else if is_called(subcommand, "HELP") {
        reply.write(|reply| {
            reply.array(HELP.len());
            HELP.iter().for_each(|line| reply.simple(line));
        });
    } else {
        reply.fail("ERR", "SCRIPT DEBUG is not available in this version of ensile");
    }
    ANSWERED
}

/// `SCRIPT KILL`: ends the running scripts of all loops.
pub(crate) fn kill(server: &ServedDatabase, reply: &mut NewReply<'_>) {
    if server.kill_scripts() {
        reply.write(|reply| reply.simple("OK"));
    } else {
        reply.fail("NOTBUSY", "No scripts in execution right now.");
    }
}

/// `SCRIPT LOAD script`
fn load(server: &ServedDatabase, loop_state: &mut LoopData, source: &[u8], reply: &mut NewReply<'_>) {
    let hash = hash_of(source);
    let loaded = take_lua(server, loop_state).and_then(|mut lua| {
        let compiled = compiled(server, &mut lua, hash, Some(source));
        give_back(loop_state, lua);
        compiled
    });
    match loaded {
        // A script that this loop has compiled may be absent from the cache: the cache was full.
        Ok(_) if server.script_cache().insert(hash, source) => {
            reply.write(|reply| reply.bulk(hex_of(&hash).as_bytes()));
        }
        Ok(_) => reply.fail("ERR", "the script cache is full: SCRIPT FLUSH empties the cache"),
        Err(error) => error.reply(reply),
    }
}
