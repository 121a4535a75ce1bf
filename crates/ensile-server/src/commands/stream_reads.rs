//! `XREAD`: entries of several streams behind positions, with a wait for entries.
//!
//! Invariants:
//! - J5: the position that `$` names is of the first look, and later looks read behind the same position.
//! - A client that has waited takes no value of another type for an error. The wait goes on, as in redis.
//!
//! Neighbours: `command_table` names the function; [`crate::blocking`] has the waiting clients.

use std::time::Duration;

use ensile_resp::{ReplyEncoder, RespVersion};
use ensile_serving::command::is_called;

use super::arguments::{timeout_of_millis, whole};
use super::found_entries::FoundEntries;
use super::stream_arguments::entry_id;
use super::{CommandError, CommandResult, DataCall};
use crate::blocking::{KeyWait, WaitKind};
use crate::model::elements::{Access, OpenError};
use crate::model::sorted_set::WalkDirection;
use crate::model::stream::{EntryId, Stream};

/// Largest number of entries of a stream for a client that has waited without `COUNT`, as in redis.
const WAITED_ENTRIES_MAX: u64 = 1000;

/// Options of `XREAD`.
struct ReadOptions {
    /// Largest number of entries of each stream; 0 is no limit.
    count: u64,
    /// The longest wait; `None` without a wait, and `Some(None)` for a wait without a limit.
    wait: Option<Option<Duration>>,
    /// Place of the first key in the request.
    keys_at: usize,
    /// Number of keys.
    key_count: usize,
}

impl ReadOptions {
    fn read(call: &DataCall<'_, '_>) -> Result<Self, CommandError> {
        let (mut count, mut wait, mut at) = (0, None, 1);
        while at < call.request.len() {
            let (word, more) = (call.argument(at), call.request.len() - at - 1);
            if is_called(word, "BLOCK") && more > 0 {
                if call.look.is_in_script {
                    return Err(refused_in_script(call.argument(0)));
                }
                wait = Some(timeout_of_millis(call.argument(at + 1), call.keyspace.now_millis)?);
            } else if is_called(word, "COUNT") && more > 0 {
                count = whole(call.argument(at + 1))?.max(0).unsigned_abs();
            } else if is_called(word, "STREAMS") && more > 0 {
                if !more.is_multiple_of(2) {
                    return Err(CommandError::Text(
                        "Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
                    ));
                }
                return Ok(Self { count, wait, keys_at: at + 1, key_count: more / 2 });
            } else if is_called(word, "GROUP") && more > 1 {
                return Err(CommandError::Text(
                    "The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
                ));
            } else if is_called(word, "NOACK") {
                return Err(CommandError::Text(
                    "The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
                ));
            } else {
                return Err(CommandError::Syntax);
            }
            at += 2;
        }
        Err(CommandError::Syntax)
    }
}

/// Error for `BLOCK` in a script. Redis shows the name of the command as the script spells the name.
fn refused_in_script(name: &[u8]) -> CommandError {
    if name == b"XREAD" {
        CommandError::Text("XREAD command is not allowed with BLOCK option from scripts")
    } else {
        CommandError::Text("xread command is not allowed with BLOCK option from scripts")
    }
}

/// `XREAD [COUNT count] [BLOCK milliseconds] STREAMS key .. id ..`
pub(crate) fn read(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let options = ReadOptions::read(call)?;
    let positions: Box<[u128]> = match call.look.has_waited {
        true => call.look.positions.into(),
        false => first_positions(call, &options)?,
    };
    debug_assert_eq!(positions.len(), options.key_count, "each key has a position");
    let found = found_behind(call, &options, &positions)?;
    if found.is_empty() {
        if let Some(timeout) = options.wait {
            let keys = (options.keys_at..).take(options.key_count);
            let keys = keys.map(|at| call.argument(at).into()).collect();
            call.wait(KeyWait { kind: WaitKind::Stream, keys, timeout, positions })?;
        }
        reply.null_array();
        return Ok(());
    }
    match reply.version() {
        RespVersion::Resp2 => reply.array(found.len()),
        RespVersion::Resp3 => reply.map(found.len()),
    }
    for (key, entries) in found {
        if reply.version() == RespVersion::Resp2 {
            reply.array(2);
        }
        reply.bulk(key);
        entries.write_array(reply);
    }
    Ok(())
}

/// The positions that the request names, one for each key.
fn first_positions(call: &mut DataCall<'_, '_>, options: &ReadOptions) -> Result<Box<[u128]>, CommandError> {
    let mut positions = Vec::with_capacity(options.key_count);
    for at in options.keys_at..options.keys_at + options.key_count {
        let (key, id) = (call.argument(at), call.argument(at + options.key_count));
        let mut stream = Stream::open(&mut call.keyspace, key, Access::Read)?;
        let position = match id {
            b"$" => stream.last_id()?,
            b">" => {
                return Err(CommandError::Text(
                    "The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
                ));
            }
            id => entry_id(id, 0)?,
        };
        positions.push(position.0);
    }
    Ok(positions.into())
}

/// The keys with entries behind their positions.
fn found_behind<'c>(
    call: &mut DataCall<'c, '_>,
    options: &ReadOptions,
    positions: &[u128],
) -> Result<Vec<(&'c [u8], FoundEntries)>, CommandError> {
    let count_max = match options.count {
        0 if call.look.has_waited => WAITED_ENTRIES_MAX,
        0 => u64::MAX,
        count => count,
    };
    let (mut found, mut bytes) = (Vec::new(), 0);
    for (at, position) in (options.keys_at..).zip(positions) {
        let key = call.argument(at);
        let mut stream = match Stream::open(&mut call.keyspace, key, Access::Read) {
            Err(OpenError::WrongKind) if call.look.has_waited => continue,
            opened => opened?,
        };
        let Some(first) = EntryId(*position).next() else { continue };
        let entries = FoundEntries::read(&mut stream, first..=EntryId::MAX, WalkDirection::Up, count_max)?;
        if !entries.is_empty() {
            bytes += entries.bytes();
            found.push((key, entries));
        }
        // The reply is refused as too large.
        if bytes > ensile_serving::REPLY_BYTES {
            break;
        }
    }
    Ok(found)
}
