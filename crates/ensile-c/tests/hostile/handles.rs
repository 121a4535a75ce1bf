//! Handles and pointers that are null, of another kind, closed, or used by several threads at once.

use std::ffi::{CStr, c_void};
use std::ptr;

use ensile_c::*;

use crate::foreign::{Folder, Handle, Numbers, call, on_demand, open, refused, table, try_open};

#[test]
fn null_is_refused_wherever_a_call_needs_something() {
    let (folder, numbers) = (Folder::new(), Numbers::default());
    let handle = open(&folder, &numbers);
    let (name, table) = (folder.name(), table(&numbers));
    let (none, receipt) = (Handle(ptr::null_mut()), ForeignReceipt { epoch: 1 });
    assert_eq!(refused(none.log(1, &[]).map(drop)), Code::Invalid);
    assert_eq!(refused(none.durable(receipt)), Code::Invalid);
    assert_eq!(refused(none.checkpoint().map(drop)), Code::Invalid);
    assert_eq!(refused(none.stats().map(drop)), Code::Invalid);
    assert_eq!(refused(none.close()), Code::Invalid);
    none.free().expect("null is nothing to end");
    // SAFETY: each pointer is null or live.
    unsafe {
        let mut objects = ptr::null_mut();
        let place = &raw mut objects;
        let open =
            |name, table, place| refused(call(|e| ensile_objects_open(name, ptr::null(), table, place, e)));
        assert_eq!(open(ptr::null(), &raw const table, place), Code::Invalid);
        assert_eq!(open(c"".as_ptr(), &raw const table, place), Code::Invalid);
        assert_eq!(open(name.as_ptr(), ptr::null(), place), Code::Invalid);
        assert_eq!(open(name.as_ptr(), &raw const table, ptr::null_mut()), Code::Invalid);
        assert_eq!(refused(call(|e| ensile_settings_new(ptr::null_mut(), e))), Code::Invalid);
        assert_eq!(refused(call(|e| ensile_settings_set(ptr::null_mut(), 1, 1, e))), Code::Invalid);
        assert_eq!(
            refused(call(|e| ensile_settings_add_folder(ptr::null_mut(), 1, c"a".as_ptr(), e))),
            Code::Invalid
        );
        assert_eq!(
            refused(call(|e| ensile_settings_application_name(ptr::null_mut(), c"a".as_ptr(), e))),
            Code::Invalid
        );
        call(|e| ensile_settings_free(ptr::null_mut(), e)).expect("null is nothing to end");
        let settings = on_demand();
        assert_eq!(
            refused(call(|e| ensile_settings_application_name(settings, ptr::null(), e))),
            Code::Invalid
        );
        assert_eq!(refused(call(|e| ensile_settings_add_folder(settings, 1, ptr::null(), e))), Code::Invalid);
        assert_eq!(
            refused(call(|e| ensile_objects_register_policy(handle.0, ptr::null(), e))),
            Code::Invalid
        );
        assert_eq!(
            refused(call(|e| ensile_objects_register_policy(ptr::null_mut(), settings, e))),
            Code::Invalid
        );
        call(|e| ensile_objects_register_policy(handle.0, settings, e)).expect("is registered");
        call(|e| ensile_settings_free(settings, e)).expect("ends");
        assert_eq!(refused(call(|e| ensile_objects_ask_checkpoint(ptr::null_mut(), e))), Code::Invalid);
        assert_eq!(
            refused(call(|e| ensile_objects_report_requests(ptr::null_mut(), 1, 1, e))),
            Code::Invalid
        );
        assert_eq!(
            refused(call(|e| ensile_objects_is_durable(handle.0, receipt, ptr::null_mut(), e))),
            Code::Invalid
        );
        assert_eq!(refused(call(|e| ensile_objects_stats(handle.0, ptr::null_mut(), 8, e))), Code::Invalid);
        assert_eq!(
            refused(call(|e| ensile_objects_recovery(handle.0, ptr::null_mut(), 8, e))),
            Code::Invalid
        );
        let log = |list: *const ForeignBytes, count, e| {
            ensile_objects_log(handle.0, 1, 7, list, count, ptr::null_mut(), e)
        };
        assert_eq!(refused(call(|e| log(ptr::null(), 1, e))), Code::Invalid);
        assert_eq!(refused(call(|e| log(ptr::null(), usize::MAX, e))), Code::Invalid);
        let no_bytes = ForeignBytes { data: ptr::null(), size: 1 };
        assert_eq!(refused(call(|e| log(&raw const no_bytes, 1, e))), Code::Invalid);
        let negative = ForeignBytes { data: (&raw const receipt).cast(), size: usize::MAX };
        assert_eq!(refused(call(|e| log(&raw const negative, 1, e))), Code::Invalid);
        // No bytes, no parameters, no place for the receipt, none for the text: all allowed.
        let empty = ForeignBytes { size: 0, ..no_bytes };
        call(|e| log(&raw const empty, 1, e)).expect("logs an empty parameter");
        assert_eq!(log(ptr::null(), 0, ptr::null_mut()), 0);
        assert_eq!(
            ensile_objects_log(ptr::null_mut(), 1, 7, ptr::null(), 0, ptr::null_mut(), ptr::null_mut()),
            2
        );
        let change = |objects, make: ForeignMake, e| {
            let (none, argument) = (ptr::null_mut(), ptr::null_mut());
            ensile_objects_change(objects, 1, 7, ptr::null(), 0, make, argument, none, e)
        };
        unsafe extern "C" fn not_called(_: *mut c_void) -> i32 {
            unreachable!("nothing was logged");
        }
        let log_life = |life, e| {
            let (none, no_receipt) = (ptr::null(), ptr::null_mut());
            ensile_objects_log_life(ptr::null_mut(), 1, life, 7, none, 0, no_receipt, e)
        };
        let change_life = |make: ForeignMake, e| {
            let (none, argument, no_receipt) = (ptr::null(), ptr::null_mut(), ptr::null_mut());
            let life = numbers::LIFE_CREATION;
            ensile_objects_change_life(handle.0, 1, life, 7, none, 0, make, argument, no_receipt, e)
        };
        assert_eq!(refused(call(|e| log_life(numbers::LIFE_CREATION, e))), Code::Invalid);
        assert_eq!(refused(call(|e| change_life(None, e))), Code::Invalid);
        assert_eq!(refused(call(|e| change(handle.0, None, e))), Code::Invalid);
        assert_eq!(refused(call(|e| change(ptr::null_mut(), Some(not_called), e))), Code::Invalid);
        let is_poisoned = |handle: Handle, object, place: *mut bool| {
            refused(call(|e| ensile_objects_is_poisoned(handle.0, object, place, e)))
        };
        let mut answer = false;
        assert_eq!(is_poisoned(none, 1, &raw mut answer), Code::Invalid);
        assert_eq!(is_poisoned(handle, 1, ptr::null_mut()), Code::Invalid);
        assert_eq!(is_poisoned(handle, u64::MAX, &raw mut answer), Code::Invalid);
        assert_eq!(refused(none.poison(1)), Code::Invalid);
        assert_eq!(refused(handle.poison(u64::MAX)), Code::Invalid);
        let checked = |table, copy, place| {
            let name = name.as_ptr();
            refused(call(|e| ensile_objects_open_checked(name, ptr::null(), table, copy, place, e)))
        };
        assert_eq!(checked(&raw const table, ptr::null(), place), Code::Invalid);
        assert_eq!(checked(ptr::null(), &raw const table, place), Code::Invalid);
        assert_eq!(checked(&raw const table, &raw const table, ptr::null_mut()), Code::Invalid);
        assert_eq!(ensile_writer_ckpt(ptr::null_mut(), 1, ptr::null(), 0), Code::Invalid as i32);
    }
    assert_eq!(ensile_writer_absent(ptr::null_mut(), 1), Code::Invalid as i32);
    handle.free().expect("closes");
}

