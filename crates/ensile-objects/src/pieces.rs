//! A walk's place between two blocks, and objects that are longer than a block, in pieces.
//!
//! An object is encoded once, under its lock: all pieces have the TID of that moment. What did not fit the block is
//! kept with the walk's place, and fills the next blocks.
//!
//! ```text
//! next 8 | tid 8 | offset 8 | version 2 | key's length 2 | key | the object's encoding      the last five only if one waits
//! ```
//! Invariants:
//! - O5: an object that is loaded has all of its pieces, and they are of one TID.
//!
//! Neighbours: `collection` and `application` walk and load with these.

use std::collections::HashMap;

use ensile_base::Tid;
use ensile_base::limits::{OBJECT_BYTES_MAX, OBJECT_PIECE_BYTES};
use ensile_base::sync::Mutex;
use ensile_durability::CheckpointBlock;

use crate::format::{BodyForm, ObjectBody};

/// Bytes of a place without an object.
const PLACE_BYTES: usize = 8;
/// Bytes before the key of an object that waits.
const HEAD_BYTES: usize = PLACE_BYTES + 8 + 8 + 2 + 2;
/// In place of an offset: what waits says that there is no such object.
const ABSENT: u64 = u64::MAX;

/// Where a walk goes on: the bytes that a checkpoint keeps for it between two blocks.
#[derive(Debug)]
pub(crate) struct WalkPlace<'r>(&'r mut Vec<u8>);

impl<'r> WalkPlace<'r> {
    /// Of these bytes; none yet: the walk begins at `first`.
    pub(crate) fn of(bytes: &'r mut Vec<u8>, first: u64) -> Self {
        if bytes.is_empty() {
            bytes.extend_from_slice(&first.to_le_bytes());
        }
        assert!(bytes.len() == PLACE_BYTES || bytes.len() >= HEAD_BYTES, "a place is one of the two forms");
        Self(bytes)
    }

    fn number(&self, at: usize) -> u64 {
        let mut number = [0; 8];
        number.copy_from_slice(&self.0[at..at + 8]);
        u64::from_le_bytes(number)
    }

    /// What it looks at next.
    pub(crate) fn next(&self) -> u64 {
        self.number(0)
    }

    /// Moves on.
    pub(crate) fn set_next(&mut self, next: u64) {
        self.0[..PLACE_BYTES].copy_from_slice(&next.to_le_bytes());
    }

    /// Puts an entry of an object into the block, all of it or the first pieces; what has no room waits here. False if
    /// something waits: the block is full.
    #[must_use = "if something waits, the walk stops here"]
    pub(crate) fn push(
        &mut self,
        block: &mut CheckpointBlock,
        tid: Tid,
        (version, key): (u16, &[u8]),
        object: &[u8],
    ) -> bool {
        assert_eq!(self.0.len(), PLACE_BYTES, "what waits comes first");
        debug_assert!(object.len() <= OBJECT_BYTES_MAX, "its length was looked at");
        let whole = ObjectBody { form: BodyForm::Whole, version, key, bytes: object };
        if object.len() <= OBJECT_PIECE_BYTES && block.has_room(whole.len()) {
            block.push(tid, |body| whole.encode(body));
            return true;
        }
        self.keep(tid, 0, (version, key), object);
        self.push_waiting(block)
    }

    /// As [`WalkPlace::push`], of a key without an object.
    #[must_use = "if something waits, the walk stops here"]
    pub(crate) fn push_absent(&mut self, block: &mut CheckpointBlock, tid: Tid, key: &[u8]) -> bool {
        assert_eq!(self.0.len(), PLACE_BYTES, "what waits comes first");
        self.keep(tid, ABSENT, (0, key), &[]);
        self.push_waiting(block)
    }

    fn keep(&mut self, tid: Tid, offset: u64, (version, key): (u16, &[u8]), object: &[u8]) {
        self.0.extend_from_slice(&tid.bits().to_le_bytes());
        self.0.extend_from_slice(&offset.to_le_bytes());
        self.0.extend_from_slice(&version.to_le_bytes());
        self.0.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.0.extend_from_slice(key);
        self.0.extend_from_slice(object);
    }

    /// Puts what waits into the block; true if nothing waits any more. An empty block has room for a piece.
    #[must_use = "if something waits, the walk stops here"]
    pub(crate) fn push_waiting(&mut self, block: &mut CheckpointBlock) -> bool {
        while self.0.len() > PLACE_BYTES {
            let tid = Tid::from_word(self.number(PLACE_BYTES));
            let offset = self.number(PLACE_BYTES + 8);
            let version = u16::from_le_bytes([self.0[24], self.0[25]]);
            let key_bytes = usize::from(u16::from_le_bytes([self.0[26], self.0[27]]));
            let (key, object) = self.0[HEAD_BYTES..].split_at(key_bytes);
            let total = object.len() as u64;
            let form = match offset {
                ABSENT => BodyForm::Absent,
                _ if object.len() <= OBJECT_PIECE_BYTES => BodyForm::Whole,
                offset => BodyForm::Piece { total, offset },
            };
            let begin = if offset == ABSENT { 0 } else { offset as usize };
            let end = object.len().min(begin + OBJECT_PIECE_BYTES);
            let body = ObjectBody { form, version, key, bytes: &object[begin..end] };
            if !block.has_room(body.len()) {
                return false;
            }
            block.push(tid, |out| body.encode(out));
            if end as u64 == total {
                self.0.truncate(PLACE_BYTES);
                // What a long object took is not kept.
                self.0.shrink_to(HEAD_BYTES);
            } else {
                self.0[PLACE_BYTES + 8..PLACE_BYTES + 16].copy_from_slice(&(end as u64).to_le_bytes());
            }
        }
        true
    }
}

/// An object of which pieces are missing.
#[derive(Debug)]
struct PartialObject {
    tid: Tid,
    bytes: Vec<u8>,
    missing: u64,
}

/// Objects that are put together again from pieces, which come from several files, in any order.
#[derive(Debug, Default)]
pub(crate) struct Assembly(Mutex<HashMap<Box<[u8]>, PartialObject>>);

impl Assembly {
    /// Adds a piece; all of the object, if it was the last.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn add(
        &self,
        tid: Tid,
        body: &ObjectBody<'_>,
        (total, offset): (u64, u64),
    ) -> Result<Option<Vec<u8>>, &'static str> {
        let length = body.bytes.len() as u64;
        let fits = offset.checked_add(length).is_some_and(|end| end <= total);
        if !fits || length == 0 || total > OBJECT_BYTES_MAX as u64 {
            return Err("a piece lies outside its object");
        }
        let mut partial = self.0.lock();
        let fresh = || PartialObject { tid, bytes: vec![0; total as usize], missing: total };
        let object = partial.entry(body.key.into()).or_insert_with(fresh);
        if object.tid != tid || object.bytes.len() as u64 != total || object.missing < length {
            return Err("pieces of an object do not belong together");
        }
        object.bytes[offset as usize..][..body.bytes.len()].copy_from_slice(body.bytes);
        object.missing -= length;
        let is_whole = object.missing == 0;
        Ok(if is_whole { partial.remove(body.key).map(|object| object.bytes) } else { None })
    }

    /// Whether every object that was begun is whole (O5).
    pub(crate) fn is_whole(&self) -> bool {
        self.0.lock().is_empty()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
