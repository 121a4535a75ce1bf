//! The writer of a checkpoint's call-back: C functions that take objects from the call-back.
//!
//! A call-back gets only an address. The address has a meaning only on its thread while the call-back runs. A writer
//! that was kept, or went to another thread, is never followed.
//!
//! Invariant: an `ObjectWriter` is reached through [`CURRENT`] of its thread alone, while a [`LentWriter`] borrows the
//! writer.
//!
//! Neighbours: `application` lends the writer to a call-back; `ensile-objects` takes the objects.

use std::cell::Cell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;

use ensile_base::sync::thread_local;
use ensile_objects::ObjectWriter;

use crate::boundary::{ForeignBytes, NO_OBJECT, boundary};
use crate::code::{Code, Failure};

/// `ensile_writer`: an opaque type.
#[derive(Debug)]
#[repr(C)]
pub struct ForeignWriter {
    opaque: [u8; 0],
}

thread_local! {
    /// Writer of the thread's call-back, and a flag: no room is left after the last object.
    static CURRENT: Cell<LentTo> = const { Cell::new(LentTo::NONE) };
}

#[derive(Clone, Copy)]
struct LentTo {
    writer: *mut c_void,
    is_full: bool,
}

impl LentTo {
    /// No writer.
    const NONE: Self = Self { writer: ptr::null_mut(), is_full: false };
}

/// Makes a writer the current writer of the thread, until the drop of the value.
pub(crate) struct LentWriter<'l, 'w> {
    writer: *mut ObjectWriter<'w>,
    before: LentTo,
    borrowed: PhantomData<&'l mut ObjectWriter<'w>>,
}

impl<'l, 'w> LentWriter<'l, 'w> {
    pub(crate) fn new(writer: &'l mut ObjectWriter<'w>) -> Self {
        let writer: *mut ObjectWriter<'w> = writer;
        let before = CURRENT.replace(LentTo { writer: writer.cast(), is_full: false });
        Self { writer, before, borrowed: PhantomData }
    }

    /// Address for the call-back.
    pub(crate) fn address(&self) -> *mut ForeignWriter {
        self.writer.cast()
    }

    /// True if there is no room for a further object.
    pub(crate) fn is_full(&self) -> bool {
        CURRENT.get().is_full
    }
}

impl Drop for LentWriter<'_, '_> {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

/// Passes the thread's current writer to `take` if `writer` names the current writer. `take` returns true if there is
/// room.
fn with_writer(
    writer: *mut ForeignWriter,
    take: impl FnOnce(&mut ObjectWriter<'_>) -> bool,
) -> Result<Code, Failure> {
    let current = CURRENT.get();
    if writer.is_null() || current.writer != writer.cast() {
        return Err(Failure::invalid("the writer is of no call-back that runs on this thread"));
    }
    // In the debug mode `take` calls the copy's call-backs, which may know the address of this writer.
    CURRENT.set(LentTo::NONE);
    // SAFETY: `CURRENT` names a writer only until the drop of the `LentWriter` that borrows the writer, so the writer
    // is alive. There is no other reference to the writer: this function alone makes a reference, and meanwhile no
    // call finds the writer in `CURRENT`.
    let out = unsafe { &mut *current.writer.cast::<ObjectWriter<'_>>() };
    let has_room = take(out);
    CURRENT.set(LentTo { is_full: !has_room, ..current });
    match out.refusal() {
        Some(why) => Err(Failure::new(Code::CheckpointFailed, why)),
        None => Ok(if has_room { Code::Ok } else { Code::BlockFull }),
    }
}

/// Takes an object's bytes.
///
/// # Safety
/// There are `size` readable bytes at `data`, unchanged meanwhile.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ensile_writer_ckpt(
    writer: *mut ForeignWriter,
    object: u64,
    data: *const c_void,
    size: usize,
) -> i32 {
    let body = || {
        // SAFETY: the caller vouches for the bytes.
        let bytes = unsafe { ForeignBytes { data, size }.as_slice() };
        with_writer(writer, |out| match bytes {
            Ok(bytes) => out.ckpt(object, bytes),
            Err(failure) => {
                out.refuse(format!("object {object}: {}", failure.message));
                false
            }
        })
    };
    // SAFETY: null is no place for a text, and null is allowed.
    unsafe { boundary(ptr::null_mut(), body) }
}

/// Notes that the object does not exist.
// SAFETY: no other library has functions of this name.
#[unsafe(no_mangle)]
pub extern "C" fn ensile_writer_absent(writer: *mut ForeignWriter, object: u64) -> i32 {
    // SAFETY: null is no place for a text, and null is allowed.
    unsafe { boundary(ptr::null_mut(), || with_writer(writer, |out| out.absent(object))) }
}

const _: () = assert!(NO_OBJECT == u64::MAX, "as ensile-objects has it");