#[test]
fn what_is_not_logged_is_kept_by_checkpoints_alone_and_no_receipt_of_it_is_durable() {
    use ensile_c::numbers as n;
    let (folder, numbers) = (Folder::new(), Numbers::default());
    let open_with = |setting: u32, numbers: &Numbers| {
        let (settings, table, mut objects) = (on_demand(), table(numbers), ptr::null_mut());
        // SAFETY: handle and table are live, and there are places for the answers.
        unsafe {
            call(|e| ensile_settings_set(settings, setting, 1, e)).expect("is set");
            let opens = |e| {
                ensile_objects_open(folder.name().as_ptr(), settings, &raw const table, &raw mut objects, e)
            };
            call(opens).expect("opens");
            call(|e| ensile_settings_free(settings, e)).expect("ends");
        }
        Handle(objects)
    };
    let handle = open_with(n::NOT_LOGGED, &numbers);
    let receipt = handle.add(&numbers, 1, 5).expect("is made");
    let (code, said) = handle.durable(receipt).expect_err("it is never durable");
    assert!(code == Code::Invalid && said.contains("nothing is logged"), "{code:?}: {said}");
    assert_eq!(handle.checkpoint().expect("is made").entries, 1);
    handle.add(&numbers, 1, 70).expect("is made");
    handle.free().expect("closes");
    let found = Numbers::default();
    let handle = open_with(n::PROCESS_SAFE, &found);
    assert_eq!(found.all().get(&1), Some(&5), "as the checkpoint has it");
    let receipt = handle.add(&found, 1, 1).expect("logs");
    handle.durable(receipt).expect("is durable");
    handle.free().expect("closes");
}

