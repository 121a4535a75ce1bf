//! A walk's place between two blocks, and objects longer than a block, in pieces.
//!
//! An object is encoded once, under its lock: all pieces have the TID of that moment. The remainder beyond a block is
//! kept with the walk's place, and fills the next blocks.
//!
//! ```text
//! next 8 | tid 8 | offset 8 | version 2 | key's length 2 | key | the object's encoding      the last five only if one waits
//! ```
//! Invariants:
//! - O5: a loaded object has all of its pieces, and the pieces have one TID.
//!
//! Neighbours: `collection` and `application` walk and load with these types.

use std::collections::HashMap;

use ensile_base::Tid;
use ensile_base::limits::{KEY_BYTES_MAX, OBJECT_BYTES_MAX, OBJECT_PIECE_BYTES};
use ensile_base::sync::Mutex;
use ensile_durability::CheckpointBlock;

use crate::format::{BodyForm, ObjectBody, PiecePlace};

/// Bytes of a place without an object.
const PLACE_BYTES: usize = 8;
/// Bytes before the key of a waiting object.
const HEAD_BYTES: usize = PLACE_BYTES + 8 + 8 + 2 + 2;
/// Mark in place of an offset: the waiting entry is the absence of an object.
const ABSENT: u64 = u64::MAX;
const _: () = assert!((OBJECT_BYTES_MAX as u64) < ABSENT, "no offset is the mark of an absence");

/// Fault of a checkpoint, for every reader (O5).
pub(crate) const LACKS_PIECES: &str = "an object of the checkpoint lacks pieces";

/// Place where a walk goes on: bytes that a checkpoint keeps for the walk between two blocks.
#[derive(Debug)]
pub(crate) struct WalkPlace<'r>(&'r mut Vec<u8>);

impl<'r> WalkPlace<'r> {
    /// Place from these bytes. Without bytes the walk begins at `first`.
    pub(crate) fn from_bytes(bytes: &'r mut Vec<u8>, first: u64) -> Self {
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

    pub(crate) fn next(&self) -> u64 {
        self.number(0)
    }

    pub(crate) fn set_next(&mut self, next: u64) {
        assert!(next >= self.next(), "a walk does not go back: an object would be written twice");
        self.0[..PLACE_BYTES].copy_from_slice(&next.to_le_bytes());
    }

    /// Puts an entry into the block: the absence of an object, or a whole object, if need be its first pieces. The
    /// remainder waits here. False if a remainder waits: the block is full.
    #[must_use = "if something waits, the walk stops here"]
    pub(crate) fn push(&mut self, block: &mut CheckpointBlock, tid: Tid, entry: &ObjectBody<'_>) -> bool {
        assert_eq!(self.0.len(), PLACE_BYTES, "what waits comes first");
        debug_assert!(matches!(entry.form, BodyForm::Whole | BodyForm::Absent), "pieces are made here");
        debug_assert!(entry.bytes.len() <= OBJECT_BYTES_MAX, "its length was looked at");
        if entry.bytes.len() <= OBJECT_PIECE_BYTES && block.has_room(entry.len()) {
            block.push(tid, |body| entry.encode(body));
            return true;
        }
        self.keep(tid, entry);
        self.push_waiting(block)
    }

    fn keep(&mut self, tid: Tid, entry: &ObjectBody<'_>) {
        let ObjectBody { form, version, key, bytes: object } = *entry;
        assert!(key.len() <= KEY_BYTES_MAX, "a key's length has two bytes");
        let offset = if form == BodyForm::Absent { ABSENT } else { 0 };
        self.0.extend_from_slice(&tid.bits().to_le_bytes());
        self.0.extend_from_slice(&offset.to_le_bytes());
        self.0.extend_from_slice(&version.to_le_bytes());
        self.0.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.0.extend_from_slice(key);
        self.0.extend_from_slice(object);
        let bytes = HEAD_BYTES + key.len() + object.len();
        assert_eq!(self.0.len(), bytes, "the key begins behind the head");
    }

    /// Puts the waiting remainder into the block. True if nothing waits any more. An empty block has room for a piece.
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
                offset => BodyForm::Piece(PiecePlace { total, offset }),
            };
            let begin = if offset == ABSENT { 0 } else { offset as usize };
            assert!(begin < object.len() || begin == 0, "an object's last piece ends the wait");
            let end = object.len().min(begin + OBJECT_PIECE_BYTES);
            let body = ObjectBody { form, version, key, bytes: &object[begin..end] };
            if !block.has_room(body.len()) {
                return false;
            }
            block.push(tid, |out| body.encode(out));
            if end as u64 == total {
                self.0.truncate(PLACE_BYTES);
                // The memory of a long object is released.
                self.0.shrink_to(HEAD_BYTES);
            } else {
                self.0[PLACE_BYTES + 8..PLACE_BYTES + 16].copy_from_slice(&(end as u64).to_le_bytes());
            }
        }
        true
    }
}

#[derive(Debug)]
struct PartialObject {
    tid: Tid,
    bytes: Vec<u8>,
    missing: u64,
}

/// Objects under reassembly from pieces, which come from several files, in any order.
#[derive(Debug, Default)]
pub(crate) struct Assembly(Mutex<HashMap<Box<[u8]>, PartialObject>>);

impl Assembly {
    /// Adds a piece. Returns the whole object after its last piece. The error is the fault of the piece.
    pub(crate) fn add(
        &self,
        tid: Tid,
        body: &ObjectBody<'_>,
        place: PiecePlace,
    ) -> Result<Option<Vec<u8>>, &'static str> {
        let PiecePlace { total, offset } = place;
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

    /// True if every begun object is whole (O5).
    pub(crate) fn is_whole(&self) -> bool {
        self.0.lock().is_empty()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
