//! A full disk: what is to be written is held, nothing is acknowledged meanwhile, and it goes on without a restart.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use ensile_base::limits::{LOG_BUFFER_BYTES, RESERVE_BYTES};
use ensile_sim::{Call, Fault};

use crate::prelude::*;

/// No call that needs space succeeds, from now on.
fn fill_up(disk: &SimDisk) {
    disk.set_capacity(Some(disk.used_bytes()));
}

/// A database whose next write finds no space: its file is as long as what is set aside.
fn on_a_full_disk() -> (SimDisk, Rig) {
    let disk = SimDisk::new();
    let limits = LogConfig { segment_bytes: 4096, ..config(1) };
    let rig = Rig::open(Arc::new(disk.clone()), limits, Clock::manual()).expect("recovers");
    fill_up(&disk);
    (disk, rig)
}

#[test]
fn a_full_disk_holds_what_is_to_be_written_and_goes_on_when_there_is_space() {
    let (disk, rig) = on_a_full_disk();
    let mut worker = rig.worker();
    let tid = worker.commit(&rig.epochs, 1, &[7; 10_000]).expect("nobody knows yet");
    assert!(is_durable(&rig.log, tid.epoch()).is_pending());
    rig.advance();
    let before = rig.log.durable_epoch();
    for _ in 0..5 {
        assert_eq!(rig.log.logger_step(0), LoggerStep::Held);
        rig.advance();
    }
    assert!(matches!(rig.log.health(), Health::Full(reason) if reason.contains("log0/log-1-0")));
    assert!(matches!(worker.appender.reserve(1), Err(DurabilityError::DiskFull(_))));
    assert_eq!(rig.log.durable_epoch(), before, "D stands still");
    assert!(is_durable(&rig.log, tid.epoch()).is_pending(), "the waiter keeps waiting");
    assert_eq!(rig.log.stats().holds, 1);

    disk.set_capacity(None);
    assert_eq!(rig.log.logger_step(0), LoggerStep::Synced);
    assert_eq!(rig.log.health(), Health::Running);
    assert!(matches!(is_durable(&rig.log, tid.epoch()), Poll::Ready(Ok(()))));
    let later = worker.commit(&rig.epochs, 2, b"later").expect("there is space");
    rig.settle();
    rig.settle();
    assert!(rig.log.durable_epoch() >= later.epoch());
    disk.crash(1);
    let rig = Rig::simulated(&disk, 1);
    assert_eq!((rig.rows[&1].0, rig.rows[&2].0), (tid, later));
    assert!(rig.report.torn_tails.is_empty());
}

#[test]
fn who_waits_for_space_is_told_after_a_stated_time_and_what_was_committed_stays() {
    let (disk, rig) = on_a_full_disk();
    let mut worker = rig.worker();
    let tid = worker.commit(&rig.epochs, 1, &[7; 10_000]).expect("nobody knows yet");
    let (mut early, waits) = ask(&rig.log, tid.epoch(), Waker::noop());
    assert!(waits.is_pending());
    rig.advance();
    let half = LogConfig::default().full_wait / 2;
    let pass = |time| {
        rig.clock.advance(time);
        assert_eq!(rig.log.logger_step(0), LoggerStep::Held);
    };
    pass(Duration::ZERO);
    pass(half);
    let (_late, waits) = ask(&rig.log, tid.epoch(), Waker::noop());
    assert!(waits.is_pending());
    pass(half);
    let again = |question: &mut ensile_durability::Durable| {
        Pin::new(question).poll(&mut Context::from_waker(Waker::noop()))
    };
    let told = again(&mut early);
    let Poll::Ready(Err(error @ DurabilityError::NotDurableYet(_))) = told else { panic!("{told:?}") };
    assert!(error.to_string().contains("log0/log-1-0"), "{error}");
    assert!(again(&mut early).is_pending(), "it may be asked again");
    // A thread waits the same time, by the same clock.
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| rig.log.wait_durable(tid.epoch()));
        while !waiter.is_finished() {
            pass(half);
            std::thread::yield_now();
        }
        assert!(matches!(waiter.join().expect("no panic"), Err(DurabilityError::NotDurableYet(_))));
    });
    disk.set_capacity(None);
    rig.settle();
    assert!(matches!(is_durable(&rig.log, tid.epoch()), Poll::Ready(Ok(()))), "without being run again");
    assert!(matches!(again(&mut early), Poll::Ready(Ok(()))));
}

