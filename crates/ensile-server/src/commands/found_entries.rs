//! Found entries of streams, kept until a reply announces their number.
//!
//! Neighbours: `streams`, `stream_reads` and `stream_info` collect and reply.

use std::ops::{ControlFlow, RangeInclusive};

use ensile_resp::ReplyEncoder;

use super::CommandError;
use crate::model::packed;
use crate::model::sorted_set::WalkDirection;
use crate::model::stream::{EntryId, Stream};

/// Rough length of an entry in a reply beside its fields, in bytes.
const ENTRY_BYTES: usize = "*2\r\n$20\r\n1700000000000-0\r\n*2\r\n".len();

/// Entries in the order of the walk.
#[derive(Debug, Default)]
pub(super) struct FoundEntries {
    /// Ids, and packed fields and values.
    entries: Vec<(EntryId, Vec<u8>)>,
    /// Rough length of the reply in bytes.
    bytes: usize,
}

impl FoundEntries {
    /// Reads the entries of a range, `count_max` at most, and no more than a reply has room for.
    pub(super) fn read(
        stream: &mut Stream<'_, '_, '_>,
        ids: RangeInclusive<EntryId>,
        direction: WalkDirection,
        count_max: u64,
    ) -> Result<Self, CommandError> {
        let mut found = Self::default();
        if count_max > 0 {
            stream.visit(ids, direction, |id, fields| {
                found.push(id, fields);
                let is_full = found.entries.len() as u64 >= count_max || found.is_beyond_reply();
                if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        Ok(found)
    }

    fn push(&mut self, id: EntryId, fields: &[u8]) {
        let lengths = packed::items(fields).count() * "$0\r\n\r\n".len();
        self.bytes += ENTRY_BYTES + fields.len() + lengths;
        debug_assert!(self.entries.last().is_none_or(|(last, _)| *last != id), "a walk shows an entry once");
        self.entries.push((id, fields.to_vec()));
    }

    /// Rough length of the reply in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if a reply has no room for the entries. The reply is then an error.
    pub(super) fn is_beyond_reply(&self) -> bool {
        self.bytes > ensile_serving::REPLY_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn write_array(&self, reply: &mut ReplyEncoder<'_>) {
        reply.array(self.entries.len());
        for (id, fields) in &self.entries {
            write_entry(*id, fields, reply);
        }
    }

    /// Writes the first entry, or the absence.
    pub(super) fn write_first(&self, reply: &mut ReplyEncoder<'_>) {
        match self.entries.first() {
            Some((id, fields)) => write_entry(*id, fields, reply),
            None => reply.null(),
        }
    }

    /// Id of the first entry; the least id without entries.
    pub(super) fn first_id(&self) -> EntryId {
        self.entries.first().map_or(EntryId::MIN, |(id, _)| *id)
    }
}

fn write_entry(id: EntryId, fields: &[u8], reply: &mut ReplyEncoder<'_>) {
    reply.array(2);
    reply.bulk(id.to_string().as_bytes());
    reply.array(packed::items(fields).count());
    packed::items(fields).for_each(|item| reply.bulk(item.bytes));
}
