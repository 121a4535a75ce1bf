//! Unions, intersections and differences of sorted sets and of sets. The members of a set have the score 1.
//!
//! Invariants:
//! - Inputs of a union or an intersection are read from the smallest to the largest, as in redis, so a sum of scores is
//!   the same number.
//! - A result counts with the bytes that a transaction copies.
//!
//! Neighbours: `command_table` names the functions; [`crate::model::elements`] has the members of the inputs.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use ensile_resp::ReplyEncoder;
use ensile_serving::command::is_called;

use super::arguments::{check_key, whole};
use super::found::FoundTexts;
use super::found_members::{FoundMembers, MembersUse, check_change};
use super::scan::ScanStep;
use super::scores::score;
use super::sets::{MEMBER_BYTES_TOGETHER, MEMBERS_TOGETHER, count_lookup};
use super::{CommandError, CommandResult, DataCall};
use crate::model::Keyspace;
use crate::model::elements::{Access, Collection, Elements};
use crate::model::keyspace::check_copies;
use crate::model::sorted_set::{order_of, score_in};
use crate::model::stored_value::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScoredOperation {
    Union,
    Intersection,
    Difference,
}

/// Score of a member that several inputs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Least,
    Greatest,
}

impl Aggregate {
    fn combined(self, score: f64, other: f64) -> f64 {
        match self {
            Self::Sum => zero_for_nan(score + other),
            Self::Least => {
                if other < score {
                    other
                } else {
                    score
                }
            }
            Self::Greatest => {
                if other > score {
                    other
                } else {
                    score
                }
            }
        }
    }
}

/// The score, and 0 for the sum of both infinities, or for the product of 0 and an infinity.
fn zero_for_nan(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// Purpose of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultPurpose {
    Show,
    Store,
    Count,
}

/// An input: a sorted set or a set.
struct Input {
    members: Collection,
    is_set: bool,
    count: u64,
    weight: f64,
}

impl Input {
    fn open(call: &mut DataCall<'_, '_>, key: &[u8]) -> Result<Self, CommandError> {
        let kind = call.keyspace.summary(key)?.map(|value| value.header.kind);
        let is_set = kind == Some(Kind::Set);
        let kind = if is_set { Kind::Set } else { Kind::SortedSet };
        let members = Elements::open(&mut call.keyspace, key, kind, Access::Read)?.into_collection();
        let count = members.count(&mut call.keyspace)?;
        check_copies(call.keyspace.copied_bytes)?;
        Ok(Self { members, is_set, count, weight: 1.0 })
    }

    fn score_in(&self, value: &[u8]) -> ensile::Result<f64> {
        if self.is_set { Ok(1.0) } else { score_in(value) }
    }

    fn score(&self, keyspace: &mut Keyspace<'_, '_>, member: &[u8]) -> Result<Option<f64>, CommandError> {
        count_lookup(keyspace)?;
        let value = self.members.get(keyspace, member)?;
        Ok(value.map(|value| self.score_in(&value)).transpose()?)
    }

    /// Walks all members with their scores, without the weight, until `visit` breaks.
    fn walk(
        &self,
        keyspace: &mut Keyspace<'_, '_>,
        mut visit: impl FnMut(&mut Keyspace<'_, '_>, &[u8], f64) -> Result<ControlFlow<()>, CommandError>,
    ) -> CommandResult {
        let mut from = 0;
        loop {
            let mut step = ScanStep::new(MEMBERS_TOGETHER, MEMBER_BYTES_TOGETHER);
            let (mut some, mut scores, mut failed) = (FoundTexts::default(), Vec::new(), None);
            self.members.visit(keyspace, from, |hash, member, value| {
                if !step.takes(hash, some.bytes()) {
                    return ControlFlow::Break(());
                }
                match self.score_in(value) {
                    Ok(score) => scores.push(score),
                    Err(error) => {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                }
                some.push(member);
                ControlFlow::Continue(())
            })?;
            if let Some(error) = failed {
                return Err(error.into());
            }
            check_copies(keyspace.copied_bytes)?;
            for (member, score) in some.iter().zip(scores) {
                if visit(keyspace, member, score)?.is_break() {
                    return Ok(());
                }
            }
            from = step.next();
            if from == 0 {
                return Ok(());
            }
        }
    }
}

/// The arguments of an operation.
struct OperationCall {
    inputs: Vec<Input>,
    aggregate: Aggregate,
    purpose: ResultPurpose,
    with_scores: bool,
    /// Number of members after which the count of an intersection ends.
    limit: Option<u64>,
}

impl OperationCall {
    /// Reads the arguments from the number of keys at `from` on, and opens the inputs.
    fn read(
        call: &mut DataCall<'_, '_>,
        from: usize,
        operation: ScoredOperation,
        purpose: ResultPurpose,
        command: &'static str,
    ) -> Result<Self, CommandError> {
        let key_count = whole(call.argument(from))?;
        let behind = call.request.len() - (from + 1);
        if key_count < 1 {
            return Err(CommandError::NoInput(command));
        }
        let key_count = usize::try_from(key_count).ok().filter(|count| *count <= behind);
        let key_count = key_count.ok_or(CommandError::Syntax)?;
        let (mut inputs, mut seen) = (Vec::with_capacity(key_count), HashSet::new());
        for at in from + 1..=from + key_count {
            let key = call.argument(at);
            // The first input of a difference stays beside its repetition.
            if operation == ScoredOperation::Difference && !inputs.is_empty() && !seen.insert(key) {
                continue;
            }
            inputs.push(Input::open(call, key)?);
        }
        let mut read = Self { inputs, aggregate: Aggregate::Sum, purpose, with_scores: false, limit: None };
        let mut at = from + 1 + key_count;
        while at < call.request.len() {
            at += read.read_option(call, at, operation, purpose)?;
        }
        Ok(read)
    }

