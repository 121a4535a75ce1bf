//! Arguments of commands of streams: ids, ranges of ids, and options that trim.
//!
//! Neighbours: `streams`, `stream_reads` and `stream_info` read the arguments; [`crate::model::stream`] has the
//! entries.

use std::ops::RangeInclusive;

use ensile_serving::command::is_called;

use super::arguments::whole;
use super::{CommandError, DataCall};
use crate::model::stream::{EntryId, Stream};

/// Number of entries that an approximate trim removes together, as `stream-node-max-entries` of redis.
pub(super) const BLOCK_ENTRIES: u64 = 100;
/// Largest number of entries that an approximate trim without `LIMIT` removes, as in redis.
const ROUGH_LIMIT: u64 = 100 * BLOCK_ENTRIES;

const INVALID_ID: CommandError = CommandError::Text("Invalid stream ID specified as stream command argument");

/// An id of the form `ms-seq`, or `ms`, which has the sequence number `missing`.
pub(super) fn entry_id(text: &[u8], missing: u64) -> Result<EntryId, CommandError> {
    let mut parts = text.splitn(2, |byte| *byte == b'-');
    let millis = parts.next().and_then(part).ok_or(INVALID_ID)?;
    let sequence = match parts.next() {
        Some(text) => part(text).ok_or(INVALID_ID)?,
        None => missing,
    };
    Ok(EntryId::new(millis, sequence))
}

/// A number of an id. Redis lets white space and a sign stand before.
fn part(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']).parse().ok()
}

/// The ids from a bound to another: an id, an excluded id behind `(`, `-` for the least, `+` for the greatest.
pub(super) fn id_range(least: &[u8], greatest: &[u8]) -> Result<RangeInclusive<EntryId>, CommandError> {
    let bound = |text: &[u8], missing: u64| -> Result<(EntryId, bool), CommandError> {
        Ok(match text {
            b"-" => (EntryId::MIN, false),
            b"+" => (EntryId::MAX, false),
            [b'(', id @ ..] if !id.is_empty() => (entry_id(id, missing)?, true),
            _ => (entry_id(text, missing)?, false),
        })
    };
    let (first, is_excluded) = bound(least, 0)?;
    let first = if is_excluded { first.next() } else { Some(first) };
    let first = first.ok_or(CommandError::Text("invalid start ID for the interval"))?;
    let (last, is_excluded) = bound(greatest, u64::MAX)?;
    let last = if is_excluded { last.previous() } else { Some(last) };
    Ok(first..=last.ok_or(CommandError::Text("invalid end ID for the interval"))?)
}

/// Id of an entry to add.
#[derive(Clone, Copy, Debug)]
pub(super) enum NewId {
    /// `*`: the present time.
    OfNow,
    /// `ms-*`: the next sequence number of these milliseconds.
    OfMillis(u64),
    Given(EntryId),
}

impl NewId {
    fn read(text: &[u8]) -> Result<Self, CommandError> {
        match text.strip_suffix(b"-*") {
            Some(millis) if !millis.contains(&b'-') => part(millis).map(Self::OfMillis).ok_or(INVALID_ID),
            _ => Ok(Self::Given(entry_id(text, 0)?)),
        }
    }

    /// The id for an entry behind the last id.
    pub(super) fn id_behind(self, last: EntryId, now_millis: i64) -> Result<EntryId, CommandError> {
        const TOO_SMALL: CommandError = CommandError::Text(
            "The ID specified in XADD is equal or smaller than the target stream top item",
        );
        let next = last.next().ok_or(CommandError::Text(
            "The stream has exhausted the last possible ID, unable to add more items",
        ))?;
        let id = match self {
            Self::OfNow => next.max(EntryId::new(u64::try_from(now_millis).unwrap_or(0), 0)),
            // Behind the last sequence number come the next milliseconds.
            Self::OfMillis(millis) if millis == last.millis() && next.millis() > millis => {
                return Err(TOO_SMALL);
            }
            Self::OfMillis(millis) if millis == last.millis() => next,
            Self::OfMillis(millis) => EntryId::new(millis, 0),
            Self::Given(id) => id,
        };
        if id > last { Ok(id) } else { Err(TOO_SMALL) }
    }
}

/// Entries that a trim keeps.
#[derive(Clone, Copy, Debug)]
enum KeptEntries {
    /// The last entries, this number at most.
    Count(u64),
    /// The entries from this id on.
    From(EntryId),
}

