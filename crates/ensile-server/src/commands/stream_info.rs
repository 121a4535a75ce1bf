//! `XINFO`: the figures of a stream. A stream has no consumer groups.
//!
//! Neighbours: `command_table` names the function; [`crate::model::stream`] has the figures.

use ensile_resp::ReplyEncoder;
use ensile_serving::command::is_called;

use super::arguments::whole;
use super::found_entries::FoundEntries;
use super::stream_arguments::BLOCK_ENTRIES;
use super::{CommandError, CommandResult, DataCall};
use crate::model::elements::Access;
use crate::model::sorted_set::WalkDirection;
use crate::model::stream::{EntryId, Stream, StreamFigures};

const HELP: [&str; 9] = [
    "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CONSUMERS <key> <groupname>",
    "    Show consumers of <groupname>.",
    "GROUPS <key>",
    "    Show the stream consumer groups.",
    "STREAM <key> [FULL [COUNT <count>]",
    "    Show information about the stream.",
    "HELP",
    "    Prints this help.",
];

/// Number of entries that `FULL` shows without `COUNT`.
const FULL_ENTRIES: u64 = 10;

/// `XINFO STREAM key [FULL [COUNT count]]`, `XINFO GROUPS key`, `XINFO HELP`. The request has a known subcommand, with
/// the right number of arguments.
pub(crate) fn info(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let subcommand = call.argument(1).to_ascii_uppercase();
    if subcommand == b"HELP" {
        reply.array(HELP.len());
        HELP.iter().for_each(|line| reply.simple(line));
        return Ok(());
    }
    if subcommand == b"CONSUMERS" {
        return Err(CommandError::Missing("XINFO CONSUMERS"));
    }
    let key = call.argument(2);
    // Redis looks for the key first.
    let full = if subcommand == b"STREAM" { full_count(call) } else { Ok(None) };
    let mut stream = Stream::open(&mut call.keyspace, key, Access::Read)?;
    if stream.is_absent() {
        return Err(CommandError::NoSuchKey);
    }
    if subcommand == b"GROUPS" {
        reply.array(0);
        return Ok(());
    }
    debug_assert_eq!(subcommand, b"STREAM", "the table names the subcommands");
    show(&mut stream, full?, reply)
}

/// Largest number of entries that `FULL` shows; `None` without the option.
fn full_count(call: &DataCall<'_, '_>) -> Result<Option<u64>, CommandError> {
    const SYNTAX: CommandError =
        CommandError::Text("unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP.");
    match call.request.len() {
        3 => Ok(None),
        4 if is_called(call.argument(3), "FULL") => Ok(Some(FULL_ENTRIES)),
        6 if is_called(call.argument(3), "FULL") && is_called(call.argument(4), "COUNT") => {
            Ok(Some(match whole(call.argument(5))? {
                0 => u64::MAX,
                count => u64::try_from(count).unwrap_or(FULL_ENTRIES),
            }))
        }
        _ => Err(SYNTAX),
    }
}

fn show(stream: &mut Stream<'_, '_, '_>, full: Option<u64>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let StreamFigures { removed, count, told, last, greatest_removed } = stream.figures()?;
    let all = EntryId::MIN..=EntryId::MAX;
    let first = FoundEntries::read(stream, all.clone(), WalkDirection::Up, full.unwrap_or(1))?;
    // Blocks of an approximate trim stand for the nodes of redis' tree.
    let blocks = (removed + count).div_ceil(BLOCK_ENTRIES) - removed / BLOCK_ENTRIES;
    let blocks = if count == 0 { 0 } else { blocks as i64 };
    let id = |reply: &mut ReplyEncoder<'_>, name: &str, id: EntryId| {
        reply.bulk(name.as_bytes());
        reply.bulk(id.to_string().as_bytes());
    };
    let number = |reply: &mut ReplyEncoder<'_>, name: &str, number: i64| {
        reply.bulk(name.as_bytes());
        reply.integer(number);
    };
    reply.map(if full.is_some() { 9 } else { 10 });
    number(reply, "length", count as i64);
    number(reply, "radix-tree-keys", blocks);
    number(reply, "radix-tree-nodes", blocks + 1);
    id(reply, "last-generated-id", last);
    id(reply, "max-deleted-entry-id", greatest_removed);
    number(reply, "entries-added", told as i64);
    id(reply, "recorded-first-entry-id", first.first_id());
    if full.is_some() {
        reply.bulk(b"entries");
        first.write_array(reply);
        reply.bulk(b"groups");
        reply.array(0);
        return Ok(());
    }
    number(reply, "groups", 0);
    reply.bulk(b"first-entry");
    first.write_first(reply);
    reply.bulk(b"last-entry");
    FoundEntries::read(stream, all, WalkDirection::Down, 1)?.write_first(reply);
    Ok(())
}