#[test]
fn a_mark_that_is_none_or_that_the_settings_do_not_have_is_refused_and_nothing_is_logged() {
    let (folder, numbers) = (Folder::new(), Numbers::default());
    unsafe extern "C" fn not_called(_: *mut c_void) -> i32 {
        unreachable!("nothing was logged");
    }
    let marked = |handle: Handle, life: u32| {
        let (none, nothing, receipt) = (ptr::null(), ptr::null_mut(), ptr::null_mut());
        // SAFETY: the handle is live, and there is a place for the text.
        let logged = call(|e| unsafe { ensile_objects_log_life(handle.0, 1, life, 7, none, 0, receipt, e) });
        // SAFETY: the handle is live, and there is a place for the text.
        let changed = call(|e| unsafe {
            let make: ForeignMake = Some(not_called);
            ensile_objects_change_life(handle.0, 1, life, 7, none, 0, make, nothing, receipt, e)
        });
        [logged, changed].map(|outcome| outcome.expect_err("is refused"))
    };
    let handle = open(&folder, &numbers);
    for life in [0, 4, u32::MAX] {
        for (code, said) in marked(handle, life) {
            assert!(code == Code::Invalid && said.contains("the number of no ENSILE_LIFE_.."), "{said}");
        }
    }
    for (code, said) in marked(handle, numbers::LIFE_REMOVAL) {
        assert!(code == Code::Invalid && said.contains("ENSILE_MARK_LIVES"), "{said}");
    }
    assert_eq!(handle.stats().expect("figures").log_entries, 0);
    handle.free().expect("closes");
}

#[test]
fn a_handle_of_another_kind_is_refused_and_not_ended() {
    let (folder, numbers) = (Folder::new(), Numbers::default());
    let (handle, settings) = (open(&folder, &numbers), on_demand());
    let foreign = Handle(settings.cast());
    assert_eq!(refused(foreign.log(1, &[]).map(drop)), Code::Invalid);
    assert_eq!(refused(foreign.close()), Code::Invalid);
    assert_eq!(refused(foreign.free()), Code::Invalid);
    // SAFETY: each pointer is a live handle, of this kind or another, or lies within one.
    unsafe {
        let own: *mut SettingsHandle = handle.0.cast();
        assert_eq!(refused(call(|e| ensile_settings_set(own, 1, 1, e))), Code::Invalid);
        assert_eq!(refused(call(|e| ensile_settings_free(own, e))), Code::Invalid);
        let inside = Handle(handle.0.cast::<u8>().add(1).cast());
        assert_eq!(refused(inside.close()), Code::Invalid);
        call(|e| ensile_settings_set(settings, 1, 1, e)).expect("is as it was");
        call(|e| ensile_settings_free(settings, e)).expect("ends");
    }
    handle.add(&numbers, 1, 1).expect("is as it was");
    handle.free().expect("closes");
}