    /// Reads an option, and returns the number of its arguments.
    fn read_option(
        &mut self,
        call: &DataCall<'_, '_>,
        at: usize,
        operation: ScoredOperation,
        purpose: ResultPurpose,
    ) -> Result<usize, CommandError> {
        let (word, behind) = (call.argument(at), call.request.len() - (at + 1));
        let has_weights = operation != ScoredOperation::Difference && purpose != ResultPurpose::Count;
        if has_weights && is_called(word, "WEIGHTS") && behind >= self.inputs.len() {
            for (input, text) in self.inputs.iter_mut().zip(call.arguments(at + 1)) {
                input.weight = score(text).map_err(|_| CommandError::Text("weight value is not a float"))?;
            }
            return Ok(1 + self.inputs.len());
        }
        if has_weights && is_called(word, "AGGREGATE") && behind >= 1 {
            self.aggregate = match call.argument(at + 1).to_ascii_uppercase().as_slice() {
                b"SUM" => Aggregate::Sum,
                b"MIN" => Aggregate::Least,
                b"MAX" => Aggregate::Greatest,
                _ => return Err(CommandError::Syntax),
            };
            return Ok(2);
        }
        if purpose == ResultPurpose::Show && is_called(word, "WITHSCORES") {
            self.with_scores = true;
            return Ok(1);
        }
        if purpose == ResultPurpose::Count && is_called(word, "LIMIT") && behind >= 1 {
            let limit = whole(call.argument(at + 1)).ok().and_then(|limit| u64::try_from(limit).ok());
            let limit = limit.ok_or(CommandError::Text("LIMIT can't be negative"))?;
            self.limit = Some(limit).filter(|limit| *limit > 0);
            return Ok(2);
        }
        Err(CommandError::Syntax)
    }

    /// The result, in no order.
    fn result(
        mut self,
        keyspace: &mut Keyspace<'_, '_>,
        operation: ScoredOperation,
    ) -> Result<FoundMembers, CommandError> {
        if operation != ScoredOperation::Difference {
            self.inputs.sort_by_key(|input| input.count);
        }
        match operation {
            ScoredOperation::Union => self.union(keyspace),
            ScoredOperation::Intersection => self.intersection(keyspace),
            ScoredOperation::Difference => self.difference(keyspace),
        }
    }

