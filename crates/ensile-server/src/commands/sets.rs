//! Sets: members without order, and the sets' intersections, unions and differences.
//!
//! Invariants:
//! - An intersection walks the smallest set, and a difference walks the first set.
//! - A result ends early beyond the limit of a reply. A stored result counts with the bytes that a transaction copies.
//!
//! Neighbours: `command_table` names the functions; [`crate::model::elements`] has the members.

use std::collections::HashSet;
use std::ops::ControlFlow;

use ensile_base::random::Random;
use ensile_resp::ReplyEncoder;
use ensile_serving::command::is_called;

use super::arguments::{check_element, check_key, random_count, whole};
use super::found::FoundTexts;
use super::random_elements::{draw, draw_different};
use super::scan::{ScanStep, ScanValues, scan_elements};
use super::{CommandError, CommandResult, DataCall, elements};
use crate::model::Keyspace;
use crate::model::elements::{Access, Collection, Elements};
use crate::model::keyspace::check_copies;
use crate::model::stored_value::Kind;

/// Number of members that a walk reads before it looks at the other sets.
pub(super) const MEMBERS_TOGETHER: i64 = 256;
/// Length of these members in bytes.
pub(super) const MEMBER_BYTES_TOGETHER: usize = 1 << 20;

/// Opens the set of the request's first key.
fn open<'s, 'c, 'db>(
    call: &'s mut DataCall<'c, 'db>,
    access: Access,
) -> Result<Elements<'s, 'c, 'db>, CommandError> {
    elements::open(call, Kind::Set, access)
}

/// `SADD key member ..`: replies the number of new members.
pub(crate) fn add(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    check_key(call.argument(1))?;
    call.arguments(2).try_for_each(check_element)?;
    let members = call.arguments(2);
    let mut set = open(call, Access::Write)?;
    let mut added = 0;
    for member in members {
        added += i64::from(set.add(member, b"")?);
    }
    set.finish()?;
    reply.integer(added);
    Ok(())
}

/// `SREM key member ..`: replies the number of removed members.
pub(crate) fn remove(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    elements::remove(call, Kind::Set, reply)
}

/// `SCARD key`
pub(crate) fn count(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    elements::count(call, Kind::Set, reply)
}

/// `SISMEMBER key member`
pub(crate) fn contains(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    elements::contains(call, Kind::Set, reply)
}

/// `SMISMEMBER key member ..`
pub(crate) fn contains_many(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (members, count) = (call.arguments(2), call.request.len() - 2);
    let mut set = open(call, Access::Read)?;
    reply.array(count);
    for member in members {
        reply.integer(i64::from(set.contains(member)?));
    }
    Ok(())
}

/// `SMOVE source destination member`
pub(crate) fn move_member(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (from, to, member) = (call.argument(1), call.argument(2), call.argument(3));
    check_key(to)?;
    let mut source = open(call, Access::Read)?;
    let is_there = source.contains(member)?;
    if source.into_collection().is_absent() {
        reply.integer(0);
        return Ok(());
    }
    let _: Elements<'_, '_, '_> = Elements::open(&mut call.keyspace, to, Kind::Set, Access::Read)?;
    if is_there && from != to {
        let mut source = open(call, Access::Write)?;
        source.remove(member)?;
        source.finish()?;
        let mut target = Elements::open(&mut call.keyspace, to, Kind::Set, Access::Write)?;
        target.add(member, b"")?;
        target.finish()?;
    }
    reply.integer(i64::from(is_there));
    Ok(())
}

