//! Commands that hashes and sets share: removal, count and presence of elements.
//!
//! Neighbours: `hashes` and `sets` name the kind; [`crate::model::elements`] has the elements.

use ensile_resp::ReplyEncoder;

use super::{CommandError, CommandResult, DataCall};
use crate::model::elements::{Access, Elements};
use crate::model::stored_value::Kind;

/// Opens the collection of the request's first key.
pub(super) fn open<'s, 'c, 'db>(
    call: &'s mut DataCall<'c, 'db>,
    kind: Kind,
    access: Access,
) -> Result<Elements<'s, 'c, 'db>, CommandError> {
    let key = call.argument(1);
    Ok(Elements::open(&mut call.keyspace, key, kind, access)?)
}

/// Replies the number of removed elements.
pub(super) fn remove(call: &mut DataCall<'_, '_>, kind: Kind, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let named = call.arguments(2);
    let mut elements = open(call, kind, Access::Write)?;
    let mut removed = 0;
    for element in named {
        removed += i64::from(elements.remove(element)?);
    }
    elements.finish()?;
    reply.integer(removed);
    Ok(())
}

/// Replies the number of elements.
pub(super) fn count(call: &mut DataCall<'_, '_>, kind: Kind, reply: &mut ReplyEncoder<'_>) -> CommandResult {
    let count = open(call, kind, Access::Read)?.count()?;
    reply.integer(count as i64);
    Ok(())
}

/// Replies 1 for a present element, else 0.
pub(super) fn contains(
    call: &mut DataCall<'_, '_>,
    kind: Kind,
    reply: &mut ReplyEncoder<'_>,
) -> CommandResult {
    let element = call.argument(2);
    let is_there = open(call, kind, Access::Read)?.contains(element)?;
    reply.integer(i64::from(is_there));
    Ok(())
}
