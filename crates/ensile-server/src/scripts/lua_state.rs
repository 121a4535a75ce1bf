//! The Lua state of a loop: compiled scripts, and runs of scripts.
//!
//! Invariants:
//! - A state has [`LUA_BYTES_MAX`] at most. A run that leaves more than [`KEEP_BYTES_MAX`] is the state's last run.
//! - A panic within a run drops the state, so no run finds a half-changed state.
//! - Nothing of a run is visible to the next run: `sandbox.lua`.
//!
//! Neighbours: `script_calls` runs scripts, and carries out their commands.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use ensile_resp::{ReplyDecoder, ReplyLimits, RequestBuffer, RespVersion};
use ensile_serving::{LoopPoll, NewReply, REPLY_BYTES};
use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, MultiValue, Result, StdLib, Value, VmState};

use super::command_host::{CallRefusal, CommandHost};
use super::libraries::{RunState, server_table};
use super::library_parts::{LUA_BYTES_MAX, LiftedLimit, STRING_BYTES, new_string};
use super::number_text::general;
use super::raised::{SCRIPT_NAME, early_end, raise_reply, reason_of, reply_text};
use super::run_guard::{LoopScripts, RunEnd, RunGuard, end_error};
use super::script_cache::{ScriptHash, hash_of};
use super::script_times::RunTimes;
use super::script_values::{NoReply, ValueWriter, value_of};
use super::shebang::ScriptSource;
use crate::calendar::Calendar;

/// Memory of a state that stays from run to run, in bytes.
const KEEP_BYTES_MAX: usize = 32 << 20;
/// Largest length of the sources of a state's compiled scripts in bytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// Largest number of a state's compiled scripts. Each has a place of mlua's 8,000, and calls need most of the places.
const COMPILED_MAX: usize = 500;
/// Largest length of the arguments of a call in bytes.
const CALL_BYTES_MAX: usize = 64 << 20;
/// Memory for requests and replies of calls that stays from run to run, in bytes.
const KEPT_CALL_BYTES: usize = 64 << 10;
/// Number of instructions between two looks at the limits.
const INSTRUCTIONS: u32 = 10_000;

/// Lua of a loop.
#[derive(Debug)]
pub(crate) struct LuaState {
    lua: Lua,
    /// Runs a script with new globals.
    run: Function,
    guard: Rc<RunGuard>,
    state: Rc<RunState>,
    compiled: HashMap<ScriptHash, CompiledScript>,
    /// Length of the compiled scripts' sources in bytes.
    compiled_bytes: usize,
    buffers: CallBuffers,
    /// Begin of the newest run in milliseconds, of the steady clock.
    pub(crate) begun_millis: u64,
    /// Generation of the cache of sources that the compiled scripts are of.
    generation: u64,
}

/// A script that a state can run.
#[derive(Clone, Debug)]
pub(crate) struct CompiledScript {
    function: Function,
    /// True if the script's options permit no write.
    pub(crate) is_read_only: bool,
    /// True if the script has options.
    pub(crate) has_options: bool,
}

/// Arguments of a script.
#[derive(Debug)]
pub(crate) struct ScriptArguments<'r> {
    pub(crate) keys: Vec<&'r [u8]>,
    pub(crate) arguments: Vec<&'r [u8]>,
    pub(crate) times: RunTimes,
}

/// End of a run that is no reply.
#[derive(Debug)]
pub(crate) enum RunFailure {
    /// The script has raised an error: text of the reply, with its code.
    Raised(Vec<u8>),
    /// `SCRIPT KILL`, or the limit of time: text of the reply, with its code.
    Stopped(Vec<u8>),
    /// The transaction has ended, and the host has the error.
    Ended,
}

