//! Recovery of an application's objects, by its call-backs.
//!
//! Invariants:
//! - O4, O10: each object is in one lane, and operations leave a lane in the order of TIDs under the lane's lock, so a
//!   mark is judged after every earlier mark of its object.
//! - A call-back that fails or panics fails the open, and the error names the object and the entry; or the call-back
//!   poisons its object, if the application has asked for that (O6).
//! - Versions are judged when an entry is read, before a call-back gets the entry.
//!
//! Neighbours: the durability crate calls from several threads; `crate::replay` has the waiting operations.

use std::sync::Arc;

use ensile_base::sync::Ordering;
use ensile_base::{Epoch, Tid};
use ensile_durability::{DurabilityError, Entry, EntryKind, Recoverable, Refused};

use super::call_backs::{Application, CallBackResult, called_back};
use super::object_tids::{LoggedOperation, ReplayVerdict};
use super::poison::NOT_MADE;
use super::state::ApplicationState;
use crate::apply_time::AppliedTime;
use crate::chunks::LACKS_PIECES;
use crate::error::{ObjectsError, ObjectsResult};
use crate::format::{BodyForm, OF_CHECKPOINT, OF_LOG, ObjectBody, ObjectLife, check_version};
use crate::framing::judge_each;
use crate::runtime::ObjectState;
use crate::runtime::watchdog::CallBackWatch;

impl<A: Application> Recoverable for ApplicationState<A> {
    fn entries(&self) -> EntryKind {
        EntryKind::Operations
    }

