//! Strings: values, counters, parts of values, and several keys at once.
//!
//! Neighbours: `table` names the commands; `expiry` reads the options for expiries.

use ensile_resp::ReplyEncoder;
use ensile_serving::command::is_called;

use super::arguments::{check_key, check_string, whole};
use super::decimal::Decimal;
use super::expiry::{ExpiryArgument, ExpiryOption, TimeForm};
use super::{CommandError, CommandResult, DataCall};
use crate::model::STRING_BYTES_MAX;
use crate::model::keyspace::{Slot, ValueSlot};
use crate::model::stored_value::{Kind, NewValue, StoredValue, ValueHeader};

/// The bytes of a string.
///
/// # Errors
/// [`CommandError::WrongKind`] for a value of another type.
pub(super) fn string_of(value: Option<&StoredValue>) -> Result<Option<&[u8]>, CommandError> {
    match value {
        Some(value) if value.header.kind != Kind::String => Err(CommandError::WrongKind),
        value => Ok(value.map(|value| value.bytes.as_slice())),
    }
}

fn reply_string(value: Option<&[u8]>, reply: &mut ReplyEncoder<'_>) {
    match value {
        Some(bytes) => reply.bulk(bytes),
        None => reply.null(),
    }
}

/// Calls `read` with the string of a key, in the row. False for an absent key.
///
/// # Errors
/// [`CommandError::WrongKind`] for a value of another type.
#[inline]
fn with_string(
    call: &mut DataCall<'_, '_>,
    key: &[u8],
    read: impl FnOnce(&[u8]),
) -> Result<bool, CommandError> {
    let is_string = call.keyspace.read(key, |header, bytes| {
        let is_string = header.kind == Kind::String;
        if is_string {
            read(bytes);
        }
        is_string
    })?;
    match is_string {
        Some(false) => Err(CommandError::WrongKind),
        found => Ok(found.is_some()),
    }
}

/// `GET key`
pub(crate) fn get(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    if !with_string(call, call.argument(1), |bytes| reply.bulk(bytes))? {
        reply.null();
    }
    Ok(())
}

/// Condition of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SetCondition {
    Always,
    Absent,
    Present,
}

impl SetCondition {
    fn holds(self, slot: &Slot) -> bool {
        match self {
            Self::Always => true,
            Self::Absent => slot.header.is_none(),
            Self::Present => slot.header.is_some(),
        }
    }
}

/// Options of `SET`.
struct SetOptions<'r> {
    condition: SetCondition,
    /// True if the reply is the old value.
    replies_old: bool,
    expiry: ExpiryArgument<'r>,
}

impl<'r> SetOptions<'r> {
    fn read(call: &DataCall<'r, '_>) -> Result<Self, CommandError> {
        let mut options =
            Self { condition: SetCondition::Always, replies_old: false, expiry: ExpiryArgument::Absent };
        let mut at = 3;
        while at < call.request.len() {
            let word = call.argument(at);
            if is_called(word, "NX") && options.condition != SetCondition::Present {
                options.condition = SetCondition::Absent;
            } else if is_called(word, "XX") && options.condition != SetCondition::Absent {
                options.condition = SetCondition::Present;
            } else if is_called(word, "GET") {
                options.replies_old = true;
            } else {
                at += options.expiry.read(call, at, "KEEPTTL")? - 1;
            }
            at += 1;
        }
        Ok(options)
    }
}

/// `SET key value [NX | XX] [GET] [EX seconds | PX millis | EXAT seconds | PXAT millis | KEEPTTL]`
pub(crate) fn set(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (key, value) = (call.argument(1), call.argument(2));
    check_key(key)?;
    check_string(value.len())?;
    let options = SetOptions::read(call)?;
    let now_millis = call.keyspace.now_millis;
    let expiry = options.expiry.change(ExpiryOption::Remove, ExpiryOption::Keep, now_millis, "set")?;
    let ValueSlot { slot, value: old } = if options.replies_old {
        call.keyspace.value_slot(key)?
    } else {
        ValueSlot { slot: call.keyspace.slot(key)?, value: None }
    };
    let is_set = options.condition.holds(&slot);
    if options.replies_old {
        reply_string(string_of(old.as_ref())?, reply);
    } else if is_set {
        reply.simple("OK");
    } else {
        reply.null();
    }
    if is_set {
        let kept = slot.header.and_then(|header| header.expiry_millis);
        let expiry_millis = expiry.apply(kept);
        let header = ValueHeader { expiry_millis, ..ValueHeader::STRING };
        call.keyspace.write(&slot, key, NewValue { header, bytes: value })?;
    }
    Ok(())
}

/// `SETNX key value`
pub(crate) fn set_absent(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (key, value) = (call.argument(1), call.argument(2));
    check_key(key)?;
    check_string(value.len())?;
    let slot = call.keyspace.slot(key)?;
    let is_set = slot.header.is_none();
    if is_set {
        call.keyspace.write(&slot, key, NewValue { header: ValueHeader::STRING, bytes: value })?;
    }
    reply.integer(i64::from(is_set));
    Ok(())
}