#[test]
fn a_closed_handle_says_so_until_it_is_freed() {
    let (folder, numbers) = (Folder::new(), Numbers::default());
    let handle = open(&folder, &numbers);
    let receipt = handle.add(&numbers, 1, 1).expect("logs");
    let settings = on_demand();
    handle.close().expect("closes");
    assert_eq!(refused(handle.add(&numbers, 1, 1).map(drop)), Code::Closed);
    assert_eq!(refused(handle.checkpoint().map(drop)), Code::Closed);
    assert_eq!(refused(handle.stats().map(drop)), Code::Closed);
    // SAFETY: the handles are live, though one is closed.
    unsafe {
        assert_eq!(refused(call(|e| ensile_objects_ask_checkpoint(handle.0, e))), Code::Closed);
        assert_eq!(refused(call(|e| ensile_objects_register_policy(handle.0, settings, e))), Code::Closed);
        let mut answer = false;
        assert_eq!(
            refused(call(|e| ensile_objects_is_poisoned(handle.0, 1, &raw mut answer, e))),
            Code::Closed
        );
        call(|e| ensile_settings_free(settings, e)).expect("ends");
    }
    handle.durable(receipt).expect("a close has made it durable");
    handle.poison(1).expect("O6: a change may fail while another thread closes");
    handle.close().expect("a second time");
    handle.free().expect("ends");
    let numbers = Numbers::default();
    let handle = open(&folder, &numbers);
    assert_eq!(numbers.all()[&1], 1);
    handle.free().expect("ends");
}

#[test]
fn threads_that_close_beside_threads_that_log_all_return_and_nothing_acknowledged_is_lost() {
    let folder = Folder::new();
    let mut logged = 0;
    for _ in 0..8 {
        let numbers = Numbers::default();
        let handle = open(&folder, &numbers);
        assert_eq!(numbers.all().get(&1).copied().unwrap_or(0), logged);
        let worker = || {
            let mut count = 0;
            loop {
                match handle.add(&numbers, 1, 1) {
                    Ok(_) => count += 1,
                    Err((code, why)) => {
                        assert_eq!(code, Code::Closed, "{why}");
                        return count;
                    }
                }
            }
        };
        let before = logged;
        let close = || {
            // It is closed beside operations, however slow the machine is.
            while numbers.all().get(&1).copied().unwrap_or(0) < before + 50 {
                std::thread::yield_now();
            }
            handle.close()
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..2).map(|_| scope.spawn(worker)).collect();
            let closers: Vec<_> = (0..2).map(|_| scope.spawn(close)).collect();
            closers.into_iter().for_each(|closer| closer.join().expect("returns").expect("closes"));
            logged += workers.into_iter().map(|worker| worker.join().expect("returns")).sum::<u64>();
        });
        handle.free().expect("ends");
    }
    assert!(logged >= 400);
}

