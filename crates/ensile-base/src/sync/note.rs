//! Notes for the counting door of what it cannot see: touches of shared memory that do not go through its types.
//!
//! Memory that one worker fills before anyone knows it, or takes back after everyone forgot it, is written plainly; so
//! are bytes that an atomic word publishes afterwards. Their lines may be others' neighbours, so the writers say here
//! what they wrote. Without the feature `counted` these are empty and inlined: nothing is left of them.
//!
//! Neighbours: called wherever shared memory is written without atomics; [`super`]'s counting door keeps the notes.

#[cfg(all(feature = "counted", not(any(loom, shuttle))))]
use super::counted::{Touch, note};
#[cfg(all(feature = "counted", not(any(loom, shuttle))))]
use std::panic::Location;

/// `bytes` bytes from `first` on were written plainly.
#[inline(always)]
#[cfg_attr(feature = "counted", track_caller)]
pub fn store<T: ?Sized>(first: *const T, bytes: usize) {
    #[cfg(all(feature = "counted", not(any(loom, shuttle))))]
    note(first.addr(), bytes, Touch::Store, Location::caller());
    let _ = (first, bytes);
}

/// A value that others share was read plainly, or may have been: all of it.
#[inline(always)]
#[cfg_attr(feature = "counted", track_caller)]
pub fn load<T: ?Sized>(value: &T) {
    #[cfg(all(feature = "counted", not(any(loom, shuttle))))]
    note(std::ptr::from_ref(value).addr(), size_of_val(value), Touch::Load, Location::caller());
    let _ = value;
}
