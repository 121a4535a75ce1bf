//! What something that is shown rests on.
//!
//! Neighbours: [`crate::guarded`] notes it of each object that it locks; applications note it of what else they show;
//! [`crate::ApplicationLog::receipt`] and [`crate::Objects::receipt`] tell when it is durable.

use std::cell::Cell;

use ensile_base::Epoch;

/// The epoch that something shown rests on (R1): it survives a crash once a receipt for that epoch is durable
/// ([`ApplicationLog::receipt`](crate::ApplicationLog::receipt), [`Objects::receipt`](crate::Objects::receipt)).
///
/// An answer may tell of several objects, or refuse something because of one. One `RestsOn` goes along with the
/// request, and notes each of them.
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
    /// It rests on this epoch, too.
    #[inline]
    pub fn note(&self, epoch: Epoch) {
        self.0.set(self.0.get().max(epoch));
    }

    /// The largest epoch that was noted. `Epoch::ZERO`, which is always durable, if there is none.
    #[inline]
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.0.get()
    }
}