impl LuaState {
    /// A new state.
    ///
    /// # Errors
    /// Lua has no memory.
    pub(crate) fn new(
        scripts: &Arc<LoopScripts>,
        poll: &LoopPoll,
        calendar: Calendar,
        redis_version: &str,
    ) -> Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        lua.set_memory_limit(LUA_BYTES_MAX)?;
        let state = Rc::new(RunState::new(calendar.millis()));
        let guard = Rc::new(RunGuard::new(Arc::clone(scripts), poll.clone(), calendar));
        let sandbox = lua.load(include_str!("sandbox.lua")).set_name("@sandbox").set_mode(ChunkMode::Text);
        let run = sandbox.call(server_table(&lua, &guard, &state, redis_version)?)?;
        let of_hook = Rc::clone(&guard);
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(INSTRUCTIONS), move |_, _| {
            if of_hook.look() { Err(end_error()) } else { Ok(VmState::Continue) }
        })?;
        Ok(Self {
            lua,
            run,
            guard,
            state,
            compiled: HashMap::new(),
            compiled_bytes: 0,
            buffers: CallBuffers::default(),
            begun_millis: 0,
            generation: 0,
        })
    }

    /// The compiled script, if this state has compiled the script since the last emptying of the cache.
    pub(crate) fn compiled(&mut self, hash: &ScriptHash, generation: u64) -> Option<CompiledScript> {
        if self.generation != generation {
            self.forget_compiled();
            self.generation = generation;
        }
        self.compiled.get(hash).cloned()
    }

    fn forget_compiled(&mut self) {
        self.compiled.clear();
        self.compiled_bytes = 0;
    }

    /// Compiles a script.
    ///
    /// # Errors
    /// Text of the reply: wrong options, or Lua's text.
    pub(crate) fn compile(
        &mut self,
        hash: ScriptHash,
        source: &[u8],
    ) -> std::result::Result<CompiledScript, Vec<u8>> {
        let ScriptSource { code, has_options, is_read_only } =
            ScriptSource::read(source).map_err(String::into_bytes)?;
        if self.compiled.len() == COMPILED_MAX || self.compiled_bytes + source.len() > COMPILED_BYTES_MAX {
            self.forget_compiled();
        }
        let chunk = self.lua.load(code).set_name(SCRIPT_NAME).set_mode(ChunkMode::Text);
        let function = chunk.into_function().map_err(|error| {
            let text = match error {
                mlua::Error::SyntaxError { message, .. } => message,
                other => other.to_string(),
            };
            format!("Error compiling script (new function): {text}").into_bytes()
        })?;
        self.compiled_bytes += source.len();
        debug_assert_eq!(hash, hash_of(source), "a script is compiled by its own hash");
        let compiled = CompiledScript { function, is_read_only, has_options };
        self.compiled.insert(hash, compiled.clone());
        Ok(compiled)
    }

    /// True if the state is small enough for a further run.
    pub(crate) fn stays(&self) -> bool {
        let bytes = self.lua.used_memory();
        let stays = bytes <= KEEP_BYTES_MAX;
        self.guard.scripts.set_lua_bytes(if stays { bytes } else { 0 });
        stays
    }

    /// Runs a script, and writes its value as the reply.
    ///
    /// # Errors
    /// [`RunFailure`]: the reply is not written, and the transaction is to be rolled back.
    pub(crate) fn run(
        &mut self,
        script: &CompiledScript,
        given: &ScriptArguments<'_>,
        host: &mut dyn CommandHost<'_>,
        reply: &mut NewReply<'_>,
    ) -> std::result::Result<(), RunFailure> {
        debug_assert!(reply.is_empty(), "a run begins a reply");
        self.begun_millis = self.guard.begin(given.times);
        self.state.begin();
        let mut buffers = std::mem::take(&mut self.buffers);
        let ran = self.run_limited(script, given, host, &mut buffers, reply);
        self.buffers = buffers.for_next_run();
        let end = self.guard.finish();
        let why = match (end, ran) {
            (None, Ok(Ran::Replied)) => return Ok(()),
            (None, Ok(Ran::Raised(text))) => return Err(RunFailure::Raised(text)),
            (None, Ok(Ran::TooDeep)) => {
                return Err(RunFailure::Raised(
                    b"ERR reached lua stack limit: a reply has 30 levels of tables at most".to_vec(),
                ));
            }
            (Some(why), _) => why,
            (None, Err(error)) => reason_of(&error),
        };
        match why {
            RunEnd::TransactionEnded => Err(RunFailure::Ended),
            RunEnd::Killed => {
                Err(RunFailure::Stopped(b"ERR Script killed by user with SCRIPT KILL...".to_vec()))
            }
            RunEnd::TooLong(millis) => Err(RunFailure::Stopped(
                format!(
                    "ERR the script has run longer than script-time-limit ({millis} ms), and is rolled back"
                )
                .into_bytes(),
            )),
            RunEnd::ServerEnds => Err(RunFailure::Stopped(
                b"ERR the server ends, and the script is rolled back: send it again once the server runs"
                    .to_vec(),
            )),
            RunEnd::MemoryFull => Err(self.raised(&format!(
                "the script needs more than {LUA_BYTES_MAX} bytes of memory, and is rolled back"
            ))),
            RunEnd::Failed(text) => Err(self.raised(&text)),
        }
    }

    fn raised(&self, text: &str) -> RunFailure {
        RunFailure::Raised(format!("ERR {text}").into_bytes())
    }

    /// Lifts the limit of the memory, if the arguments are small.
    fn lift_for(&self, given: &ScriptArguments<'_>) -> Option<LiftedLimit<'_>> {
        let texts = given.keys.iter().chain(&given.arguments);
        LiftedLimit::new(&self.lua, texts.map(|text| text.len() + STRING_BYTES).sum())
    }

    fn run_limited(
        &self,
        script: &CompiledScript,
        given: &ScriptArguments<'_>,
        host: &mut dyn CommandHost<'_>,
        buffers: &mut CallBuffers,
        reply: &mut NewReply<'_>,
    ) -> Result<Ran> {
        let lua = &self.lua;
        let (caller, lifted) =
            (RefCell::new(Caller { host, state: &self.state, buffers }), self.lift_for(given));
        let strings = |all: &[&[u8]]| {
            let table = lua.create_table_with_capacity(all.len(), 0)?;
            for (at, text) in all.iter().enumerate() {
                table.raw_set(at + 1, lua.create_string(text)?)?;
            }
            Ok::<_, mlua::Error>(table)
        };
        let (keys, arguments) = (strings(&given.keys)?, strings(&given.arguments)?);
        let result: (bool, Value) = lua.scope(|scope| {
            let call = scope.create_function(|lua, all: MultiValue| {
                self.guard.check()?;
                match caller.borrow_mut().call(lua, &all)? {
                    Called::Value(value) => Ok(value),
                    Called::Refused(text) => Err(raise_reply(text)),
                    Called::Ended => Err(self.end_run()),
                }
            })?;
            drop(lifted);
            self.run.call((&script.function, call, keys, arguments))
        })?;
        let (is_done, value) = result;
        if !is_done {
            if let Some(reason) = early_end(&value) {
                self.guard.end(reason);
            }
            return Ok(Ran::Raised(reply_text(&value, self.guard.line())));
        }
        let (version, script_version) = (reply.version(), self.state.version.get());
        let guard = &self.guard;
        let written =
            reply.write(|reply| ValueWriter { reply, version, script_version, guard }.write(&value, 0));
        match written {
            Ok(()) | Err(NoReply::Beyond) if reply.is_beyond() => Ok(Ran::Raised(
                format!("ERR the reply would be longer than {REPLY_BYTES} bytes: ask for less at once")
                    .into_bytes(),
            )),
            Ok(()) | Err(NoReply::Beyond) => Ok(Ran::Replied),
            Err(NoReply::Levels) => Ok(Ran::TooDeep),
            Err(NoReply::Lua(error)) => Err(error),
        }
    }

    fn end_run(&self) -> mlua::Error {
        self.guard.end(RunEnd::TransactionEnded);
        end_error()
    }

    /// Line of the script at which the newest error was raised.
    pub(crate) fn line(&self) -> Option<usize> {
        self.guard.line()
    }
}

