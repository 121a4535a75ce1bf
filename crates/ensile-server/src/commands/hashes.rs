//! Hashes: fields with values.
//!
//! Neighbours: `command_table` names the functions; [`crate::model::elements`] has the fields.

use std::ops::ControlFlow;

use ensile_base::random::Random;
use ensile_resp::{ReplyEncoder, RespVersion, integer};
use ensile_serving::command::is_called;

use super::arguments::{check_element, check_key, check_string, random_count, whole};
use super::decimal::Decimal;
use super::found::FoundTexts;
use super::random_elements::draw;
use super::scan::{ScanValues, scan_elements};
use super::{CommandError, CommandResult, DataCall, elements};
use crate::model::elements::{Access, Elements};
use crate::model::stored_value::Kind;

/// Opens the hash of the request's first key.
fn open<'s, 'c, 'db>(
    call: &'s mut DataCall<'c, 'db>,
    access: Access,
) -> Result<Elements<'s, 'c, 'db>, CommandError> {
    elements::open(call, Kind::Hash, access)
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

/// `HSETNX key field value`
pub(crate) fn set_absent(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (field, value) = (call.argument(2), call.argument(3));
    check_key(call.argument(1))?;
    check_element(field)?;
    check_string(value.len())?;
    let mut hash = open(call, Access::Write)?;
    let is_set = hash.add(field, value)?;
    hash.finish()?;
    reply.integer(i64::from(is_set));
    Ok(())
}

/// `HINCRBY key field by`: an absent field counts as 0.
pub(crate) fn increment_by(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (field, by) = (call.argument(2), whole(call.argument(3))?);
    check_key(call.argument(1))?;
    check_element(field)?;
    let mut hash = open(call, Access::Write)?;
    let before = match hash.get(field)? {
        Some(text) => integer(&text).ok_or(CommandError::Text("hash value is not an integer"))?,
        None => 0,
    };
    let sum = before.checked_add(by).ok_or(CommandError::Overflow)?;
    hash.insert(field, sum.to_string().as_bytes())?;
    hash.finish()?;
    reply.integer(sum);
    Ok(())
}

/// `HINCRBYFLOAT key field by`
pub(crate) fn increment_float(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (field, by) = (call.argument(2), Decimal::parse(call.argument(3))?);
    if !by.is_finite() {
        return Err(CommandError::Text("value is NaN or Infinity"));
    }
    check_key(call.argument(1))?;
    check_element(field)?;
    let mut hash = open(call, Access::Write)?;
    let before = match hash.get(field)? {
        Some(text) => Decimal::parse(&text).map_err(|_| CommandError::Text("hash value is not a float"))?,
        None => Decimal::ZERO,
    };
    let text = before.add(by).ok_or(CommandError::NotFinite)?.text();
    hash.insert(field, text.as_bytes())?;
    hash.finish()?;
    reply.bulk(text.as_bytes());
    Ok(())
}

/// `HDEL key field ..`: replies the number of removed fields.
pub(crate) fn delete(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    elements::remove(call, Kind::Hash, reply)
}

/// `HLEN key`
pub(crate) fn count(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    elements::count(call, Kind::Hash, reply)
}

/// `HEXISTS key field`
pub(crate) fn exists(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    elements::contains(call, Kind::Hash, reply)
}

/// `HSTRLEN key field`
pub(crate) fn length(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let field = call.argument(2);
    let value = open(call, Access::Read)?.get(field)?;
    reply.integer(value.map_or(0, |value| value.len() as i64));
    Ok(())
}

/// `HMGET key field ..`
pub(crate) fn get_many(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (fields, count) = (call.arguments(2), call.request.len() - 2);
    let mut hash = open(call, Access::Read)?;
    reply.array(count);
    for field in fields {
        match hash.get(field)? {
            Some(value) => reply.bulk(&value),
            None => reply.null(),
        }
        if reply.is_beyond() {
            break;
        }
    }
    Ok(())
}

/// Shown part of fields with values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Values,
    Both,
}

/// Values of all fields, or fields and values. The texts end early beyond the limit of a reply.
fn all_of(call: &mut DataCall<'_, '_>, shown: Shown) -> Result<FoundTexts, CommandError> {
    let mut found = FoundTexts::default();
    open(call, Access::Read)?.visit(0, |_, field, value| {
        if shown == Shown::Both {
            found.push(field);
        }
        found.push(value);
        if found.is_beyond_reply() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

/// `HGETALL key`
pub(crate) fn get_all(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let found = all_of(call, Shown::Both)?;
    reply.map(found.count() / 2);
    found.write(reply);
    Ok(())
}

/// `HKEYS key`
pub(crate) fn fields(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let mut found = FoundTexts::default();
    let hash = open(call, Access::Read)?.into_collection();
    hash.visit_names(&mut call.keyspace, |field| {
        found.push(field);
        if found.is_beyond_reply() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    found.write_array(reply);
    Ok(())
}

/// `HVALS key`
pub(crate) fn values(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    all_of(call, Shown::Values)?.write_array(reply);
    Ok(())
}

/// `HSCAN key cursor [MATCH pattern] [COUNT number]`
pub(crate) fn scan(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    scan_elements(call, Kind::Hash, ScanValues::Texts, reply)
}

/// `HRANDFIELD key [count [WITHVALUES]]`
pub(crate) fn random_field(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    if call.request.len() == 2 {
        match open(call, Access::Read)?.random(&mut Random::unpredictable())? {
            Some(field) => reply.bulk(&field),
            None => reply.null(),
        }
        return Ok(());
    }
    let count = random_count(call.argument(2))?;
    let with_values = call.request.len() > 3;
    if call.request.len() > 4 || with_values && !is_called(call.argument(3), "WITHVALUES") {
        return Err(CommandError::Syntax);
    }
    if with_values && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(CommandError::Text("value is out of range"));
    }
    let hash = open(call, Access::Read)?.into_collection();
    let found = draw(&hash, &mut call.keyspace, count)?;
    if !with_values {
        found.write_array(reply);
        return Ok(());
    }
    let has_pairs = reply.version() == RespVersion::Resp3;
    reply.array(if has_pairs { found.count() } else { found.count() * 2 });
    for field in found.iter() {
        // The commit fails if the field was removed since the draw.
        let value = hash.get(&mut call.keyspace, field)?.unwrap_or_default();
        if has_pairs {
            reply.array(2);
        }
        reply.bulk(field);
        reply.bulk(&value);
        if reply.is_beyond() {
            break;
        }
    }
    Ok(())
}
