//! Lists: items in the order of their places, from both ends.
//!
//! Neighbours: `command_table` names the functions; [`crate::model::list`] has the items.

use std::ops::ControlFlow;

use ensile_resp::ReplyEncoder;
use ensile_serving::command::is_called;

use super::arguments::{check_key, check_string, whole};
use super::found::FoundTexts;
use super::{CommandError, CommandResult, DataCall};
use crate::model::elements::Access;
use crate::model::list::{End, List};
use crate::model::stored_value::Kind;

/// Opens the list of the request's first key.
fn open<'s, 'c, 'db>(
    call: &'s mut DataCall<'c, 'db>,
    access: Access,
) -> Result<List<'s, 'c, 'db>, CommandError> {
    let key = call.argument(1);
    Ok(List::open(&mut call.keyspace, key, access)?)
}

/// `LPUSH key item ..`
pub(crate) fn push_head(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    push(call, End::Head, false, reply)
}

/// `RPUSH key item ..`
pub(crate) fn push_tail(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    push(call, End::Tail, false, reply)
}

/// `LPUSHX key item ..`
pub(crate) fn push_head_present(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    push(call, End::Head, true, reply)
}

/// `RPUSHX key item ..`
pub(crate) fn push_tail_present(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    push(call, End::Tail, true, reply)
}

/// Pushes the items of the request, and replies the number of all items. With `only_present`, an absent key stays
/// absent.
fn push(
    call: &mut DataCall<'_, '_>,
    end: End,
    only_present: bool,
    reply: &mut ReplyEncoder<'_>,
) -> CommandResult {
    check_key(call.argument(1))?;
    call.arguments(2).try_for_each(|item| check_string(item.len()))?;
    let items = call.arguments(2);
    let mut list = open(call, Access::Write)?;
    if only_present && list.is_absent() {
        reply.integer(0);
        return Ok(());
    }
    for item in items {
        list.push(end, item)?;
    }
    // The number rests on the other end, which another client may pop: the end is read as late as possible.
    let count = list.count()?;
    list.finish()?;
    reply.integer(count as i64);
    Ok(())
}

/// `LPOP key [count]`
pub(crate) fn pop_head(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    pop(call, End::Head, "lpop", reply)
}

/// `RPOP key [count]`
pub(crate) fn pop_tail(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    pop(call, End::Tail, "rpop", reply)
}

/// Pops an item, or an array of items if the request has a number of items.
fn pop(
    call: &mut DataCall<'_, '_>,
    end: End,
    command: &'static str,
    reply: &mut ReplyEncoder<'_>,
) -> CommandResult {
    if call.request.len() > 3 {
        return Err(CommandError::WrongNumber(command));
    }
    if call.request.len() == 2 {
        let mut list = open(call, Access::Write)?;
        let item = list.pop(end)?;
        list.finish()?;
        match item {
            Some(item) => reply.bulk(&item),
            None => reply.null(),
        }
        return Ok(());
    }
    let count_max = at_least(call.argument(2), 0, "value is out of range, must be positive")?;
    let list = open(call, Access::Write)?;
    if list.is_absent() {
        reply.null_array();
        return Ok(());
    }
    let items = pop_many(list, end, count_max)?;
    items.write_array(reply);
    Ok(())
}

/// Pops `count_max` items at most. Nothing is popped that a reply has no room for.
pub(super) fn pop_many(
    mut list: List<'_, '_, '_>,
    end: End,
    count_max: u64,
) -> Result<FoundTexts, CommandError> {
    let mut items = FoundTexts::default();
    list.visit(end, 0, count_max, |_, item| {
        items.push(item);
        until_beyond(&items)
    })?;
    if items.may_be_beyond_reply() {
        return Err(CommandError::Text("the reply would be too long: pop fewer items at once"));
    }
    if items.count() > 0 {
        list.shorten(end, items.count() as u64)?;
        list.finish()?;
    }
    Ok(items)
}

