//! `MEMORY`: the bytes of a key's rows.
//!
//! Neighbours: the table of commands names the function; [`crate::model`] has the rows.

use ensile_resp::ReplyEncoder;
use ensile_serving::command::is_called;

use super::arguments::whole;
use super::{CommandError, CommandResult, DataCall};
use crate::model::stored_value::HEADER_BYTES_MAX;
use crate::model::{KEY_PREFIX_BYTES, objects};

/// Number of elements whose length is looked at without the option `SAMPLES`, as in redis.
const SAMPLES: usize = 5;

const HELP: [&str; 5] = [
    "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "USAGE <key> [SAMPLES <count>]",
    "    Return memory in bytes used by <key> and its value. Nested values are",
    "    sampled up to <count> times (default: 5, 0 means sample all).",
    "HELP",
];

/// `MEMORY USAGE key [SAMPLES count]`, `MEMORY HELP`. The request has a known subcommand, with the right number of
/// arguments.
pub(crate) fn memory(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    match call.argument(1).to_ascii_uppercase().as_slice() {
        b"USAGE" => usage(call, reply),
        b"HELP" => {
            reply.array(HELP.len() + 1);
            HELP.iter().for_each(|line| reply.simple(line));
            reply.simple("    Prints this help.");
            Ok(())
        }
        b"DOCTOR" => Err(CommandError::Missing("MEMORY DOCTOR")),
        b"MALLOC-STATS" => Err(CommandError::Missing("MEMORY MALLOC-STATS")),
        b"PURGE" => Err(CommandError::Missing("MEMORY PURGE")),
        subcommand => {
            debug_assert_eq!(subcommand, b"STATS", "the table names the subcommands");
            Err(CommandError::Missing("MEMORY STATS"))
        }
    }
}

fn usage(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let samples = match call.request.len() {
        3 => SAMPLES,
        5 if is_called(call.argument(3), "SAMPLES") => {
            usize::try_from(whole(call.argument(4))?).map_err(|_| CommandError::Syntax)?
        }
        _ => return Err(CommandError::Syntax),
    };
    let key = call.argument(2);
    let Some(summary) = call.keyspace.summary(key)? else {
        reply.null();
        return Ok(());
    };
    let mut bytes = KEY_PREFIX_BYTES + key.len() + HEADER_BYTES_MAX + summary.length;
    if let Some(object) = summary.header.object {
        let samples = if samples == 0 { usize::MAX } else { samples };
        bytes +=
            objects::row_bytes(call.keyspace.tx, call.keyspace.model, object, summary.header.kind, samples)?;
    }
    reply.integer(i64::try_from(bytes).unwrap_or(i64::MAX));
    Ok(())
}
