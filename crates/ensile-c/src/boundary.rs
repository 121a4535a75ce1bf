//! The boundary between C and Rust, for calls in either direction.
//!
//! Invariants:
//! - A panic does not leave [`boundary`]; it becomes [`Code::Panicked`].
//! - `ensile-objects` marks the thread of a call-back: forbidden calls return [`Code::InCallBack`].
//! - A pointer is checked for null and alignment before use, and a handle for its kind as well.
//!
//! Neighbours: every exported function runs in here; `application` has the call-backs.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::panic_text;
use ensile_durability::UserCode;

use crate::code::{Code, ErrorText, Failure};

/// `ENSILE_NO_OBJECT`: the number that stands for no object.
pub const NO_OBJECT: u64 = u64::MAX;

/// `ensile_bytes`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ForeignBytes {
    /// Address of the bytes; may be null if `size` is 0.
    pub data: *const c_void,
    /// Number of bytes.
    pub size: usize,
}

impl From<&[u8]> for ForeignBytes {
    fn from(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr().cast(), size: bytes.len() }
    }
}

impl ForeignBytes {
    /// The bytes as a slice.
    ///
    /// # Safety
    /// There are `size` readable bytes at `data` as long as `'b`, unchanged meanwhile.
    pub(crate) unsafe fn as_slice<'b>(self) -> Result<&'b [u8], Failure> {
        if self.size == 0 {
            return Ok(&[]);
        }
        if self.data.is_null() {
            return Err(Failure::invalid("bytes are NULL, and their size is not 0"));
        }
        if self.size > isize::MAX as usize {
            return Err(Failure::invalid("a size is larger than memory can be: is it negative?"));
        }
        // SAFETY: `data` is not null, the size is valid for a slice, and the caller vouches for the bytes.
        Ok(unsafe { std::slice::from_raw_parts(self.data.cast(), self.size) })
    }
}

/// Refuses a call from a call-back (F2, O8).
pub(crate) fn check_outside() -> Result<(), Failure> {
    if !UserCode::is_running() {
        return Ok(());
    }
    Err(Failure::new(
        Code::InCallBack,
        "called from a call-back, which may only take objects: call it elsewhere",
    ))
}

/// Runs a call's body and returns its code. Writes code and message to `error` if `error` is not null.
///
/// # Safety
/// `error` is null, or a caller's `ensile_error` that no other call uses meanwhile.
pub(crate) unsafe fn boundary(error: *mut ErrorText, body: impl FnOnce() -> Result<Code, Failure>) -> i32 {
    // A panic may leave a state of `ensile-objects` half changed; `ensile-objects` stops its log then.
    let outcome = catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|panic| Err(Failure::new(Code::Panicked, what_panicked(&*panic))));
    let (code, message) = match &outcome {
        Ok(code) => (*code, ""),
        Err(failure) => (failure.code, &*failure.message),
    };
    if error.is_null() || !error.is_aligned() {
        return code as i32;
    }
    if message.is_empty() {
        // The memory may be uninitialized: the code writes only the two fields, and reads nothing.
        // SAFETY: `error` is not null and is aligned, and the caller vouches for the rest.
        unsafe {
            (&raw mut (*error).code).write(code as i32);
            (&raw mut (*error).message).cast::<u8>().write(0);
        }
    } else {
        let mut text = ErrorText::new();
        text.set(code, message);
        // SAFETY: `error` is not null and is aligned, and the caller vouches for the rest.
        unsafe { error.write(text) };
    }
    code as i32
}

fn what_panicked(panic: &(dyn Any + Send)) -> String {
    let what = panic_text(panic).unwrap_or("no text");
    format!("the library panicked ({what}), which is a bug of it: close, and open again")
}

/// First field of every handle. The field exposes a handle of the wrong kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct HandleKind(u64);

impl HandleKind {
    /// The kind with the name `name`. No other memory begins with the name by chance.
    pub(crate) const fn new(name: &[u8; 8]) -> Self {
        Self(u64::from_le_bytes(*name))
    }
}

