//! Waits for durable operations, and checkpoints.
//!
//! Neighbours: `objects` has the handle and its receipts; `figures` has the report of a checkpoint.

use crate::boundary::{AnswerPlace, handle};
use crate::code::ErrorText;
use crate::figures::{ForeignCheckpoint, check_size, fill};
use crate::objects::{ForeignReceipt, ObjectsHandle, on_objects};
use crate::settings::SettingsHandle;

/// Waits until an operation is durable.
///
/// # Safety
/// `objects` is null or a live handle; `error` is null or the caller's memory for one.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_durable(
    objects: *mut ObjectsHandle,
    receipt: ForeignReceipt,
    error: *mut ErrorText,
) -> i32 {
    let call = |objects: &ObjectsHandle| {
        objects.receipt(receipt)?.durable().map_err(|error| objects.failure_or_closed(error))
    };
    // SAFETY: the caller vouches for the handle and `error`.
    unsafe { on_objects(objects, error, call) }
}

/// Tells whether an operation is durable.
///
/// # Safety
/// `objects` is null or a live handle; `durable` and `error` are null or the caller's memory for such values.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_is_durable(
    objects: *mut ObjectsHandle,
    receipt: ForeignReceipt,
    durable: *mut bool,
    error: *mut ErrorText,
) -> i32 {
    let call = |objects: &ObjectsHandle| {
        let place = AnswerPlace::new(durable, "durable")?;
        let is_durable = objects.receipt(receipt)?.is_durable();
        // SAFETY: the caller vouches for the place.
        unsafe { place.put(is_durable) };
        Ok(())
    };
    // SAFETY: the caller vouches for the handle and `error`.
    unsafe { on_objects(objects, error, call) }
}

/// Asks for a checkpoint.
///
/// # Safety
/// `objects` is null or a live handle; `error` is null or the caller's memory for one.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_ask_checkpoint(
    objects: *mut ObjectsHandle,
    error: *mut ErrorText,
) -> i32 {
    let call = |objects: &ObjectsHandle| {
        objects.check_open()?;
        drop(objects.log.checkpoint());
        Ok(())
    };
    // SAFETY: the caller vouches for the handle and `error`.
    unsafe { on_objects(objects, error, call) }
}

/// Makes a checkpoint.
///
/// # Safety
/// `objects` is null or a live handle; `report` is null or the caller's memory of `size` bytes; `error` is null or the
/// caller's memory for one.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_checkpoint(
    objects: *mut ObjectsHandle,
    report: *mut ForeignCheckpoint,
    size: usize,
    error: *mut ErrorText,
) -> i32 {
    let call = |objects: &ObjectsHandle| {
        objects.check_open()?;
        let is_told = !report.is_null();
        if is_told {
            check_size(size)?;
        }
        let made = objects.log.checkpoint().wait().map_err(|error| objects.failure_or_closed(error))?;
        if is_told {
            // SAFETY: the caller vouches for the place.
            unsafe { fill(report, size, ForeignCheckpoint::from(&made)) }?;
        }
        Ok(())
    };
    // SAFETY: the caller vouches for the handle and `error`.
    unsafe { on_objects(objects, error, call) }
}

/// Changes the policy.
///
/// # Safety
/// `objects` and `settings` are null or live handles, the latter changed by nobody meanwhile; `error` is null or the
/// caller's memory for one.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_register_policy(
    objects: *mut ObjectsHandle,
    settings: *const SettingsHandle,
    error: *mut ErrorText,
) -> i32 {
    let call = |objects: &ObjectsHandle| {
        // SAFETY: the caller vouches for the handle.
        let settings = unsafe { handle(settings) }?;
        objects.check_open()?;
        Ok(objects.log.register_policy(&settings.values.policy())?)
    };
    // SAFETY: the caller vouches for the handle and `error`.
    unsafe { on_objects(objects, error, call) }
}

/// Takes what the application has served and lost.
///
/// # Safety
/// `objects` is null or a live handle; `error` is null or the caller's memory for one.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_report_requests(
    objects: *mut ObjectsHandle,
    served: u64,
    lost: u64,
    error: *mut ErrorText,
) -> i32 {
    let call = |objects: &ObjectsHandle| {
        objects.check_open()?;
        objects.log.report_requests(served, lost);
        Ok(())
    };
    // SAFETY: the caller vouches for the handle and `error`.
    unsafe { on_objects(objects, error, call) }
}
