//! `FCALL`, and the `FUNCTION` command.
//!
//! Invariant: a procedure runs in the transaction of its request, or of its queue; after an error it has no effect.
//!
//! Neighbours: `scripts` has the procedures; `execution` begins and commits the transaction.

use ensile_resp::ReplyEncoder;
use ensile_serving::command::is_called;
use ensile_serving::{ANSWERED, NewReply, Outcome, REPLY_BYTES};

use super::command_calls::{CommandCalls, argument, script_arguments};
use crate::commands::{CommandError, CommandResult, RaisedError};
use crate::scripts::{ProcedureCall, ProcedureError};
use crate::served_database::{ScriptCall, ServedCall};

/// Largest number of levels of nested values in a reply. Clients read as many.
const LEVELS_MAX: usize = 30;

/// `FCALL name numkeys key .. argument ..`, `FCALL_RO ..`
pub(crate) fn call_procedure(call: &mut ScriptCall<'_, '_>, reply: &mut NewReply<'_>) -> CommandResult {
    let Some(procedure) = call.server.procedures().get(argument(call, 1)).cloned() else {
        return Err(CommandError::Text("Function not found"));
    };
    let given = script_arguments(call)?;
    let is_read_only = is_called(argument(call, 0), "FCALL_RO");
    let mut calls = CommandCalls::new(call, is_read_only);
    let result = procedure(&mut ProcedureCall::new(given, &mut calls));
    let CommandCalls { has_written, copied_bytes, failed, .. } = calls;
    call.copied_bytes = copied_bytes;
    if let Some(error) = failed {
        return Err(CommandError::Engine(error));
    }
    let raised = |text: String| {
        Err(CommandError::Raised(RaisedError { line: text.into_bytes(), has_written, is_final: false }))
    };
    match result {
        Ok(value) if value.levels(LEVELS_MAX + 1) > LEVELS_MAX => {
            raised(format!("ERR a reply has {LEVELS_MAX} levels at most"))
        }
        Ok(value) => {
            reply.write(|reply| value.write(reply));
            if reply.is_beyond() {
                return raised(format!(
                    "ERR the reply would be longer than {REPLY_BYTES} bytes: ask for less at once"
                ));
            }
            Ok(())
        }
        Err(ProcedureError::Reply(text)) => raised(text),
        Err(ProcedureError::Engine(error)) => Err(CommandError::Engine(error)),
        Err(ProcedureError::Ended) => raised("ERR the procedure has ended without a reason".to_owned()),
    }
}

/// `FUNCTION FLUSH | LIST | LOAD`: functions are the program's procedures, which no client loads or drops.
pub(crate) fn function(call: ServedCall<'_>, reply: &mut NewReply<'_>) -> Outcome {
    let subcommand = call.request.get(1).unwrap_or_default();
    if is_called(subcommand, "FLUSH") {
        reply.write(|reply| reply.simple("OK"));
    } else if is_called(subcommand, "LIST") {
        let names = call.server.service().procedures().names();
        reply.write(|reply| {
            reply.array(names.len());
            names.for_each(|name| list(name, reply));
        });
    } else {
        reply.fail("ERR", "FUNCTION LOAD is not available in this version of ensile");
    }
    ANSWERED
}

/// A procedure as a library of redis with one function.
fn list(name: &str, reply: &mut ReplyEncoder<'_>) {
    reply.map(3);
    reply.bulk(b"library_name");
    reply.bulk(name.as_bytes());
    reply.bulk(b"engine");
    reply.bulk(b"RUST");
    reply.bulk(b"functions");
    reply.array(1);
    reply.map(3);
    reply.bulk(b"name");
    reply.bulk(name.as_bytes());
    reply.bulk(b"description");
    reply.null();
    reply.bulk(b"flags");
    reply.set(0);
}