/// A type of handles.
///
/// # Safety
/// The type is `repr(C)`, and its first field is a [`HandleKind`] that is always [`HandleType::KIND`].
pub(crate) unsafe trait HandleType {
    const KIND: HandleKind;
    const WHAT: &'static str;
}

/// Checks that a handle may be followed.
///
/// # Safety
/// `handle` is null, or at least the beginning of a handle of the library.
unsafe fn check_handle<H: HandleType>(handle: *const H) -> Result<(), Failure> {
    if handle.is_null() {
        return Err(Failure::invalid(format!("{} is NULL", H::WHAT)));
    }
    // SAFETY: every handle of the library begins with its kind, and is aligned for the kind.
    if !handle.is_aligned() || unsafe { handle.cast::<HandleKind>().read() } != H::KIND {
        return Err(Failure::invalid(format!("{} is another kind of handle, or none", H::WHAT)));
    }
    Ok(())
}

/// The handle that a caller passed.
///
/// # Safety
/// `handle` is null, or a handle of the library. The handle is not freed before `'h` is over, and no other call changes
/// the handle.
pub(crate) unsafe fn handle<'h, H: HandleType>(handle: *const H) -> Result<&'h H, Failure> {
    // SAFETY: `handle` is null or a handle, says the caller.
    unsafe { check_handle(handle) }?;
    // SAFETY: `handle` is a live handle of type `H`, and no other call changes the handle.
    Ok(unsafe { &*handle })
}

/// As [`handle`], for a call that may change the handle.
///
/// # Safety
/// As for [`handle`], and no other call uses the handle.
pub(crate) unsafe fn handle_mut<'h, H: HandleType>(handle: *mut H) -> Result<&'h mut H, Failure> {
    // SAFETY: `handle` is null or a handle, says the caller.
    unsafe { check_handle(handle.cast_const()) }?;
    // SAFETY: `handle` is a live handle of type `H`, and no other call uses the handle.
    Ok(unsafe { &mut *handle })
}

/// Takes ownership of a caller's handle; `None` for null.
///
/// # Safety
/// As for [`handle_mut`]; the handle is not used any more.
pub(crate) unsafe fn take_handle<H: HandleType>(handle: *mut H) -> Result<Option<Box<H>>, Failure> {
    if handle.is_null() {
        return Ok(None);
    }
    // SAFETY: `handle` is a handle, says the caller.
    unsafe { check_handle(handle.cast_const()) }?;
    // SAFETY: a handle comes from `give`, so from a box, and the handle has no other user.
    Ok(Some(unsafe { Box::from_raw(handle) }))
}

/// Place of an answer. The place is checked before the call does anything: no call succeeds without an answer.
pub(crate) struct AnswerPlace<T>(*mut T);

impl<T> AnswerPlace<T> {
    /// # Errors
    /// The place is null, or not aligned.
    pub(crate) fn new(place: *mut T, what: &str) -> Result<Self, Failure> {
        if place.is_null() {
            return Err(Failure::invalid(format!("{what} is NULL: there is no place for the answer")));
        }
        if !place.is_aligned() {
            return Err(Failure::invalid(format!("{what} is not aligned: it is no place for the answer")));
        }
        Ok(Self(place))
    }

    /// # Safety
    /// The place is the caller's memory for a `T`, unused by other threads meanwhile.
    pub(crate) unsafe fn put(self, answer: T) {
        // SAFETY: the place is not null and is aligned, and the caller vouches for the rest.
        unsafe { self.0.write(answer) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, ErrorText, boundary};

    #[test]
    fn a_panic_becomes_a_code_and_a_text() {
        let mut error = ErrorText::new();
        // SAFETY: there is a place for the text.
        let code = unsafe { boundary(&raw mut error, || panic!("a bug of {}", "ours")) };
        assert_eq!((code, error.code), (Code::Panicked as i32, code));
        assert!(error.text().contains("a bug of ours"), "{}", error.text());
        // SAFETY: null is no place, which is allowed.
        assert_eq!(unsafe { boundary(std::ptr::null_mut(), || panic!("again")) }, code);
    }
}
