//! Calls of commands within the transaction of a script or a procedure.
//!
//! Invariants:
//! - A call reads and writes in the transaction of its script, so all calls commit together or not at all.
//! - An error of the engine ends the transaction: no call succeeds afterwards.
//! - Every call passes [`CommandCalls::check`]: unknown commands, commands that no script may call, and writes of a
//!   script that only reads are refused.
//!
//! Neighbours: scripts and procedures call; the served program finds the commands.

use ensile::{Error, Transaction};
use ensile_resp::{Request, integer};
use ensile_serving::command::{CommandInfo, is_called};
use ensile_serving::{NewReply, ServedProgram as _, all_commands};

use crate::access::{self, User};
use crate::blocking::LookTerms;
use crate::channels::LoopChannels;
use crate::command::{CommandFunction, MISSING};
use crate::commands::{CommandError, DataCall};
use crate::effects::Effects;
use crate::model::keyspace::check_copies;
use crate::model::{DATABASES, Keyspace};
use crate::scripts::{CallRefusal, CommandHost, RunTimes, ScriptArguments};
use crate::served_database::{ScriptCall, ServedDatabase};

/// The transaction of a script or a procedure, and the state of its calls.
#[derive(Debug)]
pub(super) struct CommandCalls<'c, 'db> {
    pub(super) server: &'c ServedDatabase,
    /// The user whose rights each command needs.
    pub(super) user: &'c User,
    pub(super) tx: &'c mut Transaction<'db>,
    /// Effects of the transaction, which take place after the commit (J1).
    effects: &'c mut Effects,
    channels: &'c LoopChannels,
    /// Number of the database.
    pub(super) database: u32,
    /// Stripe of the counts that this loop changes.
    pub(super) stripe: u32,
    /// Time of the attempt in milliseconds since 1970.
    pub(super) now_millis: i64,
    /// True if writes are refused.
    pub(super) is_read_only: bool,
    /// True if a command that writes was carried out.
    pub(super) has_written: bool,
    /// Bytes of values that the calls have copied.
    pub(super) copied_bytes: usize,
    /// Error of the engine that ended the transaction.
    pub(super) failed: Option<Error>,
}

impl<'db> CommandHost<'db> for CommandCalls<'_, 'db> {
    fn call(&mut self, request: Request<'_>, reply: &mut NewReply<'_>) -> Result<(), CallRefusal> {
        debug_assert!(reply.is_empty(), "a call begins a reply");
        if self.failed.is_some() {
            return Err(CallRefusal::Ended);
        }
        let name = request.get(0).unwrap_or_default();
        let Some(command) = ServedDatabase::find_command(name) else {
            return self.call_common(request, reply);
        };
        self.check(&command.info, request)?;
        match command.info.name {
            "TIME" => {
                reply_time(self.now_millis, reply);
                return Ok(());
            }
            "PING" => {
                reply_ping(request, reply);
                return Ok(());
            }
            _ => {}
        }
        let CommandFunction::Data(function) = command.function else {
            return Err(refusal("This Redis command is not allowed from script"));
        };
        let before = self.effects.mark();
        let keyspace = Keyspace::new(
            self.tx,
            self.server.model(),
            self.effects,
            self.database,
            self.stripe,
            self.now_millis,
        );
        let mut data = DataCall { keyspace, request, channels: self.channels, look: LookTerms::IN_SCRIPT };
        let ran = reply.write(|reply| function(&mut data, reply));
        self.copied_bytes += data.keyspace.copied_bytes;
        if ran.is_err() {
            self.effects.back_to(before);
        }
        if let Err(error) = check_copies(self.copied_bytes) {
            return Err(self.end(error));
        }
        self.has_written |= ran.is_ok() && command.info.has_flag("write");
        match ran {
            Ok(()) if reply.is_beyond() => {
                reply.limit();
                Err(CallRefusal::Reply(error_text(reply)))
            }
            Ok(()) => Ok(()),
            Err(CommandError::Engine(error)) => Err(self.end(error)),
            Err(error) => Err(CallRefusal::Reply(format!("{} {}", error.code(), error.text()).into_bytes())),
        }
    }

    fn transaction(&mut self) -> Result<&mut Transaction<'db>, &'static str> {
        if self.is_read_only {
            return Err("ERR a procedure that only reads has commands only, and no transaction");
        }
        if !self.user.is_unlimited() {
            return Err("NOPERM the user of the procedure has no right to the whole transaction");
        }
        // The procedure may write.
        self.has_written = true;
        Ok(self.tx)
    }
}

impl<'c, 'db> CommandCalls<'c, 'db> {
    /// Calls within the transaction of a request.
    pub(super) fn new(call: &'c mut ScriptCall<'_, 'db>, is_read_only: bool) -> Self {
        Self {
            server: call.server,
            user: call.user,
            tx: call.tx,
            effects: &mut call.loop_state.effects,
            channels: &call.loop_state.channels,
            database: call.database,
            stripe: call.loop_state.stripe,
            now_millis: call.now_millis,
            is_read_only,
            has_written: false,
            copied_bytes: 0,
            failed: None,
        }
    }