#[test]
fn settings_have_their_effect_and_others_are_refused() {
    use numbers as n;
    let (folder, numbers) = (Folder::new(), Numbers::default());
    let elsewhere = Folder::new();
    std::fs::create_dir_all(&elsewhere.0).expect("a folder");
    let settings = on_demand();
    // SAFETY: handles are live, and there are places for the answers.
    unsafe {
        let set = |setting, value| call(|e| ensile_settings_set(settings, setting, value, e));
        for (setting, value) in [
            (n::CHECKPOINTERS, 2),
            (n::RECOVERY_THREADS, 2),
            (n::EPOCH_INTERVAL_MICROS, 5_000),
            (n::LOG_FILE_BYTES, 1 << 20),
            (n::CHECKPOINT_BYTES_PER_SECOND, 1 << 30),
            (n::CHECKPOINT_NICENESS, 10),
            (n::MARK_LIVES, 0),
            (n::OPEN_POISONED, 1),
            (n::POLICY_LOG_BYTES, 1 << 40),
            (n::POLICY_INTERVAL_MILLIS, 0),
            (n::POLICY_RECOVERY_MILLIS, 1 << 40),
            (n::POLICY_ADAPTIVE_LOWER, 1 << 40),
            (n::POLICY_ADAPTIVE_CAPACITY, 1 << 30),
            (n::POLICY_ADAPTIVE_UPPER, 1 << 41),
            (n::POLICY_ADAPTIVE_LOW_WATERMARK, 30),
            (n::POLICY_ADAPTIVE_HIGH_WATERMARK, 90),
            (n::POLICY_ADAPTIVE_SCALING, 6),
            (n::POLICY_ADAPTIVE_WEIGHT, 50),
            (n::POLICY_ADAPTIVE_WINDOW_MILLIS, 1000),
        ] {
            set(setting, value).unwrap_or_else(|why| panic!("{setting}: {why:?}"));
        }
        for (setting, value) in [
            (0, 1),
            (99, 1),
            (n::LOGGERS, 0),
            (n::CHECKPOINT_BYTES_PER_SECOND, 0),
            (n::LOG_FILE_BYTES, 0),
            (n::POLICY_ON_DEMAND, 1),
            (n::POLICY_ADAPTIVE_WEIGHT, 256),
            (n::POLICY_ADAPTIVE_PROBED, 2),
            (n::PROCESS_SAFE, 2),
            (n::MARK_LIVES, 2),
            (n::OPEN_POISONED, 2),
            (n::NOT_LOGGED, 2),
            (n::CHECKPOINT_NICENESS, 20),
            (n::CHECKPOINT_NICENESS, 1 << 40),
        ] {
            assert_eq!(refused(set(setting, value)), Code::Invalid, "{setting}");
        }
        let add = |what, folder: &Folder| {
            call(|e| ensile_settings_add_folder(settings, what, folder.name().as_ptr(), e))
        };
        assert_eq!(refused(add(3, &elsewhere)), Code::Invalid);
        add(n::LOG_FOLDER, &elsewhere).expect("is added");
        let (mut objects, table) = (ptr::null_mut(), table(&numbers));
        let open = |objects: *mut _| {
            call(|e| ensile_objects_open(folder.name().as_ptr(), settings, &raw const table, objects, e))
        };
        open(&raw mut objects).expect("opens");
        let handle = Handle(objects);
        let receipt = handle.add(&numbers, 3, 1).expect("logs");
        handle.durable(receipt).expect("is durable");
        let stats = handle.stats().expect("figures");
        assert_eq!((stats.log_bytes_threshold, stats.log_records_threshold), (1 << 40, 0), "the load is low");
        assert!(stats.recovery_micros > 0, "an open takes its time");
        assert!(
            stats.load >= 0.0 && stats.log_entries >= 1 && stats.durable_epoch >= receipt.epoch,
            "{stats:?}"
        );
        assert!(std::fs::read_dir(&elsewhere.0).expect("is there").next().is_some(), "the log is elsewhere");

        set(n::POLICY_ADAPTIVE_MEASURE, u64::from(n::MEASURE_RECORDS)).expect("is set");
        set(n::POLICY_ADAPTIVE_PROBED, 1).expect("is set");
        call(|e| ensile_objects_register_policy(objects, settings, e)).expect("is registered");
        call(|e| ensile_objects_report_requests(objects, 7, 1, e)).expect("is reported");
        assert_eq!(handle.stats().expect("figures").log_records_threshold, 1 << 40);
        // Two operations since the last one: the policy takes effect while it is open.
        set(n::POLICY_ON_DEMAND, 0).expect("is set");
        set(n::POLICY_LOG_RECORDS, 2).expect("is set");
        call(|e| ensile_objects_register_policy(objects, settings, e)).expect("is registered");
        handle.add(&numbers, 3, 1).expect("logs");
        while handle.stats().expect("figures").checkpoints == 0 {
            std::thread::yield_now();
        }
        // As much as the caller's struct has, and no more; and what this library does not know is 0.
        let mut figures = [7_u64; size_of::<ForeignStats>() / 8 + 1];
        let place: *mut ForeignStats = figures.as_mut_ptr().cast();
        call(|e| ensile_objects_stats(objects, place, 16, e)).expect("two figures");
        assert_eq!((figures[1] >= receipt.epoch, figures[2]), (true, 7));
        call(|e| ensile_objects_stats(objects, place, size_of_val(&figures), e)).expect("all, and one more");
        assert_eq!(figures.last(), Some(&0));
        assert_eq!(refused(call(|e| ensile_objects_stats(objects, place, 0, e))), Code::Invalid);
        // Why checkpoints begin, and what stands in their way.
        let stats = handle.stats().expect("figures");
        assert_eq!(stats.checkpoint_last_reason, u64::from(told::REASON_LOG_RECORDS));
        assert_eq!((stats.capacity, stats.recovery_unreachable), (0, 0));
        let report = handle.checkpoint().expect("is made");
        assert_eq!(report.reason, u64::from(told::REASON_DEMAND));
        assert_eq!((report.load, report.capacity, report.threshold), (-1.0, 0, 0), "nothing follows a load");
        // How the threshold stood, where one follows the load.
        set(n::POLICY_ADAPTIVE_MEASURE, 3).expect_err("is no measure");
        set(n::POLICY_ADAPTIVE_MEASURE, u64::from(n::MEASURE_TIME)).expect("is set");
        set(n::POLICY_ADAPTIVE_CAPACITY, 1 << 40).expect("is set");
        call(|e| ensile_objects_register_policy(objects, settings, e)).expect("is registered");
        let report = handle.checkpoint().expect("is made");
        assert_eq!((report.load, report.capacity, report.threshold), (0.0, 1 << 40, 10_000), "{report:?}");
        assert_eq!(report.measure, u64::from(n::MEASURE_TIME));
        assert_eq!(handle.stats().expect("figures").interval_threshold_millis, 10_000);
        let sized = |report: *mut ForeignCheckpoint, size| {
            call(|e| ensile_objects_checkpoint(objects, report, size, e))
        };
        let mut number = 0_u64;
        sized((&raw mut number).cast(), size_of::<u64>()).expect("one figure");
        assert!(number > report.number);
        sized(ptr::null_mut(), 0).expect("without a report");
        assert_eq!(refused(sized((&raw mut number).cast(), 4)), Code::Invalid);
        let text = |what: u32, bytes: &mut [u8]| {
            call(|e| ensile_objects_text(objects, what, bytes.as_mut_ptr().cast(), bytes.len(), e))
        };
        let mut bytes = [7_u8; 200];
        let texts = [
            told::TEXT_LAST_ERROR,
            told::TEXT_UNREACHABLE,
            told::TEXT_MISFIT,
            told::TEXT_NOT_PROVEN,
            told::TEXT_CHANGED,
            told::TEXT_DIFFERENCE,
        ];
        for what in texts {
            text(what, &mut bytes).expect("nothing stands in the way");
            assert_eq!(bytes[0], 0, "{what}");
        }
        assert_eq!(refused(text(99, &mut bytes)), Code::Invalid);
        assert_eq!(refused(text(told::TEXT_MISFIT, &mut [])), Code::Invalid);
        assert_eq!(
            refused(call(|e| ensile_objects_text(objects, told::TEXT_MISFIT, ptr::null_mut(), 9, e))),
            Code::Invalid
        );
        handle.free().expect("ends");

        set(n::POLICY_ADAPTIVE_CAPACITY, 1).expect("is set");
        set(n::POLICY_ADAPTIVE_UPPER, 0).expect("is set");
        assert_eq!(refused(open(&raw mut objects)), Code::Invalid, "bounds that cross");
        call(|e| ensile_settings_free(settings, e)).expect("ends");
    }
}

