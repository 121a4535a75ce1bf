//! The debug mode of an application that keeps its own objects: a copy of the application, made by its own call-backs.
//!
//! ```text
//! open         each object as the application writes it -> load_one of the copy      both write the same
//! log          the operation -> replay_one of the copy, as recovery would (O10)      under the object's guard
//! checkpoint   ckpt(object, bytes)                                                   the copy writes the same
//! ```
//! The guard of an object is held over the log call and the change, and over the object's bytes and their `ckpt`. At a
//! `ckpt` the copy has therefore had every operation of the object, in the same order.
//!
//! Neighbours: `log` reports logged operations, and `object_writer` reports written objects.

use std::collections::VecDeque;
use std::sync::Arc;

use ensile_base::clock::Clock;
use ensile_base::sync::Mutex;
use ensile_base::{Epoch, Tid};

use super::call_backs::{Application, called_back};
use super::called_application::{CalledApplication, WrittenObjects, write_objects};
use super::object_tids::{LoadedObjects, LoggedOperation, ReplayVerdict};
use super::object_writer::{CollectedObject, ObjectSink};
use super::slots::NewOperation;
use crate::collection::check::first_difference;
use crate::error::{ObjectsError, ObjectsResult as Result};
use crate::format::ObjectLife;

pub(super) struct CheckedCopy<A> {
    called: CalledApplication<A>,
    /// Objects that exist in the copy, for the verdict on operations (O10).
    known: LoadedObjects,
    /// First difference: the object's number, and the difference.
    found: Mutex<Option<(u64, String)>>,
}

impl<A: Application> CheckedCopy<A> {
    /// Loads a fresh application with the objects that the original writes.
    pub(super) fn from_original(original: &CalledApplication<A>, fresh: A) -> Result<Self> {
        let called = CalledApplication::new(Arc::new(fresh), &Clock::machine());
        let copy = Self { called, known: LoadedObjects::new(), found: Mutex::default() };
        for object in WrittenObjects::new(original) {
            let CollectedObject { number, bytes } =
                object.map_err(|why| not_copied("of the application", &why))?;
            let Some(bytes) = bytes else { continue };
            copy.known.add(number, Tid::ZERO);
            let loaded = called_back(|| copy.called.application.load_one(number, &bytes));
            loaded.map_err(|why| not_copied(&number.to_string(), &format!("it is not loaded: {why}")))?;
            if let Some(difference) = copy.difference(number, Some(&bytes)) {
                return Err(not_copied(&number.to_string(), &difference));
            }
        }
        Ok(copy)
    }

    /// Replays a logged operation on the copy. The caller has the object's guard.
    pub(super) fn replay(&self, operation: &NewOperation<'_>) {
        let NewOperation { object, life, number, parameters } = *operation;
        // Above the TID of every copied object.
        let logged = LoggedOperation { object, tid: Tid::first_of(Epoch::FIRST), life };
        if self.known.judge(logged, None) == ReplayVerdict::PassedOver {
            if life == Some(ObjectLife::Change) {
                self.note(
                    object,
                    format!("its operation {number} is marked as a change, and there is no object"),
                );
            }
            return;
        }
        let replayed = called_back(|| self.called.application.replay_one(object, number, parameters));
        if let Err(why) = replayed {
            self.note(object, format!("its operation {number} is not replayed: {why}"));
        }
    }

    /// Compares a written object, or its absence, with the copy, under the object's guard. Returns the first
    /// difference, of this call or an earlier call.
    pub(super) fn compare(&self, object: u64, bytes: Option<&[u8]>) -> Option<String> {
        if let Some(difference) = self.difference(object, bytes) {
            self.note(object, difference);
        }
        self.first_difference()
    }

    pub(super) fn first_difference(&self) -> Option<String> {
        let found = self.found.lock();
        found.as_ref().map(|(object, difference)| {
            format!("object {object} is not what its operations make of it: {difference}")
        })
    }

    fn note(&self, object: u64, difference: String) {
        self.found.lock().get_or_insert((object, difference));
    }

    fn difference(&self, object: u64, bytes: Option<&[u8]>) -> Option<String> {
        let mut collected = VecDeque::new();
        // Full with the first object.
        let sink = ObjectSink::Collected { objects: &mut collected, room: 1 };
        if let Err(why) = write_objects(&self.called, &self.called, object..object + 1, sink) {
            return Some(format!("its copy is not written: {why}"));
        }
        let copied = collected.pop_front();
        debug_assert!(collected.is_empty(), "a slice of one number has one object");
        debug_assert!(copied.as_ref().is_none_or(|copied| copied.number == object));
        match (bytes, copied.and_then(|copied| copied.bytes)) {
            (Some(bytes), Some(copied)) => first_difference(bytes, &copied).map(String::from),
            (None, None) => None,
            (Some(_), None) => Some("its copy is not there".into()),
            (None, Some(_)) => Some("it is not there, and its copy is".into()),
        }
    }
}

fn not_copied(object: &str, difference: &str) -> ObjectsError {
    ObjectsError::NotDeterministic { object: object.into(), difference: difference.into() }
}
