//! The next file of a log: made of zeros before it is needed, taken up by one synced mark, worth nothing before that.

use ensile_sim::Fault;

use crate::prelude::*;

/// Commits rows of a kilobyte until this is true, an epoch each; `prepare` lets the logger make what it wants after
/// each.
fn commit_until(rig: &Rig, worker: &mut Worker, keys: &mut u64, prepare: bool, is_over: impl Fn() -> bool) {
    while !is_over() {
        worker.commit(&rig.epochs, *keys, &[1; 1000]).expect("runs");
        *keys += 1;
        rig.settle();
        if prepare {
            rig.log.logger_prepare(0);
        }
    }
}

fn has(disk: &SimDisk, name: &str) -> bool {
    disk.exists(name).expect("looks")
}

/// A log whose next file is ready.
fn prepared(disk: &SimDisk) -> (Rig, Worker, u64) {
    let rig = Rig::simulated(disk, 1);
    let (mut worker, mut keys) = (rig.worker(), 0);
    commit_until(&rig, &mut worker, &mut keys, true, || has(disk, "log0/log-1-1"));
    // Zeros, then name and length.
    (0..3).for_each(|_| rig.log.logger_prepare(0));
    (rig, worker, keys)
}

#[test]
fn blocks_overwrite_zeros_that_were_synced_before() {
    let disk = SimDisk::new();
    let (rig, mut worker, mut keys) = prepared(&disk);
    let bytes = disk.bytes("log0/log-1-1");
    assert!(bytes.len() == 16 << 10 && bytes.iter().all(|byte| *byte == 0), "{}", bytes.len());
    disk.record(true);
    commit_until(&rig, &mut worker, &mut keys, true, || rig.log.stats().rolls == 2);
    let calls = disk.trace();
    let grows = calls.iter().filter(|call| call.to_string().contains("preallocate")).count();
    assert_eq!(grows, 0, "no space is set aside between the blocks: {calls:?}");
}

#[test]
fn a_file_is_begun_by_one_synced_mark_and_the_used_one_is_closed_behind_it() {
    let disk = SimDisk::new();
    let (rig, ..) = prepared(&disk);
    rig.log.request_roll();
    disk.record(true);
    assert_eq!(rig.log.logger_step(0), LoggerStep::Idle);
    let calls: Vec<_> = disk.trace().iter().map(|call| (call.operation, call.name.clone())).collect();
    let [mark, sync, cut, rename, names] = &calls[..] else { panic!("{calls:?}") };
    let (next, used) = ("log0/log-1-1".to_owned(), "log0/log-1-0".to_owned());
    assert_eq!([mark, sync], [&(Operation::Write, next.clone()), &(Operation::Sync, next)]);
    assert_eq!([cut, rename], [&(Operation::Length, used.clone()), &(Operation::Rename, used)]);
    assert_eq!(names, &(Operation::SyncFolder, "log0".to_owned()));
}

#[test]
fn a_crash_at_any_call_around_a_file_that_is_made_ahead_loses_nothing() {
    for survival in Survival::ALL {
        for call in 1..60 {
            let (disk, rig) = Rig::first_life(1);
            let (mut worker, mut key) = (rig.worker(), 0);
            commit_until(&rig, &mut worker, &mut key, true, || key_of_half(&rig));
            disk.cut_power_at(disk.calls().all + call);
            while !disk.is_without_power() && rig.log.stats().rolls < 2 {
                if worker.commit(&rig.epochs, key, &[1; 1000]).is_err() {
                    break;
                }
                key += 1;
                rig.settle();
                rig.log.logger_prepare(0);
            }
            let durable = rig.log.durable_epoch();
            drop(worker);
            drop(rig);
            disk.crash_with(survival, call);
            let rig = Rig::simulated(&disk, 1);
            assert!(rig.report.durable_epoch >= durable, "{survival:?}, call {call}");
            assert!(rig.rows.values().all(|(_, value)| value.len() == 1000), "{survival:?}, call {call}");
            let old = disk.list("log0").expect("lists").into_iter().filter(|name| name.starts_with("log-1-"));
            let is_empty = |name: &String| disk.bytes(&format!("log0/{name}")).iter().all(|byte| *byte == 0);
            let empty: Vec<_> = old.filter(is_empty).collect();
            assert!(empty.is_empty(), "{survival:?}, call {call}: {empty:?} was being made and is removed");
        }
    }
}

/// Half of the first file is used.
fn key_of_half(rig: &Rig) -> bool {
    rig.log.stats().bytes > 8500
}