#[test]
fn a_table_of_another_version_or_without_a_call_back_opens_nothing() {
    let (folder, numbers) = (Folder::new(), Numbers::default());
    let whole = table(&numbers);
    let open = |table: ForeignApplication| try_open(&folder, &table).map(drop);
    let (code, why) =
        open(ForeignApplication { abi_version: ABI_VERSION + 1, ..whole }).expect_err("is refused");
    assert!(code == Code::AbiMismatch && why.contains("of version 4"), "{why}");
    let (code, why) = open(ForeignApplication { version: 65_536, ..whole }).expect_err("is refused");
    assert!(code == Code::Invalid && why.contains("65535 at most"), "{why}");
    for table in [
        ForeignApplication { load_one: None, ..whole },
        ForeignApplication { replay_one: None, ..whole },
        ForeignApplication { next_object: None, ..whole },
        ForeignApplication { save_one: None, ..whole },
        ForeignApplication { next_object: None, save_one: None, ..whole },
    ] {
        assert_eq!(refused(open(table)), Code::Invalid);
    }
    assert!(!folder.0.exists(), "nothing was made");
    assert_eq!(ensile_abi_version(), ABI_VERSION);
    // SAFETY: the library's names live as long as it.
    let name = |code| unsafe { std::ffi::CStr::from_ptr(ensile_code_name(code)) };
    assert_eq!((name(0), name(6), name(1000)), (c"ok", c"try_again", c"unknown"));
}

