//! Hashes: fields with values.
//!
//! Neighbours: `command_table` names the functions; [`crate::model::elements`] has the fields.

use std::ops::ControlFlow;

use ensile_resp::ReplyEncoder;

use super::arguments::{check_element, check_key, check_string};
use super::found::FoundTexts;
use super::{CommandError, CommandResult, DataCall};
use crate::model::elements::{Access, Elements};
use crate::model::stored_value::Kind;

/// Opens the hash of the request's first key.
fn open<'s, 'c, 'db>(
    call: &'s mut DataCall<'c, 'db>,
    access: Access,
) -> Result<Elements<'s, 'c, 'db>, CommandError> {
    let key = call.argument(1);
    Ok(Elements::open(&mut call.keyspace, key, Kind::Hash, access)?)
}

/// `HGET key field`
pub(crate) fn get(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let field = call.argument(2);
    match open(call, Access::Read)?.get(field)? {
        Some(value) => reply.bulk(&value),
        None => reply.null(),
    }
    Ok(())
}

/// `HSET key field value ..`: replies the number of new fields.
pub(crate) fn set(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let added = set_pairs(call, "hset")?;
    reply.integer(added);
    Ok(())
}

/// `HMSET key field value ..`
pub(crate) fn set_many(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    set_pairs(call, "hmset")?;
    reply.simple("OK");
    Ok(())
}

/// Writes the pairs of the request. Returns the number of new fields.
fn set_pairs(call: &mut DataCall<'_, '_>, command: &'static str) -> Result<i64, CommandError> {
    if !call.request.len().is_multiple_of(2) {
        return Err(CommandError::WrongNumber(command));
    }
    check_key(call.argument(1))?;
    for at in (2..call.request.len()).step_by(2) {
        check_element(call.argument(at))?;
        check_string(call.argument(at + 1).len())?;
    }
    let request = call.request;
    let mut hash = open(call, Access::Write)?;
    let mut added = 0;
    for at in (2..request.len()).step_by(2) {
        let (field, value) = (request.get(at).unwrap_or_default(), request.get(at + 1).unwrap_or_default());
        added += i64::from(hash.insert(field, value)?);
    }
    hash.finish()?;
    Ok(added)
}

/// `HDEL key field ..`: replies the number of removed fields.
pub(crate) fn delete(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let fields = call.arguments(2);
    let mut hash = open(call, Access::Write)?;
    let mut removed = 0;
    for field in fields {
        removed += i64::from(hash.remove(field)?);
    }
    hash.finish()?;
    reply.integer(removed);
    Ok(())
}

/// `HLEN key`
pub(crate) fn count(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let count = open(call, Access::Read)?.count()?;
    reply.integer(count as i64);
    Ok(())
}

/// `HGETALL key`
pub(crate) fn get_all(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let mut found = FoundTexts::default();
    open(call, Access::Read)?.visit(0, |_, field, value| {
        found.push(field);
        found.push(value);
        if found.is_beyond_reply() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    reply.map(found.count() / 2);
    found.write(reply);
    Ok(())
}