    /// Checks that the script may call the command.
    fn check(&self, command: &CommandInfo, request: Request<'_>) -> Result<(), CallRefusal> {
        if !command.takes(request.len()) {
            return Err(refusal("Wrong number of args calling Redis command from script"));
        }
        if command.summary == MISSING {
            let name = command.name;
            return Err(refusal(&format!("{name} is not available in this version of ensile")));
        }
        if command.has_flag("noscript") {
            return Err(refusal("This Redis command is not allowed from script"));
        }
        let has_wrong_subcommand = !command.subcommands.is_empty()
            && command
                .subcommand_of(request)
                .is_none_or(|subcommand| !takes(subcommand.arity, request.len()));
        if has_wrong_subcommand {
            return Err(refusal("Unknown subcommand or wrong number of arguments from script"));
        }
        let writes = command.has_flag("write") || matches!(command.name, "PUBLISH" | "SPUBLISH");
        if self.is_read_only && writes {
            return Err(refusal("Write commands are not allowed from read-only scripts."));
        }
        access::check(self.user, command, request).map_err(|refused| {
            CallRefusal::Reply(format!("NOPERM {}", refused.text_in_script()).into_bytes())
        })
    }

    /// Carries out a command of every server, as far as a transaction has the command.
    #[cold]
    fn call_common(&mut self, request: Request<'_>, reply: &mut NewReply<'_>) -> Result<(), CallRefusal> {
        let name = request.get(0).unwrap_or_default();
        let Some(command) = all_commands::<ServedDatabase>().find(|command| is_called(name, command.name))
        else {
            return Err(refusal("Unknown Redis command called from script"));
        };
        self.check(command, request)?;
        let argument = request.get(1);
        match command.name {
            "ECHO" => reply.write(|reply| reply.bulk(argument.unwrap_or_default())),
            "SELECT" => {
                let number = integer(argument.unwrap_or_default())
                    .ok_or_else(|| refusal("value is not an integer or out of range"))?;
                let database = u32::try_from(number).ok().filter(|number| *number < DATABASES);
                self.database = database.ok_or_else(|| refusal("DB index is out of range"))?;
                reply.write(|reply| reply.simple("OK"));
            }
            _ => return Err(refusal("This Redis command is not allowed from script")),
        }
        Ok(())
    }

    fn end(&mut self, error: Error) -> CallRefusal {
        self.failed = Some(error);
        CallRefusal::Ended
    }
}

/// True if a request of this length has the number of arguments.
fn takes(arity: i64, length: usize) -> bool {
    let least = usize::try_from(arity.unsigned_abs()).unwrap_or(usize::MAX);
    if arity < 0 { length >= least } else { length == least }
}

/// An argument of a request.
pub(super) fn argument<'c>(call: &ScriptCall<'c, '_>, at: usize) -> &'c [u8] {
    call.request.get(at).unwrap_or_default()
}

/// The keys and arguments behind the number of keys, the request's third word.
pub(super) fn script_arguments<'c>(call: &ScriptCall<'c, '_>) -> Result<ScriptArguments<'c>, CommandError> {
    let count = integer(argument(call, 2)).ok_or(CommandError::NotInteger)?;
    let behind = call.request.len().saturating_sub(3);
    if count < 0 {
        return Err(CommandError::Text("Number of keys can't be negative"));
    }
    let Some(count) = usize::try_from(count).ok().filter(|count| *count <= behind) else {
        return Err(CommandError::Text("Number of keys can't be greater than number of args"));
    };
    debug_assert!(count + 3 <= call.request.len(), "the keys are arguments");
    let words = || call.request.iter().skip(3);
    Ok(ScriptArguments {
        keys: words().take(count).collect(),
        arguments: words().skip(count).collect(),
        times: RunTimes {
            request_millis: call.loop_state.request_millis,
            ..call.server.script_times().now()
        },
    })
}

/// An error with the code `ERR`.
fn refusal(text: &str) -> CallRefusal {
    CallRefusal::Reply(format!("ERR {text}").into_bytes())
}

/// Text of a written error, without its first byte and its line end.
fn error_text(reply: &NewReply<'_>) -> Vec<u8> {
    let written = reply.written_bytes();
    debug_assert!(written.starts_with(b"-"), "the reply is an error");
    written.get(1..written.len().saturating_sub(2)).unwrap_or_default().to_vec()
}

/// `TIME` of an attempt: seconds since 1970, and microseconds.
fn reply_time(now_millis: i64, reply: &mut NewReply<'_>) {
    reply.write(|reply| {
        reply.array(2);
        reply.bulk((now_millis / 1000).to_string().as_bytes());
        reply.bulk((now_millis % 1000 * 1000).to_string().as_bytes());
    });
}

fn reply_ping(request: Request<'_>, reply: &mut NewReply<'_>) {
    match request.get(1) {
        Some(text) => reply.write(|reply| reply.bulk(text)),
        None => reply.write(|reply| reply.simple("PONG")),
    }
}