#[test]
fn a_folder_in_use_of_something_else_or_damaged_is_told_from_each_other() {
    let (folder, numbers) = (Folder::new(), Numbers::default());
    let handle = open(&folder, &numbers);
    assert_eq!(try_open(&folder, &table(&numbers)).map(drop).map_err(|(code, _)| code), Err(Code::TryAgain));
    handle.add(&numbers, 1, 1).expect("logs");
    handle.free().expect("ends");
    std::fs::write(folder.0.join("MANIFEST"), [7; 4096]).expect("writes");
    assert_eq!(try_open(&folder, &table(&numbers)).map(drop).map_err(|(code, _)| code), Err(Code::Damaged));
    let other = Folder::new();
    std::fs::create_dir_all(&other.0).expect("a folder");
    std::fs::write(other.0.join("letters"), "of mine").expect("writes");
    assert_eq!(
        try_open(&other, &table(&numbers)).map(drop).map_err(|(code, _)| code),
        Err(Code::WrongFolder)
    );
    let database = Folder::new();
    let db = ensile_engine::Database::builder(&database.0).open().expect("opens");
    db.close().expect("closes");
    let (code, said) = try_open(&database, &table(&numbers)).map(drop).expect_err("holds rows");
    assert_eq!(code, Code::WrongFolder);
    assert!(said.contains("holds a database's rows, not objects: open it with"), "{said}");
}

