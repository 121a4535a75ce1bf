//! The walk of a checkpoint over an application's objects, which the application's call-back enumerates.
//!
//! Invariants:
//! - O7: an entry has the TID of its object's slot, read while the application holds the object's guard.
//! - O5: a long object stands in pieces with the same TID.
//! - Objects come in the order of their numbers, each once: an object that stands in a checkpoint twice could not be
//!   loaded. A slice has a range of numbers, and takes no object of another slice.
//! - O6: a checkpoint has no object that was poisoned before the walk came to the object.
//!
//! Neighbours: a checkpointer calls, a block at a time; `crate::chunks` has the walk's place.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::limits::OBJECT_BYTES_MAX;
use ensile_base::{Epoch, Tid};
use ensile_durability::{CheckpointBlock, Slice, UserCode, Walk};

use super::{Application, ApplicationState, Slots};
use crate::chunks::WalkPlace;
use crate::format::ObjectBody;
use crate::runtime::watchdog::CallBackProgress;

/// Takes objects of an application for a checkpoint (SLACH §3.2's `ckpt`).
pub struct ObjectWriter<'w> {
    slots: &'w dyn Slots,
    sink: ObjectSink<'w>,
    is_full: bool,
    /// Version of the application's objects.
    version: u16,
    /// Smallest number that the writer takes: behind the taken objects.
    least: u64,
    /// Begin of the next slice: objects of this number or a larger number are left to later slices.
    end: u64,
    /// True if an object behind the slice came: no further object is of the slice.
    is_over: bool,
    /// Reason why the objects cannot become a checkpoint.
    refusal: Option<String>,
    progress: CallBackProgress<'w>,
}

/// Destination of objects.
pub(super) enum ObjectSink<'w> {
    /// A block of a checkpoint.
    Block { place: WalkPlace<'w>, block: &'w mut CheckpointBlock },
    /// Memory, for a comparison: full without room.
    Collected { objects: &'w mut VecDeque<CollectedObject>, room: usize },
}

/// An object as written.
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

    /// Takes an object's bytes, or its absence.
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

impl<A: Application> Walk for ApplicationState<A> {
    /// Slices as the application cuts them: only the application knows its objects.
    fn slices(&self, parts: usize) -> Vec<Vec<Slice>> {
        *self.refusal.lock() = None;
        let _user_code = UserCode::begin();
        let _progress = self.watch.begin(0);
        let starts = match catch_unwind(AssertUnwindSafe(|| self.application.slice_starts(parts))) {
            Ok(starts) if starts.is_sorted_by(|one, next| one < next) => starts,
            Ok(starts) => {
                *self.refusal.lock() = Some(format!("`slice_starts` does not ascend: {starts:?}"));
                Vec::new()
            }
            Err(_) => {
                *self.refusal.lock() = Some("the application's `slice_starts` panicked".to_owned());
                Vec::new()
            }
        };
        let bound = |number: &u64| Box::from(number.to_be_bytes());
        // The objects before the first start are a slice, too.
        let starts: Vec<Box<[u8]>> = starts.iter().filter(|start| **start > 0).map(bound).collect();
        let mut slices = vec![Vec::new(); parts];
        for at in 0..=starts.len() {
            let from = if at == 0 { Box::default() } else { starts[at - 1].clone() };
            slices[at % parts].push(Slice { section: 0, from, to: starts.get(at).cloned() });
        }
        slices
    }

    fn walk(&self, slice: &Slice, resume: &mut Vec<u8>, _low: Epoch, block: &mut CheckpointBlock) -> bool {
        let first = if slice.from.is_empty() { 0 } else { number_of(&slice.from) };
        let end = slice.to.as_deref().map_or(u64::MAX, number_of);
        let mut place = WalkPlace::from_bytes(resume, first);
        if !place.push_waiting(block) {
            return true;
        }
        let from = place.next();
        if from >= end {
            return false;
        }
        match write_objects(self, from..end, ObjectSink::Block { place, block }) {
            Ok((next, is_full)) => {
                WalkPlace::from_bytes(resume, first).set_next(next.unwrap_or(u64::MAX));
                is_full
            }
            Err(why) => {
                *self.refusal.lock() = Some(why);
                false
            }
        }
    }

    fn refusal(&self) -> Option<String> {
        self.refusal.lock().clone()
    }

    /// `None` for an application that only logs.
    fn applied_nanos(&self) -> Option<u64> {
        self.applied.if_measured()
    }
}

/// Number of a slice's bound. The bytes of bounds are in the order of the numbers.
fn number_of(bound: &[u8]) -> u64 {
    u64::from_be_bytes(bound.try_into().expect("a bound is an object's number"))
}

/// Lets the application write its objects of these numbers. Returns the number to go on from, if there may be more
/// objects, and true if the room ended. The error is the reason why the objects cannot become a checkpoint.
pub(super) fn write_objects<A: Application>(
    state: &ApplicationState<A>,
    numbers: Range<u64>,
    sink: ObjectSink<'_>,
) -> Result<(Option<u64>, bool), String> {
    let Range { start: from, end } = numbers;
    let version = state.version;
    let mut writer = ObjectWriter {
        slots: state,
        sink,
        is_full: false,
        version,
        least: from,
        end,
        is_over: false,
        refusal: None,
        progress: state.watch.begin(from),
    };
    state.poisoned.check_all()?;
    let _user_code = UserCode::begin();
    let next = catch_unwind(AssertUnwindSafe(|| state.application.checkpoint(from, &mut writer)));
    let next = next.map_err(|_| "the application's call-back panicked".to_owned())?;
    // O6: the call-back has come to an object after the object was poisoned, and may have passed the object.
    state.poisoned.check_all()?;
    if let Some(why) = writer.refusal.take() {
        return Err(why);
    }
    match next {
        _ if writer.is_over => Ok((None, writer.is_full)),
        Some(next) if next <= from || next < writer.least => {
            Err(format!("the call-back went back from {} to {next}", writer.least.max(from)))
        }
        // A call-back that looks at the end of the slice stops there by itself.
        Some(next) if next >= end => Ok((None, writer.is_full)),
        Some(_) if !writer.is_full => Err("the call-back ended with room, and has more objects".to_owned()),
        next => Ok((next, writer.is_full)),
    }
}
