//! One failed write or sync stops the log for good.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Wake, Waker};

use crate::prelude::*;

/// How long a test waits for what hangs if it is wrong.
const HANGS_AFTER: std::time::Duration = std::time::Duration::from_secs(600);

#[test]
fn a_failed_sync_or_write_poisons_for_good() {
    for is_sync in [true, false] {
        let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
        let kept = rig.commit_epoch(&mut worker, 1, b"kept");
        let unknown = worker.commit(&rig.epochs, 2, b"unknown").expect("runs");
        assert!(is_durable(&rig.log, unknown.epoch()).is_pending());
        if is_sync {
            disk.fail_sync(1)
        } else {
            disk.fail_write(1)
        }
        rig.advance();
        assert_eq!(rig.log.logger_step(0), LoggerStep::Stopped, "sync: {is_sync}");
        let Poll::Ready(Err(DurabilityError::OutcomeUnknown(reason))) = is_durable(&rig.log, unknown.epoch())
        else {
            panic!("the outcome is unknown, sync: {is_sync}");
        };
        assert!(reason.contains("log0/log-1-0"), "names the file: {reason}");
        assert!(matches!(rig.log.wait_durable(unknown.epoch()), Err(DurabilityError::OutcomeUnknown(_))));
        rig.log.wait_durable(kept.epoch()).expect("was durable before");
        assert!(matches!(worker.appender.reserve(1), Err(DurabilityError::Stopped(_))));
        assert!(matches!(rig.log.health(), Health::Poisoned(_)));
        // The disk works again, and the log still does not believe it.
        for _ in 0..3 {
            rig.settle();
            assert_eq!(rig.log.logger_step(0), LoggerStep::Stopped);
            assert_eq!(rig.log.durable_epoch(), kept.epoch(), "no later epoch is ever reported durable");
        }
        assert!(matches!(rig.log.close(), Err(DurabilityError::OutcomeUnknown(_))));
        disk.crash(9);
        assert_eq!(Rig::simulated(&disk, 1).rows[&1].0, kept, "sync: {is_sync}");
    }
}

#[test]
fn a_worker_with_room_in_its_buffer_is_refused_too() {
    let (disk, rig) = Rig::first_life(1);
    let (mut old, mut young) = (rig.worker(), rig.worker());
    old.commit(&rig.epochs, 1, b"old").expect("runs");
    rig.advance();
    young.commit(&rig.epochs, 2, b"young").expect("runs");
    disk.fail_write(1);
    assert_eq!(rig.log.logger_step(0), LoggerStep::Stopped);
    // Its entry is of an open epoch, so the logger left it the buffer.
    for worker in [&mut young, &mut old] {
        assert!(matches!(worker.appender.reserve(1), Err(DurabilityError::Stopped(_))));
    }
}

#[test]
fn a_blocked_waiter_is_woken_by_the_poison() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    let tid = worker.commit(&rig.epochs, 1, b"one").expect("runs");
    disk.fail_all_syncs(true);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| rig.log.wait_durable(tid.epoch()));
        while !waiting.is_finished() {
            rig.settle();
        }
        assert!(matches!(waiting.join().expect("no panic"), Err(DurabilityError::OutcomeUnknown(_))));
    });
}

/// A row under key 1 that a failed sync left in the cache: the process ends, the machine does not, so recovery reads
/// bytes that later syncs would not write.
fn in_the_cache_only() -> (SimDisk, Tid) {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    let tid = worker.commit(&rig.epochs, 1, b"in the cache only").expect("runs");
    disk.fail_sync(1);
    rig.settle();
    assert!(matches!(rig.log.health(), Health::Poisoned(_)));
    disk.kill();
    (disk, tid)
}

#[test]
fn what_a_failed_sync_left_in_the_cache_is_made_durable_before_it_is_served() {
    let (disk, tid) = in_the_cache_only();
    let rig = Rig::simulated(&disk, 1);
    assert_eq!(rig.rows[&1].0, tid);
    disk.crash(10);
    let rig = Rig::simulated(&disk, 1);
    assert_eq!(rig.rows[&1].0, tid, "served once, so it stays");
}

#[test]
fn what_a_failed_sync_left_in_the_cache_is_made_durable_before_it_is_shown_as_a_change() {
    let (disk, tid) = in_the_cache_only();
    let on: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut shown = Vec::new();
    let found = examination::visit_log(&on, &Map::default(), &mut |entry| {
        shown.push(entry.tid);
        ControlFlow::Continue(())
    });
    assert!(found.expect("reads").damage.is_empty() && shown == [tid]);
    for seed in 0..20 {
        let disk = disk.fork();
        disk.crash(seed);
        assert_eq!(
            Rig::simulated(&disk, 1).rows.get(&1).map(|row| row.0),
            Some(tid),
            "a reader that saw it has acted on it"
        );
    }
}

