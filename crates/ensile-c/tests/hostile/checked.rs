//! The debug mode with a second table of call-backs.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex};

use ensile_c::*;

use crate::foreign::{Folder, Handle, Numbers, call, open, table, try_open_checked};

/// Text of the first difference.
fn difference(handle: Handle) -> String {
    let mut bytes = [7_u8; 400];
    let (what, place) = (told::TEXT_DIFFERENCE, bytes.as_mut_ptr().cast());
    // SAFETY: the handle is live, and there is a place of this size.
    call(|e| unsafe { ensile_objects_text(handle.0, what, place, 400, e) }).expect("is told");
    std::ffi::CStr::from_bytes_until_nul(&bytes).expect("it ends").to_str().expect("text").to_owned()
}

#[test]
fn a_checkpoint_of_the_debug_mode_names_the_first_object_that_differs() {
    let folder = Folder::new();
    let numbers = Numbers::default();
    let handle = open(&folder, &numbers);
    handle.add(&numbers, 1, 5).expect("logs");
    handle.free().expect("ends");

    let (numbers, copy) = (Numbers::default(), Numbers::default());
    let handle = try_open_checked(&folder, &table(&numbers), &table(&copy)).expect("opens");
    handle.add(&numbers, 1, 1).expect("logs");
    handle.add(&numbers, 2, 2).expect("logs");
    assert_eq!(*copy.all(), *numbers.all(), "each operation is replayed on the copy");
    handle.checkpoint().expect("nothing differs");
    assert_eq!(difference(handle), "");
    *numbers.all().get_mut(&2).expect("it was made") = 9;
    let (code, said) = handle.checkpoint().map(drop).expect_err("is given up");
    let differs = "object 2 is not what its operations make of it: byte 0 of the object's encoding is 9; applied again, it is 2";
    assert!(code == Code::CheckpointFailed && said.contains(differs), "{said}");
    assert_eq!(difference(handle), differs);
    handle.free().expect("ends");
}

#[test]
fn a_copy_that_is_the_application_itself_or_of_another_version_is_refused() {
    let (folder, numbers, copy) = (Folder::new(), Numbers::default(), Numbers::default());
    let own = table(&numbers);
    let newer = ForeignApplication { version: 1, ..table(&copy) };
    for (copy, why) in [(own, "make a second instance"), (newer, "its copy of version 1")] {
        let (code, said) = try_open_checked(&folder, &own, &copy).map(drop).expect_err("is refused");
        assert!(code == Code::Invalid && said.contains(why), "{said}");
    }
    assert!(!folder.0.exists(), "nothing was made");
}

/// Iterator of a copy that calls `besides` first, without a writer of its own.
unsafe extern "C" fn next_object(user: *mut c_void, from: u64, object: *mut u64, _: *mut ErrorText) -> i32 {
    // SAFETY: the library passes the table's `user`, and a place.
    let (copy, object) = unsafe { (&*user.cast::<Numbers>(), &mut *object) };
    copy.besides.iter().for_each(|besides| besides(copy, ptr::null_mut()));
    copy.all().range(from..).next().into_iter().for_each(|(next, _)| *object = *next);
    0
}

#[test]
fn f3_a_copys_call_back_does_not_reach_the_writer_of_the_call_back_around_it() {
    let folder = Folder::new();
    let outer: Arc<AtomicPtr<ForeignWriter>> = Arc::default();
    let codes: Arc<Mutex<Vec<i32>>> = Arc::default();
    let (keep, kept, seen) = (Arc::clone(&outer), Arc::clone(&outer), Arc::clone(&codes));
    let keeps = move |_: &Numbers, writer: *mut ForeignWriter| keep.store(writer, Ordering::SeqCst);
    // The copy is compared within `ensile_writer_ckpt` of the application.
    let reaches = move |_: &Numbers, writer: *mut ForeignWriter| {
        let outer = kept.load(Ordering::SeqCst);
        if writer.is_null() && !outer.is_null() {
            seen.lock().expect("no panic").push(ensile_writer_absent(outer, 9));
        }
    };
    let numbers = Numbers { besides: Some(Box::new(keeps)), ..Numbers::default() };
    let copy = Numbers { besides: Some(Box::new(reaches)), ..Numbers::default() };
    let copied = ForeignApplication { next_object: Some(next_object), ..table(&copy) };
    let handle = try_open_checked(&folder, &table(&numbers), &copied).expect("opens");
    handle.add(&numbers, 1, 1).expect("logs");
    assert_eq!(handle.checkpoint().expect("is made").entries, 1);
    assert_eq!(*codes.lock().expect("no panic"), [Code::Invalid as i32]);
    handle.free().expect("ends");
}
