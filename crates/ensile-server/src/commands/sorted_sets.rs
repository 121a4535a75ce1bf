//! Sorted sets: scores of members, ranks, pops and random members.
//!
//! Neighbours: `command_table` names the functions; `sorted_set_ranges` and `sorted_set_operations` have the other
//! commands; [`crate::model::sorted_set`] has the members.

use std::ops::ControlFlow;

use ensile_resp::{ReplyEncoder, RespVersion};
use ensile_serving::command::is_called;

use super::arguments::{check_element, check_key, random_count, whole};
use super::found_members::{FoundMembers, MembersUse};
use super::random_elements::draw;
use super::scan::{ScanValues, scan_elements};
use super::scores::score;
use super::{CommandError, CommandResult, DataCall};
use crate::model::elements::{Access, Elements};
use crate::model::sorted_set::{MemberPlace, SortedSet, WalkDirection, score_in};
use crate::model::stored_value::Kind;

/// Opens the sorted set of the request's first key.
pub(super) fn open<'s, 'c, 'db>(
    call: &'s mut DataCall<'c, 'db>,
    access: Access,
) -> Result<SortedSet<'s, 'c, 'db>, CommandError> {
    let key = call.argument(1);
    Ok(SortedSet::open(&mut call.keyspace, key, access)?)
}

/// Options of `ZADD`.
#[derive(Clone, Copy, Default)]
struct AddOptions {
    only_absent: bool,
    only_present: bool,
    only_greater: bool,
    only_less: bool,
    /// True if the reply also counts members with another score than before.
    counts_changed: bool,
    /// True if the score is added to the member's score.
    increments: bool,
}

impl AddOptions {
    /// Reads the options, and returns the number of the first argument behind.
    fn read(call: &DataCall<'_, '_>, increments: bool) -> (Self, usize) {
        let (mut options, mut at) = (Self { increments, ..Self::default() }, 2);
        while at < call.request.len() {
            match call.argument(at).to_ascii_uppercase().as_slice() {
                b"NX" => options.only_absent = true,
                b"XX" => options.only_present = true,
                b"GT" => options.only_greater = true,
                b"LT" => options.only_less = true,
                b"CH" => options.counts_changed = true,
                b"INCR" => options.increments = true,
                _ => break,
            }
            at += 1;
        }
        (options, at)
    }

    /// Checks the options with the number of pairs behind.
    fn check(self, arguments_behind: usize) -> CommandResult {
        let Self { only_absent, only_present, only_greater, only_less, .. } = self;
        if arguments_behind == 0 || !arguments_behind.is_multiple_of(2) {
            return Err(CommandError::Syntax);
        }
        if only_absent && only_present {
            return Err(CommandError::Text("XX and NX options at the same time are not compatible"));
        }
        if (only_greater || only_less) && only_absent || only_greater && only_less {
            let text = "GT, LT, and/or NX options at the same time are not compatible";
            return Err(CommandError::Text(text));
        }
        if self.increments && arguments_behind > 2 {
            return Err(CommandError::Text("INCR option supports a single increment-element pair"));
        }
        Ok(())
    }

    /// The score that a member gets; `None` if an option forbids the change.
    fn new_score(self, old: Option<f64>, given: f64) -> Result<Option<f64>, CommandError> {
        let Some(old) = old else { return Ok(Some(given).filter(|_| !self.only_present)) };
        if self.only_absent {
            return Ok(None);
        }
        let new = if self.increments { old + given } else { given };
        if new.is_nan() {
            return Err(CommandError::Text("resulting score is not a number (NaN)"));
        }
        let is_forbidden = self.only_less && new >= old || self.only_greater && new <= old;
        Ok(Some(new).filter(|_| !is_forbidden))
    }
}

/// `ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member ..`
pub(crate) fn add(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    add_scores(call, false, reply)
}

/// `ZINCRBY key increment member`
pub(crate) fn increment(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    add_scores(call, true, reply)
}

