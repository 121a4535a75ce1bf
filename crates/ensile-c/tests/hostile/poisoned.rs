//! Changes and replays that report a failure (O6).

use std::ffi::c_void;
use std::ptr;

use ensile_c::*;

use crate::foreign::{Folder, Handle, Numbers, call, on_demand, open, table};

/// Makes no change, and reports a failure.
unsafe extern "C" fn fail(_: *mut c_void) -> i32 {
    -7
}

/// Logs an addition whose change fails.
fn fail_to_add(handle: Handle, object: u64, by: u64) -> (Code, String, ForeignReceipt) {
    let parameter = ForeignBytes { data: (&raw const by).cast(), size: 8 };
    let (argument, mut receipt) = (ptr::null_mut(), ForeignReceipt { epoch: 0 });
    // SAFETY: the handle is live, and there are places for the answers.
    let failed = call(|e| unsafe {
        let place = &raw mut receipt;
        ensile_objects_change(handle.0, object, 7, &raw const parameter, 1, Some(fail), argument, place, e)
    });
    let (code, said) = failed.expect_err("it fails");
    (code, said, receipt)
}

#[test]
fn o6_a_make_that_reports_a_failure_poisons_its_object_until_the_next_open() {
    let (folder, numbers) = (Folder::new(), Numbers::default());
    let handle = open(&folder, &numbers);
    handle.add(&numbers, 1, 5).expect("logs");
    handle.checkpoint().expect("is made");
    let (code, said, receipt) = fail_to_add(handle, 1, 7);
    assert!(code == Code::Poisoned && said.contains("the change of object 1 failed"), "{code:?}: {said}");
    handle.durable(receipt).expect("it is logged");
    for (code, said) in [
        handle.log(1, &[1]).map(drop).expect_err("is refused"),
        handle.checkpoint().map(drop).expect_err("is refused"),
    ] {
        assert!([Code::Poisoned, Code::CheckpointFailed].contains(&code), "{code:?}");
        assert!(said.contains("object 1 is poisoned: a change of it failed after the log entry"), "{said}");
    }
    assert_eq!((handle.is_poisoned(1), handle.is_poisoned(2)), (Ok(true), Ok(false)));
    handle.add(&numbers, 2, 1).expect("the others go on");
    assert_eq!(handle.stats().expect("figures").poisoned, 1);
    handle.free().expect("ends");

    let numbers = Numbers::default();
    let handle = open(&folder, &numbers);
    let (one, two) = {
        let all = numbers.all();
        (all[&1], all.get(&2).copied())
    };
    assert_eq!((one, two), (12, Some(1)));
    handle.checkpoint().expect("is made");
    handle.free().expect("ends");
}

#[test]
fn o6_a_program_poisons_an_object_whose_change_failed_behind_log() {
    let (folder, numbers) = (Folder::new(), Numbers::default());
    let handle = open(&folder, &numbers);
    handle.log(1, &[7]).expect("logs");
    handle.poison(1).expect("is poisoned");
    assert_eq!(handle.log(1, &[1]).map(drop).expect_err("is refused").0, Code::Poisoned);
    assert_eq!(handle.checkpoint().map(drop).expect_err("is refused").0, Code::CheckpointFailed);
    handle.free().expect("ends");
    let numbers = Numbers::default();
    open(&folder, &numbers).free().expect("ends");
    assert_eq!(numbers.all()[&1], 7);
}

#[test]
fn o6_a_replay_that_fails_poisons_its_object_where_the_settings_have_that() {
    let (folder, numbers) = (Folder::new(), Numbers::default());
    let handle = open(&folder, &numbers);
    handle.add(&numbers, 1, 5).expect("logs");
    handle.free().expect("ends");

    let numbers = Numbers { returns: 1, ..Numbers::default() };
    let (settings, table, mut objects) = (on_demand(), table(&numbers), ptr::null_mut());
    // SAFETY: handle and table are live, and there are places for the answers.
    unsafe {
        call(|e| ensile_settings_set(settings, numbers::OPEN_POISONED, 1, e)).expect("is set");
        let name = folder.name();
        call(|e| ensile_objects_open(name.as_ptr(), settings, &raw const table, &raw mut objects, e))
            .expect("opens");
        call(|e| ensile_settings_free(settings, e)).expect("ends");
    }
    let handle = Handle(objects);
    assert_eq!((handle.is_poisoned(1), handle.is_poisoned(2)), (Ok(true), Ok(false)));
    let (code, said) = handle.checkpoint().map(drop).expect_err("is refused");
    assert!(code == Code::CheckpointFailed && said.contains("object 1 is poisoned: its operation"), "{said}");
    handle.free().expect("ends");
}
