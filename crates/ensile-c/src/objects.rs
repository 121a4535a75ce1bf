//! Open objects: logging, waiting, checkpoints, figures, the end.
//!
//! ```text
//! open --- log .. durable .. checkpoint .. --- close (several threads may, all wait) --- free
//! ```
//! Invariants:
//! - A handle that was closed and not freed is one that calls may use: they get [`Code::Closed`].
//! - Nothing is done where there is no place for the answer, nor from a call-back.
//!
//! Neighbours: `application` has the call-backs; `ensile-objects` does the work.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use ensile_base::Epoch;
use ensile_base::sync::{AtomicBool, Ordering};
use ensile_objects::{ApplicationLog, ChangeReceipt, ObjectLife, ObjectReceipt, ObjectsBuilder};

use crate::application::{CallBacks, ForeignApplication};
use crate::boundary::{
    AnswerPlace, ForeignBytes, HandleKind, HandleType, NO_OBJECT, boundary, check_outside, handle,
    take_handle,
};
use crate::code::{Code, ErrorText, Failure};
use crate::figures::{ForeignCheckpoint, ForeignRecovery, ForeignStats, check_size, fill, put_text, text_of};
use crate::settings::{SettingValues, SettingsHandle, folder_of, numbers};

/// `ensile_objects`.
#[derive(Debug)]
#[repr(C)]
pub struct ObjectsHandle {
    kind: HandleKind,
    log: ApplicationLog,
    /// A close has begun: what is refused from now on is refused for that.
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

/// `ensile_make`: makes a change that was logged.
pub type ForeignMake = Option<unsafe extern "C" fn(argument: *mut c_void) -> i32>;

/// A caller's function that makes a change.
#[derive(Clone, Copy)]
struct ChangeMaker {
    make: unsafe extern "C" fn(argument: *mut c_void) -> i32,
    argument: *mut c_void,
}

impl ChangeMaker {
    fn new(make: ForeignMake, argument: *mut c_void) -> Result<Self, Failure> {
        let make = make.ok_or_else(|| Failure::invalid("the function that makes the change is NULL"))?;
        Ok(Self { make, argument })
    }

    /// Makes the change of an object; true if the change is made.
    ///
    /// # Safety
    /// As for [`ensile_objects_change`].
    unsafe fn make(self, object: u64, logged: &ObjectReceipt<'_>) -> bool {
        // SAFETY: the caller vouches for the function.
        logged.make(object, || unsafe { (self.make)(self.argument) == 0 })
    }
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

    fn check_open(&self) -> Result<(), Failure> {
        if self.is_closed() { Err(closed_failure()) } else { Ok(()) }
    }

    /// What was refused, by a close if there was one.
    fn failure_or_closed(&self, failure: impl Into<Failure>) -> Failure {
        let failure = failure.into();
        if failure.code == Code::Stopped && self.is_closed() { closed_failure() } else { failure }
    }

    fn close(&self) -> Result<Code, Failure> {
        // Release: partner is the load in `is_closed`, behind the log's refusal.
        self.is_closed.store(true, Ordering::Release);
        self.log.close()?;
        Ok(Code::Ok)
    }

    /// # Safety
    /// As for [`ensile_objects_log`].
    unsafe fn log(&self, call: ForeignOperation) -> Result<ObjectReceipt<'_>, Failure> {
        /// Parameters up to this number need no allocation.
        const FEW: usize = 8;
        // SAFETY: the caller vouches for the parameters.
        let list = unsafe { parameters_of(call.parameters, call.parameters_count) }?;
        // SAFETY: the caller of the C function vouches for each of the parameters while it runs.
        let bytes_of = |bytes: &ForeignBytes| unsafe { bytes.as_slice() };
        let log = |parameters: &[&[u8]]| match call.life {
            None => self.log.log(call.object, call.number, parameters),
            Some(life) => self.log.log_life(call.object, life, call.number, parameters),
        };
        let logged = if list.len() <= FEW {
            let mut few: [&[u8]; FEW] = [&[]; FEW];
            for (slot, bytes) in few.iter_mut().zip(list) {
                *slot = bytes_of(bytes)?;
            }
            log(&few[..list.len()])
        } else {
            log(&list.iter().map(bytes_of).collect::<Result<Vec<_>, _>>()?)
        };
        logged.map_err(|error| self.failure_or_closed(error))
    }

