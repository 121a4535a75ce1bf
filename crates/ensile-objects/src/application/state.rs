//! State of an application's recovery and checkpoints.
//!
//! Neighbours: `recovery` rebuilds the objects at an open, and `walk` writes the objects into checkpoints; `log` has
//! the state's slots.

use std::sync::Arc;

use ensile_base::Tid;
use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicU64, Mutex, OnceLock};

use super::call_backs::Application;
use super::called_application::CalledApplication;
use super::object_tids::LoadedObjects;
use super::poison::PoisonedObjects;
use super::shadow_copy::CheckedCopy;
use super::slots::{NewOperation, Slots};
use crate::apply_time::AppliedTime;
use crate::chunks::Assembly;
use crate::error::ObjectsError;
use crate::replay::WaitingOperations;

/// State of recovery and checkpoints beside an application.
pub(crate) struct ApplicationState<A> {
    pub(super) called: CalledApplication<A>,
    pub(super) replayed: ReplayedObjects,
    /// Reason why the walk under way cannot become a checkpoint.
    pub(super) refusal: Mutex<Option<String>>,
    pub(super) applied: Arc<AppliedTime>,
    /// Copy of the debug mode.
    pub(super) copy: OnceLock<Box<CheckedCopy<A>>>,
}

pub(super) struct ReplayedObjects {
    pub(super) loaded: LoadedObjects,
    pub(super) pieces: Assembly,
    /// Logged operations whose epochs have not passed: number of the object, and body of the entry.
    pub(super) waiting: WaitingOperations<(u64, Box<[u8]>)>,
    /// True if the recovery passes over operations by their marks of lives. Otherwise the recovery replays every
    /// operation.
    pub(super) judges_marks: bool,
    /// True if an object whose replay fails is poisoned, and the open goes on.
    pub(super) opens_poisoned: bool,
    /// Number of operations that were not replayed, because their object did not exist.
    pub(super) passed_over: AtomicU64,
    /// First operation that could not be replayed, and the reason.
    pub(super) failure: Mutex<Option<ObjectsError>>,
    pub(super) time: AppliedTime,
}

impl<A: Application> ApplicationState<A> {
    pub(super) fn new(application: Arc<A>, clock: &Clock) -> Self {
        let replayed = ReplayedObjects {
            loaded: LoadedObjects::new(),
            pieces: Assembly::default(),
            waiting: WaitingOperations::new(),
            judges_marks: true,
            opens_poisoned: false,
            passed_over: AtomicU64::new(0),
            failure: Mutex::default(),
            time: AppliedTime::new(clock),
        };
        Self {
            called: CalledApplication::new(application, clock),
            replayed,
            refusal: Mutex::default(),
            applied: Arc::new(AppliedTime::new(clock)),
            copy: OnceLock::new(),
        }
    }
}

impl<A: Application> Slots for ApplicationState<A> {
    fn object_slot(&self, object: u64) -> &Mutex<Tid> {
        self.called.object_slot(object)
    }

    fn poisoned_objects(&self) -> &PoisonedObjects {
        &self.called.poisoned
    }

    fn replay_on_copy(&self, operation: &NewOperation<'_>) {
        if let Some(copy) = self.copy.get() {
            copy.replay(operation);
        }
    }

    fn difference(&self, object: u64, bytes: Option<&[u8]>) -> Option<String> {
        self.copy.get().and_then(|copy| copy.compare(object, bytes))
    }

    fn first_difference(&self) -> Option<String> {
        self.copy.get().and_then(|copy| copy.first_difference())
    }
}
