//! Objects of an application whose logged change failed: the log has an operation that the object lacks, or half has.
//!
//! ```text
//! change   log | make: fails -> the object is poisoned, under the caller's guard (O6)
//! log      refused for a poisoned object: the first poison sends all later entries on the waiting path, which asks
//! walk     refused while an object is poisoned: no checkpoint covers the operation, and the log keeps it
//! open     makes the change again, on the object as the checkpoint has it
//! ```
//! Without a log, nothing keeps later changes of any object, as no checkpoint is made. So after a poison every change
//! is refused until the next open, which has the state of the last checkpoint.
//!
//! Neighbours: `changes` and `recovery` poison objects; `log` and `called_application` ask.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use ensile_base::sync::{AtomicU64, Mutex, Ordering};

use crate::error::{ObjectsError, ObjectsResult as Result};

/// Reason of a failed change's poison.
pub(super) const NOT_MADE: &str = "a change of it failed after the log entry";

/// Poisoned objects with reasons of their own, at most.
const REASONS_MAX: usize = 1000;

/// Reason of an object beyond [`REASONS_MAX`].
const NOT_KEPT: &str =
    "it is not loaded or not replayed, and the reason is not kept beside those of 1000 other objects";

#[derive(Debug)]
pub(super) struct PoisonedObjects {
    reasons: Mutex<BTreeMap<u64, Cow<'static, str>>>,
    count: AtomicU64,
    /// True if changes are logged, and the next open makes a failed change again.
    is_logged: bool,
}

impl PoisonedObjects {
    pub(super) fn new(is_logged: bool) -> Self {
        Self { reasons: Mutex::default(), count: AtomicU64::new(0), is_logged }
    }

    /// Poisons an object. A poisoned object keeps its first reason. Texts are kept for [`REASONS_MAX`] objects.
    pub(super) fn add(&self, object: u64, why: impl Into<Cow<'static, str>>) {
        let mut reasons = self.reasons.lock();
        let why = match why.into() {
            Cow::Owned(_) if reasons.len() >= REASONS_MAX => Cow::Borrowed(NOT_KEPT),
            why => why,
        };
        let added = match reasons.entry(object) {
            Entry::Vacant(place) => {
                place.insert(why);
                1
            }
            Entry::Occupied(_) => 0,
        };
        // The drop of a change that panics calls, too.
        debug_assert!(
            std::thread::panicking() || reasons.len() as u64 == self.count() + added,
            "a poison is counted, and lasts until the next open"
        );
        // Relaxed: a figure for people.
        self.count.store(reasons.len() as u64, Ordering::Relaxed);
    }

    pub(super) fn has(&self, object: u64) -> bool {
        self.reasons.lock().contains_key(&object)
    }

    pub(super) fn count(&self) -> u64 {
        // Relaxed: a figure for people.
        self.count.load(Ordering::Relaxed)
    }

    /// Fails if a change of the object is refused: the object is poisoned, or nothing is logged and any object is
    /// poisoned.
    pub(super) fn check(&self, object: u64) -> Result<()> {
        let reasons = self.reasons.lock();
        let refusing =
            if self.is_logged { reasons.get_key_value(&object) } else { reasons.first_key_value() };
        match refusing {
            Some((object, why)) => Err(self.poisoned_error(*object, why)),
            None => Ok(()),
        }
    }

    /// Fails if any object is poisoned. The error is the reason, for the first of the objects.
    pub(super) fn check_all(&self) -> std::result::Result<(), String> {
        match self.reasons.lock().first_key_value() {
            Some((object, why)) => Err(self.poisoned_error(*object, why).to_string()),
            None => Ok(()),
        }
    }

    fn poisoned_error(&self, object: u64, why: &str) -> ObjectsError {
        let why = why.into();
        if self.is_logged {
            ObjectsError::PoisonedUntilOpen { object, why }
        } else {
            ObjectsError::PoisonedUnlogged { object, why }
        }
    }
}
