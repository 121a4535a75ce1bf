//! Ranges of sorted sets: by rank, by score, and by member. Ranges are shown, counted, stored and removed.
//!
//! Neighbours: `command_table` names the functions; `scores` reads the bounds; [`crate::model::sorted_set`] walks.

use std::ops::ControlFlow;

use ensile::Result as EngineResult;
use ensile_resp::ReplyEncoder;

use super::arguments::whole;
use super::found_members::{FoundMembers, MembersUse};
use super::scores::{MemberBound, end_place, least_place};
use super::sorted_sets::open;
use super::{CommandError, CommandResult, DataCall};
use crate::model::elements::Access;
use crate::model::sorted_set::{MemberPlace, SortedSet, WalkDirection, order_of};

/// Measure of a range's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RangeBy {
    Rank,
    Score,
    Member,
}

/// Bounds of a range, in the direction of its members.
enum RangeBounds<'r> {
    /// Ranks in the direction of the walk, both included; negative ranks count from the end.
    Ranks(i64, i64),
    Scores {
        from: MemberPlace,
        to: MemberPlace,
    },
    Members {
        from: MemberBound<'r>,
        to: MemberBound<'r>,
    },
}

impl<'r> RangeBounds<'r> {
    /// Reads two arguments. A walk downwards by scores or members has the greater bound first.
    fn read(
        by: RangeBy,
        direction: WalkDirection,
        first: &'r [u8],
        second: &'r [u8],
    ) -> Result<Self, CommandError> {
        let (least, most) = match direction {
            WalkDirection::Up => (first, second),
            WalkDirection::Down => (second, first),
        };
        Ok(match by {
            RangeBy::Rank => Self::Ranks(whole(first)?, whole(second)?),
            RangeBy::Score => Self::Scores { from: least_place(least)?, to: end_place(most)? },
            RangeBy::Member => {
                Self::Members { from: MemberBound::read(least)?, to: MemberBound::read(most)? }
            }
        })
    }

    /// The places of a range by scores or members. The members of a larger range by members have one score. In a small
    /// sorted set such a range has the members from the first that is not too small, up to one that is too great.
    fn places(&self, set: &mut SortedSet<'_, '_, '_>) -> EngineResult<(MemberPlace, MemberPlace)> {
        match self {
            Self::Ranks(..) => Ok((MemberPlace::FIRST, MemberPlace::END)),
            Self::Scores { from, to } => Ok((from.clone(), to.clone())),
            Self::Members { from, to } if set.is_small() => {
                let (mut begin, mut end) = (None, None);
                set.walk(&MemberPlace::FIRST, &MemberPlace::END, WalkDirection::Up, |score, member| {
                    if begin.is_none() && from.is_least_for(member) {
                        begin = Some(MemberPlace::of_member(score, member));
                    }
                    if begin.is_none() || to.is_most_for(member) {
                        return ControlFlow::Continue(());
                    }
                    end = Some(MemberPlace::of_member(score, member));
                    ControlFlow::Break(())
                })?;
                Ok((begin.unwrap_or(MemberPlace::END), end.unwrap_or(MemberPlace::END)))
            }
            Self::Members { from, to } => {
                let mut order = 0;
                set.walk(&MemberPlace::FIRST, &MemberPlace::END, WalkDirection::Up, |score, _| {
                    order = order_of(score);
                    ControlFlow::Break(())
                })?;
                Ok((from.least_place(order), to.end_place(order)))
            }
        }
    }
}

/// A part of a range: the number of skipped members, and the largest number of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RangePart {
    offset: u64,
    count: u64,
}

impl RangePart {
    const ALL: Self = Self { offset: 0, count: u64::MAX };
    const NONE: Self = Self { offset: 0, count: 0 };

    /// The part for the numbers of `LIMIT`. A negative count is no bound.
    fn of_limit(offset: i64, count: i64) -> Self {
        match u64::try_from(offset) {
            Ok(offset) => Self { offset, count: u64::try_from(count).unwrap_or(u64::MAX) },
            Err(_) => Self::NONE,
        }
    }

    /// The part for two ranks.
    fn of_ranks(set: &mut SortedSet<'_, '_, '_>, start: i64, end: i64) -> EngineResult<Self> {
        let count = if start < 0 || end < 0 { set.count()? as i64 } else { 0 };
        let from_end = |rank: i64| if rank < 0 { count.saturating_add(rank) } else { rank };
        let (start, end) = (from_end(start).max(0), from_end(end));
        if start > end {
            return Ok(Self::NONE);
        }
        Ok(Self { offset: start as u64, count: (end - start) as u64 + 1 })
    }
}

