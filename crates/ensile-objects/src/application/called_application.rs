//! An application whose call-backs are called for its objects: in checkpoints, and for a comparison.
//!
//! Neighbours: `walk` writes blocks of checkpoints; `check` and `shadow_copy` compare written objects.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ensile_base::Tid;
use ensile_base::clock::Clock;
use ensile_base::sync::Mutex;
use ensile_durability::UserCode;

use super::call_backs::Application;
use super::object_writer::{CollectedObject, ObjectSink, ObjectWriter};
use super::poison::PoisonedObjects;
use super::slots::{Slots, TidSlots};
use crate::runtime::watchdog::CallBackWatch;

/// Bytes of objects that are collected at once; a further object may exceed the number.
const COLLECTED_BYTES: usize = 1 << 20;

/// An application, and the data that its call-backs need.
pub(super) struct CalledApplication<A> {
    pub(super) application: Arc<A>,
    /// Version of the entries written now.
    pub(super) version: u16,
    slots: TidSlots,
    /// Objects whose change or replay failed.
    pub(super) poisoned: PoisonedObjects,
    pub(super) watch: CallBackWatch,
}

impl<A: Application> CalledApplication<A> {
    pub(super) fn new(application: Arc<A>, clock: &Clock) -> Self {
        Self {
            version: application.version(),
            application,
            slots: TidSlots::new(),
            poisoned: PoisonedObjects::new(true),
            watch: CallBackWatch::new(clock),
        }
    }
}

impl<A: Application> Slots for CalledApplication<A> {
    #[inline]
    fn object_slot(&self, object: u64) -> &Mutex<Tid> {
        self.slots.slot(object)
    }

    fn poisoned_objects(&self) -> &PoisonedObjects {
        &self.poisoned
    }
}

/// Lets the application write its objects of these numbers. Returns the number to go on from, if there may be more
/// objects, and true if the room ended. `slots` are the slots of the application, in the debug mode with the copy. The
/// error is the reason why the objects cannot become a checkpoint.
pub(super) fn write_objects<A: Application>(
    called: &CalledApplication<A>,
    slots: &dyn Slots,
    numbers: Range<u64>,
    sink: ObjectSink<'_>,
) -> Result<(Option<u64>, bool), String> {
    let mut writer =
        ObjectWriter::new(slots, sink, called.version, &numbers, called.watch.begin(numbers.start));
    let Range { start: from, end } = numbers;
    called.poisoned.check_all()?;
    let _user_code = UserCode::begin();
    let next = catch_unwind(AssertUnwindSafe(|| called.application.checkpoint(from, &mut writer)));
    let next = next.map_err(|_| "the application's call-back panicked".to_owned())?;
    // O6: the call-back has come to an object after the object was poisoned, and may have passed the object.
    called.poisoned.check_all()?;
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

/// Objects that an application writes as its checkpoint, in the order of numbers; an error ends the objects.
pub(super) struct WrittenObjects<'s, A> {
    called: &'s CalledApplication<A>,
    collected: VecDeque<CollectedObject>,
    /// Number where the call-back goes on; `None` after the last object.
    next: Option<u64>,
}

impl<'s, A: Application> WrittenObjects<'s, A> {
    pub(super) fn new(called: &'s CalledApplication<A>) -> Self {
        Self { called, collected: VecDeque::new(), next: Some(0) }
    }
}

impl<A: Application> Iterator for WrittenObjects<'_, A> {
    type Item = std::result::Result<CollectedObject, String>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.collected.is_empty() {
            let from = self.next.take()?;
            let sink = ObjectSink::Collected { objects: &mut self.collected, room: COLLECTED_BYTES };
            match write_objects(self.called, self.called, from..u64::MAX, sink) {
                Ok((next, _)) => self.next = next,
                Err(why) => return Some(Err(why)),
            }
            debug_assert!(self.collected.iter().is_sorted_by(|one, next| one.number < next.number));
        }
        self.collected.pop_front().map(Ok)
    }
}
