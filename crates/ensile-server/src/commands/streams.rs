//! Streams: entries in the order of their ids.
//!
//! Neighbours: `command_table` names the functions; [`crate::model::stream`] has the entries; `stream_reads` waits.

use ensile_resp::ReplyEncoder;
use ensile_serving::command::is_called;

use super::arguments::{check_key, check_string, whole};
use super::found_entries::FoundEntries;
use super::stream_arguments::{NewId, TrimOptions, entry_id, id_range};
use super::{CommandError, CommandResult, DataCall};
use crate::model::elements::Access;
use crate::model::packed;
use crate::model::sorted_set::WalkDirection;
use crate::model::stream::{EntryId, Stream};

/// Opens the stream of the request's first key.
fn open<'s, 'c, 'db>(
    call: &'s mut DataCall<'c, 'db>,
    access: Access,
) -> Result<Stream<'s, 'c, 'db>, CommandError> {
    let key = call.argument(1);
    Ok(Stream::open(&mut call.keyspace, key, access)?)
}

/// `XADD key [NOMKSTREAM] [MAXLEN | MINID [= | ~] threshold [LIMIT count]] * | id field value ..`
pub(crate) fn add(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    const WRONG_NUMBER: CommandError = CommandError::WrongNumber("xadd");
    let TrimOptions { trim, only_present, id } = TrimOptions::read(call, true)?;
    let (id, id_at) = id.ok_or(WRONG_NUMBER)?;
    let fields = call.request.len() - id_at - 1;
    if fields < 2 || !fields.is_multiple_of(2) {
        return Err(WRONG_NUMBER);
    }
    if matches!(id, NewId::Given(EntryId::MIN)) {
        return Err(CommandError::Text("The ID specified in XADD must be greater than 0-0"));
    }
    check_key(call.argument(1))?;
    let mut packed_fields = Vec::new();
    call.arguments(id_at + 1).for_each(|item| packed::push(&mut packed_fields, item));
    check_string(packed_fields.len())?;
    let now_millis = call.keyspace.now_millis;
    let mut stream = open(call, Access::Write)?;
    if only_present && stream.is_absent() {
        reply.null();
        return Ok(());
    }
    let id = id.id_behind(stream.last_id()?, now_millis)?;
    stream.add(id, &packed_fields)?;
    if let Some(trim) = trim {
        trim.apply(&mut stream)?;
    }
    stream.finish()?;
    reply.bulk(id.to_string().as_bytes());
    Ok(())
}

/// `XTRIM key MAXLEN | MINID [= | ~] threshold [LIMIT count]`
pub(crate) fn trim(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let options = TrimOptions::read(call, false)?;
    let mut stream = open(call, Access::Write)?;
    let removed = options.trim.map_or(Ok(0), |trim| trim.apply(&mut stream))?;
    stream.finish()?;
    reply.integer(removed as i64);
    Ok(())
}

/// `XLEN key`
pub(crate) fn count(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let count = open(call, Access::Read)?.count()?;
    reply.integer(count as i64);
    Ok(())
}

/// `XRANGE key least greatest [COUNT count]`
pub(crate) fn range(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    range_in(call, WalkDirection::Up, reply)
}

/// `XREVRANGE key greatest least [COUNT count]`
pub(crate) fn range_down(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    range_in(call, WalkDirection::Down, reply)
}

fn range_in(
    call: &mut DataCall<'_, '_>,
    direction: WalkDirection,
    reply: &mut ReplyEncoder<'_>,
) -> CommandResult {
    let (least, greatest) = match direction {
        WalkDirection::Up => (call.argument(2), call.argument(3)),
        WalkDirection::Down => (call.argument(3), call.argument(2)),
    };
    let ids = id_range(least, greatest)?;
    let (mut count_max, mut at) = (u64::MAX, 4);
    while at < call.request.len() {
        if !is_called(call.argument(at), "COUNT") || at + 1 == call.request.len() {
            return Err(CommandError::Syntax);
        }
        count_max = whole(call.argument(at + 1))?.max(0).unsigned_abs();
        at += 2;
    }
    let mut stream = open(call, Access::Read)?;
    if count_max == 0 && !stream.is_absent() {
        reply.null_array();
        return Ok(());
    }
    FoundEntries::read(&mut stream, ids, direction, count_max)?.write_array(reply);
    Ok(())
}

/// `XDEL key id ..`
pub(crate) fn remove(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let ids = call.arguments(2);
    let mut stream = open(call, Access::Write)?;
    let mut removed = 0;
    if !stream.is_absent() {
        let ids = ids.map(|id| entry_id(id, 0)).collect::<Result<Vec<_>, _>>()?;
        for id in ids {
            removed += i64::from(stream.remove(id)?);
        }
        stream.finish()?;
    }
    reply.integer(removed);
    Ok(())
}

/// `XSETID key last-id [ENTRIESADDED count] [MAXDELETEDID id]`
pub(crate) fn set_last(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let last = entry_id(call.argument(2), 0)?;
    let (mut told, mut greatest_removed, mut at) = (None, None, 3);
    while at < call.request.len() {
        let has_more = at + 1 < call.request.len();
        if has_more && is_called(call.argument(at), "ENTRIESADDED") {
            const NEGATIVE: CommandError = CommandError::Text("entries_added must be positive");
            told = Some(u64::try_from(whole(call.argument(at + 1))?).map_err(|_| NEGATIVE)?);
        } else if has_more && is_called(call.argument(at), "MAXDELETEDID") {
            let id = entry_id(call.argument(at + 1), 0)?;
            if id > last {
                return Err(CommandError::Text(
                    "The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
                ));
            }
            // Redis keeps the id for the least one.
            greatest_removed = Some(id);
        } else {
            return Err(CommandError::Syntax);
        }
        at += 2;
    }
    let mut stream = open(call, Access::Write)?;
    if stream.is_absent() {
        return Err(CommandError::NoSuchKey);
    }
    let top = FoundEntries::read(&mut stream, EntryId::MIN..=EntryId::MAX, WalkDirection::Down, 1)?;
    if last < top.first_id() {
        return Err(CommandError::Text(
            "The ID specified in XSETID is smaller than the target stream top item",
        ));
    }
    if !top.is_empty() && told.map_or(Ok(false), |told| stream.count().map(|count| told < count))? {
        return Err(CommandError::Text(
            "The entries_added specified in XSETID is smaller than the target stream length",
        ));
    }
    stream.set_last(last, told, greatest_removed.filter(|id| *id > EntryId::MIN))?;
    stream.finish()?;
    reply.simple("OK");
    Ok(())
}