#[test]
fn a_failed_sync_just_after_a_roll_does_not_take_the_new_files_first_mark_along() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    let mut key = 0;
    while rig.log.stats().rolls == 0 {
        rig.commit_epoch(&mut worker, key, &[1; 1000]);
        key += 1;
    }
    // Recovery writes again what comes behind that mark, and not the mark: the block behind it tells that it is synced.
    let tid = worker.commit(&rig.epochs, key, b"in the cache only").expect("runs");
    disk.fail_sync(1);
    rig.settle();
    assert!(matches!(rig.log.health(), Health::Poisoned(_)));
    disk.kill();
    assert_eq!(Rig::simulated(&disk, 1).rows[&key].0, tid);
    disk.crash(12);
    let rig = Rig::simulated(&disk, 1);
    assert_eq!((rig.rows[&key].0, rig.rows.len() as u64), (tid, key + 1), "served once, so it stays");
}

#[test]
fn a_log_that_somebody_elses_panic_closes_is_not_poisoned() {
    /// As the last handle to a database does.
    struct CloseOnDrop(Rig);
    impl Drop for CloseOnDrop {
        fn drop(&mut self) {
            let _ = self.0.log.close();
        }
    }
    let (disk, rig) = Rig::first_life(2);
    let tid = rig.worker().commit(&rig.epochs, 1, b"one").expect("runs");
    let log = Arc::clone(&rig.log);
    let panicked = std::thread::scope(|scope| {
        let owner = CloseOnDrop(rig);
        let unwind = move || {
            let _owner = owner;
            std::panic::resume_unwind(Box::new("somebody's"))
        };
        scope.spawn::<_, ()>(unwind).join()
    });
    assert!(panicked.is_err());
    assert_eq!(log.health(), Health::Closed);
    disk.crash(11);
    assert_eq!(Rig::simulated(&disk, 1).rows[&1].0, tid);
}

#[test]
fn a_waker_may_close_the_log() {
    /// As one does that drops the last handle to a database.
    struct Close(Arc<Log>);
    impl Wake for Close {
        fn wake(self: Arc<Self>) {
            self.0.close().expect("closes");
        }
    }
    let (_, rig) = Rig::first_life(2);
    let tid = rig.worker().commit(&rig.epochs, 1, b"one").expect("runs");
    let waker = Waker::from(Arc::new(Close(Arc::clone(&rig.log))));
    let (_question, answer) = ask(&rig.log, tid.epoch(), &waker);
    assert!(answer.is_pending());
    rig.advance();
    rig.step_all();
    rig.step_all();
    assert_eq!(rig.log.health(), Health::Closed);
    assert!(rig.log.durable_epoch() >= tid.epoch());
}

#[test]
fn a_waker_that_panics_harms_nobody_else() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new("an application's"));
        }
    }
    struct Note(AtomicBool);
    impl Wake for Note {
        fn wake(self: Arc<Self>) {
            // Relaxed: read by the same thread.
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    let poll = |key, worker: &mut crate::rig::Worker| {
        let note = Arc::new(Note(AtomicBool::new(false)));
        let tid = worker.commit(&rig.epochs, key, b"row").expect("runs");
        let questions = [Waker::from(Arc::new(Panics)), Waker::from(Arc::clone(&note))].map(|waker| {
            let (question, answer) = ask(&rig.log, tid.epoch(), &waker);
            assert!(answer.is_pending());
            question
        });
        (note, questions)
    };
    // Relaxed: written by the same thread.
    let is_woken = |note: &Note| note.0.load(Ordering::Relaxed);
    let (durable, _questions) = poll(1, &mut worker);
    rig.settle();
    assert!(is_woken(&durable), "who waited behind it is woken");
    assert_eq!(rig.log.health(), Health::Running);
    let (unknown, _questions) = poll(2, &mut worker);
    disk.fail_sync(1);
    rig.advance();
    assert_eq!(rig.log.logger_step(0), LoggerStep::Stopped);
    assert!(is_woken(&unknown), "by a poison too");
}

/// Closes the log from a waker, as one does that drops the last handle.
struct CloseLog(Arc<Log>);

impl Wake for CloseLog {
    fn wake(self: Arc<Self>) {
        let _ = self.0.close();
    }
}

#[test]
fn a_waker_may_close_the_log_when_a_new_file_cannot_be_begun() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    for key in 0..3 {
        rig.commit_epoch(&mut worker, key, b"one");
    }
    let (log, epoch) = (Arc::clone(&rig.log), rig.epochs.now());
    let (ended, wait) = std::sync::mpsc::channel();
    let logger = std::thread::Builder::new().spawn(move || {
        let waker = Waker::from(Arc::new(CloseLog(Arc::clone(&rig.log))));
        let (_question, answer) = ask(&rig.log, epoch, &waker);
        assert!(answer.is_pending());
        rig.log.request_roll();
        // The zeros of the new file are written, its opening block is not.
        disk.fail_write(2);
        rig.log.logger_step(0);
        ended.send(()).expect("the test waits");
    });
    let _not_joined_as_it_may_hang = logger.expect("a thread");
    wait.recv_timeout(HANGS_AFTER).expect("the logger hangs in the close that its own waker began");
    assert!(matches!(log.health(), Health::Poisoned(_)), "{:?}", log.health());
}