#[test]
fn a_recovery_time_that_cannot_be_kept_is_told_with_the_figure() {
    use numbers as n;
    let (folder, numbers) = (Folder::new(), Numbers::default());
    let (settings, table) = (on_demand(), table(&numbers));
    let mut objects = ptr::null_mut();
    // SAFETY: handles are live, and there are places for the answers.
    unsafe {
        // No open takes so little.
        call(|e| ensile_settings_set(settings, n::POLICY_RECOVERY_MILLIS, 1, e)).expect("is set");
        call(|e| {
            let name = folder.name();
            ensile_objects_open(name.as_ptr(), settings, &raw const table, &raw mut objects, e)
        })
        .expect("an open is not refused for it");
        call(|e| ensile_settings_free(settings, e)).expect("ends");
        let handle = Handle(objects);
        assert_eq!(handle.stats().expect("figures").recovery_unreachable, 1);
        let mut bytes = [7_u8; 200];
        let what = told::TEXT_UNREACHABLE;
        let mut text = |size| {
            let place = bytes.as_mut_ptr().cast();
            call(|e| ensile_objects_text(objects, what, place, size, e)).expect("is told");
            std::ffi::CStr::from_bytes_until_nul(&bytes).expect("it ends").to_str().expect("text").to_owned()
        };
        let why = "a recovery time of 1ms cannot be kept: loading the checkpoint alone takes ";
        let whole = text(200);
        assert!(whole.starts_with(why), "{whole}");
        assert_eq!(text(21), why[..20], "it is cut");
        handle.free().expect("ends");
    }
}

#[test]
fn a_folder_with_a_name_is_refused_for_another_one_and_without_one() {
    let (folder, numbers) = (Folder::new(), Numbers::default());
    let table = table(&numbers);
    let open = |name: Option<&CStr>| {
        let (settings, mut objects) = (on_demand(), ptr::null_mut());
        // SAFETY: handles, table and names are live, and there are places for the answers.
        let opened = unsafe {
            if let Some(name) = name {
                call(|e| ensile_settings_application_name(settings, name.as_ptr(), e)).expect("is a name");
            }
            let at = &raw mut objects;
            let opened =
                call(|e| ensile_objects_open(folder.name().as_ptr(), settings, &raw const table, at, e));
            call(|e| ensile_settings_free(settings, e)).expect("ends");
            opened
        };
        opened.map(|()| Handle(objects).free().expect("closes"))
    };
    open(Some(c"prices, partition 0 of 4")).expect("is new");
    for name in [Some(c"prices"), None] {
        let (code, said) = open(name).expect_err("is another one's");
        assert_eq!(code, Code::WrongFolder, "{said}");
        assert!(said.contains("is the folder of \"prices, partition 0 of 4\""), "{said}");
    }
    open(Some(c"prices, partition 0 of 4")).expect("is its own");
    let settings = on_demand();
    for name in [c"", c" prices", c"prices\n", c"\xff"] {
        // SAFETY: handle and name are live.
        let refused = call(|e| unsafe { ensile_settings_application_name(settings, name.as_ptr(), e) });
        assert_eq!(crate::foreign::refused(refused), Code::Invalid, "{name:?}");
    }
    // SAFETY: nobody uses it any more.
    call(|e| unsafe { ensile_settings_free(settings, e) }).expect("ends");
}

#[test]
fn a_copied_folder_is_refused_with_the_call_that_adopts_it_and_opened_behind_that() {
    let (folder, numbers) = (Folder::new(), Numbers::default());
    let handle = open(&folder, &numbers);
    handle.add(&numbers, 1, 5).expect("logs");
    handle.free().expect("closes");
    let kept = folder.0.with_extension("kept");
    std::fs::rename(&folder.0, &kept).expect("moves");
    copy(&kept, &folder.0);
    std::fs::remove_dir_all(&kept).expect("it is there");
    let (code, said) = try_open(&folder, &table(&numbers)).map(drop).expect_err("it is a copy");
    assert!(code == Code::WrongFolder && said.contains("ensile_folder_adopt"), "{code:?}: {said}");
    let name = folder.name();
    // SAFETY: the name is live.
    let adopt = |without| call(|e| unsafe { ensile_folder_adopt(name.as_ptr(), without, e) });
    assert_eq!(refused(adopt(2)), Code::Invalid);
    adopt(0).expect("is its own");
    let found = Numbers::default();
    open(&folder, &found).free().expect("closes");
    assert_eq!(found.all().get(&1), Some(&5));
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir(to).expect("makes");
    for entry in std::fs::read_dir(from).expect("lists") {
        let entry = entry.expect("lists");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("tells").is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).expect("copies");
        }
    }
}