/// Space that was written and synced before is not enough where overwriting needs some.
#[test]
fn no_space_to_overwrite_zeros_is_a_full_disk_like_any_other() {
    let disk = SimDisk::new();
    disk.set_copies_on_write(true);
    let rig = Rig::simulated(&disk, 1);
    let mut worker = rig.worker();
    rig.commit_epoch(&mut worker, 1, b"before");
    fill_up(&disk);
    let tid = worker.commit(&rig.epochs, 2, b"held").expect("nobody knows yet");
    let waits = is_durable(&rig.log, tid.epoch());
    assert!(waits.is_pending());
    rig.advance();
    assert_eq!(rig.log.logger_step(0), LoggerStep::Held);
    assert!(matches!(rig.log.health(), Health::Full(_)), "{:?}", rig.log.health());
    assert!(matches!(worker.appender.reserve(1), Err(DurabilityError::DiskFull(_))));
    disk.set_capacity(None);
    assert_eq!(rig.log.logger_step(0), LoggerStep::Synced);
    assert!(matches!(is_durable(&rig.log, tid.epoch()), Poll::Ready(Ok(()))));
    disk.crash(1);
    assert_eq!(Rig::simulated(&disk, 1).rows.len(), 2);
}

#[test]
fn large_and_small_buffers_are_held_in_order() {
    let (disk, rig) = on_a_full_disk();
    let mut workers: Vec<_> = (0..6).map(|_| rig.worker()).collect();
    for (key, worker) in workers.iter_mut().enumerate() {
        let bytes = if key % 2 == 0 { 200 } else { 100_000 };
        worker.commit(&rig.epochs, key as u64, &vec![key as u8; bytes]).expect("runs");
    }
    rig.advance();
    assert_eq!(rig.log.logger_step(0), LoggerStep::Held);
    // A little space at a time.
    let full = disk.used_bytes();
    for more in (0..400_000).step_by(30_000) {
        disk.set_capacity(Some(full + more));
        rig.log.logger_step(0);
    }
    disk.set_capacity(None);
    rig.settle();
    assert_eq!(rig.log.health(), Health::Running);
    disk.crash(2);
    assert_eq!(Rig::simulated(&disk, 1).rows.len(), 6);
}

#[test]
fn no_space_reported_by_a_sync_poisons() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    worker.commit(&rig.epochs, 1, b"one").expect("runs");
    rig.advance();
    // The write, then its sync.
    let sync = disk.calls().all + 2;
    disk.record(true);
    disk.fail_calls(sync..=sync, Fault::NO_SPACE);
    assert_eq!(rig.log.logger_step(0), LoggerStep::Stopped);
    assert_eq!(disk.trace().last().expect("calls").operation, Operation::Sync);
    assert!(matches!(rig.log.health(), Health::Poisoned(_)));
    assert!(matches!(worker.appender.reserve(1), Err(DurabilityError::Stopped(_))));
}

#[test]
fn a_file_that_cannot_be_begun_leaves_the_current_one_going_on() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    let mut keys = 0..;
    let mut commit = || {
        let key = keys.next().expect("endless");
        worker.commit(&rig.epochs, key, &[1; 1000]).expect("there is space for it");
        rig.clock.advance(Duration::from_secs(1));
        rig.settle();
        assert_eq!(rig.log.health(), Health::Running);
        key + 1
    };
    // Space for some entries, and not for the next file.
    disk.set_capacity(Some(disk.used_bytes() + 6000));
    while rig.log.stats().rolls_held == 0 {
        assert!(commit() < 40);
    }
    assert_eq!(disk.files().iter().filter(|name| name.starts_with("log0/log-")).count(), 1);
    commit();
    assert_eq!(rig.log.durable_epoch(), rig.epochs.now().previous());
    disk.set_capacity(None);
    let written = commit();
    assert_eq!(rig.log.stats().rolls, 1);
    disk.crash(3);
    assert_eq!(Rig::simulated(&disk, 1).rows.len() as u64, written);
}