fn add_scores(call: &mut DataCall<'_, '_>, increments: bool, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (options, begin) = AddOptions::read(call, increments);
    let request = call.request;
    options.check(request.len() - begin)?;
    let mut scores = Vec::with_capacity((request.len() - begin) / 2);
    for at in (begin..request.len()).step_by(2) {
        scores.push(score(call.argument(at))?);
    }
    check_key(call.argument(1))?;
    call.arguments(begin + 1).step_by(2).try_for_each(check_element)?;
    let members = call.arguments(begin + 1).step_by(2);
    let mut set = open(call, Access::Write)?;
    let (mut added, mut changed, mut last) = (0, 0, None);
    for (member, given) in members.zip(scores) {
        let old = set.score(member)?;
        last = options.new_score(old, given)?;
        if let Some(new) = last {
            added += i64::from(old.is_none());
            changed += i64::from(old.is_some_and(|old| old != new));
            set.set(member, old, new)?;
        }
    }
    set.finish()?;
    match last {
        Some(score) if options.increments => reply.double(score),
        None if options.increments => reply.null(),
        _ => reply.integer(if options.counts_changed { added + changed } else { added }),
    }
    Ok(())
}

/// `ZREM key member ..`: replies the number of removed members.
pub(crate) fn remove(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let members = call.arguments(2);
    let mut set = open(call, Access::Write)?;
    let mut removed = 0;
    for member in members {
        removed += i64::from(set.remove(member)?);
    }
    set.finish()?;
    reply.integer(removed);
    Ok(())
}

/// `ZCARD key`
pub(crate) fn count(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let count = open(call, Access::Read)?.count()?;
    reply.integer(count as i64);
    Ok(())
}

fn reply_score(score: Option<f64>, reply: &mut ReplyEncoder<'_>) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}

/// `ZSCORE key member`
pub(crate) fn score_of(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let member = call.argument(2);
    reply_score(open(call, Access::Read)?.score(member)?, reply);
    Ok(())
}

/// `ZMSCORE key member ..`
pub(crate) fn scores_of(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (members, count) = (call.arguments(2), call.request.len() - 2);
    let mut set = open(call, Access::Read)?;
    reply.array(count);
    for member in members {
        reply_score(set.score(member)?, reply);
    }
    Ok(())
}

/// `ZRANK key member`
pub(crate) fn rank(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    reply_rank(call, WalkDirection::Up, reply)
}

/// `ZREVRANK key member`
pub(crate) fn rank_down(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    reply_rank(call, WalkDirection::Down, reply)
}

fn reply_rank(
    call: &mut DataCall<'_, '_>,
    direction: WalkDirection,
    reply: &mut ReplyEncoder<'_>,
) -> CommandResult {
    let member = call.argument(2);
    let mut set = open(call, Access::Read)?;
    let Some(score) = set.score(member)? else {
        reply.null();
        return Ok(());
    };
    let before = set.count_before(&MemberPlace::of_member(score, member))?;
    let rank = match direction {
        WalkDirection::Up => before,
        // No assertion compares both numbers: only the commit checks that both are of one moment.
        WalkDirection::Down => set.count()?.saturating_sub(before + 1),
    };
    reply.integer(rank as i64);
    Ok(())
}

/// `ZSCAN key cursor [MATCH pattern] [COUNT number]`
pub(crate) fn scan(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    scan_elements(call, Kind::SortedSet, ScanValues::Scores, reply)
}

/// `ZRANDMEMBER key [count [WITHSCORES]]`
pub(crate) fn random_member(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (key, arguments) = (call.argument(1), call.request.len());
    if arguments == 2 {
        let mut set = Elements::open(&mut call.keyspace, key, Kind::SortedSet, Access::Read)?;
        match set.random(&mut ensile_base::random::Random::unpredictable())? {
            Some(member) => reply.bulk(&member),
            None => reply.null(),
        }
        return Ok(());
    }
    let (count, with_scores) = (random_count(call.argument(2))?, arguments == 4);
    if arguments > 4 || with_scores && !is_called(call.argument(3), "WITHSCORES") {
        return Err(CommandError::Syntax);
    }
    if with_scores && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
        return Err(CommandError::Text("value is out of range"));
    }
    let set = Elements::open(&mut call.keyspace, key, Kind::SortedSet, Access::Read)?.into_collection();
    let members = draw(&set, &mut call.keyspace, count)?;
    let mut found = FoundMembers::default();
    for member in members.iter() {
        let value = if with_scores { set.get(&mut call.keyspace, member)? } else { None };
        found.push(member, value.map_or(Ok(0.0), |value| score_in(&value))?);
        if found.is_beyond(MembersUse::Reply) {
            break;
        }
    }
    found.write(with_scores, reply);
    Ok(())
}

