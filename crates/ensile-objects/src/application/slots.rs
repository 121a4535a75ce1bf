//! Slots of last TIDs: an application's objects have no room for a TID.
//!
//! Neighbours: `log` chooses TIDs here (O7); `object_writer` reads the TIDs, and compares objects with the copy of the
//! debug mode.

use ensile_base::Tid;
use ensile_base::sync::Mutex;

use super::poison::PoisonedObjects;
use crate::format::ObjectLife;

/// Number of slots for last TIDs. Objects that share a slot get TIDs as if they were a single object; the sharing has
/// no other effect.
const SLOTS: usize = if cfg!(shuttle) { 2 } else { 4096 };

const _: () = assert!(SLOTS.is_power_of_two(), "a slot is the lowest bits of a hash");

/// Last TIDs, by a hash of the object's number (O7).
pub(super) struct TidSlots(Box<[Mutex<Tid>]>);

impl TidSlots {
    pub(super) fn new() -> Self {
        Self((0..SLOTS).map(|_| Mutex::default()).collect())
    }

    #[inline]
    pub(super) fn slot(&self, object: u64) -> &Mutex<Tid> {
        // Spreads neighbouring numbers over slots (Knuth's multiplicative hash).
        let hash = object.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.0[hash as usize % SLOTS]
    }
}

#[derive(Clone, Copy)]
pub(super) struct NewOperation<'p> {
    pub(super) object: u64,
    /// Mark of the object's life, if the application marks lives.
    pub(super) life: Option<ObjectLife>,
    pub(super) number: u32,
    pub(super) parameters: &'p [&'p [u8]],
}

/// Slots of an application, without the application's type. Also the application's copy in the debug mode; by default
/// there is no copy.
pub(super) trait Slots: Send + Sync {
    fn object_slot(&self, object: u64) -> &Mutex<Tid>;

    fn poisoned_objects(&self) -> &PoisonedObjects;

    fn replay_on_copy(&self, operation: &NewOperation<'_>) {
        let _ = operation;
    }

    /// Difference between an object's bytes, or its absence, and the outcome of its operations.
    fn difference(&self, object: u64, bytes: Option<&[u8]>) -> Option<String> {
        let _ = (object, bytes);
        None
    }

    fn first_difference(&self) -> Option<String> {
        None
    }
}
