//! Random fields and members: `HRANDFIELD`, `SRANDMEMBER`, `SPOP`. Each element has the same chance.
//!
//! Neighbours: `hashes` and `sets` reply; [`crate::model::elements`] draws one element.

use std::collections::HashSet;
use std::ops::ControlFlow;

use ensile_base::random::Random;

use super::CommandError;
use super::found::FoundTexts;
use crate::model::Keyspace;
use crate::model::elements::Collection;

/// Number of rows whose walk takes as long as the draw of one element.
const ROWS_PER_DRAW: u64 = 64;
/// Number of drawn elements beyond which no reply has room, even for empty elements.
const DRAWS_MAX: u64 = (ensile_serving::REPLY_BYTES / "$0\r\n\r\n".len() + 1) as u64;

/// Different random elements, `count` at most. The number of elements of the collection is `size`.
pub(super) fn draw_different(
    elements: &Collection,
    keyspace: &mut Keyspace<'_, '_>,
    count: u64,
    size: u64,
) -> Result<FoundTexts, CommandError> {
    let (mut random, mut found) = (Random::unpredictable(), FoundTexts::default());
    if count.saturating_mul(ROWS_PER_DRAW) < size {
        let mut drawn = HashSet::new();
        // Most draws are new. The bound ends a loop over rows of different moments.
        for _ in 0..count * 2 + ROWS_PER_DRAW {
            if drawn.len() as u64 == count || found.is_beyond_reply() {
                break;
            }
            let Some(element) = elements.random(keyspace, &mut random)? else { break };
            if drawn.insert(element.clone()) {
                found.push(&element);
            }
        }
        return Ok(found);
    }
    // Each element is taken with the chance that the rest of the draws needs.
    let (mut needed, mut left) = (count.min(size), size);
    elements.visit_names(keyspace, |element| {
        if left > 0 && random.next_below(left) < needed {
            found.push(element);
            needed -= 1;
        }
        left = left.saturating_sub(1);
        let is_done = needed == 0 || found.is_beyond_reply();
        if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found)
}

/// Random elements, `count` in number, of which some may be the same. None without elements. The number of elements
/// ends early beyond the limit of a reply.
pub(super) fn draw_repeatedly(
    elements: &Collection,
    keyspace: &mut Keyspace<'_, '_>,
    count: u64,
    size: u64,
) -> Result<FoundTexts, CommandError> {
    let (mut random, mut found) = (Random::unpredictable(), FoundTexts::default());
    let count = count.min(DRAWS_MAX);
    if count.saturating_mul(ROWS_PER_DRAW) < size {
        for _ in 0..count {
            let Some(element) = elements.random(keyspace, &mut random)? else { break };
            found.push(&element);
            if found.is_beyond_reply() {
                break;
            }
        }
        return Ok(found);
    }
    if size == 0 {
        return Ok(found);
    }
    // One walk finds the elements of all drawn ranks.
    let mut ranks: Vec<u64> = (0..count).map(|_| random.next_below(size)).collect();
    ranks.sort_unstable();
    let (mut ranks, mut rank) = (ranks.into_iter().peekable(), 0);
    elements.visit_names(keyspace, |element| {
        while ranks.next_if_eq(&rank).is_some() && !found.is_beyond_reply() {
            found.push(element);
        }
        rank += 1;
        let is_done = ranks.peek().is_none() || found.is_beyond_reply();
        if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found.shuffled(&mut random))
}

/// Random elements for the number of a request: different elements, or repeated draws for a negative number.
pub(super) fn draw(
    elements: &Collection,
    keyspace: &mut Keyspace<'_, '_>,
    count: i64,
) -> Result<FoundTexts, CommandError> {
    if count == 0 || elements.is_absent() {
        return Ok(FoundTexts::default());
    }
    let size = elements.count(keyspace)?;
    if count < 0 {
        return draw_repeatedly(elements, keyspace, count.unsigned_abs(), size);
    }
    draw_different(elements, keyspace, count.unsigned_abs(), size)
}
