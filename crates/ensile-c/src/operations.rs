//! Operations of objects: logged, and made by the caller's function.
//!
//! Neighbours: `objects` has the handle and its receipts; `ensile-objects` logs.

use std::ffi::c_void;

use ensile_objects::{ChangeReceipt, ObjectLife, ObjectReceipt};

use crate::boundary::{AnswerPlace, ForeignBytes, NO_OBJECT, boundary, check_outside, handle};
use crate::code::{Code, ErrorText, Failure};
use crate::objects::{ForeignReceipt, ObjectsHandle, on_objects};
use crate::settings::numbers;

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

impl ObjectsHandle {
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
    let call = |objects: &ObjectsHandle| {
        check_number(object)?;
        // During a close too: a checkpoint under way may still come to the object.
        Ok(objects.log.poison(object)?)
    };
    // SAFETY: the caller vouches for the handle and `error`.
    unsafe { on_objects(objects, error, call) }
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
    let call = |objects: &ObjectsHandle| {
        let place = AnswerPlace::new(poisoned, "poisoned")?;
        objects.check_open()?;
        check_number(object)?;
        let is_poisoned = objects.log.is_poisoned(object)?;
        // SAFETY: the caller vouches for the place.
        unsafe { place.put(is_poisoned) };
        Ok(())
    };
    // SAFETY: the caller vouches for the handle and `error`.
    unsafe { on_objects(objects, error, call) }
}

fn check_number(object: u64) -> Result<(), Failure> {
    if object == NO_OBJECT {
        Err(Failure::invalid("ENSILE_NO_OBJECT is the number of no object"))
    } else {
        Ok(())
    }
}