/// `SETEX key seconds value`, `PSETEX key millis value`
pub(crate) fn set_expiring(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (key, value) = (call.argument(1), call.argument(3));
    check_key(key)?;
    check_string(value.len())?;
    let (form, command) = if is_called(call.argument(0), "SETEX") {
        (TimeForm::SECONDS, "setex")
    } else {
        (TimeForm::MILLIS, "psetex")
    };
    let expiry_millis = form.positive_millis(call.argument(2), call.keyspace.now_millis, command)?;
    let slot = call.keyspace.slot(key)?;
    let header = ValueHeader { expiry_millis: Some(expiry_millis), ..ValueHeader::STRING };
    call.keyspace.write(&slot, key, NewValue { header, bytes: value })?;
    reply.simple("OK");
    Ok(())
}

/// `GETSET key value`
pub(crate) fn get_set(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (key, value) = (call.argument(1), call.argument(2));
    check_key(key)?;
    check_string(value.len())?;
    let ValueSlot { slot, value: old } = call.keyspace.value_slot(key)?;
    reply_string(string_of(old.as_ref())?, reply);
    Ok(call.keyspace.write(&slot, key, NewValue { header: ValueHeader::STRING, bytes: value })?)
}

/// `GETDEL key`
pub(crate) fn get_delete(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let key = call.argument(1);
    let ValueSlot { slot, value: old } = call.keyspace.value_slot(key)?;
    reply_string(string_of(old.as_ref())?, reply);
    Ok(call.keyspace.remove(&slot, key)?)
}

/// `GETEX key [EX seconds | PX millis | EXAT seconds | PXAT millis | PERSIST]`
pub(crate) fn get_expiring(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let key = call.argument(1);
    let (mut expiry, mut at) = (ExpiryArgument::Absent, 2);
    while at < call.request.len() {
        at += expiry.read(call, at, "PERSIST")?;
    }
    let ValueSlot { slot, value } = call.keyspace.value_slot(key)?;
    let Some(value) = value else {
        reply.null();
        return Ok(());
    };
    let bytes = string_of(Some(&value))?;
    let now_millis = call.keyspace.now_millis;
    let expiry = expiry.change(ExpiryOption::Keep, ExpiryOption::Remove, now_millis, "getex")?;
    reply_string(bytes, reply);
    let expiry_millis = expiry.apply(value.header.expiry_millis);
    if expiry_millis.is_some_and(|expiry| expiry <= now_millis) {
        call.keyspace.remove(&slot, key)?;
    } else if expiry_millis != value.header.expiry_millis {
        let header = ValueHeader { expiry_millis, ..value.header };
        call.keyspace.write(&slot, key, NewValue { header, bytes: &value.bytes })?;
    }
    Ok(())
}

/// `STRLEN key`
pub(crate) fn length(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let value = call.keyspace.summary(call.argument(1))?;
    if value.is_some_and(|value| value.header.kind != Kind::String) {
        return Err(CommandError::WrongKind);
    }
    reply.integer(value.map_or(0, |value| value.length as i64));
    Ok(())
}

/// `APPEND key value`
pub(crate) fn append(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (key, tail) = (call.argument(1), call.argument(2));
    check_key(key)?;
    let ValueSlot { slot, value } = call.keyspace.value_slot(key)?;
    let before = string_of(value.as_ref())?.unwrap_or_default();
    check_string(before.len() + tail.len())?;
    let bytes = [before, tail].concat();
    call.keyspace.write(&slot, key, NewValue { header: header_of(&slot), bytes: &bytes })?;
    reply.integer(bytes.len() as i64);
    Ok(())
}

/// Header of a string that is changed in place: the expiry stays.
fn header_of(slot: &Slot) -> ValueHeader {
    slot.header.unwrap_or(ValueHeader::STRING)
}

/// `GETRANGE key start end`, `SUBSTR key start end`: both ends included, negative numbers count from the end.
pub(crate) fn get_range(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (start, end) = (whole(call.argument(2))?, whole(call.argument(3))?);
    if !with_string(call, call.argument(1), |bytes| reply.bulk(part_of(bytes, start, end)))? {
        reply.bulk(&[]);
    }
    Ok(())
}

/// The part of a string between two places, both included. Negative places count from the end.
fn part_of(bytes: &[u8], start: i64, end: i64) -> &[u8] {
    let length = bytes.len() as i64;
    let from_end = |place: i64| if place < 0 { (length.saturating_add(place)).max(0) } else { place };
    let is_inverted = start < 0 && end < 0 && start > end;
    let (start, end) = (from_end(start), from_end(end).min(length - 1));
    let is_empty = is_inverted || start > end || length == 0;
    if is_empty { &[] } else { &bytes[start as usize..=end as usize] }
}

