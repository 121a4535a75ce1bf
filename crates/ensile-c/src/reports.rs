//! Figures and texts of open objects.
//!
//! Neighbours: `figures` has the structs for C; `objects` has the handle.

use std::ffi::c_char;

use crate::code::ErrorText;
use crate::figures::{ForeignRecovery, ForeignStats, fill, put_text, text_of};
use crate::objects::{ObjectsHandle, on_objects};

/// Why something does not happen.
///
/// # Safety
/// `objects` is null or a live handle; `text` is null or the caller's memory of `size` bytes; `error` is null or the
/// caller's memory for one.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_text(
    objects: *mut ObjectsHandle,
    what: u32,
    text: *mut c_char,
    size: usize,
    error: *mut ErrorText,
) -> i32 {
    let call = |objects: &ObjectsHandle| {
        objects.check_open()?;
        let told = text_of(what, &objects.log)?;
        // SAFETY: the caller vouches for the place.
        unsafe { put_text(text, size, &told) }
    };
    // SAFETY: the caller vouches for the handle and `error`.
    unsafe { on_objects(objects, error, call) }
}

/// Figures.
///
/// # Safety
/// `objects` is null or a live handle; `stats` is null or the caller's memory of `size` bytes; `error` is null or the
/// caller's memory for one.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_stats(
    objects: *mut ObjectsHandle,
    stats: *mut ForeignStats,
    size: usize,
    error: *mut ErrorText,
) -> i32 {
    let call = |objects: &ObjectsHandle| {
        objects.check_open()?;
        // SAFETY: the caller vouches for the place.
        unsafe { fill(stats, size, ForeignStats::from(&objects.log.stats())) }
    };
    // SAFETY: the caller vouches for the handle and `error`.
    unsafe { on_objects(objects, error, call) }
}

/// What recovery did.
///
/// # Safety
/// As for [`ensile_objects_stats`].
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_recovery(
    objects: *mut ObjectsHandle,
    recovery: *mut ForeignRecovery,
    size: usize,
    error: *mut ErrorText,
) -> i32 {
    let call = |objects: &ObjectsHandle| {
        // SAFETY: the caller vouches for the place.
        unsafe { fill(recovery, size, ForeignRecovery::from(objects.log.recovery())) }
    };
    // SAFETY: the caller vouches for the handle and `error`.
    unsafe { on_objects(objects, error, call) }
}
