//! Call-backs that call back, fail, keep their writer, or hand it to another thread.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ensile_c::*;
use ensile_objects::{
    Application, CallBackResult, ObjectWriter, ObjectsBuilder, ObjectsStats, WaitingCallBack,
};

use crate::foreign::{
    Folder, Handle, InCallBack, Numbers, call, load_older, open, refused, replay_older, table, try_open,
    try_open_checked,
};

/// Number of the calls in a call-back.
const CALLS: usize = 11;

/// The codes of calls that a call-back makes, of each one.
fn calls_in_call_back(numbers: &Numbers, handle: Handle) -> Vec<Result<(), Code>> {
    let receipt = ForeignReceipt { epoch: 1 };
    let outcomes = [
        handle.log(1, &[1]).map(drop),
        handle.durable(receipt),
        handle.checkpoint().map(drop),
        handle.stats().map(drop),
        handle.close(),
        handle.free(),
        try_open(&Folder::new(), &table(numbers)).map(drop),
        try_open_checked(&Folder::new(), &table(numbers), &table(&Numbers::default())).map(drop),
        handle.poison(1),
        handle.is_poisoned(1).map(drop),
        // SAFETY: the handle is live.
        call(|e| unsafe { ensile_objects_ask_checkpoint(handle.0, e) }),
    ];
    outcomes.into_iter().map(|outcome| outcome.map_err(|(code, _)| code)).collect()
}

/// What calls came to.
type Notes = Arc<Mutex<Vec<Result<(), Code>>>>;

/// A call-back that makes all calls of the library, and notes what they came to.
fn calling() -> (InCallBack, Notes) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let besides = move |numbers: &Numbers, _: *mut ForeignWriter| {
        let handle = numbers.handle.lock().expect("no panic").unwrap_or(Handle(ptr::null_mut()));
        notes.lock().expect("no panic").extend(calls_in_call_back(numbers, handle));
    };
    (Box::new(besides), seen)
}

/// Makes a change that does nothing but call what it may not.
unsafe extern "C" fn make_and_call(argument: *mut c_void) -> i32 {
    // SAFETY: the test passes its own.
    let (handle, seen, numbers) = unsafe { &*argument.cast::<(Handle, Notes, Numbers)>() };
    seen.lock().expect("no panic").extend(calls_in_call_back(numbers, *handle));
    0
}

#[test]
fn what_makes_a_change_may_call_nothing() {
    let (folder, numbers) = (Folder::new(), Numbers::default());
    let handle = open(&folder, &numbers);
    let mut argument = (handle, Notes::default(), Numbers::default());
    let mut receipt = ForeignReceipt { epoch: 0 };
    // SAFETY: the handle is live, and so is the argument.
    call(|e| unsafe {
        let (place, argument) = (&raw mut receipt, (&raw mut argument).cast());
        ensile_objects_change(handle.0, 1, 7, ptr::null(), 0, Some(make_and_call), argument, place, e)
    })
    .expect("is logged and made");
    assert_eq!(*argument.1.lock().expect("no panic"), [Err(Code::InCallBack); CALLS]);
    handle.durable(receipt).expect("is durable: the handle was not closed");
    handle.free().expect("ends");
}

/// An application without objects.
struct Empty;

impl Application for Empty {
    fn checkpoint(&self, _: u64, _: &mut ObjectWriter<'_>) -> Option<u64> {
        None
    }

    fn load_one(&self, _: u64, _: &[u8]) -> CallBackResult {
        Ok(())
    }

    fn replay_one(&self, _: u64, _: u32, _: &[&[u8]]) -> CallBackResult {
        Ok(())
    }
}

#[test]
fn a_call_back_that_waits_is_in_the_figures_with_its_object_and_its_milliseconds() {
    let folder = Folder::new();
    let log = ObjectsBuilder::new(&folder.0).open_application(Arc::new(Empty)).expect("opens");
    let mut stats = log.stats();
    let waiting = |stats: &ObjectsStats| {
        let ForeignStats { waiting_object, waiting_millis, .. } = ForeignStats::from(stats);
        (waiting_object, waiting_millis)
    };
    assert_eq!(waiting(&stats), (0, 0));
    stats.waiting_call_back = Some(WaitingCallBack { object: 7, waited: Duration::from_millis(12_345) });
    assert_eq!(waiting(&stats), (7, 12_345));
}