/// `SETRANGE key offset value`: zeros fill a gap.
pub(crate) fn set_range(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (key, offset, part) = (call.argument(1), whole(call.argument(2))?, call.argument(3));
    check_key(key)?;
    let offset = usize::try_from(offset).map_err(|_| CommandError::Text("offset is out of range"))?;
    let ValueSlot { slot, value } = call.keyspace.value_slot(key)?;
    let before = string_of(value.as_ref())?.unwrap_or_default();
    if part.is_empty() {
        reply.integer(before.len() as i64);
        return Ok(());
    }
    check_string(offset.saturating_add(part.len()))?;
    let mut bytes = before.to_vec();
    bytes.resize(bytes.len().max(offset + part.len()), 0);
    bytes[offset..offset + part.len()].copy_from_slice(part);
    debug_assert!(bytes.len() <= STRING_BYTES_MAX, "both parts were within the limit");
    call.keyspace.write(&slot, key, NewValue { header: header_of(&slot), bytes: &bytes })?;
    reply.integer(bytes.len() as i64);
    Ok(())
}

/// `INCR key`
pub(crate) fn increment(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    add(call, 1, reply)
}

/// `DECR key`
pub(crate) fn decrement(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    add(call, -1, reply)
}

/// `INCRBY key by`
pub(crate) fn increment_by(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let by = whole(call.argument(2))?;
    add(call, by, reply)
}

/// `DECRBY key by`
pub(crate) fn decrement_by(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let by = whole(call.argument(2))?;
    add(call, by.checked_neg().ok_or(CommandError::Text("decrement would overflow"))?, reply)
}

/// Adds to the whole number of a key; an absent key counts as 0.
fn add(call: &mut DataCall<'_, '_>, by: i64, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let key = call.argument(1);
    check_key(key)?;
    let ValueSlot { slot, value } = call.keyspace.value_slot(key)?;
    let before = string_of(value.as_ref())?.map_or(Ok(0), whole)?;
    let sum = before.checked_add(by).ok_or(CommandError::Overflow)?;
    let header = header_of(&slot);
    call.keyspace.write(&slot, key, NewValue { header, bytes: sum.to_string().as_bytes() })?;
    reply.integer(sum);
    Ok(())
}

/// `INCRBYFLOAT key by`
pub(crate) fn increment_float(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let key = call.argument(1);
    check_key(key)?;
    let ValueSlot { slot, value } = call.keyspace.value_slot(key)?;
    let before = string_of(value.as_ref())?.map_or(Ok(Decimal::ZERO), Decimal::parse)?;
    let by = Decimal::parse(call.argument(2))?;
    let text = before.add(by).ok_or(CommandError::NotFinite)?.text();
    let header = header_of(&slot);
    call.keyspace.write(&slot, key, NewValue { header, bytes: text.as_bytes() })?;
    reply.bulk(text.as_bytes());
    Ok(())
}

/// `MGET key ..`: a value of another type is none.
pub(crate) fn get_many(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    reply.array(call.request.len() - 1);
    for key in call.arguments(1) {
        match with_string(call, key, |bytes| reply.bulk(bytes)) {
            Ok(true) => {}
            Ok(false) | Err(CommandError::WrongKind) => reply.null(),
            Err(error) => return Err(error),
        }
        if reply.is_beyond() {
            break;
        }
    }
    Ok(())
}

/// Checks the keys and values of `MSET` and `MSETNX`.
fn check_pairs(call: &DataCall<'_, '_>, command: &'static str) -> CommandResult {
    if call.request.len().is_multiple_of(2) {
        return Err(CommandError::WrongNumber(command));
    }
    for (at, argument) in call.arguments(1).enumerate() {
        if at.is_multiple_of(2) { check_key(argument)? } else { check_string(argument.len())? }
    }
    Ok(())
}

/// Writes the pairs of `MSET` and `MSETNX`.
fn set_pairs(call: &mut DataCall<'_, '_>) -> CommandResult {
    for at in (1..call.request.len()).step_by(2) {
        let (key, value) = (call.argument(at), call.argument(at + 1));
        let slot = call.keyspace.slot(key)?;
        call.keyspace.write(&slot, key, NewValue { header: ValueHeader::STRING, bytes: value })?;
    }
    Ok(())
}

/// `MSET key value ..`
pub(crate) fn set_many(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    check_pairs(call, "mset")?;
    set_pairs(call)?;
    reply.simple("OK");
    Ok(())
}

/// `MSETNX key value ..`: all keys, or none if one is present.
pub(crate) fn set_many_absent(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    check_pairs(call, "msetnx")?;
    for key in call.arguments(1).step_by(2) {
        if call.keyspace.summary(key)?.is_some() {
            reply.integer(0);
            return Ok(());
        }
    }
    set_pairs(call)?;
    reply.integer(1);
    Ok(())
}
