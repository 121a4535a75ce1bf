//! The walk of a checkpoint over an application's objects, which the application's call-back enumerates in the order of
//! numbers, each once: an object that stands in a checkpoint twice could not be loaded. No slice takes an object of
//! another slice.
//!
//! Invariants:
//! - O7: an entry has the TID of its object's slot, read while the application holds the object's guard.
//! - O5, O6: a long object stands in pieces with one TID. No object was poisoned before the walk came to it.
//!
//! Neighbours: a checkpointer calls, a block at a time; `object_writer` takes the objects.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::Epoch;
use ensile_durability::{CheckpointBlock, Slice, UserCode, Walk};

use super::call_backs::Application;
use super::called_application::write_objects;
use super::object_writer::ObjectSink;
use super::state::ApplicationState;
use crate::chunks::WalkPlace;

impl<A: Application> Walk for ApplicationState<A> {
    /// Slices as the application cuts them: only the application knows its objects.
    fn slices(&self, parts: usize) -> Vec<Vec<Slice>> {
        *self.refusal.lock() = None;
        let _user_code = UserCode::begin();
        let _progress = self.called.watch.begin(0);
        let starts = match catch_unwind(AssertUnwindSafe(|| self.called.application.slice_starts(parts))) {
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
        assert!(first <= end, "the bounds of slices ascend");
        let mut place = WalkPlace::from_bytes(resume, first);
        if !place.push_waiting(block) {
            return true;
        }
        let from = place.next();
        if from >= end {
            return false;
        }
        match write_objects(&self.called, self, from..end, ObjectSink::Block { place, block }) {
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
