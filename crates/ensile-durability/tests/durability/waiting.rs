//! Waiting for D, and the thread that steps for it: a lone waiter steps itself, loggers step for several, a future
//! never steps.

use std::pin::Pin;
use std::task::{Context, Waker};

use crate::prelude::*;

#[test]
fn a_lone_blocking_waiter_steps_all_logs_itself_and_makes_its_commit_durable() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    for key in 0..5 {
        rig.clock.advance(Duration::from_millis(1));
        let tid = worker.commit(&rig.epochs, key, b"one").expect("runs");
        // No thread steps the logger: without a step of its own the waiter would wait for ever.
        rig.log.wait_durable(tid.epoch()).expect("durable");
        assert_eq!(rig.log.stats().waiter_steps, key + 1);
        let after = disk.fork();
        after.crash_with(Survival::Nothing, 0);
        assert_eq!(Rig::simulated(&after, 1).rows[&key], (tid, b"one".to_vec()), "L3: its mark is synced");
    }
    for last in 0..3 {
        let (disk, rig) = Rig::first_life(3);
        let mut workers = [rig.worker(), rig.worker(), rig.worker()];
        rig.clock.advance(Duration::from_millis(1));
        let tid = workers[last].commit(&rig.epochs, 1, b"one").expect("runs");
        rig.log.wait_durable(tid.epoch()).expect("durable");
        disk.crash_with(Survival::Nothing, 0);
        assert_eq!(Rig::simulated(&disk, 3).rows[&1].0, tid, "worker {last}: every log has its mark");
    }
}

#[test]
fn a_polled_future_never_syncs() {
    let (disk, rig) = Rig::first_life(1);
    rig.clock.advance(Duration::from_millis(1));
    let tid = rig.worker().commit(&rig.epochs, 1, b"one").expect("runs");
    let before = disk.calls();
    let mut future = rig.log.durable(tid.epoch());
    for _ in 0..3 {
        assert!(Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert_eq!((disk.calls(), rig.log.stats().waiter_steps), (before, 0));
}

#[test]
fn a_waiter_that_is_not_alone_leaves_the_step_to_the_logger() {
    let (_, rig, mut worker) = Rig::first_life_with_worker(1);
    let first = worker.commit(&rig.epochs, 1, b"one").expect("runs");
    rig.advance();
    let second = worker.commit(&rig.epochs, 2, b"two").expect("runs");
    let mut future = rig.log.durable(first.epoch());
    assert!(Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let ring = || rig.log.logger_wait(0, Duration::from_secs(60));
    ring();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| rig.log.wait_durable(second.epoch()));
        // It registers, then it rings.
        ring();
        while !waiting.is_finished() {
            rig.clock.advance(Duration::from_millis(1));
            rig.log.logger_step(0);
            std::thread::yield_now();
        }
        waiting.join().expect("no panic").expect("durable");
    });
    assert_eq!(rig.log.stats().waiter_steps, 0);
}

#[test]
fn a_lone_waiter_whose_sync_fails_is_told_and_the_log_is_poisoned() {
    let (disk, rig) = Rig::first_life(1);
    rig.clock.advance(Duration::from_millis(1));
    let tid = rig.worker().commit(&rig.epochs, 1, b"one").expect("runs");
    disk.fail_sync(1);
    let waited = rig.log.wait_durable(tid.epoch());
    assert!(matches!(waited, Err(DurabilityError::OutcomeUnknown(_))), "{waited:?}");
    assert!(matches!(rig.log.health(), Health::Poisoned(_)));
    assert_eq!(rig.log.logger_step(0), LoggerStep::Stopped);
}

#[test]
fn a_lone_waiter_leaves_a_full_disk_to_the_logger_and_waits() {
    let (disk, rig) = Rig::first_life(1);
    rig.clock.advance(Duration::from_millis(1));
    let tid = rig.worker().commit(&rig.epochs, 1, &[1; 40_000]).expect("runs");
    disk.set_capacity(Some(disk.used_bytes()));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| rig.log.wait_durable(tid.epoch()));
        while rig.log.stats().holds == 0 {
            std::thread::yield_now();
        }
        assert_eq!(rig.log.logger_step(0), LoggerStep::Held);
        disk.set_capacity(None);
        while !waiting.is_finished() {
            rig.log.logger_step(0);
            std::thread::yield_now();
        }
        waiting.join().expect("no panic").expect("durable once there is space");
    });
}

#[test]
fn a_panic_inside_the_step_of_a_lone_waiter_is_an_error_for_it_and_stops_the_log() {
    let (_, rig, mut worker) = Rig::first_life_with_worker(1);
    let tid = rig.commit_epoch(&mut worker, 1, b"one");
    rig.settle();
    // An entry of an epoch that is durable already: no commit makes one, and a step refuses it by an assertion (L1).
    worker.appender.reserve(8).expect("has room");
    worker.commit.bind(rig.epochs.now());
    worker.appender.append(Tid::first_of(tid.epoch()), |body| body.extend_from_slice(&[0; 8]));
    worker.appender.release();
    worker.commit.unbind();
    rig.clock.advance(Duration::from_millis(1));
    let waited = rig.log.wait_durable(rig.epochs.now());
    let Err(DurabilityError::OutcomeUnknown(reason)) = waited else { panic!("it is told: {waited:?}") };
    assert!(reason.contains("panicked"), "{reason}");
    assert!(matches!(rig.log.health(), Health::Poisoned(_)));
}