    fn receipt(&self, receipt: ForeignReceipt) -> Result<ObjectReceipt<'_>, Failure> {
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

/// The list of parameters.
///
/// # Safety
/// There are `count` of them at `first`, which nobody changes meanwhile.
unsafe fn parameters_of<'p>(first: *const ForeignBytes, count: usize) -> Result<&'p [ForeignBytes], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() || !first.is_aligned() {
        return Err(Failure::invalid("the parameters are NULL or not aligned, and their count is not 0"));
    }
    if count > isize::MAX as usize / size_of::<ForeignBytes>() {
        return Err(Failure::invalid(
            "there are more parameters than memory can have: is the count negative?",
        ));
    }
    // SAFETY: it is not null and is aligned, of a size that a slice may have, and the caller vouches for the rest.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// An operation as a caller passes it.
#[derive(Clone, Copy)]
struct ForeignOperation {
    object: u64,
    /// Mark of the object's life, if the call has a mark.
    life: Option<ObjectLife>,
    number: u32,
    parameters: *const ForeignBytes,
    parameters_count: usize,
}

/// The mark of this number.
fn life_of(number: u32) -> Result<ObjectLife, Failure> {
    match number {
        numbers::LIFE_CREATION => Ok(ObjectLife::Creation),
        numbers::LIFE_CHANGE => Ok(ObjectLife::Change),
        numbers::LIFE_REMOVAL => Ok(ObjectLife::Removal),
        _ => Err(Failure::invalid(format!("{number} is the number of no ENSILE_LIFE_.."))),
    }
}

/// Logs an operation of an object, makes the change by `make` if the call has one, and stores the receipt if the caller
/// gives a place.
///
/// # Safety
/// As for [`ensile_objects_change`].
unsafe fn log(
    objects: *mut ObjectsHandle,
    call: ForeignOperation,
    make: Option<ChangeMaker>,
    receipt: *mut ForeignReceipt,
) -> Result<Code, Failure> {
    check_outside()?;
    // SAFETY: the caller vouches for the handle.
    let objects = unsafe { handle(objects) }?;
    let place = if receipt.is_null() { None } else { Some(AnswerPlace::new(receipt, "receipt")?) };
    // SAFETY: the caller vouches for the parameters.
    let logged = unsafe { objects.log(call) }?;
    // SAFETY: the caller vouches for the function.
    let is_made = make.is_none_or(|make| unsafe { make.make(call.object, &logged) });
    if let Some(place) = place {
        // SAFETY: the caller vouches for the place.
        unsafe { place.put(logged.into()) };
    }
    if is_made {
        return Ok(Code::Ok);
    }
    objects.log.poison(call.object)?;
    let why = format!(
        "the change of object {} failed after its log entry, so the object is poisoned: it is refused, and no checkpoint is \
         made, until the objects are opened again, which makes a logged change again",
        call.object
    );
    Err(Failure::new(Code::Poisoned, why))
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
    let body = || {
        check_outside()?;
        let place = AnswerPlace::new(objects, "objects")?;
        // SAFETY: the caller vouches for the table.
        let application = unsafe { CallBacks::from_table(application) }?;
        // SAFETY: the caller vouches for the string and the handle.
        let builder = unsafe { builder_of(folder, settings) }?;
        let log = builder.open_application(Arc::new(application))?;
        // SAFETY: the caller vouches for the place.
        unsafe { place.put(ObjectsHandle::give(log)) };
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// Builder that opens this folder with these settings, or with the usual settings.
///
/// # Safety
/// As for [`ensile_objects_open`].
unsafe fn builder_of(
    folder: *const c_char,
    settings: *const SettingsHandle,
) -> Result<ObjectsBuilder, Failure> {
    // SAFETY: the caller vouches for the string.
    let folder = unsafe { folder_of(folder) }?;
    if settings.is_null() {
        return Ok(SettingValues::new().builder(folder));
    }
    // SAFETY: the caller vouches for the handle.
    Ok(unsafe { handle(settings) }?.values.builder(folder))
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
    let body = || {
        check_outside()?;
        let place = AnswerPlace::new(objects, "objects")?;
        // SAFETY: the caller vouches for the tables.
        let (application, copy) =
            unsafe { (CallBacks::from_table(application)?, CallBacks::from_table(copy)?) };
        application.check_copy(&copy)?;
        // SAFETY: the caller vouches for the string and the handle.
        let builder = unsafe { builder_of(folder, settings) }?;
        let log = builder.open_application_checked(Arc::new(application), copy)?;
        // SAFETY: the caller vouches for the place.
        unsafe { place.put(ObjectsHandle::give(log)) };
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// Logs an operation.
///
/// # Safety
/// `objects` is null or a live handle; there are as many readable parameters as is said, each with its bytes; `receipt`
/// and `error` are null or the caller's memory for such values.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_log(
    objects: *mut ObjectsHandle,
    object: u64,
    operation: u32,
    parameters: *const ForeignBytes,
    parameters_count: usize,
    receipt: *mut ForeignReceipt,
    error: *mut ErrorText,
) -> i32 {
    let call = ForeignOperation { object, life: None, number: operation, parameters, parameters_count };
    // SAFETY: the caller vouches for all of them.
    let body = || unsafe { log(objects, call, None, receipt) };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// Logs an operation with a mark.
///
/// # Safety
/// As for [`ensile_objects_log`].
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_log_life(
    objects: *mut ObjectsHandle,
    object: u64,
    life: u32,
    operation: u32,
    parameters: *const ForeignBytes,
    parameters_count: usize,
    receipt: *mut ForeignReceipt,
    error: *mut ErrorText,
) -> i32 {
    let body = || {
        let life = Some(life_of(life)?);
        let call = ForeignOperation { object, life, number: operation, parameters, parameters_count };
        // SAFETY: the caller vouches for all of them.
        unsafe { log(objects, call, None, receipt) }
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// Logs an operation, and then makes it.
///
/// # Safety
/// As for [`ensile_objects_log`]; and `make` is null or a function that may be called with `argument`, and returns.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_change(
    objects: *mut ObjectsHandle,
    object: u64,
    operation: u32,
    parameters: *const ForeignBytes,
    parameters_count: usize,
    make: ForeignMake,
    argument: *mut c_void,
    receipt: *mut ForeignReceipt,
    error: *mut ErrorText,
) -> i32 {
    let body = || {
        let make = ChangeMaker::new(make, argument)?;
        let call = ForeignOperation { object, life: None, number: operation, parameters, parameters_count };
        // SAFETY: the caller vouches for all of them.
        unsafe { log(objects, call, Some(make), receipt) }
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// Logs an operation with a mark, and then makes it.
///
/// # Safety
/// As for [`ensile_objects_change`].
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_change_life(
    objects: *mut ObjectsHandle,
    object: u64,
    life: u32,
    operation: u32,
    parameters: *const ForeignBytes,
    parameters_count: usize,
    make: ForeignMake,
    argument: *mut c_void,
    receipt: *mut ForeignReceipt,
    error: *mut ErrorText,
) -> i32 {
    let body = || {
        let (life, make) = (Some(life_of(life)?), ChangeMaker::new(make, argument)?);
        let call = ForeignOperation { object, life, number: operation, parameters, parameters_count };
        // SAFETY: the caller vouches for all of them.
        unsafe { log(objects, call, Some(make), receipt) }
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// Poisons an object.
///
/// # Safety
/// `objects` is null or a live handle; `error` is null or the caller's memory for one.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_poison(
    objects: *mut ObjectsHandle,
    object: u64,
    error: *mut ErrorText,
) -> i32 {
    let body = || {
        check_outside()?;
        // SAFETY: the caller vouches for the handle.
        let objects = unsafe { handle(objects) }?;
        check_number(object)?;
        // During a close too: a checkpoint under way may still come to the object.
        objects.log.poison(object)?;
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

/// Tells whether an object is poisoned.
///
/// # Safety
/// `objects` is null or a live handle; `poisoned` and `error` are null or the caller's memory for such values.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_objects_is_poisoned(
    objects: *mut ObjectsHandle,
    object: u64,
    poisoned: *mut bool,
    error: *mut ErrorText,
) -> i32 {
    let body = || {
        check_outside()?;
        // SAFETY: the caller vouches for the handle.
        let objects = unsafe { handle(objects) }?;
        let place = AnswerPlace::new(poisoned, "poisoned")?;
        objects.check_open()?;
        check_number(object)?;
        let is_poisoned = objects.log.is_poisoned(object)?;
        // SAFETY: the caller vouches for the place.
        unsafe { place.put(is_poisoned) };
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

fn check_number(object: u64) -> Result<(), Failure> {
    if object == NO_OBJECT {
        Err(Failure::invalid("ENSILE_NO_OBJECT is the number of no object"))
    } else {
        Ok(())
    }
}

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
    let body = || {
        check_outside()?;
        // SAFETY: the caller vouches for the handle.
        let objects = unsafe { handle(objects) }?;
        objects.receipt(receipt)?.durable().map_err(|error| objects.failure_or_closed(error))?;
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
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
    let body = || {
        check_outside()?;
        // SAFETY: the caller vouches for the handle.
        let objects = unsafe { handle(objects) }?;
        let place = AnswerPlace::new(durable, "durable")?;
        let is_durable = objects.receipt(receipt)?.is_durable();
        // SAFETY: the caller vouches for the place.
        unsafe { place.put(is_durable) };
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
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
    let body = || {
        check_outside()?;
        // SAFETY: the caller vouches for the handle.
        let objects = unsafe { handle(objects) }?;
        objects.check_open()?;
        drop(objects.log.checkpoint());
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
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
    let body = || {
        check_outside()?;
        // SAFETY: the caller vouches for the handle.
        let objects = unsafe { handle(objects) }?;
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
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
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
    let body = || {
        check_outside()?;
        // SAFETY: the caller vouches for the handles.
        let (objects, settings) = unsafe { (handle(objects)?, handle(settings)?) };
        objects.check_open()?;
        objects.log.register_policy(&settings.values.policy())?;
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
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
    let body = || {
        check_outside()?;
        // SAFETY: the caller vouches for the handle.
        let objects = unsafe { handle(objects) }?;
        objects.check_open()?;
        objects.log.report_requests(served, lost);
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}

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
    let body = || {
        check_outside()?;
        // SAFETY: the caller vouches for the handle.
        let objects = unsafe { handle(objects) }?;
        objects.check_open()?;
        let told = text_of(what, &objects.log)?;
        // SAFETY: the caller vouches for the place.
        unsafe { put_text(text, size, &told) }?;
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
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
    let body = || {
        check_outside()?;
        // SAFETY: the caller vouches for the handle.
        let objects = unsafe { handle(objects) }?;
        objects.check_open()?;
        // SAFETY: the caller vouches for the place.
        unsafe { fill(stats, size, ForeignStats::from(&objects.log.stats())) }?;
        Ok(Code::Ok)
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
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
    let body = || {
        check_outside()?;
        // SAFETY: the caller vouches for the handle.
        let objects = unsafe { handle(objects) }?;
        // SAFETY: the caller vouches for the place.
        unsafe { fill(recovery, size, ForeignRecovery::from(objects.log.recovery())) }?;
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
    let body = || {
        check_outside()?;
        // SAFETY: the caller vouches for the handle.
        unsafe { handle(objects) }?.close()
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
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
        let Some(objects) = unsafe { take_handle(objects) }? else { return Ok(Code::Ok) };
        let outcome = objects.close();
        drop(objects);
        outcome
    };
    // SAFETY: the caller vouches for `error`.
    unsafe { boundary(error, body) }
}
