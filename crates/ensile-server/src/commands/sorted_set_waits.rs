//! Pops of sorted sets that wait for members.
//!
//! Invariant: a client that has waited takes no value of another type for an error. The wait goes on, as in redis.
//!
//! Neighbours: `command_table` names the functions; `sorted_sets` pops; [`crate::blocking`] has the waiting clients.

use std::ops::Range;

use ensile_resp::ReplyEncoder;

use super::arguments::timeout;
use super::found_members::FoundMembers;
use super::sorted_sets::{ManyPop, pop_members};
use super::{CommandError, CommandResult, DataCall};
use crate::blocking::{KeyWait, WaitKind};
use crate::model::elements::{Access, OpenError};
use crate::model::sorted_set::{SortedSet, WalkDirection};

/// `BZPOPMIN key .. seconds`
pub(crate) fn pop_first(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    pop(call, WalkDirection::Up, reply)
}

/// `BZPOPMAX key .. seconds`
pub(crate) fn pop_last(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    pop(call, WalkDirection::Down, reply)
}

fn pop(call: &mut DataCall<'_, '_>, direction: WalkDirection, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let last = call.request.len() - 1;
    let many = ManyPop { keys: 1..last, direction, count: 1 };
    let found = pop_or_wait(call, last, many)?;
    let Some((key, found)) = found else {
        reply.null_array();
        return Ok(());
    };
    reply.array(1 + 2 * found.count());
    reply.bulk(key);
    for (member, score) in found.iter() {
        reply.bulk(member);
        reply.double(score);
    }
    Ok(())
}

/// `BZMPOP seconds numkeys key .. MIN | MAX [COUNT count]`
pub(crate) fn pop_many(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let many = ManyPop::read(call, 2)?;
    match pop_or_wait(call, 1, many)? {
        Some((key, found)) => {
            reply.array(2);
            reply.bulk(key);
            found.write_pairs(reply);
        }
        None => reply.null_array(),
    }
    Ok(())
}

/// The members of the first key that is present, with the key. Without members the client waits, for the time that is
/// an argument; `None` if the client may not wait.
fn pop_or_wait<'c>(
    call: &mut DataCall<'c, '_>,
    timeout_at: usize,
    many: ManyPop,
) -> Result<Option<(&'c [u8], FoundMembers)>, CommandError> {
    let ManyPop { keys, direction, count } = many;
    let time = timeout(call.argument(timeout_at), call.keyspace.now_millis)?;
    let found = pop_first_present(call, keys.clone(), direction, count)?;
    if found.is_none() {
        let keys = keys.map(|at| call.argument(at).into()).collect();
        let (kind, positions) = (WaitKind::SortedSet, Box::default());
        call.wait(KeyWait { kind, keys, timeout: time, positions })?;
    }
    Ok(found)
}

fn pop_first_present<'c>(
    call: &mut DataCall<'c, '_>,
    keys: Range<usize>,
    direction: WalkDirection,
    count: u64,
) -> Result<Option<(&'c [u8], FoundMembers)>, CommandError> {
    for at in keys {
        let key = call.argument(at);
        let set = match SortedSet::open(&mut call.keyspace, key, Access::Write) {
            Err(OpenError::WrongKind) if call.look.has_waited => continue,
            opened => opened?,
        };
        let found = pop_members(set, direction, count)?;
        if found.count() > 0 {
            return Ok(Some((key, found)));
        }
    }
    Ok(None)
}