#[test]
fn a_call_back_may_call_nothing_but_the_writer() {
    let folder = Folder::new();
    let (besides, seen) = calling();
    let numbers = Numbers { besides: Some(besides), ..Numbers::default() };
    let handle = open(&folder, &numbers);
    handle.add(&numbers, 1, 1).expect("logs");
    assert_eq!(handle.checkpoint().expect("is made").entries, 1);
    handle.add(&numbers, 1, 2).expect("logs: the handle was not closed");
    handle.free().expect("ends");
    assert_eq!(*seen.lock().expect("no panic"), [Err(Code::InCallBack); CALLS]);

    // While it opens there is no handle yet; `load_one` and `replay_one` are each called once.
    let (besides, seen) = calling();
    let numbers = Numbers { besides: Some(besides), ..Numbers::default() };
    let handle = open(&folder, &numbers);
    assert_eq!(numbers.all()[&1], 3);
    assert_eq!(*seen.lock().expect("no panic"), [Err(Code::InCallBack); 2 * CALLS]);
    handle.free().expect("ends");
}

#[test]
fn a_writer_that_was_kept_or_went_to_another_thread_is_not_followed() {
    let folder = Folder::new();
    let kept: Arc<AtomicPtr<ForeignWriter>> = Arc::default();
    let keep = Arc::clone(&kept);
    let besides = move |_: &Numbers, writer: *mut ForeignWriter| {
        keep.store(writer, Ordering::SeqCst);
        let address = writer.addr();
        let elsewhere = move || ensile_writer_absent(ptr::without_provenance_mut(address), 9);
        let code = std::thread::scope(|scope| scope.spawn(elsewhere).join().expect("returns"));
        assert_eq!(code, Code::Invalid as i32);
    };
    let numbers = Numbers { besides: Some(Box::new(besides)), ..Numbers::default() };
    let handle = open(&folder, &numbers);
    handle.add(&numbers, 1, 1).expect("logs");
    assert_eq!(handle.checkpoint().expect("is made").entries, 1);
    let kept = kept.load(Ordering::SeqCst);
    assert!(!kept.is_null());
    assert_eq!(ensile_writer_absent(kept, 2), Code::Invalid as i32);
    handle.free().expect("ends");
}

#[test]
fn a_call_back_that_fails_makes_no_checkpoint_or_no_open_and_says_why() {
    let folder = Folder::new();
    let numbers = Numbers { returns: -3, ..Numbers::default() };
    let handle = open(&folder, &numbers);
    handle.add(&numbers, 1, 1).expect("logs");
    let (code, why) = handle.checkpoint().expect_err("is given up");
    assert!(code == Code::CheckpointFailed && why.contains("returned -3"), "{why}");
    assert_eq!(handle.stats().expect("figures").checkpoints_failed, 1);
    handle.add(&numbers, 1, 1).expect("goes on");
    handle.free().expect("ends");
    // Its text ends nowhere.
    let (code, why) = try_open(&folder, &table(&numbers)).map(drop).expect_err("fails");
    assert!(code == Code::NotUnderstood && why.contains("yyyy"), "{why}");
    let numbers = Numbers::default();
    let handle = open(&folder, &numbers);
    assert_eq!(numbers.all()[&1], 2);
    handle.free().expect("ends");
}

/// A wrong call of a writer, for an object.
type Wrong = fn(*mut ForeignWriter, u64) -> i32;

#[test]
fn a_writer_refuses_bytes_that_cannot_be_and_objects_out_of_order() {
    // SAFETY: null is refused before it is followed.
    let null: Wrong = |writer, object| unsafe { ensile_writer_ckpt(writer, object, ptr::null(), 1) };
    // SAFETY: a size that no memory has is refused before the pointer is followed.
    let negative: Wrong =
        |writer, object| unsafe { ensile_writer_ckpt(writer, object, ptr::dangling(), usize::MAX) };
    let twice: Wrong = |writer, object| {
        assert_eq!(ensile_writer_absent(writer, object), 0);
        ensile_writer_absent(writer, object)
    };
    let no_object: Wrong = |writer, _| ensile_writer_absent(writer, u64::MAX);
    for (says, wrong) in
        [("NULL", null), ("negative", negative), ("least number", twice), ("least number", no_object)]
    {
        let folder = Folder::new();
        let besides = move |numbers: &Numbers, writer| {
            let object = *numbers.all().keys().next().expect("there is one");
            let code = wrong(writer, object);
            assert!(code == Code::CheckpointFailed as i32, "{code}");
        };
        let numbers = Numbers { besides: Some(Box::new(besides)), returns: 1, ..Numbers::default() };
        let handle = open(&folder, &numbers);
        handle.add(&numbers, 5, 1).expect("logs");
        let (code, why) = handle.checkpoint().expect_err("is given up");
        assert!(code == Code::CheckpointFailed && why.contains(says), "{says}: {why}");
        handle.free().expect("ends");
    }
}

