//! The epoch that a shown result rests on.
//!
//! Neighbours: [`crate::object_guards`] notes the epoch of every locked object; applications note the epochs of further
//! shown state; [`crate::ApplicationLog::receipt`] and [`crate::Objects::receipt`] tell when the epoch is durable.

use std::cell::Cell;

use ensile_base::Epoch;

/// Epoch that a shown result rests on (R1): the result survives a crash once a receipt for the epoch is durable
/// ([`ApplicationLog::receipt`](crate::ApplicationLog::receipt), [`Objects::receipt`](crate::Objects::receipt)).
///
/// An answer may depend on several objects, or refuse a request because of an object. A `RestsOn` goes along with the
/// request, and notes every such object.
///
/// ```
/// use ensile_objects::{Epoch, RestsOn};
/// let rests = RestsOn::default();
/// rests.note(Epoch::new(7));
/// rests.note(Epoch::new(5));
/// assert_eq!(rests.epoch(), Epoch::new(7));
/// ```
#[derive(Debug, Default)]
pub struct RestsOn(Cell<Epoch>);

impl RestsOn {
    /// Notes a further epoch.
    #[inline]
    pub fn note(&self, epoch: Epoch) {
        self.0.set(self.0.get().max(epoch));
    }

    /// Largest noted epoch; `Epoch::ZERO`, which is always durable, without a note.
    #[inline]
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.0.get()
    }
}
