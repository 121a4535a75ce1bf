//! Open objects: the handle, from the open to the end.
//!
//! ```text
//! open --- log .. durable .. checkpoint .. --- close (several threads may, all wait) --- free
//! ```
//! Invariants:
//! - Calls may use a handle that is closed and not freed. Such calls get [`Code::Closed`].
//! - A call without a place for its answer does nothing. A call from a call-back does nothing.
//!
//! Neighbours: `application` has the call-backs; `operations`, `durability` and `reports` have the calls between open
//! and close; `ensile-objects` does the work.

use std::ffi::c_char;
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_base::sync::{AtomicBool, Ordering};
use ensile_objects::{ApplicationLog, ObjectReceipt};

use crate::application::{CallBacks, ForeignApplication};
use crate::boundary::{AnswerPlace, HandleKind, HandleType, boundary, check_outside, handle, take_handle};
use crate::code::{Code, ErrorText, Failure};
use crate::settings::{SettingValues, SettingsHandle, folder_of};

/// `ensile_objects`.
#[derive(Debug)]
#[repr(C)]
pub struct ObjectsHandle {
    kind: HandleKind,
    pub(crate) log: ApplicationLog,
    /// True if a close has begun: later calls are refused as calls on closed objects.
    is_closed: AtomicBool,
}

// SAFETY: `repr(C)`, the kind is its first field, and `open` alone makes one.
unsafe impl HandleType for ObjectsHandle {
    const KIND: HandleKind = HandleKind::new(b"e_object");
    const WHAT: &'static str = "objects";
}

/// `ensile_receipt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ForeignReceipt {
    /// The epoch that must be durable.
    pub epoch: u64,
}

impl From<ObjectReceipt<'_>> for ForeignReceipt {
    fn from(receipt: ObjectReceipt<'_>) -> Self {
        Self { epoch: receipt.epoch().number() }
    }
}

impl ObjectsHandle {
    /// A handle for a caller, of open objects.
    fn give(log: ApplicationLog) -> *mut Self {
        Box::into_raw(Box::new(Self { kind: Self::KIND, log, is_closed: AtomicBool::new(false) }))
    }

    fn is_closed(&self) -> bool {
        // Acquire: a thread that was refused by a closed log sees why; partner: the store in `close`.
        self.is_closed.load(Ordering::Acquire)
    }

    pub(crate) fn check_open(&self) -> Result<(), Failure> {
        if self.is_closed() { Err(closed_failure()) } else { Ok(()) }
    }

    /// The failure, as [`Code::Closed`] if a close has stopped the log.
    pub(crate) fn failure_or_closed(&self, failure: impl Into<Failure>) -> Failure {
        let failure = failure.into();
        if failure.code == Code::Stopped && self.is_closed() { closed_failure() } else { failure }
    }

    fn close(&self) -> Result<(), Failure> {
        // Release: partner is the load in `is_closed`, behind the log's refusal.
        self.is_closed.store(true, Ordering::Release);
        Ok(self.log.close()?)
    }

    pub(crate) fn receipt(&self, receipt: ForeignReceipt) -> Result<ObjectReceipt<'_>, Failure> {
        let newest = self.log.epoch();
        if receipt.epoch > newest.number() {
            let why = format!(
                "{} is above {newest}, the newest epoch: the receipt is of other objects",
                receipt.epoch
            );
            return Err(Failure::invalid(why));
        }
        Ok(self.log.receipt(Epoch::new(receipt.epoch)))
    }
}

fn closed_failure() -> Failure {
    Failure::new(Code::Closed, "the objects are closed: open them again")
}

/// Opens a folder.
///
/// # Safety
/// `folder` is null or a string that ends with a zero; `settings` null or a live handle that nobody changes meanwhile;
/// `application` null or as the header says; `objects` and `error` null or the caller's memory for such values.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_open(
    folder: *const c_char,
    settings: *const SettingsHandle,
    application: *const ForeignApplication,
    objects: *mut *mut ObjectsHandle,
    error: *mut ErrorText,
) -> i32 {
    // SAFETY: the caller vouches for all of them.
    let body = || unsafe { open(folder, settings, application, None, objects) };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// Opens a folder, and replays each operation on a copy of the application.
///
/// # Safety
/// As for [`ensile_objects_open`]; `copy` is null or as the header says.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_open_checked(
    folder: *const c_char,
    settings: *const SettingsHandle,
    application: *const ForeignApplication,
    copy: *const ForeignApplication,
    objects: *mut *mut ObjectsHandle,
    error: *mut ErrorText,
) -> i32 {
    // SAFETY: the caller vouches for all of them.
    let body = || unsafe { open(folder, settings, application, Some(copy), objects) };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// Opens a folder with these settings, or with the usual settings; in the debug mode, if `copy` is given.
///
/// # Safety
/// As for [`ensile_objects_open_checked`].
unsafe fn open(
    folder: *const c_char,
    settings: *const SettingsHandle,
    application: *const ForeignApplication,
    copy: Option<*const ForeignApplication>,
    objects: *mut *mut ObjectsHandle,
) -> Result<Code, Failure> {
    check_outside()?;
    let place = AnswerPlace::new(objects, "objects")?;
    // SAFETY: the caller vouches for the table.
    let application = unsafe { CallBacks::from_table(application) }?;
    // SAFETY: the caller vouches for the table.
    let copy = copy.map(|copy| unsafe { CallBacks::from_table(copy) }).transpose()?;
    copy.iter().try_for_each(|copy| application.check_copy(copy))?;
    // SAFETY: the caller vouches for the string.
    let folder = unsafe { folder_of(folder) }?;
    let builder = if settings.is_null() {
        SettingValues::new().builder(folder)
    } else {
        // SAFETY: the caller vouches for the handle.
        unsafe { handle(settings) }?.values.builder(folder)
    };
    let application = Arc::new(application);
    let log = match copy {
        None => builder.open_application(application)?,
        Some(copy) => builder.open_application_checked(application, copy)?,
    };
    // SAFETY: the caller vouches for the place.
    unsafe { place.put(ObjectsHandle::give(log)) };
    Ok(Code::Ok)
}

/// Runs a call on objects, open or closed. A call from a call-back is refused.
///
/// # Safety
/// As for [`handle`] and [`boundary`].
pub(crate) unsafe fn on_objects(
    objects: *mut ObjectsHandle,
    error: *mut ErrorText,
    call: impl FnOnce(&ObjectsHandle) -> Result<(), Failure>,
) -> i32 {
    let body = || {
        check_outside()?;
        // SAFETY: the caller vouches for the handle.
        call(unsafe { handle(objects) }?)?;
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// Closes.
///
/// # Safety
/// `objects` is null or a live handle; `error` is null or the caller's memory for one.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_close(objects: *mut ObjectsHandle, error: *mut ErrorText) -> i32 {
    // SAFETY: the caller vouches for the handle and `error`.
    unsafe { on_objects(objects, error, ObjectsHandle::close) }
}

/// Closes, and ends the handle.
///
/// # Safety
/// `objects` is null or a live handle that nobody uses from now on; `error` is null or the caller's memory for one.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_free(objects: *mut ObjectsHandle, error: *mut ErrorText) -> i32 {
    let body = || {
        check_outside()?;
        // SAFETY: the caller vouches for the handle.
        let objects = unsafe { take_handle(objects) }?;
        objects.map_or(Ok(()), |objects| objects.close())?;
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}