/// Ends a walk once a reply has no room for more.
fn until_beyond(items: &FoundTexts) -> ControlFlow<()> {
    if items.is_beyond_reply() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// A whole number that is at least this. The error has this text.
fn at_least(text: &[u8], least: u64, error: &'static str) -> Result<u64, CommandError> {
    let number = whole(text).ok().and_then(|number| u64::try_from(number).ok());
    number.filter(|number| *number >= least).ok_or(CommandError::Text(error))
}

/// `LMPOP numkeys key .. LEFT | RIGHT [COUNT count]`
pub(crate) fn pop_first_present(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let wanted = PopOfMany::read(call, 1)?;
    for at in wanted.keys {
        let key = call.argument(at);
        let list = List::open(&mut call.keyspace, key, Access::Write)?;
        if list.is_absent() {
            continue;
        }
        let items = pop_many(list, wanted.end, wanted.count_max)?;
        reply.array(2);
        reply.bulk(key);
        items.write_array(reply);
        return Ok(());
    }
    reply.null_array();
    Ok(())
}

/// Arguments of `LMPOP` and `BLMPOP`.
pub(super) struct PopOfMany {
    /// Places of the keys in the request.
    pub(super) keys: std::ops::Range<usize>,
    pub(super) end: End,
    pub(super) count_max: u64,
}

impl PopOfMany {
    /// Reads the arguments from the number of keys on.
    pub(super) fn read(call: &DataCall<'_, '_>, from: usize) -> Result<Self, CommandError> {
        let key_count = at_least(call.argument(from), 1, "numkeys should be greater than 0")?;
        let end_at = usize::try_from(key_count).ok().and_then(|count| count.checked_add(from + 1));
        let end_at = end_at.filter(|at| *at < call.request.len()).ok_or(CommandError::Syntax)?;
        let end = end_called(call.argument(end_at))?;
        let (mut count_max, mut at) = (None, end_at + 1);
        while at < call.request.len() {
            if count_max.is_some() || !is_called(call.argument(at), "COUNT") || at + 1 == call.request.len() {
                return Err(CommandError::Syntax);
            }
            count_max = Some(at_least(call.argument(at + 1), 1, "count should be greater than 0")?);
            at += 2;
        }
        Ok(Self { keys: from + 1..end_at, end, count_max: count_max.unwrap_or(1) })
    }
}

/// The end that `LEFT` or `RIGHT` names.
pub(super) fn end_called(word: &[u8]) -> Result<End, CommandError> {
    if is_called(word, "LEFT") {
        Ok(End::Head)
    } else if is_called(word, "RIGHT") {
        Ok(End::Tail)
    } else {
        Err(CommandError::Syntax)
    }
}

/// `LMOVE source destination LEFT | RIGHT LEFT | RIGHT`
pub(crate) fn move_item(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (from, to) = (end_called(call.argument(3))?, end_called(call.argument(4))?);
    move_between(call, from, to, reply)
}

/// `RPOPLPUSH source destination`
pub(crate) fn move_tail_to_head(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    move_between(call, End::Tail, End::Head, reply)
}

fn move_between(
    call: &mut DataCall<'_, '_>,
    from: End,
    to: End,
    reply: &mut ReplyEncoder<'_>,
) -> CommandResult {
    if !is_moved(call, from, to, reply)? {
        reply.null();
    }
    Ok(())
}

/// Moves an item from the list of the first key to the list of the second key, and replies the item. False without an
/// item: nothing is replied.
pub(super) fn is_moved(
    call: &mut DataCall<'_, '_>,
    from: End,
    to: End,
    reply: &mut ReplyEncoder<'_>,
) -> Result<bool, CommandError> {
    let (source, destination) = (call.argument(1), call.argument(2));
    check_key(destination)?;
    if open(call, Access::Write)?.is_absent() {
        return Ok(false);
    }
    let target = call.keyspace.slot(destination)?;
    if target.header.is_some_and(|header| header.kind != Kind::List) {
        return Err(CommandError::WrongKind);
    }
    let mut list = open(call, Access::Write)?;
    // Only rows of different moments have a key and no item, and then the commit fails.
    let Some(item) = list.pop(from)? else { return Ok(false) };
    if source == destination {
        list.push(to, &item)?;
        list.finish()?;
    } else {
        list.finish()?;
        let mut list = List::open(&mut call.keyspace, destination, Access::Write)?;
        list.push(to, &item)?;
        list.finish()?;
    }
    reply.bulk(&item);
    Ok(true)
}

/// `LLEN key`
pub(crate) fn count(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let count = open(call, Access::Read)?.count()?;
    reply.integer(count as i64);
    Ok(())
}

/// `LINDEX key index`
pub(crate) fn item_at(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let index = whole(call.argument(2));
    let mut list = open(call, Access::Read)?;
    // Redis looks for the key first.
    let item = if list.is_absent() { None } else { list.get(index?)? };
    match item {
        Some(item) => reply.bulk(&item),
        None => reply.null(),
    }
    Ok(())
}

/// Items from the first index to the last index, of which a negative index counts from the tail.
struct IndexRange {
    first: i64,
    last: i64,
}

impl IndexRange {
    fn read(call: &DataCall<'_, '_>) -> Result<Self, CommandError> {
        Ok(Self { first: whole(call.argument(2))?, last: whole(call.argument(3))? })
    }

    /// Number of items before the range, and number of items of the range at most.
    fn places(&self, list: &mut List<'_, '_, '_>) -> Result<(u64, u64), CommandError> {
        // Indexes from the head need no look at the tail.
        let count = if self.first < 0 || self.last < 0 { list.count()? } else { 0 };
        let from_head = |index: i64| {
            if index < 0 { count as i64 + index } else { index }
        };
        let (first, last) = (from_head(self.first).max(0), from_head(self.last));
        let length = if last < first { 0 } else { last.abs_diff(first).saturating_add(1) };
        Ok((first.unsigned_abs(), length))
    }
}

/// `LRANGE key first last`
pub(crate) fn range(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let range = IndexRange::read(call)?;
    let mut list = open(call, Access::Read)?;
    let (skipped, count_max) = range.places(&mut list)?;
    let mut items = FoundTexts::default();
    list.visit(End::Head, skipped, count_max, |_, item| {
        items.push(item);
        until_beyond(&items)
    })?;
    items.write_array(reply);
    Ok(())
}

/// `LTRIM key first last`
pub(crate) fn trim(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let range = IndexRange::read(call)?;
    let mut list = open(call, Access::Write)?;
    if !list.is_absent() {
        let (skipped, kept) = range.places(&mut list)?;
        let left = list.count()?.saturating_sub(skipped);
        list.trim(skipped, kept.min(left))?;
        list.finish()?;
    }
    reply.simple("OK");
    Ok(())
}

/// `LSET key index item`
pub(crate) fn set(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (index, item) = (whole(call.argument(2)), call.argument(3));
    check_string(item.len())?;
    let mut list = open(call, Access::Write)?;
    if list.is_absent() {
        return Err(CommandError::NoSuchKey);
    }
    if !list.set(index?, item)? {
        return Err(CommandError::Text("index out of range"));
    }
    list.finish()?;
    reply.simple("OK");
    Ok(())
}

/// `LINSERT key BEFORE | AFTER pivot item`
pub(crate) fn insert(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (place, pivot, item) = (call.argument(2), call.argument(3), call.argument(4));
    let behind = if is_called(place, "AFTER") {
        1
    } else if is_called(place, "BEFORE") {
        0
    } else {
        return Err(CommandError::Syntax);
    };
    check_string(item.len())?;
    let mut list = open(call, Access::Write)?;
    if list.is_absent() {
        reply.integer(0);
        return Ok(());
    }
    let mut found = None;
    list.visit(End::Head, 0, u64::MAX, |at, other| {
        if other != pivot {
            return ControlFlow::Continue(());
        }
        found = Some(at);
        ControlFlow::Break(())
    })?;
    let Some(at) = found else {
        reply.integer(-1);
        return Ok(());
    };
    list.insert(at + behind, item)?;
    let count = list.count()?;
    list.finish()?;
    reply.integer(count as i64);
    Ok(())
}

/// `LREM key count item`: a negative number removes from the tail on, and zero removes all.
pub(crate) fn remove(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let (count, item) = (whole(call.argument(2))?, call.argument(3));
    let mut list = open(call, Access::Write)?;
    let from = if count < 0 { End::Tail } else { End::Head };
    let mut indexes = Vec::new();
    list.visit(from, 0, u64::MAX, |at, other| {
        if other == item {
            indexes.push(at);
        }
        if count != 0 && indexes.len() as u64 == count.unsigned_abs() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    if from == End::Tail && !indexes.is_empty() {
        let last = list.count()?.saturating_sub(1);
        indexes.iter_mut().for_each(|index| *index = last.saturating_sub(*index));
        indexes.reverse();
    }
    list.remove(&indexes)?;
    list.finish()?;
    reply.integer(indexes.len() as i64);
    Ok(())
}

/// Options of `LPOS`.
struct SearchOptions {
    from: End,
    /// Number of matches before the first match that counts.
    skipped: u64,
    /// Number of matches; `None` replies one match and no array.
    count: Option<u64>,
    /// Largest number of compared items.
    compared_max: u64,
}

impl SearchOptions {
    fn read(call: &DataCall<'_, '_>) -> Result<Self, CommandError> {
        let mut options = Self { from: End::Head, skipped: 0, count: None, compared_max: u64::MAX };
        let mut at = 3;
        while at < call.request.len() {
            let word = call.argument(at);
            if at + 1 == call.request.len() {
                return Err(CommandError::Syntax);
            }
            let value = call.argument(at + 1);
            if is_called(word, "RANK") {
                let rank = whole(value)?;
                options.from = if rank < 0 { End::Tail } else { End::Head };
                options.skipped = rank.unsigned_abs().checked_sub(1).ok_or(CommandError::Text(
                    "RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to \
                     start from the end of the list",
                ))?;
            } else if is_called(word, "COUNT") {
                options.count = Some(at_least(value, 0, "COUNT can't be negative")?);
            } else if is_called(word, "MAXLEN") {
                let compared_max = at_least(value, 0, "MAXLEN can't be negative")?;
                options.compared_max = if compared_max == 0 { u64::MAX } else { compared_max };
            } else {
                return Err(CommandError::Syntax);
            }
            at += 2;
        }
        Ok(options)
    }
}

/// `LPOS key item [RANK rank] [COUNT count] [MAXLEN compared]`
pub(crate) fn search(call: &mut DataCall<'_, '_>, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let item = call.argument(2);
    let options = SearchOptions::read(call)?;
    let mut list = open(call, Access::Read)?;
    let wanted = match options.count {
        None => 1,
        Some(0) => u64::MAX,
        Some(count) => count,
    };
    let (mut skipped, mut found) = (options.skipped, Vec::new());
    list.visit(options.from, 0, options.compared_max, |at, other| {
        if other == item {
            if skipped == 0 {
                found.push(at);
            } else {
                skipped -= 1;
            }
        }
        if found.len() as u64 == wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if options.from == End::Tail && !found.is_empty() {
        let last = list.count()?.saturating_sub(1);
        found.iter_mut().for_each(|index| *index = last.saturating_sub(*index));
    }
    match (options.count, found.first()) {
        (None, Some(index)) => reply.integer(*index as i64),
        (None, None) => reply.null(),
        (Some(_), _) => {
            reply.array(found.len());
            found.iter().for_each(|index| reply.integer(*index as i64));
        }
    }
    Ok(())
}
