//! The writer that takes an application's objects for a checkpoint.
//!
//! Neighbours: the application's call-back fills the writer; `called_application` makes it; `crate::chunks` has the
//! walk's place.

use std::collections::VecDeque;
use std::ops::Range;

use ensile_base::Tid;
use ensile_base::limits::OBJECT_BYTES_MAX;
use ensile_durability::CheckpointBlock;

use super::slots::Slots;
use crate::chunks::WalkPlace;
use crate::format::ObjectBody;
use crate::runtime::watchdog::CallBackProgress;

/// Takes objects of an application for a checkpoint (SLACH §3.2's `ckpt`).
pub struct ObjectWriter<'w> {
    slots: &'w dyn Slots,
    sink: ObjectSink<'w>,
    pub(super) is_full: bool,
    version: u16,
    /// Smallest number that the writer takes: behind the taken objects.
    pub(super) least: u64,
    /// Begin of the next slice: objects of this number or a larger number are left to later slices.
    end: u64,
    /// True if an object behind the slice came: no further object is of the slice.
    pub(super) is_over: bool,
    /// Reason why the objects cannot become a checkpoint.
    pub(super) refusal: Option<String>,
    progress: CallBackProgress<'w>,
}

pub(super) enum ObjectSink<'w> {
    Block {
        place: WalkPlace<'w>,
        block: &'w mut CheckpointBlock,
    },
    /// Memory, for a comparison: full without room.
    Collected {
        objects: &'w mut VecDeque<CollectedObject>,
        room: usize,
    },
}

pub(super) struct CollectedObject {
    pub(super) number: u64,
    /// Bytes of the object; `None` for an absent object.
    pub(super) bytes: Option<Box<[u8]>>,
}

impl std::fmt::Debug for ObjectWriter<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ObjectWriter").field("is_full", &self.is_full).finish_non_exhaustive()
    }
}

impl<'w> ObjectWriter<'w> {
    pub(super) fn new(
        slots: &'w dyn Slots,
        sink: ObjectSink<'w>,
        version: u16,
        numbers: &Range<u64>,
        progress: CallBackProgress<'w>,
    ) -> Self {
        let Range { start: least, end } = *numbers;
        assert!(least < end, "a slice without numbers is not written");
        Self { slots, sink, is_full: false, version, least, end, is_over: false, refusal: None, progress }
    }
}

impl ObjectWriter<'_> {
    /// Takes an object's bytes. The caller has held the object's guard since the encoding. False: the object was taken
    /// and there is no further room, or the object is of the next slice; in either case the call-back returns with the
    /// number of the next object.
    #[must_use = "if there is no more room, the call-back returns"]
    pub fn ckpt(&mut self, object: u64, bytes: &[u8]) -> bool {
        if bytes.len() > OBJECT_BYTES_MAX {
            let bytes = bytes.len();
            self.refuse(format!(
                "object {object} takes {bytes} bytes, above the limit of {OBJECT_BYTES_MAX}"
            ));
        }
        self.take(object, Some(bytes))
    }

    /// Takes the objects of these numbers, as far as slice and room allow; returns as
    /// [`checkpoint`](crate::Application::checkpoint) does. `make` appends an object's bytes to an empty buffer and
    /// returns the object's guard, which is held until the bytes are taken; `None` for a missing object.
    ///
    /// # Errors
    /// An error of `make` refuses the checkpoint, as [`refuse`](Self::refuse) does.
    pub fn ckpt_each<G>(
        &mut self,
        numbers: Range<u64>,
        mut make: impl FnMut(u64, &mut Vec<u8>) -> Result<Option<G>, String>,
    ) -> Option<u64> {
        let mut bytes = Vec::new();
        for number in numbers.start..numbers.end.min(self.end) {
            bytes.clear();
            self.progress.set(number);
            let guard = match make(number, &mut bytes) {
                Ok(Some(guard)) => guard,
                Ok(None) => continue,
                Err(why) => {
                    self.refuse(why);
                    return None;
                }
            };
            let has_room = self.ckpt(number, &bytes);
            drop(guard);
            if !has_room {
                return Some(number + 1);
            }
        }
        None
    }

    /// End of the slice: an object of this number or a larger number is of another slice. A call-back that stops at the
    /// end saves the encoding of bytes that would not be taken; the call-back returns this number, or `None`.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Notes that no object has this number, after operations on the object: recovery does not replay these operations
    /// then. The guard is held as for [`ckpt`](Self::ckpt).
    #[must_use = "if there is no more room, the call-back returns"]
    pub fn absent(&mut self, object: u64) -> bool {
        self.take(object, None)
    }

    /// Gives this checkpoint up, with the reason: an object's bytes cannot be made. The requesters of the checkpoint
    /// get the reason; nothing else changes. The call-back returns.
    pub fn refuse(&mut self, why: impl Into<String>) {
        self.refusal.get_or_insert(why.into());
    }

    /// Reason why this writer cannot complete a checkpoint any more; `None` if it can.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    fn take(&mut self, object: u64, bytes: Option<&[u8]>) -> bool {
        if self.is_over {
            self.refuse(format!("object {object} was written although the slice had ended"));
        } else if self.is_full {
            self.refuse(format!("object {object} was written although there was no more room"));
        } else if object < self.least || object == u64::MAX {
            self.refuse(format!("object {object} was written where {} is the least number", self.least));
        }
        if self.refusal.is_some() {
            return false;
        }
        if object >= self.end {
            self.is_over = true;
            return false;
        }
        if let Some(difference) = self.slots.difference(object, bytes) {
            self.refuse(difference);
            return false;
        }
        self.least = object + 1;
        self.progress.set(self.least);
        let tid: Tid = *self.slots.object_slot(object).lock();
        let key = object.to_le_bytes();
        let has_room = match (&mut self.sink, bytes) {
            (ObjectSink::Block { place, block }, Some(bytes)) => {
                place.push(block, tid, &ObjectBody::whole(self.version, &key, bytes))
            }
            (ObjectSink::Block { place, block }, None) => place.push(block, tid, &ObjectBody::absent(&key)),
            (ObjectSink::Collected { objects, room }, bytes) => {
                objects.push_back(CollectedObject { number: object, bytes: bytes.map(Box::from) });
                *room = room.saturating_sub(bytes.map_or(0, <[u8]>::len) + key.len());
                *room > 0
            }
        };
        self.is_full = !has_room;
        has_room
    }
}