/// A trim: `MAXLEN` or `MINID`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trim {
    kept: KeptEntries,
    /// True if some more entries may be kept (`~`).
    is_rough: bool,
    /// Largest number of removed entries of an approximate trim.
    limit: u64,
}

impl Trim {
    /// Removes the entries before the kept ones, and returns their number.
    pub(super) fn apply(self, stream: &mut Stream<'_, '_, '_>) -> Result<u64, CommandError> {
        let limit = if self.is_rough { self.limit } else { u64::MAX };
        let mut count = match self.kept {
            KeptEntries::Count(most) => stream.count()?.saturating_sub(most).min(limit),
            // An exact trim by an id needs no look at the tail.
            KeptEntries::From(id) => stream.count_below(id, limit)?,
        };
        if self.is_rough {
            let figures = stream.figures()?;
            // Blocks are counted from the first entry that ever came. The last block may have few entries.
            let end = figures.removed.saturating_add(count);
            if count < figures.count {
                count = (end - end % BLOCK_ENTRIES).saturating_sub(figures.removed);
            }
        }
        debug_assert!(count <= limit, "a trim keeps to its limit");
        stream.shorten(count)?;
        Ok(count)
    }
}

/// Options of `XADD` and `XTRIM`.
#[derive(Debug, Default)]
pub(super) struct TrimOptions {
    pub(super) trim: Option<Trim>,
    /// True if an absent key stays absent.
    pub(super) only_present: bool,
    /// The id of `XADD`, and its place in the request.
    pub(super) id: Option<(NewId, usize)>,
}

impl TrimOptions {
    /// Reads the options behind the key: up to the id for `XADD`, else all.
    pub(super) fn read(call: &DataCall<'_, '_>, is_add: bool) -> Result<Self, CommandError> {
        let (mut options, mut limit) = (Self::default(), None);
        let (mut kept, mut is_rough, mut at) = (None, false, 2);
        while at < call.request.len() {
            let (word, has_more) = (call.argument(at), at + 1 < call.request.len());
            if is_add && word == b"*" {
                options.id = Some((NewId::OfNow, at));
                break;
            } else if has_more && (is_called(word, "MAXLEN") || is_called(word, "MINID")) {
                if kept.is_some() {
                    return Err(CommandError::Text(
                        "syntax error, MAXLEN and MINID options at the same time are not compatible",
                    ));
                }
                let sign = Some(call.argument(at + 1)).filter(|_| at + 2 < call.request.len());
                is_rough = sign == Some(b"~");
                at += usize::from(is_rough || sign == Some(b"="));
                kept = Some(kept_by(word, call.argument(at + 1))?);
                at += 1;
            } else if has_more && is_called(word, "LIMIT") {
                const NEGATIVE: CommandError = CommandError::Text("The LIMIT argument must be >= 0.");
                limit = Some(u64::try_from(whole(call.argument(at + 1))?).map_err(|_| NEGATIVE)?);
                at += 1;
            } else if is_add && is_called(word, "NOMKSTREAM") {
                options.only_present = true;
            } else if is_add {
                options.id = Some((NewId::read(word)?, at));
                break;
            } else {
                return Err(CommandError::Syntax);
            }
            at += 1;
        }
        let text = match (kept, limit) {
            (None, Some(1..)) => "syntax error, LIMIT cannot be used without specifying a trimming strategy",
            (None, _) if !is_add => "syntax error, XTRIM must be called with a trimming strategy",
            (_, Some(_)) if !is_rough => "syntax error, LIMIT cannot be used without the special ~ option",
            _ => {
                let limit = limit.map_or(ROUGH_LIMIT, |limit| if limit == 0 { u64::MAX } else { limit });
                options.trim = kept.map(|kept| Trim { kept, is_rough, limit });
                return Ok(options);
            }
        };
        Err(CommandError::Text(text))
    }
}

/// Entries that the argument of `MAXLEN` or `MINID` keeps.
fn kept_by(option: &[u8], argument: &[u8]) -> Result<KeptEntries, CommandError> {
    if is_called(option, "MINID") {
        return entry_id(argument, 0).map(KeptEntries::From);
    }
    const NEGATIVE: CommandError = CommandError::Text("The MAXLEN argument must be >= 0.");
    u64::try_from(whole(argument)?).map(KeptEntries::Count).map_err(|_| NEGATIVE)
}
