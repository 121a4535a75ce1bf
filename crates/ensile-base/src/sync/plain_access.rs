//! Notes for the counting door: touches of shared memory that do not go through the door's types. Memory that other
//! threads do not know yet or any more, and bytes that an atomic word publishes afterwards, may be neighbours of shared
//! lines. Without the feature `counted` the functions are empty and inlined.
//!
//! Neighbours: called wherever shared memory is written without atomics; [`super`]'s counting door keeps the notes.

#[cfg(all(feature = "counted", not(any(loom, shuttle))))]
use super::access_trace::{Touch, note};
#[cfg(all(feature = "counted", not(any(loom, shuttle))))]
use std::panic::Location;

/// Notes that `bytes` bytes from `first` on were written plainly.
#[inline(always)]
#[cfg_attr(feature = "counted", track_caller)]
pub fn store<T: ?Sized>(first: *const T, bytes: usize) {
    #[cfg(all(feature = "counted", not(any(loom, shuttle))))]
    note(first.addr(), bytes, Touch::Store, Location::caller());
    let _ = (first, bytes);
}

/// Notes that a shared value was read plainly, or may have been: every byte of the value.
#[inline(always)]
#[cfg_attr(feature = "counted", track_caller)]
pub fn load<T: ?Sized>(value: &T) {
    #[cfg(all(feature = "counted", not(any(loom, shuttle))))]
    note(std::ptr::from_ref(value).addr(), size_of_val(value), Touch::Load, Location::caller());
    let _ = value;
}