#[test]
fn blocks_go_before_a_file_that_is_made_ahead_when_the_disk_is_full() {
    let disk = SimDisk::new();
    let (rig, mut worker, key) = prepared(&disk);
    disk.set_capacity(Some(disk.used_bytes()));
    // More than what is left of the current file.
    let tid = worker.commit(&rig.epochs, key, &[1; 14_000]).expect("runs");
    rig.advance();
    assert_eq!(rig.log.logger_step(0), LoggerStep::Held);
    assert!(!has(&disk, "log0/log-1-1"), "its space is given back");
    assert_eq!(rig.log.logger_step(0), LoggerStep::Synced, "and used");
    assert_eq!(rig.log.durable_epoch(), tid.epoch());
    // Nothing is made ahead while there is no space, and a later attempt harms nobody.
    rig.clock.advance(Duration::from_secs(1));
    rig.log.logger_prepare(0);
    rig.settle();
    assert_eq!(rig.log.health(), Health::Running);
    disk.crash(1);
    disk.set_capacity(None);
    assert_eq!(Rig::simulated(&disk, 1).rows.len() as u64, key + 1);
}

#[test]
fn a_log_that_is_idle_or_closed_leaves_no_file_that_was_made_ahead() {
    let disk = SimDisk::new();
    let (rig, worker, key) = prepared(&disk);
    drop(worker);
    rig.log.close().expect("closes");
    assert!(!has(&disk, "log0/log-1-1"));
    rig.log.logger_prepare(0);
    assert!(!has(&disk, "log0/log-1-1"), "nothing is made behind a close");
    drop(rig);
    disk.kill();
    assert_eq!(Rig::simulated(&disk, 1).rows.len() as u64, key);
    let (disk, rig) = Rig::first_life(1);
    for _ in 0..10 {
        rig.clock.advance(Duration::from_secs(10));
        rig.settle();
        rig.log.logger_prepare(0);
    }
    assert_eq!(disk.list("log0").expect("lists"), ["FOLDER", "log-1-0"]);
}

#[test]
fn a_file_whose_zeros_are_used_up_is_closed_once_a_longer_one_is_ready() {
    let disk = SimDisk::new();
    let config = LogConfig { segment_bytes: 64 << 20, ..config(1) };
    let rig = Rig::open(Arc::new(disk.clone()), config, Clock::manual()).expect("opens");
    let mut worker = rig.worker();
    for key in 0..100 {
        rig.commit_epoch(&mut worker, key, &[1; 20_000]);
        rig.log.logger_prepare(0);
    }
    assert_eq!(rig.log.stats().rolls, 1, "by its zeros, not by its bytes or its age");
    assert_eq!(disk.bytes("log0/log-1-1").len(), 8 << 20, "longer, as this log writes fast");
    disk.crash(2);
    assert_eq!(Rig::simulated(&disk, 1).rows.len(), 100);
}

/// Some file systems say only at a sync that they are full: NFS, quotas of some kinds.
#[test]
fn no_space_from_a_sync_of_a_file_that_is_made_ahead_stops_nobody_and_is_tried_later() {
    // Zeros; length and name, in the calls behind.
    for sync in [Operation::Sync, Operation::SyncFolder] {
        for nth in 0..2 {
            let prepare = |failing: Option<u64>| {
                let (disk, rig) = Rig::first_life(1);
                let (mut worker, mut keys) = (rig.worker(), 0);
                commit_until(&rig, &mut worker, &mut keys, false, || key_of_half(&rig));
                disk.record(true);
                if let Some(call) = failing {
                    disk.fail_calls(call..=call, Fault::NO_SPACE);
                }
                (0..4).for_each(|_| rig.log.logger_prepare(0));
                (disk, rig, worker, keys)
            };
            let (disk, ..) = prepare(None);
            let calls: Vec<_> = disk.trace().into_iter().filter(|call| call.operation == sync).collect();
            let Some(failing) = calls.get(nth) else { continue };
            let (disk, rig, mut worker, mut keys) = prepare(Some(failing.number));
            assert_eq!(rig.log.health(), Health::Running, "{failing}");
            assert!(!has(&disk, "log0/log-1-1"), "{failing}: what its sync lost is not trusted");
            rig.clock.advance(Duration::from_secs(1));
            commit_until(&rig, &mut worker, &mut keys, true, || rig.log.stats().rolls == 1);
            let durable = rig.log.durable_epoch();
            drop((worker, rig));
            disk.crash(1);
            let rig = Rig::simulated(&disk, 1);
            assert!(rig.report.durable_epoch >= durable && rig.rows.len() as u64 == keys, "{failing}");
        }
    }
}