    fn union(&self, keyspace: &mut Keyspace<'_, '_>) -> Result<FoundMembers, CommandError> {
        let (mut scores, mut found) = (HashMap::<Vec<u8>, f64>::new(), FoundMembers::default());
        let mut member_bytes = 0;
        for input in &self.inputs {
            input.walk(keyspace, |_, member, score| {
                let score = zero_for_nan(input.weight * score);
                if let Some(sum) = scores.get_mut(member) {
                    *sum = self.aggregate.combined(*sum, score);
                } else {
                    scores.insert(member.to_vec(), score);
                    member_bytes += member.len();
                    check_change(scores.len(), member_bytes)?;
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        scores.iter().for_each(|(member, score)| found.push(member, *score));
        Ok(found)
    }

    fn intersection(&self, keyspace: &mut Keyspace<'_, '_>) -> Result<FoundMembers, CommandError> {
        let mut found = FoundMembers::default();
        let Some((first, others)) = self.inputs.split_first() else { return Ok(found) };
        first.walk(keyspace, |keyspace, member, score| {
            let mut sum = zero_for_nan(first.weight * score);
            for other in others {
                let Some(score) = other.score(keyspace, member)? else {
                    return Ok(ControlFlow::Continue(()));
                };
                sum = self.aggregate.combined(sum, other.weight * score);
            }
            found.push(member, sum);
            Ok(self.end_of(&found))
        })?;
        Ok(found)
    }

    fn difference(&self, keyspace: &mut Keyspace<'_, '_>) -> Result<FoundMembers, CommandError> {
        let mut found = FoundMembers::default();
        let Some((first, others)) = self.inputs.split_first() else { return Ok(found) };
        let others: Vec<&Input> = others.iter().filter(|other| !other.members.is_absent()).collect();
        first.walk(keyspace, |keyspace, member, score| {
            for other in &others {
                count_lookup(keyspace)?;
                if other.members.contains(keyspace, member)? {
                    return Ok(ControlFlow::Continue(()));
                }
            }
            found.push(member, score);
            Ok(self.end_of(&found))
        })?;
        Ok(found)
    }

    /// Ends a walk whose result is complete, or is beyond the limit of its purpose. The latter is an error.
    fn end_of(&self, found: &FoundMembers) -> ControlFlow<()> {
        let is_done = match self.purpose {
            ResultPurpose::Show => found.is_beyond(MembersUse::Reply),
            ResultPurpose::Store => found.is_beyond(MembersUse::Change),
            ResultPurpose::Count => self.limit.is_some_and(|limit| found.count() as u64 >= limit),
        };
        if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Shows a result in the order of scores.
fn show(
    call: &mut DataCall<'_, '_>,
    operation: ScoredOperation,
    command: &'static str,
    reply: &mut ReplyEncoder<'_>,
) -> CommandResult {
    let read = OperationCall::read(call, 1, operation, ResultPurpose::Show, command)?;
    let with_scores = read.with_scores;
    let result = read.result(&mut call.keyspace, operation)?;
    let mut members: Vec<(&[u8], f64)> = result.iter().collect();
    members.sort_unstable_by_key(|(member, score)| (order_of(*score), *member));
    let mut sorted = FoundMembers::default();
    for (member, score) in members {
        sorted.push(member, score);
        if sorted.is_beyond(MembersUse::Reply) {
            break;
        }
    }
    sorted.write(with_scores, reply);
    Ok(())
}

fn store(
    call: &mut DataCall<'_, '_>,
    operation: ScoredOperation,
    command: &'static str,
    reply: &mut ReplyEncoder<'_>,
) -> CommandResult {
    let destination = call.argument(1);
    check_key(destination)?;
    let read = OperationCall::read(call, 2, operation, ResultPurpose::Store, command)?;
    let result = read.result(&mut call.keyspace, operation)?;
    result.store(&mut call.keyspace, destination)?;
    reply.integer(result.count() as i64);
    Ok(())
}

/// `ZUNION numkeys key .. [WEIGHTS weight ..] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]`
pub(crate) fn union(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    show(call, ScoredOperation::Union, "zunion", reply)
}

/// `ZINTER numkeys key .. [WEIGHTS weight ..] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]`
pub(crate) fn intersection(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    show(call, ScoredOperation::Intersection, "zinter", reply)
}

/// `ZDIFF numkeys key .. [WITHSCORES]`
pub(crate) fn difference(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    show(call, ScoredOperation::Difference, "zdiff", reply)
}

/// `ZUNIONSTORE destination numkeys key .. [WEIGHTS weight ..] [AGGREGATE SUM | MIN | MAX]`
pub(crate) fn store_union(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    store(call, ScoredOperation::Union, "zunionstore", reply)
}

/// `ZINTERSTORE destination numkeys key .. [WEIGHTS weight ..] [AGGREGATE SUM | MIN | MAX]`
pub(crate) fn store_intersection(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    store(call, ScoredOperation::Intersection, "zinterstore", reply)
}

/// `ZDIFFSTORE destination numkeys key ..`
pub(crate) fn store_difference(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    store(call, ScoredOperation::Difference, "zdiffstore", reply)
}

/// `ZINTERCARD numkeys key .. [LIMIT limit]`
pub(crate) fn count_intersection(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let read =
        OperationCall::read(call, 1, ScoredOperation::Intersection, ResultPurpose::Count, "zintercard")?;
    let count = read.result(&mut call.keyspace, ScoredOperation::Intersection)?.count();
    reply.integer(count as i64);
    Ok(())
}