/// Removes the first or the last members of a sorted set, `count` at most. An error removes nothing: a reply must have
/// room for the members.
pub(super) fn pop_members(
    mut set: SortedSet<'_, '_, '_>,
    direction: WalkDirection,
    count: u64,
) -> Result<FoundMembers, CommandError> {
    let mut found = FoundMembers::default();
    if count == 0 {
        return Ok(found);
    }
    set.walk(&MemberPlace::FIRST, &MemberPlace::END, direction, |score, member| {
        found.push(member, score);
        let is_done = found.count() as u64 >= count || found.is_beyond(MembersUse::Reply);
        if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if found.may_be_beyond_reply() {
        return Err(CommandError::Text("the reply would be too long: pop fewer members at once"));
    }
    if found.count() as u64 == set.count()? {
        set.clear()?;
        return Ok(found);
    }
    found.check_change()?;
    for (member, score) in found.iter() {
        set.take(member, score)?;
    }
    set.finish()?;
    Ok(found)
}

/// `ZPOPMIN key [count]`
pub(crate) fn pop_first(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    pop(call, WalkDirection::Up, reply)
}

/// `ZPOPMAX key [count]`
pub(crate) fn pop_last(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    pop(call, WalkDirection::Down, reply)
}

fn pop(call: &mut DataCall<'_, '_>, direction: WalkDirection, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let count = match call.request.len() {
        2 => 1,
        3 => {
            let count = whole(call.argument(2)).ok().and_then(|count| u64::try_from(count).ok());
            count.ok_or(CommandError::NotPositive)?
        }
        _ => return Err(CommandError::Syntax),
    };
    let are_pairs = call.request.len() == 3 && reply.version() == RespVersion::Resp3;
    let found = pop_members(open(call, Access::Write)?, direction, count)?;
    if are_pairs {
        found.write_pairs(reply)
    } else {
        found.write_flat(reply)
    }
    Ok(())
}

/// The keys, the direction and the number of members of `ZMPOP` from the number of keys on.
pub(super) struct ManyPop {
    pub(super) keys: std::ops::Range<usize>,
    pub(super) direction: WalkDirection,
    pub(super) count: u64,
}

impl ManyPop {
    /// Reads the arguments from the number of keys at `from` on.
    pub(super) fn read(call: &DataCall<'_, '_>, from: usize) -> Result<Self, CommandError> {
        let positive = |text: &[u8], error: &'static str| {
            let number = whole(text).ok().filter(|number| *number > 0);
            number.map(i64::unsigned_abs).ok_or(CommandError::Text(error))
        };
        let key_count = positive(call.argument(from), "numkeys should be greater than 0")?;
        let end = usize::try_from(key_count).unwrap_or(usize::MAX).saturating_add(from + 1);
        let word = call.request.get(end).ok_or(CommandError::Syntax)?;
        let direction = if is_called(word, "MIN") {
            WalkDirection::Up
        } else if is_called(word, "MAX") {
            WalkDirection::Down
        } else {
            return Err(CommandError::Syntax);
        };
        let (mut count, mut at) = (None, end + 1);
        while at < call.request.len() {
            if count.is_some() || !is_called(call.argument(at), "COUNT") || at + 1 == call.request.len() {
                return Err(CommandError::Syntax);
            }
            count = Some(positive(call.argument(at + 1), "count should be greater than 0")?);
            at += 2;
        }
        Ok(Self { keys: from + 1..end, direction, count: count.unwrap_or(1) })
    }
}

/// `ZMPOP numkeys key .. MIN | MAX [COUNT count]`: members of the first key that is present.
pub(crate) fn pop_many(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let ManyPop { keys, direction, count } = ManyPop::read(call, 1)?;
    for at in keys {
        let key = call.argument(at);
        let set = SortedSet::open(&mut call.keyspace, key, Access::Write)?;
        let found = pop_members(set, direction, count)?;
        if found.count() > 0 {
            reply.array(2);
            reply.bulk(key);
            found.write_pairs(reply);
            return Ok(());
        }
    }
    reply.null_array();
    Ok(())
}