#[test]
fn a_close_on_a_full_disk_says_what_is_not_durable_and_does_not_hang() {
    let (disk, rig) = on_a_full_disk();
    let mut worker = rig.worker();
    // More than what is kept for a close.
    let tid = worker.commit(&rig.epochs, 1, &vec![7; 2 * RESERVE_BYTES as usize]).expect("runs");
    let waiter = is_durable(&rig.log, tid.epoch());
    assert!(waiter.is_pending());
    drop(worker);
    let Err(DurabilityError::OutcomeUnknown(reason)) = rig.log.close() else { panic!("not durable") };
    let durable = format!("durable up to epoch {}", rig.log.durable_epoch());
    assert!(reason.contains("full disk") && reason.contains(&durable), "{reason}");
    assert!(rig.log.wait_durable(tid.epoch()).is_err(), "nobody waits for ever");
    drop(rig);
    disk.set_capacity(None);
    let rig = Rig::simulated(&disk, 1);
    assert!(rig.rows.is_empty(), "none of it was written");
}

#[test]
fn a_close_on_a_full_disk_makes_durable_what_the_reserve_holds() {
    let (disk, rig) = on_a_full_disk();
    let tid = rig.worker().commit(&rig.epochs, 1, &[7; 10_000]).expect("runs");
    rig.log.close().expect("the reserve is given up for it");
    drop(rig);
    disk.crash(1);
    let rig = Rig::simulated(&disk, 1);
    assert_eq!(rig.rows[&1].0, tid);
}

#[test]
fn removed_files_make_space() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    rig.fill_files(&mut worker, 100);
    let covered = rig.log.durable_epoch();
    fill_up(&disk);
    let held = rig.commit_epoch(&mut worker, 200, &[2; 30_000]);
    assert!(matches!(rig.log.health(), Health::Full(_)));
    assert!(rig.log.remove_files_below(covered).expect("removes").files > 2);
    rig.settle();
    assert_eq!(rig.log.health(), Health::Running);
    assert!(rig.log.durable_epoch() >= held.epoch());
}

#[test]
fn a_worker_that_waits_for_a_buffer_is_told_that_the_disk_is_full() {
    let disk = SimDisk::new();
    let limits = LogConfig { buffer_bytes_max: LOG_BUFFER_BYTES, segment_bytes: 4096, ..config(1) };
    let rig = Rig::open(Arc::new(disk.clone()), limits, Clock::manual()).expect("recovers");
    fill_up(&disk);
    let mut worker = rig.worker();
    let value = vec![1; LOG_BUFFER_BYTES / 2];
    std::thread::scope(|scope| {
        let told = scope.spawn(|| {
            loop {
                if let Err(error) = worker.commit(&rig.epochs, 1, &value) {
                    return error;
                }
            }
        });
        while !told.is_finished() {
            rig.advance();
            rig.log.logger_step(0);
            std::thread::yield_now();
        }
        assert!(matches!(told.join().expect("no panic"), DurabilityError::DiskFull(_)));
    });
}

#[test]
fn whatever_call_finds_no_space_nothing_is_lost_and_all_is_durable_when_there_is_space() {
    for seed in 0..800 {
        let mut random = Random::from_seed(seed);
        let disk = SimDisk::new();
        disk.set_copies_on_write(seed % 2 == 1);
        let rig = Rig::simulated(&disk, 1 + seed as usize % 2);
        let mut workers = [rig.worker(), rig.worker()];
        let mut committed = Vec::new();
        let from = disk.calls().all + random.next_between(1, 60);
        let calls = random.next_between(1, 20);
        let mut is_full = false;
        for key in 0..random.next_between(20, 60) {
            let bytes = if random.percent(10) { 50_000 } else { random.next_below(2000) as usize };
            let worker = &mut workers[random.next_below(2) as usize];
            match worker.commit(&rig.epochs, key, &vec![key as u8; bytes]) {
                Ok(tid) => committed.push((key, tid)),
                Err(DurabilityError::DiskFull(_)) => {}
                Err(other) => panic!("seed {seed}: {other}"),
            }
            let calls_now = disk.calls().all;
            if !is_full && calls_now >= from {
                is_full = true;
                disk.set_capacity(Some(disk.used_bytes() + random.next_below(3000)));
            } else if is_full && calls_now >= from + calls * 4 {
                disk.set_capacity(None);
            }
            if random.percent(60) {
                rig.settle();
            }
            assert!(!matches!(rig.log.health(), Health::Poisoned(_)), "seed {seed}: {:?}", rig.log.health());
        }
        if random.percent(50) {
            // Power fails on the full disk: what was reported durable is there.
            let durable = rig.log.durable_epoch();
            disk.crash(seed);
            disk.set_capacity(None);
            let rig = Rig::simulated(&disk, 1);
            for (key, tid) in committed.iter().filter(|(_, tid)| tid.epoch() <= durable) {
                assert_eq!(rig.rows[key].0, *tid, "seed {seed}");
            }
            continue;
        }
        disk.set_capacity(None);
        (0..3).for_each(|_| rig.settle());
        assert_eq!(rig.log.health(), Health::Running, "seed {seed}");
        let last = committed.iter().map(|(_, tid)| tid.epoch()).max();
        assert!(last.is_none_or(|last| rig.log.durable_epoch() >= last), "seed {seed}");
        disk.crash(seed);
        let rig = Rig::simulated(&disk, 1);
        assert_eq!(rig.rows.len(), committed.len(), "seed {seed}");
    }
}