#[test]
fn checkpoints_of_many_blocks_are_walked_by_the_iterator_while_numbers_change() {
    let folder = Folder::new();
    let numbers = Numbers { padding: 30_000, ..Numbers::default() };
    let handle = open(&folder, &numbers);
    for object in 0..60 {
        handle.add(&numbers, object * 7, 1).expect("logs");
    }
    let stop = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut object = 0;
            while stop.load(Ordering::SeqCst) == 0 {
                handle.add(&numbers, (object % 60) * 7, 1).expect("logs");
                object += 1;
            }
        });
        for _ in 0..3 {
            assert_eq!(handle.checkpoint().expect("is made").entries, 60);
        }
        stop.store(1, Ordering::SeqCst);
    });
    let expected = numbers.all().clone();
    handle.free().expect("ends");
    let numbers = Numbers::default();
    let handle = open(&folder, &numbers);
    assert_eq!(*numbers.all(), expected);
    assert_eq!(refused(handle.log(u64::MAX, &[]).map(drop)), Code::Invalid);
    let many = handle.log(1, &[1; 40]).expect("forty parameters");
    handle.durable(many).expect("is durable");
    handle.free().expect("ends");
    let numbers = Numbers::default();
    open(&folder, &numbers).free().expect("ends");
    assert_eq!(numbers.all()[&1], 40);
}

#[test]
fn what_an_older_program_has_written_goes_to_the_up_casts_and_a_newer_ones_is_refused() {
    let folder = Folder::new();
    let both = |numbers: &Numbers| {
        let all = numbers.all();
        (all[&1], all[&2])
    };
    let of_version =
        |numbers: &Numbers, version| try_open(&folder, &ForeignApplication { version, ..table(numbers) });
    let numbers = Numbers::default();
    let handle = of_version(&numbers, 2).expect("opens");
    handle.add(&numbers, 1, 4).expect("logs");
    handle.checkpoint().expect("is made");
    handle.add(&numbers, 1, 5).expect("logs");
    handle.add(&numbers, 2, 6).expect("logs");
    handle.free().expect("ends");
    for (version, says) in [
        (1, "of version 2, and this program knows versions up to 1"),
        (3, "it is of version 2; this program writes version 3, and its load_older is NULL"),
    ] {
        let (code, why) = of_version(&Numbers::default(), version).map(drop).expect_err("is refused");
        assert!(code == Code::NotUnderstood && why.contains(says), "{code:?}: {why}");
    }
    let up_casting = |numbers: &Numbers| ForeignApplication {
        version: 3,
        load_older: Some(load_older),
        replay_older: Some(replay_older),
        ..table(numbers)
    };
    let numbers = Numbers::default();
    let half = ForeignApplication { replay_older: None, ..up_casting(&numbers) };
    let (code, why) = try_open(&folder, &half).map(drop).expect_err("is refused");
    assert!(code == Code::NotUnderstood && why.contains("its replay_older is NULL"), "{code:?}: {why}");
    let numbers = Numbers::default();
    let handle = try_open(&folder, &up_casting(&numbers)).expect("opens");
    assert_eq!(both(&numbers), (90, 60));
    // What it writes is of its own version.
    handle.checkpoint().expect("is made");
    handle.add(&numbers, 2, 1).expect("logs");
    handle.free().expect("ends");
    let numbers = Numbers::default();
    let handle = of_version(&numbers, 3).expect("it needs no up-cast any more");
    assert_eq!(both(&numbers), (90, 61));
    handle.free().expect("ends");
}