/// A script that has run.
enum Ran {
    /// The value is written as the reply.
    Replied,
    /// The script has raised an error with this text.
    Raised(Vec<u8>),
    /// The value has too many levels of tables.
    TooDeep,
}

/// Outcome of `redis.call` and `redis.pcall`.
enum Called {
    Value(Value),
    /// The command was refused, with this text.
    Refused(Vec<u8>),
    /// The transaction has ended.
    Ended,
}

/// The request and the reply of a command that a script calls.
#[derive(Debug, Default)]
struct CallBuffers {
    request: RequestBuffer,
    /// Reply of the newest command.
    written: Vec<u8>,
}

impl CallBuffers {
    /// The buffers for the next run; new buffers in place of large ones.
    fn for_next_run(self) -> Self {
        let bytes = self.request.capacity_bytes() + self.written.capacity();
        if bytes <= KEPT_CALL_BYTES { self } else { Self::default() }
    }
}

/// Calls of commands from a run.
struct Caller<'s, 'h, 'db> {
    host: &'h mut dyn CommandHost<'db>,
    state: &'s RunState,
    buffers: &'s mut CallBuffers,
}

impl Caller<'_, '_, '_> {
    fn call(&mut self, lua: &Lua, all: &MultiValue) -> Result<Called> {
        self.buffers.request.clear();
        let texts = all.iter().filter_map(Value::as_string);
        if texts.map(|text| text.as_bytes().len()).sum::<usize>() > CALL_BYTES_MAX {
            let text = format!("ERR the arguments of a call have {CALL_BYTES_MAX} bytes at most");
            return Ok(Called::Refused(text.into_bytes()));
        }
        for argument in all {
            let is_pushed = match argument {
                Value::String(text) => self.buffers.request.push(&text.as_bytes()),
                Value::Integer(number) => self.buffers.request.push(number.to_string().as_bytes()),
                Value::Number(number) => self.buffers.request.push(general(*number, 17).as_bytes()),
                _ => {
                    let text = "ERR Lua redis lib command arguments must be strings or integers";
                    return Ok(Called::Refused(text.into()));
                }
            };
            if !is_pushed {
                return Ok(Called::Refused(b"ERR the arguments are too long".to_vec()));
            }
        }
        let Some(request) = self.buffers.request.request() else {
            let text = "ERR Please specify at least one argument for this redis lib call";
            return Ok(Called::Refused(text.into()));
        };
        self.buffers.written.clear();
        let version = self.state.version.get();
        let mut reply = NewReply::new(&mut self.buffers.written, REPLY_BYTES, version);
        match self.host.call(request, &mut reply) {
            Ok(()) => {}
            Err(CallRefusal::Reply(text)) => return Ok(Called::Refused(text)),
            Err(CallRefusal::Ended) => return Ok(Called::Ended),
        }
        Ok(Called::Value(self.value(lua, version)?))
    }

    /// The written reply as a value of Lua.
    fn value(&self, lua: &Lua, version: RespVersion) -> Result<Value> {
        let _lifted = LiftedLimit::new(lua, self.buffers.written.len());
        // The frequent replies need no list of elements.
        if let [b'$', digits @ .., b'\r', b'\n'] = self.buffers.written.as_slice()
            && let Some(end) = digits.iter().position(|byte| *byte == b'\r')
            && digits.get(end + 1) == Some(&b'\n')
        {
            return new_string(lua, &digits[end + 2..]).map(Value::String);
        }
        let mut decoder = ReplyDecoder::new(ReplyLimits::default());
        match decoder.decode(&self.buffers.written) {
            Ok(Some(decoded)) => value_of(lua, decoded.reply(), version),
            Ok(None) | Err(_) => {
                debug_assert!(false, "a command writes one reply");
                Err(raise_reply("ERR the command's reply cannot be read"))
            }
        }
    }
}
