//! Pops of lists that wait for items.
//!
//! Invariant: a client that has waited takes no value of another type for an error. The wait goes on, as in redis.
//!
//! Neighbours: `command_table` names the functions; `lists` pops; [`crate::blocking`] has the waiting clients.

use std::ops::Range;
use std::time::Duration;

use ensile_resp::ReplyEncoder;

use super::arguments::timeout;
use super::lists::{PopOfMany, end_called, is_moved, pop_many};
use super::{CommandError, CommandResult, DataCall};
use crate::blocking::{KeyWait, WaitKind};
use crate::model::elements::{Access, OpenError};
use crate::model::list::{End, List};

/// `BLPOP key .. seconds`
pub(crate) fn pop_head(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    pop(call, End::Head, reply)
}

/// `BRPOP key .. seconds`
pub(crate) fn pop_tail(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    pop(call, End::Tail, reply)
}

fn pop(call: &mut DataCall<'_, '_>, end: End, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let last = call.request.len() - 1;
    let time = timeout(call.argument(last), call.keyspace.now_millis)?;
    let is_popped = take_first(call, 1..last, |key, mut list| {
        let Some(item) = list.pop(end)? else { return Ok(()) };
        list.finish()?;
        reply.array(2);
        reply.bulk(key);
        reply.bulk(&item);
        Ok(())
    })?;
    if !is_popped {
        wait_for(call, 1..last, time)?;
        reply.null_array();
    }
    Ok(())
}

/// `BLMPOP seconds numkeys key .. LEFT | RIGHT [COUNT count]`
pub(crate) fn pop_first_present(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let PopOfMany { keys, end, count_max } = PopOfMany::read(call, 2)?;
    let time = timeout(call.argument(1), call.keyspace.now_millis)?;
    let is_popped = take_first(call, keys.clone(), |key, list| {
        let items = pop_many(list, end, count_max)?;
        reply.array(2);
        reply.bulk(key);
        items.write_array(reply);
        Ok(())
    })?;
    if !is_popped {
        wait_for(call, keys, time)?;
        reply.null_array();
    }
    Ok(())
}

/// Has `take` take items of the first list that is present. False if no list is there.
fn take_first(
    call: &mut DataCall<'_, '_>,
    keys: Range<usize>,
    mut take: impl FnMut(&[u8], List<'_, '_, '_>) -> CommandResult,
) -> Result<bool, CommandError> {
    for at in keys {
        let key = call.argument(at);
        let list = match List::open(&mut call.keyspace, key, Access::Write) {
            Err(OpenError::WrongKind) if call.look.has_waited => continue,
            opened => opened?,
        };
        if !list.is_absent() {
            take(key, list)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Lets the client wait for the keys at these places of the request.
fn wait_for(call: &DataCall<'_, '_>, keys: Range<usize>, timeout: Option<Duration>) -> CommandResult {
    let keys = keys.map(|at| call.argument(at).into()).collect();
    call.wait(KeyWait { kind: WaitKind::List, keys, timeout, positions: Box::default() })
}

/// `BLMOVE source destination LEFT | RIGHT LEFT | RIGHT seconds`
pub(crate) fn move_item(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (from, to) = (end_called(call.argument(3))?, end_called(call.argument(4))?);
    let time = timeout(call.argument(5), call.keyspace.now_millis)?;
    move_between(call, from, to, time, reply)
}

/// `BRPOPLPUSH source destination seconds`
pub(crate) fn move_tail_to_head(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let time = timeout(call.argument(3), call.keyspace.now_millis)?;
    move_between(call, End::Tail, End::Head, time, reply)
}

fn move_between(
    call: &mut DataCall<'_, '_>,
    from: End,
    to: End,
    time: Option<Duration>,
    reply: &mut ReplyEncoder<'_>,
) -> CommandResult {
    let has_waited = call.look.has_waited;
    let is_list = |error: OpenError| match error {
        OpenError::WrongKind if has_waited => Ok(false),
        error => Err(error),
    };
    let key = call.argument(1);
    let is_there = List::open(&mut call.keyspace, key, Access::Write).map(|list| !list.is_absent());
    if is_there.or_else(is_list)? && is_moved(call, from, to, reply)? {
        return Ok(());
    }
    wait_for(call, 1..2, time)?;
    // Redis replies the end of the time as an array.
    if has_waited {
        reply.null_array();
    } else {
        reply.null();
    }
    Ok(())
}