    fn replay(&self, entries: &[Entry<'_>]) -> Result<(), Refused> {
        let mut unmarked: Option<Epoch> = None;
        judge_each(entries, |entry| {
            let Some((object, life)) = decode_call(entry.body, self.called.version)? else {
                let (found, by) = ("a collection's objects", "open");
                self.replayed.failure.lock().get_or_insert(ObjectsError::other_objects(found, by));
                return Ok(());
            };
            if life.is_none() {
                unmarked = Some(unmarked.map_or(entry.tid.epoch(), |first| first.min(entry.tid.epoch())));
            }
            self.replayed.waiting.keep(object, entry.tid, (object, entry.body.into()));
            Ok(())
        })?;
        // The epochs of these entries have not passed yet, so no thread asks before.
        unmarked.into_iter().for_each(|epoch| self.replayed.loaded.note_unmarked(epoch));
        Ok(())
    }

    fn load(&self, _section: u32, entries: &[Entry<'_>]) -> Result<(), Refused> {
        judge_each(entries, |entry| self.load_entry(entry))
    }

    fn advance_watermark(&self, epoch: Epoch) {
        let unmarked = self.replayed.loaded.first_unmarked();
        let apply = |tid, (object, body): (u64, Box<[u8]>)| {
            if let Err(why) = self.replay_entry(object, tid, &body, unmarked) {
                if self.replayed.opens_poisoned {
                    self.called.poisoned.add(object, format!("its operation {tid} is not replayed: {why}"));
                    return;
                }
                self.replayed.failure.lock().get_or_insert(ObjectsError::NotReplayed { object, tid, why });
            }
        };
        // The application alone knows the places of its objects.
        self.replayed.waiting.apply_below(epoch, |_, _| {}, apply);
    }
}

impl<A: Application> ObjectState for ApplicationState<A> {
    fn applied_time(&self) -> &Arc<AppliedTime> {
        &self.applied
    }

    fn replayed_nanos(&self) -> u64 {
        self.replayed.time.total()
    }

    fn watch(&self) -> Option<&CallBackWatch> {
        Some(&self.called.watch)
    }

    fn change_failed(&self, object: u64) {
        self.called.poisoned.add(object, NOT_MADE);
    }

    fn passed_over(&self) -> u64 {
        // Relaxed: a figure for people.
        self.replayed.passed_over.load(Ordering::Relaxed)
    }

    fn check_recovered(&self) -> ObjectsResult<()> {
        assert!(self.replayed.waiting.is_empty(), "L8: every epoch has passed");
        let (damage, failure) = (self.damage(), self.not_replayed());
        self.replayed.loaded.clear();
        match (damage, failure) {
            (Some(detail), _) => {
                Err(DurabilityError::Damaged { file: "MANIFEST".to_owned(), offset: 0, detail }.into())
            }
            (None, Some(failure)) => Err(failure),
            (None, None) => Ok(()),
        }
    }
}

impl<A: Application> ApplicationState<A> {
    /// Fault of the loaded checkpoint as a whole.
    pub(super) fn damage(&self) -> Option<String> {
        if !self.replayed.pieces.is_whole() {
            return Some(LACKS_PIECES.to_owned());
        }
        self.replayed.loaded.twice().map(|object| format!("object {object} stands in the checkpoint twice"))
    }

    /// Fault of the replay: the first operation that was not replayed, or the first object whose changes were passed
    /// over although the log does not remove the object (O10). The changes of such an object poison it, if the
    /// application has asked for that (O6).
    pub(super) fn not_replayed(&self) -> Option<ObjectsError> {
        let failure = self.replayed.failure.lock().take();
        if failure.is_some() {
            return failure;
        }
        let unremoved = self.replayed.loaded.missing_creations();
        if self.replayed.opens_poisoned {
            unremoved.into_iter().for_each(|object| self.called.poisoned.add(object, NEVER_MADE));
            return None;
        }
        unremoved.first().map(|&object| ObjectsError::no_creation(object))
    }

    fn load_entry(&self, entry: &Entry<'_>) -> CallBackResult {
        let body = ObjectBody::decode(entry.body)?;
        let object = number_of(&body)?;
        let version = body.version;
        check_version(version, self.called.version, "an object")?;
        let whole;
        let bytes = match body.form {
            BodyForm::Whole => Some(body.bytes),
            BodyForm::Absent => None,
            BodyForm::Piece(place) => {
                let Some(bytes) = self.replayed.pieces.add(entry.tid, &body, place)? else { return Ok(()) };
                whole = bytes;
                Some(&whole[..])
            }
            _ => return Err(OF_LOG.into()),
        };
        let Some(bytes) = bytes else {
            self.replayed.loaded.add_absent(object, entry.tid);
            return Ok(());
        };
        self.replayed.loaded.add(object, entry.tid);
        let loaded = called_back(|| {
            if version == self.called.version {
                self.called.application.load_one(object, bytes)
            } else {
                self.called.application.load_older(version, object, bytes)
            }
        });
        match loaded {
            Err(why) if self.replayed.opens_poisoned => {
                self.called.poisoned.add(object, format!("it is not loaded: {why}"))
            }
            loaded => loaded.map_err(|why| format!("object {object}: {why}"))?,
        }
        Ok(())
    }

    /// Replays an operation, unless the loaded bytes include the operation (O4), the object does not exist (O10), or
    /// the object is poisoned (O6).
    fn replay_entry(&self, object: u64, tid: Tid, body: &[u8], unmarked: Option<Epoch>) -> CallBackResult {
        if self.replayed.opens_poisoned && self.called.poisoned.has(object) {
            return Ok(());
        }
        let body = ObjectBody::decode(body)?;
        debug_assert!(matches!(body.form, BodyForm::Call(_)), "an entry is judged when it is read");
        debug_assert!(body.version <= self.called.version);
        let life = if let BodyForm::Call(life) = body.form {
            life.filter(|_| self.replayed.judges_marks)
        } else {
            None
        };
        match self.replayed.loaded.judge(LoggedOperation { object, tid, life }, unmarked) {
            ReplayVerdict::Included => Ok(()),
            ReplayVerdict::PassedOver => {
                // Relaxed: a figure for people.
                self.replayed.passed_over.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            ReplayVerdict::Replayed => {
                let replay = || called_back(|| self.replay_body(object, &body));
                self.replayed.time.measure(object, tid.bits(), replay)
            }
        }
    }

    fn replay_body(&self, object: u64, body: &ObjectBody<'_>) -> CallBackResult {
        let ObjectBody { version, bytes, .. } = *body;
        let (operation, parameters) = call_of(bytes)?;
        if version == self.called.version {
            self.called.application.replay_one(object, operation, &parameters)
        } else {
            self.called.application.replay_older(version, object, operation, &parameters)
        }
    }
}

const NEVER_MADE: &str =
    "its changes are not replayed, because no logged operation is marked as its creation";

/// Object of a logged call, with a checked version, and the mark of the object's life; `None` for an entry of a
/// collection.
fn decode_call(body: &[u8], newest: u16) -> Result<Option<(u64, Option<ObjectLife>)>, Box<str>> {
    let body = ObjectBody::decode(body)?;
    let BodyForm::Call(life) = body.form else {
        return if body.form.is_of_log() { Ok(None) } else { Err(OF_CHECKPOINT.into()) };
    };
    check_version(body.version, newest, "an operation")?;
    call_of(body.bytes)?;
    Ok(Some((number_of(&body)?, life)))
}

fn number_of(body: &ObjectBody<'_>) -> Result<u64, &'static str> {
    body.key.try_into().map(u64::from_le_bytes).map_err(|_| "an object's number has eight bytes")
}

fn call_of(bytes: &[u8]) -> Result<(u32, Vec<&[u8]>), &'static str> {
    let short = "a call ends within a parameter";
    let (operation, mut rest) = bytes.split_first_chunk().ok_or(short)?;
    let mut parameters = Vec::new();
    while !rest.is_empty() {
        let (length, behind) = rest.split_first_chunk().ok_or(short)?;
        let (parameter, behind) =
            behind.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or(short)?;
        parameters.push(parameter);
        rest = behind;
    }
    Ok((u32::from_le_bytes(*operation), parameters))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