#[test]
fn no_space_from_a_sync_of_a_file_that_is_begun_leaves_the_current_one_going_on() {
    let (disk, rig) = Rig::first_life(1);
    let (mut worker, mut keys) = (rig.worker(), 0);
    commit_until(&rig, &mut worker, &mut keys, false, || rig.log.stats().bytes > 1000);
    rig.log.request_roll();
    // It is created, written, synced.
    let sync = disk.calls().all + 3;
    disk.fail_calls(sync..=sync, Fault::NO_SPACE);
    disk.record(true);
    assert_eq!(rig.log.logger_step(0), LoggerStep::Idle);
    assert!(disk.trace().iter().any(|call| call.number == sync && call.operation == Operation::Sync));
    assert_eq!((rig.log.health(), rig.log.stats().rolls_held), (Health::Running, 1));
    rig.clock.advance(Duration::from_secs(1));
    assert_eq!(rig.log.logger_step(0), LoggerStep::Idle);
    assert_eq!(rig.log.stats().rolls, 1, "later");
}

/// Clients of a server may have taken all of them; the log has its file.
#[test]
fn a_file_that_cannot_be_begun_for_want_of_descriptors_leaves_the_current_one_going_on() {
    let (disk, rig) = Rig::first_life(1);
    let (mut worker, mut keys) = (rig.worker(), 0);
    commit_until(&rig, &mut worker, &mut keys, false, || rig.log.stats().bytes > 1000);
    rig.log.request_roll();
    let create = disk.calls().all + 1;
    disk.fail_calls(create..=create, Fault::NO_DESCRIPTOR);
    disk.record(true);
    assert_eq!(rig.log.logger_step(0), LoggerStep::Idle);
    assert!(disk.trace().iter().any(|call| call.number == create && call.operation == Operation::Create));
    assert_eq!((rig.log.health(), rig.log.stats().rolls_held), (Health::Running, 1));
    rig.clock.advance(Duration::from_secs(1));
    assert_eq!(rig.log.logger_step(0), LoggerStep::Idle);
    assert_eq!(rig.log.stats().rolls, 1, "later");
}

#[test]
fn a_failed_sync_of_a_file_that_is_made_ahead_for_another_reason_than_space_stops_the_log() {
    let (disk, rig) = Rig::first_life(1);
    let (mut worker, mut keys) = (rig.worker(), 0);
    commit_until(&rig, &mut worker, &mut keys, false, || key_of_half(&rig));
    disk.fail_sync(1);
    rig.log.logger_prepare(0);
    assert!(matches!(rig.log.health(), Health::Poisoned(_)), "{:?}", rig.log.health());
}

#[test]
fn no_space_for_the_names_of_files_without_blocks_or_with_all_of_theirs_synced_stops_nobody() {
    let rolled = |failing: &[u64], landed: u64| {
        let disk = SimDisk::new();
        let (rig, worker, keys) = prepared(&disk);
        rig.log.request_roll();
        disk.record(true);
        failing.iter().for_each(|call| disk.fail_calls(*call..=*call, Fault::NO_SPACE.after_percent(landed)));
        rig.log.logger_step(0);
        disk.heal();
        (disk, rig, worker, keys)
    };
    let calls = rolled(&[], 0).0.trace();
    let [mark, sync, cut, rename, names] = calls.iter().map(|call| call.number).collect::<Vec<_>>()[..]
    else {
        panic!("{calls:?}")
    };
    // The mark finds none: the file is emptied, its name goes, for good if it could not be emptied. Else the used file
    // is closed.
    let [empty, remove, for_good] = [sync, cut, rename];
    let failing: [&[u64]; 7] = [
        &[cut],
        &[rename],
        &[names],
        &[mark, remove],
        &[mark, empty, remove],
        &[mark, empty, for_good],
        &[mark, empty, remove, for_good],
    ];
    for failing in failing {
        // A write, or a change of a name, may have been done all the same.
        let outcomes =
            [0, 100].into_iter().flat_map(|landed| Survival::ALL.map(|survival| (survival, landed)));
        for (survival, landed) in outcomes {
            let (disk, rig, mut worker, mut keys) = rolled(failing, landed);
            assert_eq!(rig.log.health(), Health::Running, "{failing:?} of {calls:?}");
            rig.clock.advance(Duration::from_secs(1));
            let rolls = rig.log.stats().rolls;
            if survival != Survival::Torn {
                commit_until(&rig, &mut worker, &mut keys, true, || rig.log.stats().rolls > rolls);
            }
            drop((worker, rig));
            disk.crash_with(survival, 1);
            assert_eq!(Rig::simulated(&disk, 1).rows.len() as u64, keys, "{failing:?}, {survival:?}");
        }
    }
}