/// All members. The texts end early beyond the limit of a reply.
fn all_members(set: &Collection, keyspace: &mut Keyspace<'_, '_>) -> Result<FoundTexts, CommandError> {
    let mut found = FoundTexts::default();
    set.visit(keyspace, 0, |_, member, _| {
        found.push(member);
        if found.is_beyond_reply() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

fn reply_set(members: &FoundTexts, reply: &mut ReplyEncoder<'_>) {
    reply.set(members.count());
    members.write(reply);
}

/// `SMEMBERS key`
pub(crate) fn members(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let set = open(call, Access::Read)?.into_collection();
    reply_set(&all_members(&set, &mut call.keyspace)?, reply);
    Ok(())
}

/// `SSCAN key cursor [MATCH pattern] [COUNT number]`
pub(crate) fn scan(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    scan_elements(call, Kind::Set, ScanValues::None, reply)
}

/// `SRANDMEMBER key [count]`
pub(crate) fn random_member(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    match call.request.len() {
        2 => match open(call, Access::Read)?.random(&mut Random::unpredictable())? {
            Some(member) => reply.bulk(&member),
            None => reply.null(),
        },
        3 => {
            let count = random_count(call.argument(2))?;
            let set = open(call, Access::Read)?.into_collection();
            draw(&set, &mut call.keyspace, count)?.write_array(reply);
        }
        _ => return Err(CommandError::Syntax),
    }
    Ok(())
}

/// `SPOP key [count]`: shows random members, and removes them.
pub(crate) fn pop(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    if call.request.len() > 3 {
        return Err(CommandError::Syntax);
    }
    if call.request.len() == 2 {
        let mut set = open(call, Access::Write)?;
        let Some(member) = set.random(&mut Random::unpredictable())? else {
            reply.null();
            return Ok(());
        };
        set.remove(&member)?;
        set.finish()?;
        reply.bulk(&member);
        return Ok(());
    }
    let count = whole(call.argument(2)).ok().and_then(|count| u64::try_from(count).ok());
    let count = count.ok_or(CommandError::NotPositive)?;
    let mut set = open(call, Access::Write)?;
    let size = set.count()?;
    let (members, keyspace) = set.parts();
    let found = match count {
        0 => FoundTexts::default(),
        count if count >= size => all_members(members, keyspace)?,
        count => draw_different(members, keyspace, count, size)?,
    };
    reply_set(&found, reply);
    // A client must see the removed members.
    if reply.is_beyond() || found.count() == 0 {
        return Ok(());
    }
    if count >= size {
        return Ok(set.clear()?);
    }
    for member in found.iter() {
        set.remove(member)?;
    }
    Ok(set.finish()?)
}

/// Operation over sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetOperation {
    Intersection,
    Union,
    Difference,
}

/// Bytes that the transaction needs beside each stored member, roughly.
const STORED_ROW_BYTES: usize = 64;

/// Bytes that a stored result counts with.
fn stored_bytes(found: &FoundTexts) -> usize {
    found.bytes() + found.count() * STORED_ROW_BYTES
}

/// End of a result that grows.
#[derive(Clone, Copy, Debug)]
enum ResultLimit {
    /// The result is a reply.
    Reply,
    /// The result is stored.
    Stored,
    /// The number of members counts.
    Members(usize),
}

impl ResultLimit {
    /// True if no more members are wanted.
    fn is_reached(self, found: &FoundTexts) -> bool {
        match self {
            Self::Reply => found.is_beyond_reply(),
            Self::Stored => check_copies(stored_bytes(found)).is_err(),
            Self::Members(count) => found.count() >= count,
        }
    }
}

/// Opens the sets of keys. A key that is repeated behind the first key is opened once.
fn open_all<'c>(
    call: &mut DataCall<'c, '_>,
    keys: impl Iterator<Item = &'c [u8]>,
) -> Result<Vec<Collection>, CommandError> {
    let (mut sets, mut seen) = (Vec::new(), HashSet::new());
    for key in keys {
        // The first set stays beside its repetition: a difference to itself is empty.
        if !sets.is_empty() && !seen.insert(key) {
            continue;
        }
        sets.push(Elements::open(&mut call.keyspace, key, Kind::Set, Access::Read)?.into_collection());
        check_copies(call.keyspace.copied_bytes)?;
    }
    Ok(sets)
}

/// Result of an operation over sets.
fn result_of(
    call: &mut DataCall<'_, '_>,
    operation: SetOperation,
    sets: &[Collection],
    limit: ResultLimit,
) -> Result<FoundTexts, CommandError> {
    let keyspace = &mut call.keyspace;
    match operation {
        SetOperation::Union => union_of(keyspace, sets, limit),
        SetOperation::Intersection if sets.iter().any(Collection::is_absent) => Ok(FoundTexts::default()),
        SetOperation::Intersection => {
            let mut by_size = Vec::with_capacity(sets.len());
            for set in sets {
                by_size.push((set.count(keyspace)?, set));
            }
            by_size.sort_by_key(|(size, _)| *size);
            let sets: Vec<&Collection> = by_size.into_iter().map(|(_, set)| set).collect();
            filtered(keyspace, &sets, true, limit)
        }
        SetOperation::Difference => {
            let Some((first, others)) = sets.split_first() else { return Ok(FoundTexts::default()) };
            let others = others.iter().filter(|set| !set.is_absent());
            let sets: Vec<&Collection> = std::iter::once(first).chain(others).collect();
            filtered(keyspace, &sets, false, limit)
        }
    }
}

/// The members of the first set that all other sets have, or that no other set has.
fn filtered(
    keyspace: &mut Keyspace<'_, '_>,
    sets: &[&Collection],
    others_have: bool,
    limit: ResultLimit,
) -> Result<FoundTexts, CommandError> {
    let mut found = FoundTexts::default();
    let Some((walked, others)) = sets.split_first() else { return Ok(found) };
    let mut from = 0;
    loop {
        let mut step = ScanStep::new(MEMBERS_TOGETHER, MEMBER_BYTES_TOGETHER);
        let mut some = FoundTexts::default();
        walked.visit(keyspace, from, |hash, member, _| {
            if !step.takes(hash, some.bytes()) {
                return ControlFlow::Break(());
            }
            some.push(member);
            ControlFlow::Continue(())
        })?;
        for member in some.iter() {
            if have_all(keyspace, others, member, others_have)? {
                found.push(member);
            }
            if limit.is_reached(&found) {
                return Ok(found);
            }
        }
        check_copies(keyspace.copied_bytes)?;
        from = step.next();
        if from == 0 {
            return Ok(found);
        }
    }
}

/// Bytes that the look-up of a member in another set counts with.
const LOOKUP_BYTES: usize = 64;

/// Counts the look-up of a member in another set with the bytes that the transaction copies, which bounds the time.
pub(super) fn count_lookup(keyspace: &mut Keyspace<'_, '_>) -> CommandResult {
    keyspace.copied_bytes += LOOKUP_BYTES;
    Ok(check_copies(keyspace.copied_bytes)?)
}

/// True if all sets have a member, or if no set has the member.
fn have_all(
    keyspace: &mut Keyspace<'_, '_>,
    sets: &[&Collection],
    member: &[u8],
    have: bool,
) -> Result<bool, CommandError> {
    for set in sets {
        count_lookup(keyspace)?;
        if set.contains(keyspace, member)? != have {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The members of all sets, each once.
fn union_of(
    keyspace: &mut Keyspace<'_, '_>,
    sets: &[Collection],
    limit: ResultLimit,
) -> Result<FoundTexts, CommandError> {
    let (mut found, mut seen) = (FoundTexts::default(), HashSet::new());
    for set in sets {
        set.visit(keyspace, 0, |_, member, _| {
            // One set has each member once.
            if sets.len() == 1 || !seen.contains(member) && seen.insert(member.to_vec()) {
                found.push(member);
            }
            if limit.is_reached(&found) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        check_copies(keyspace.copied_bytes)?;
        if limit.is_reached(&found) {
            break;
        }
    }
    Ok(found)
}

/// Replies the result of an operation over the sets of all keys.
fn show_result(
    call: &mut DataCall<'_, '_>,
    operation: SetOperation,
    reply: &mut ReplyEncoder<'_>,
) -> CommandResult {
    let keys = call.arguments(1);
    let sets = open_all(call, keys)?;
    let found = result_of(call, operation, &sets, ResultLimit::Reply)?;
    reply_set(&found, reply);
    Ok(())
}

/// Stores the result of an operation over the sets of all keys but the first, which is the destination.
fn store_result(
    call: &mut DataCall<'_, '_>,
    operation: SetOperation,
    reply: &mut ReplyEncoder<'_>,
) -> CommandResult {
    let (destination, keys) = (call.argument(1), call.arguments(2));
    check_key(destination)?;
    let sets = open_all(call, keys)?;
    let found = result_of(call, operation, &sets, ResultLimit::Stored)?;
    check_copies(stored_bytes(&found))?;
    let mut stored = Elements::replace(&mut call.keyspace, destination, Kind::Set)?;
    for member in found.iter() {
        let is_new = stored.add(member, b"")?;
        debug_assert!(is_new, "a result has each member once");
    }
    stored.finish()?;
    reply.integer(found.count() as i64);
    Ok(())
}

/// `SINTER key ..`
pub(crate) fn intersection(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    show_result(call, SetOperation::Intersection, reply)
}

/// `SUNION key ..`
pub(crate) fn union(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    show_result(call, SetOperation::Union, reply)
}

/// `SDIFF key ..`
pub(crate) fn difference(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    show_result(call, SetOperation::Difference, reply)
}

/// `SINTERSTORE destination key ..`
pub(crate) fn store_intersection(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    store_result(call, SetOperation::Intersection, reply)
}

/// `SUNIONSTORE destination key ..`
pub(crate) fn store_union(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    store_result(call, SetOperation::Union, reply)
}

/// `SDIFFSTORE destination key ..`
pub(crate) fn store_difference(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    store_result(call, SetOperation::Difference, reply)
}

/// `SINTERCARD numkeys key .. [LIMIT number]`
pub(crate) fn count_intersection(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let count = whole(call.argument(1)).ok().filter(|count| *count > 0);
    let count = count.ok_or(CommandError::Text("numkeys should be greater than 0"))?;
    let keys = usize::try_from(count).ok().filter(|keys| *keys <= call.request.len() - 2);
    let keys = keys.ok_or(CommandError::Text("Number of keys can't be greater than number of args"))?;
    let mut limit = 0;
    for at in (2 + keys..call.request.len()).step_by(2) {
        let argument = call.request.get(at + 1).filter(|_| is_called(call.argument(at), "LIMIT"));
        let number = whole(argument.ok_or(CommandError::Syntax)?).ok();
        let number = number.and_then(|number| usize::try_from(number).ok());
        limit = number.ok_or(CommandError::Text("LIMIT can't be negative"))?;
    }
    let limit = ResultLimit::Members(if limit == 0 { usize::MAX } else { limit });
    let keys = call.arguments(2).take(keys);
    let sets = open_all(call, keys)?;
    let found = result_of(call, SetOperation::Intersection, &sets, limit)?;
    reply.integer(found.count() as i64);
    Ok(())
}