/// A life of two commits; its close, with this call failing for want of space. Returns the calls of the close.
fn closed_with(failing: Option<u64>) -> Vec<Call> {
    let (disk, rig) = Rig::first_life(2);
    let mut workers = [rig.worker(), rig.worker()];
    for (key, worker) in (0..).zip(&mut workers) {
        worker.commit(&rig.epochs, key, b"durable").expect("runs");
    }
    rig.settle();
    workers.iter_mut().for_each(|worker| worker.commit.unbind());
    disk.record(true);
    if let Some(call) = failing {
        disk.fail_calls(call..=call, Fault::NO_SPACE);
    }
    rig.log.close().unwrap_or_else(|error| panic!("everything was durable, {failing:?}: {error}"));
    let calls = disk.trace();
    drop((workers, rig));
    disk.crash(1);
    let rig = Rig::simulated(&disk, 2);
    assert_eq!(rig.rows.len(), 2, "{failing:?}");
    assert!(rig.report.torn_tails.is_empty(), "{failing:?}");
    calls
}

#[test]
fn a_close_that_finds_no_space_for_its_own_marks_or_to_cut_its_files_has_kept_everything() {
    let needs_space = |call: &&Call| matches!(call.operation, Operation::Write | Operation::Length);
    let calls = closed_with(None);
    let failing: Vec<u64> = calls.iter().filter(needs_space).map(|call| call.number).collect();
    assert!(failing.len() >= 6, "two marks a log, and a cut: {calls:?}");
    for call in failing {
        closed_with(Some(call));
    }
}

#[test]
fn a_file_that_cannot_be_cut_for_want_of_space_is_closed_as_it_is() {
    let life = |failing: Option<u64>| {
        let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
        rig.settle();
        disk.record(true);
        if let Some(call) = failing {
            disk.fail_calls(call..=call, Fault::NO_SPACE);
        }
        rig.log.request_roll();
        rig.commit_epoch(&mut worker, 1, b"before");
        worker.commit(&rig.epochs, 2, b"behind").expect("the log goes on");
        rig.settle();
        assert_eq!((rig.log.health(), rig.log.stats().rolls), (Health::Running, 1), "{failing:?}");
        let cut = disk.trace().into_iter().find(|call| call.operation == Operation::Length);
        drop((worker, rig));
        disk.crash(1);
        let rig = Rig::simulated(&disk, 1);
        assert_eq!(rig.rows.len(), 2, "{failing:?}");
        cut.map(|call| call.number)
    };
    let cut = life(None);
    assert!(cut.is_some());
    life(cut);
}

#[test]
fn the_next_file_of_another_log_gives_its_space_to_blocks() {
    let disk = SimDisk::new();
    let rig = Rig::open(Arc::new(disk.clone()), config(2), Clock::manual()).expect("opens");
    let (mut zero, mut one) = (rig.worker(), rig.worker());
    let mut key = 0;
    while !disk.files().iter().any(|name| name == "log1/log-1-1") {
        one.commit(&rig.epochs, key, &[1; 1000]).expect("runs");
        key += 1;
        rig.settle();
        rig.log.logger_prepare(1);
    }
    (0..3).for_each(|_| rig.log.logger_prepare(1));
    disk.set_capacity(Some(disk.used_bytes()));
    for key in 1000..1002 {
        zero.commit(&rig.epochs, key, &[1; 14_000]).expect("runs");
    }
    rig.advance();
    for _ in 0..20 {
        rig.clock.advance(Duration::from_secs(1));
        for logger in 0..2 {
            rig.log.logger_step(logger);
            rig.log.logger_prepare(logger);
        }
    }
    assert_eq!(rig.log.health(), Health::Running, "space stood in a file that holds nothing");
    assert!(!disk.files().iter().any(|name| name == "log1/log-1-1"));
}