#[test]
fn a_log_whose_used_file_may_not_be_renamed_goes_on_under_the_old_name() {
    let disk = SimDisk::new();
    let (rig, mut worker, mut keys) = prepared(&disk);
    disk.forbid(&[Operation::Rename]);
    commit_until(&rig, &mut worker, &mut keys, true, || rig.log.stats().rolls == 2);
    assert_eq!(rig.log.health(), Health::Running);
    assert!(has(&disk, "log0/log-1-0") && has(&disk, "log0/log-1-1"), "{:?}", disk.files());
    rig.log.close().expect("closes");
    drop((rig, worker));
    disk.forbid(&[]);
    assert_eq!(Rig::simulated(&disk, 1).rows.len() as u64, keys);
}

#[test]
fn a_waiter_that_steps_while_a_new_file_is_made_ready_does_not_stop_the_log() {
    let disk = SimDisk::new();
    let rig = Rig::open(Arc::new(disk.clone()), LogConfig::default(), Clock::manual()).expect("recovers");
    let (mut worker, busy) = (rig.worker(), rig.worker());
    // A busy device: the next step takes its file without zeros.
    for key in 0..40 {
        worker.commit(&rig.epochs, key, &[1; 20_000]).expect("runs");
    }
    rig.settle();
    worker.commit(&rig.epochs, 40, &[1; 100]).expect("runs");
    rig.advance();
    rig.log.request_roll();
    disk.stall(&[Operation::SyncFolder]);
    std::thread::scope(|scope| {
        let logger = scope.spawn(|| rig.log.logger_step(0));
        await_stall(&disk);
        // The second has no room behind the first, whose block the waiter's step writes. There is no mark of it yet:
        // another commit of that epoch is under way.
        busy.commit.bind(rig.epochs.now());
        worker.commit(&rig.epochs, 41, &[1; 100_000]).expect("runs");
        let tid = worker.commit(&rig.epochs, 42, &[1; 450_000]).expect("runs");
        let (log, before) = (Arc::clone(&rig.log), rig.log.stats());
        let waiter = scope.spawn(move || log.wait_durable(tid.epoch()));
        // Until its step has written the block.
        let has_written = |now: LogStats| now.waiter_steps > before.waiter_steps && now.bytes > before.bytes;
        while !has_written(rig.log.stats()) {
            std::thread::yield_now();
        }
        disk.release();
        logger.join().expect("no panic");
        // What the logger's thread does next, as in the engine: it was woken, and the other commit is still under way.
        let goes_on = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..3 {
                rig.log.logger_prepare(0);
                rig.log.logger_wait(0, Duration::ZERO);
                rig.log.logger_step(0);
            }
        }));
        busy.commit.unbind();
        assert!(goes_on.is_ok() && rig.log.health() == Health::Running, "{:?}", rig.log.health());
        rig.settle();
        rig.settle();
        waiter.join().expect("no panic").expect("durable");
    });
    assert!(matches!(rig.log.health(), Health::Running), "{:?}", rig.log.health());
}

/// The rename of the used file, whose folder would be synced behind it, finds no space.
#[test]
fn the_name_of_a_next_file_is_for_good_before_its_first_block_counts() {
    let disk = SimDisk::new();
    let (rig, mut worker, mut keys) = prepared(&disk);
    rig.log.request_roll();
    let rename = disk.calls().all + 4;
    disk.record(true);
    disk.fail_calls(rename..=rename, Fault::NO_SPACE);
    rig.log.logger_step(0);
    assert!(disk.trace().iter().any(|call| call.number == rename && call.operation == Operation::Rename));
    disk.heal();
    for _ in 0..3 {
        worker.commit(&rig.epochs, keys, &[1; 100]).expect("runs");
        keys += 1;
        rig.settle();
    }
    assert_eq!(rig.log.stats().rolls, 1);
    let durable = rig.log.durable_epoch();
    drop((worker, rig));
    disk.crash_with(Survival::Nothing, 1);
    let rig = Rig::simulated(&disk, 1);
    assert!(rig.report.durable_epoch >= durable);
    assert_eq!(rig.rows.len() as u64, keys);
}