/// The members of a part of a range.
fn members_in(
    set: &mut SortedSet<'_, '_, '_>,
    bounds: &RangeBounds<'_>,
    limit: RangePart,
    direction: WalkDirection,
    members_use: MembersUse,
) -> EngineResult<FoundMembers> {
    let (mut from, mut to) = bounds.places(set)?;
    let part = match bounds {
        RangeBounds::Ranks(start, end) => RangePart::of_ranks(set, *start, *end)?,
        RangeBounds::Scores { .. } | RangeBounds::Members { .. } => limit,
    };
    let mut found = FoundMembers::default();
    if part.count == 0 {
        return Ok(found);
    }
    if part.offset > 0 {
        match direction {
            WalkDirection::Up => {
                let rank = if from == MemberPlace::FIRST { 0 } else { set.count_before(&from)? };
                from = set.place_at(rank.saturating_add(part.offset))?;
            }
            WalkDirection::Down => {
                let end = if to == MemberPlace::END { set.count()? } else { set.count_before(&to)? };
                to = match end.checked_sub(part.offset) {
                    Some(end) => set.place_at(end)?,
                    None => MemberPlace::FIRST,
                };
            }
        }
    }
    set.walk(&from, &to, direction, |score, member| {
        found.push(member, score);
        let is_done = found.count() as u64 >= part.count || found.is_beyond(members_use);
        if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

/// Options behind the bounds of a range.
struct RangeOptions {
    by: Option<RangeBy>,
    direction: Option<WalkDirection>,
    with_scores: bool,
    limit: Option<(i64, i64)>,
}

impl RangeOptions {
    /// Reads the options from an argument on. `by` and `direction` are those of the command, if it has them.
    fn read(
        call: &DataCall<'_, '_>,
        from: usize,
        by: Option<RangeBy>,
        direction: Option<WalkDirection>,
        stores: bool,
    ) -> Result<Self, CommandError> {
        let mut options = Self { by, direction, with_scores: false, limit: None };
        let mut at = from;
        while at < call.request.len() {
            match call.argument(at).to_ascii_uppercase().as_slice() {
                b"WITHSCORES" if !stores => options.with_scores = true,
                b"LIMIT" if at + 2 < call.request.len() => {
                    options.limit = Some((whole(call.argument(at + 1))?, whole(call.argument(at + 2))?));
                    at += 2;
                }
                b"REV" if options.direction.is_none() => options.direction = Some(WalkDirection::Down),
                b"BYLEX" if options.by.is_none() => options.by = Some(RangeBy::Member),
                b"BYSCORE" if options.by.is_none() => options.by = Some(RangeBy::Score),
                _ => return Err(CommandError::Syntax),
            }
            at += 1;
        }
        let by = options.by.unwrap_or(RangeBy::Rank);
        if by == RangeBy::Rank && options.limit.is_some_and(|(_, count)| count != -1) {
            return Err(CommandError::Text(
                "syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if by == RangeBy::Member && options.with_scores {
            return Err(CommandError::Text(
                "syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        Ok(options)
    }
}

/// Shows a range whose first bound is argument 2.
fn show(
    call: &mut DataCall<'_, '_>,
    by: Option<RangeBy>,
    direction: Option<WalkDirection>,
    reply: &mut ReplyEncoder<'_>,
) -> CommandResult {
    let options = RangeOptions::read(call, 4, by, direction, false)?;
    let direction = options.direction.unwrap_or(WalkDirection::Up);
    let by = options.by.unwrap_or(RangeBy::Rank);
    let bounds = RangeBounds::read(by, direction, call.argument(2), call.argument(3))?;
    let limit = options.limit.map_or(RangePart::ALL, |(offset, count)| RangePart::of_limit(offset, count));
    let mut set = open(call, Access::Read)?;
    members_in(&mut set, &bounds, limit, direction, MembersUse::Reply)?.write(options.with_scores, reply);
    Ok(())
}

/// `ZRANGE key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`
pub(crate) fn range(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    show(call, None, None, reply)
}

/// `ZREVRANGE key start stop [WITHSCORES]`
pub(crate) fn range_down(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    show(call, Some(RangeBy::Rank), Some(WalkDirection::Down), reply)
}

/// `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]`
pub(crate) fn range_by_score(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    show(call, Some(RangeBy::Score), Some(WalkDirection::Up), reply)
}

/// `ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]`
pub(crate) fn range_by_score_down(
    call: &mut DataCall<'_, '_>,
    reply: &mut ReplyEncoder<'_>,
) -> CommandResult {
    show(call, Some(RangeBy::Score), Some(WalkDirection::Down), reply)
}

/// `ZRANGEBYLEX key min max [LIMIT offset count]`
pub(crate) fn range_by_member(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    show(call, Some(RangeBy::Member), Some(WalkDirection::Up), reply)
}

/// `ZREVRANGEBYLEX key max min [LIMIT offset count]`
pub(crate) fn range_by_member_down(
    call: &mut DataCall<'_, '_>,
    reply: &mut ReplyEncoder<'_>,
) -> CommandResult {
    show(call, Some(RangeBy::Member), Some(WalkDirection::Down), reply)
}

/// `ZRANGESTORE dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]`
pub(crate) fn store_range(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let options = RangeOptions::read(call, 5, None, None, true)?;
    let direction = options.direction.unwrap_or(WalkDirection::Up);
    let by = options.by.unwrap_or(RangeBy::Rank);
    let bounds = RangeBounds::read(by, direction, call.argument(3), call.argument(4))?;
    let limit = options.limit.map_or(RangePart::ALL, |(offset, count)| RangePart::of_limit(offset, count));
    let (destination, source) = (call.argument(1), call.argument(2));
    let mut set = SortedSet::open(&mut call.keyspace, source, Access::Read)?;
    let found = members_in(&mut set, &bounds, limit, direction, MembersUse::Change)?;
    found.store(&mut call.keyspace, destination)?;
    reply.integer(found.count() as i64);
    Ok(())
}

/// Ranks of the first member of a range by scores or members, and of the first member behind.
fn ranks_of(set: &mut SortedSet<'_, '_, '_>, bounds: &RangeBounds<'_>) -> EngineResult<(u64, u64)> {
    let (from, to) = bounds.places(set)?;
    if from >= to {
        return Ok((0, 0));
    }
    Ok((set.count_before(&from)?, set.count_before(&to)?))
}

fn count_range(call: &mut DataCall<'_, '_>, by: RangeBy, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let bounds = RangeBounds::read(by, WalkDirection::Up, call.argument(2), call.argument(3))?;
    let (begin, end) = ranks_of(&mut open(call, Access::Read)?, &bounds)?;
    // No assertion compares both numbers: only the commit checks that both are of one moment.
    reply.integer(end.saturating_sub(begin) as i64);
    Ok(())
}

/// `ZCOUNT key min max`
pub(crate) fn count_by_score(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    count_range(call, RangeBy::Score, reply)
}

/// `ZLEXCOUNT key min max`
pub(crate) fn count_by_member(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    count_range(call, RangeBy::Member, reply)
}

fn remove_range(call: &mut DataCall<'_, '_>, by: RangeBy, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let bounds = RangeBounds::read(by, WalkDirection::Up, call.argument(2), call.argument(3))?;
    let mut set = open(call, Access::Write)?;
    let count = set.count()?;
    let (begin, end) = match bounds {
        RangeBounds::Ranks(start, end) => {
            let part = RangePart::of_ranks(&mut set, start, end)?;
            (part.offset, part.offset.saturating_add(part.count))
        }
        RangeBounds::Scores { .. } | RangeBounds::Members { .. } => ranks_of(&mut set, &bounds)?,
    };
    let removed = end.min(count).saturating_sub(begin);
    if removed > 0 && removed == count {
        set.clear()?;
    } else if removed > 0 {
        let found = members_in(&mut set, &bounds, RangePart::ALL, WalkDirection::Up, MembersUse::Change)?;
        found.check_change()?;
        for (member, score) in found.iter() {
            set.take(member, score)?;
        }
        set.finish()?;
    }
    reply.integer(removed as i64);
    Ok(())
}

/// `ZREMRANGEBYRANK key start stop`
pub(crate) fn remove_by_rank(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    remove_range(call, RangeBy::Rank, reply)
}

/// `ZREMRANGEBYSCORE key min max`
pub(crate) fn remove_by_score(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    remove_range(call, RangeBy::Score, reply)
}

/// `ZREMRANGEBYLEX key min max`
pub(crate) fn remove_by_member(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    remove_range(call, RangeBy::Member, reply)
}
