//! What becomes durable when: L1, L2, L3, one behaviour a test.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use ensile_base::limits::{LOG_BUFFER_BYTES, TRANSACTION_BYTES_MAX};

use crate::prelude::*;

#[test]
fn a_commit_is_durable_once_its_epoch_is_closed_written_and_synced() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    let tid = worker.commit(&rig.epochs, 1, b"one").expect("runs");
    assert_eq!(rig.log.logger_step(0), LoggerStep::Idle, "its epoch is still open");
    assert!(rig.log.durable_epoch() < tid.epoch());
    rig.advance();
    assert_eq!(rig.log.logger_step(0), LoggerStep::Synced);
    assert_eq!(rig.log.durable_epoch(), tid.epoch());
    disk.crash(0);
    let rig = Rig::simulated(&disk, 1);
    assert_eq!(rig.rows[&1], (tid, b"one".to_vec()));
    assert_eq!((rig.report.entries, rig.report.durable_epoch), (1, tid.epoch()));
    assert!(rig.first > tid.epoch());
}

#[test]
fn what_is_appended_at_once_is_logged_and_what_would_have_to_wait_is_not_begun() {
    let (disk, rig) = Rig::first_life(1);
    let (mut worker, mut other) = (rig.worker(), rig.worker());
    let body = |key: u64, value: &[u8]| [&key.to_le_bytes()[..], value].concat();
    let not_asked = || -> Option<Tid> { panic!("there is no space for it") };
    worker.commit.bind(rig.epochs.now());
    assert_eq!(worker.appender.append_at_once(&body(1, b"early"), not_asked), None, "it has no buffer yet");
    worker.commit.unbind();
    worker.commit(&rig.epochs, 1, b"first").expect("runs");
    rig.commit_epoch(&mut other, 5, b"other");
    worker.commit(&rig.epochs, 1, b"again").expect("runs");
    // The logger takes its buffer, and has another one for it, which is empty.
    rig.settle();
    worker.commit.bind(rig.epochs.now());
    let tid = worker.stamp(&rig.epochs);
    assert_eq!(worker.appender.append_at_once(&body(2, b"second"), || Some(tid)), Some(tid));
    assert_eq!(worker.appender.append_at_once(&body(2, b"no TID"), || None), None);
    let long = body(2, &vec![0; LOG_BUFFER_BYTES]);
    assert_eq!(worker.appender.append_at_once(&long, not_asked), None, "it has no room");
    worker.commit.unbind();
    rig.settle();
    assert_eq!(rig.log.durable_epoch(), tid.epoch());
    worker.commit(&rig.epochs, 3, b"third").expect("the buffer was given back");
    rig.settle();
    disk.fail_all_syncs(true);
    rig.commit_epoch(&mut worker, 4, b"lost");
    worker.commit.bind(rig.epochs.now());
    assert_eq!(worker.appender.append_at_once(&body(4, b"later"), not_asked), None, "the log has stopped");
    worker.commit.unbind();
    disk.crash(0);
    disk.fail_all_syncs(false);
    let rig = Rig::simulated(&disk, 1);
    assert_eq!(rig.rows[&2], (tid, b"second".to_vec()));
    assert_eq!((rig.rows[&1].1.as_slice(), rig.rows[&3].1.as_slice()), (&b"again"[..], &b"third"[..]));
}

#[test]
fn e1_a_codec_that_panics_while_its_worker_is_bound_ends_the_log_and_holds_nobody_up() {
    let (disk, rig) = Rig::first_life(1);
    let (mut worker, mut other) = (rig.worker(), rig.worker());
    let tid = rig.commit_epoch(&mut worker, 1, b"one");
    worker.appender.reserve(100).expect("there is space");
    worker.commit.bind(rig.epochs.now());
    let half = worker.stamp(&rig.epochs);
    let panics = || {
        worker.appender.append(half, |body| {
            body.extend_from_slice(b"half an en");
            panic!("told to");
        });
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    // As it unwinds past its unbind.
    let Worker { appender, commit, .. } = worker;
    drop(appender);
    commit.unbind();
    let is_told = |why: &str| why.contains("a thread panicked while it logged an entry");
    let refused = other.commit(&rig.epochs, 2, b"two").map(drop);
    assert!(matches!(&refused, Err(DurabilityError::Stopped(why)) if is_told(why)), "{refused:?}");
    let waited = rig.log.wait_durable(rig.epochs.now());
    assert!(matches!(&waited, Err(DurabilityError::OutcomeUnknown(why)) if is_told(why)), "{waited:?}");
    rig.settle();
    assert!(rig.log.close().is_err());
    disk.crash(0);
    let rig = Rig::simulated(&disk, 1);
    assert_eq!(rig.rows.len(), 1, "half an entry is nowhere");
    assert_eq!(rig.rows[&1], (tid, b"one".to_vec()));
}

#[test]
fn a_small_step_is_one_write_and_one_sync() {
    let (disk, rig) = Rig::first_life(1);
    let (mut a, mut b) = (rig.worker(), rig.worker());
    let before = disk.calls();
    a.commit(&rig.epochs, 1, b"one").expect("runs");
    b.commit(&rig.epochs, 2, b"two").expect("runs");
    rig.advance();
    rig.log.logger_step(0);
    let after = disk.calls();
    assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (1, 1));
    assert_eq!(rig.log.stats().syncs, 1);
}

#[test]
fn l2_an_idle_worker_is_neither_passed_nor_holds_d_back_and_an_ended_one_leaves_its_entries() {
    let (disk, rig) = Rig::first_life(1);
    let (mut idle, mut busy) = (rig.worker(), rig.worker());
    let tid = idle.commit(&rig.epochs, 7, b"idle").expect("runs");
    for key in 0..5 {
        rig.commit_epoch(&mut busy, 100 + key, b"busy");
        assert_eq!(rig.log.durable_epoch(), rig.epochs.now().previous(), "the idle worker runs no code");
    }
    disk.crash(1);
    let rig = Rig::simulated(&disk, 1);
    assert_eq!(rig.rows[&7], (tid, b"idle".to_vec()), "D did not pass its entry");
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    let tid = worker.commit(&rig.epochs, 7, b"last words").expect("runs");
    drop(worker);
    rig.settle();
    assert_eq!(rig.log.durable_epoch(), tid.epoch());
    disk.crash(2);
    assert!(Rig::simulated(&disk, 1).rows.contains_key(&7));
}

#[test]
fn l1_a_bound_worker_holds_d_below_its_epoch() {
    let (_, rig, mut worker) = Rig::first_life_with_worker(1);
    worker.appender.reserve(8).expect("runs");
    worker.commit.bind(rig.epochs.now());
    let tid = worker.stamp(&rig.epochs);
    rig.settle();
    assert!(rig.log.durable_epoch() < tid.epoch());
    worker.appender.append(tid, |body| body.extend_from_slice(&7u64.to_le_bytes()));
    rig.settle();
    assert!(rig.log.durable_epoch() < tid.epoch(), "appended, still bound");
    worker.commit.unbind();
    rig.settle();
    assert!(rig.log.durable_epoch() < tid.epoch(), "unbound, but the buffer is still the worker's");
    worker.appender.release();
    rig.settle();
    assert!(rig.log.durable_epoch() >= tid.epoch());
}

#[test]
fn a_reservation_without_an_entry_holds_nothing_back() {
    let (_, rig, mut worker) = Rig::first_life_with_worker(1);
    worker.appender.reserve(100).expect("runs");
    rig.settle();
    assert_eq!(rig.log.durable_epoch(), rig.epochs.now().previous());
    worker.appender.release();
    worker.commit(&rig.epochs, 1, b"").expect("aborts leave the buffer as it was");
}

#[test]
fn l3_a_log_without_entries_marks_the_epochs_of_the_others_and_no_empty_ones() {
    let (disk, rig) = Rig::first_life(2);
    let mut first = rig.worker();
    let _second_without_entries = rig.worker();
    let tid = first.commit(&rig.epochs, 1, b"one").expect("runs");
    rig.advance();
    assert_eq!(rig.log.logger_step(0), LoggerStep::Synced);
    assert!(rig.log.durable_epoch() < tid.epoch(), "the other log has no mark yet");
    assert_eq!(rig.log.logger_step(1), LoggerStep::Synced);
    assert_eq!(rig.log.durable_epoch(), tid.epoch());
    disk.crash(3);
    assert_eq!(Rig::simulated(&disk, 2).rows[&1].0, tid);
    let (disk, rig) = Rig::first_life(2);
    rig.commit_epoch(&mut rig.worker(), 1, b"one");
    let before = disk.calls();
    for _ in 0..10 {
        rig.settle();
        assert_eq!(rig.log.durable_epoch(), rig.epochs.now().previous());
    }
    assert_eq!(disk.calls(), before);
}

#[test]
fn strict_results_close_the_epoch_early_and_only_as_often_as_allowed() {
    let (_, rig, mut worker) = Rig::first_life_with_worker(1);
    rig.advance();
    let tid = worker.commit(&rig.epochs, 1, b"one").expect("runs");
    assert!(is_durable(&rig.log, tid.epoch()).is_pending());
    rig.log.logger_step(0);
    assert!(rig.log.durable_epoch() < tid.epoch(), "E5: too soon after the last epoch");
    rig.clock.advance(Duration::from_millis(1));
    assert_eq!(rig.log.logger_step(0), LoggerStep::Synced);
    assert!(matches!(is_durable(&rig.log, tid.epoch()), Poll::Ready(Ok(()))));
    assert_eq!(rig.log.stats().early_closes, 1);
    let epoch = rig.epochs.now();
    rig.clock.advance(Duration::from_millis(1));
    rig.log.logger_step(0);
    assert_eq!(rig.epochs.now(), epoch, "nobody waits");
}

#[test]
fn full_buffers_are_written_before_their_epoch_closes_and_come_back() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    let value = vec![5; LOG_BUFFER_BYTES / 3];
    rig.commit_epoch(&mut worker, 0, &value);
    let before = rig.log.stats();
    for key in 0..7 {
        worker.commit(&rig.epochs, key, &value).expect("runs");
    }
    assert_eq!(rig.log.logger_step(0), LoggerStep::Wrote);
    let after = rig.log.stats();
    assert_eq!(after.blocks - before.blocks, 3, "the fourth has room still");
    assert_eq!(after.syncs, before.syncs);
    rig.settle();
    disk.crash(4);
    let rig = Rig::simulated(&disk, 1);
    assert_eq!(rig.rows.len(), 7);
    assert!(rig.rows.values().all(|(_, found)| *found == value));
}

#[test]
fn an_entry_larger_than_a_buffer_gets_one_of_its_own_and_one_beyond_the_limit_is_refused() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    worker.commit(&rig.epochs, 1, b"small").expect("runs");
    let large = vec![9; 3 * LOG_BUFFER_BYTES + 1];
    worker.commit(&rig.epochs, 2, &large).expect("runs");
    rig.commit_epoch(&mut worker, 3, b"small again");
    disk.crash(5);
    let rig = Rig::simulated(&disk, 1);
    assert_eq!(rig.rows[&2].1, large);
    assert_eq!(rig.rows.len(), 3);
    let rig = Rig::simulated(&SimDisk::new(), 1);
    let mut worker = rig.worker();
    worker.commit(&rig.epochs, 1, b"before").expect("runs");
    let refused = worker.appender.reserve(TRANSACTION_BYTES_MAX + 1);
    assert!(matches!(refused, Err(DurabilityError::TooLarge { .. })));
    rig.commit_epoch(&mut worker, 2, b"after");
    assert_eq!(rig.log.stats().entries, 2);
}

#[test]
fn space_is_set_aside_in_steps_that_grow() {
    let disk = SimDisk::new();
    let config = LogConfig { segment_bytes: 1 << 30, ..config(1) };
    let rig = Rig::open(Arc::new(disk.mounted()), config, Clock::manual()).expect("opens");
    let mut worker = rig.worker();
    disk.record(true);
    for key in 0..32 {
        rig.commit_epoch(&mut worker, key, &vec![1; 1 << 20]);
    }
    let steps = disk.trace().iter().filter(|call| call.operation == Operation::Preallocate).count();
    assert!((3..=6).contains(&steps), "{steps} times for 32 MiB, and 1 MiB was there");
}

/// One that was reserved for and not needed is not kept either.
#[test]
fn a_large_buffer_is_given_back_once_it_is_written_or_released() {
    let rig = Rig::simulated(&SimDisk::new(), 1);
    let mut worker = rig.worker();
    let bytes = |rig: &Rig| rig.log.stats().buffer_bytes;
    rig.commit_epoch(&mut worker, 1, b"small");
    assert_eq!(bytes(&rig) % LOG_BUFFER_BYTES as u64, 0);
    for is_needed in [true, false, true, false] {
        if is_needed {
            worker.commit(&rig.epochs, 2, &vec![9; 3 * LOG_BUFFER_BYTES]).expect("runs");
        } else {
            worker.appender.reserve(3 * LOG_BUFFER_BYTES).expect("there is room");
            assert!(bytes(&rig) > 3 * LOG_BUFFER_BYTES as u64, "it is made");
            worker.appender.release();
        }
        rig.settle();
        assert!(bytes(&rig) <= 2 * LOG_BUFFER_BYTES as u64, "needed {is_needed}: {:?}", rig.log.stats());
    }
}

#[test]
fn logs_roll_by_bytes_and_replay_as_one() {
    let (disk, rig, mut worker) = Rig::first_life_with_worker(1);
    rig.fill_files(&mut worker, 100);
    assert!(rig.log.stats().rolls >= 5, "{:?}", rig.log.stats());
    disk.crash(6);
    assert_eq!(Rig::simulated(&disk, 1).rows.len(), 100);
}

#[test]
fn a_worker_waits_when_too_much_is_unwritten() {
    let disk = SimDisk::new();
    let limits = ensile_durability::LogConfig { buffer_bytes_max: LOG_BUFFER_BYTES, ..config(1) };
    let rig = Rig::open(Arc::new(disk.clone()), limits, Clock::manual()).expect("recovers");
    let mut worker = rig.worker();
    let value = vec![1; LOG_BUFFER_BYTES / 2];
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            for key in 0..8 {
                worker.commit(&rig.epochs, key, &value).expect("runs");
            }
        });
        while !waiting.is_finished() {
            rig.log.logger_step(0);
            std::thread::yield_now();
        }
    });
    assert!(rig.log.stats().blocks >= 6);
}

#[test]
fn close_makes_everything_durable_and_refuses_more() {
    let (disk, rig) = Rig::first_life(2);
    let (mut a, mut b) = (rig.worker(), rig.worker());
    a.commit(&rig.epochs, 1, b"one").expect("runs");
    b.commit(&rig.epochs, 2, b"two").expect("runs");
    rig.log.close().expect("closes");
    rig.log.close().expect("a second call does nothing");
    assert!(matches!(a.commit(&rig.epochs, 3, b"late"), Err(DurabilityError::Closed(_))));
    assert_eq!(rig.log.health(), Health::Closed);
    assert_eq!(rig.log.logger_step(0), LoggerStep::Stopped);
    let never = rig.epochs.now();
    assert!(rig.log.wait_durable(never).is_err(), "nobody waits for ever");
    disk.crash(7);
    let rig = Rig::simulated(&disk, 2);
    assert_eq!((rig.rows.len(), rig.report.torn_tails.len()), (2, 0));
}

#[test]
fn threads_that_wait_are_woken_by_logger_threads() {
    let disk = SimDisk::new();
    let rig = Rig::open(Arc::new(disk.clone()), config(2), Clock::machine()).expect("recovers");
    std::thread::scope(|scope| {
        for logger in 0..2 {
            let log = &rig.log;
            scope.spawn(move || {
                while log.logger_step(logger) != LoggerStep::Stopped {
                    log.logger_wait(logger, Duration::from_millis(20));
                }
            });
        }
        let clients: Vec<_> = (0..4u64)
            .map(|client| {
                let rig = &rig;
                scope.spawn(move || {
                    let mut worker = rig.worker();
                    for step in 0..50 {
                        let tid = worker.commit(&rig.epochs, client * 1000 + step, b"x").expect("runs");
                        rig.log.wait_durable(tid.epoch()).expect("durable");
                        assert!(rig.log.durable_epoch() >= tid.epoch());
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().expect("no panic"));
        rig.log.close().expect("closes");
    });
    disk.crash(8);
    assert_eq!(Rig::simulated(&disk, 1).rows.len(), 200);
}

#[test]
fn busy_workers_a_heartbeat_and_loggers_lose_nothing_together() {
    const WORKERS: u64 = 3;
    const COMMITS: u64 = 1500;
    let disk = SimDisk::new();
    let rig = Rig::open(Arc::new(disk.clone()), config(2), Clock::machine()).expect("recovers");
    let value = [3; 1000];
    std::thread::scope(|scope| {
        let rig = &rig;
        for logger in 0..2 {
            scope.spawn(move || {
                while rig.log.logger_step(logger) != LoggerStep::Stopped {
                    rig.log.logger_wait(logger, Duration::from_millis(2));
                }
            });
        }
        scope.spawn(|| {
            while rig.log.health() == Health::Running {
                let _ = rig.epochs.try_advance(rig.clock.nanos());
                rig.log.wake_loggers();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let workers: Vec<_> = (0..WORKERS)
            .map(|index| {
                scope.spawn(move || {
                    let mut worker = rig.worker();
                    for key in 0..COMMITS {
                        worker.commit(&rig.epochs, index * COMMITS + key, &value).expect("runs");
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
        rig.log.close().expect("closes");
    });
    disk.crash(9);
    assert_eq!(Rig::simulated(&disk, 1).rows.len() as u64, WORKERS * COMMITS);
}

#[test]
fn all_buffers_stay_within_their_bound_and_who_waits_gets_on_when_the_disk_does() {
    const WORKERS: usize = 4;
    const BOUND: usize = 6 * LOG_BUFFER_BYTES;
    let disk = SimDisk::new();
    let limits = ensile_durability::LogConfig { buffer_bytes_max: BOUND, ..config(1) };
    let rig = Rig::open(Arc::new(disk.clone()), limits, Clock::manual()).expect("recovers");
    let mut workers: Vec<_> = (0..WORKERS).map(|_| rig.worker()).collect();
    let mut most = 0;
    std::thread::scope(|scope| {
        let rig = &rig;
        let threads: Vec<_> = workers
            .drain(..)
            .enumerate()
            .map(|(at, mut worker)| {
                scope.spawn(move || {
                    for key in 0..40 {
                        // Now and then one larger than a buffer, and one that is reserved and given up.
                        let bytes = LOG_BUFFER_BYTES / if key % 10 == 9 { 1 } else { 3 };
                        worker.commit(&rig.epochs, at as u64 * 100 + key, &vec![1; bytes]).expect("runs");
                        if key % 7 == 0 {
                            worker.appender.reserve(2 * LOG_BUFFER_BYTES).expect("runs");
                            worker.appender.release();
                        }
                    }
                    worker
                })
            })
            .collect();
        // The disk is stuck: nothing is written until somebody waits for it, however slowly the workers get there.
        let mut stuck = 0;
        while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            most = most.max(rig.log.stats().buffer_bytes);
            stuck += 1;
            if stuck % 10 == 0 && rig.log.stats().buffer_waits > 0 {
                rig.settle();
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        threads.into_iter().for_each(|thread| drop(thread.join().expect("no panic")));
    });
    let large = 2 * LOG_BUFFER_BYTES as u64 + 1000;
    assert!(most <= BOUND as u64 + large, "{most} bytes");
    assert!(rig.log.stats().buffer_waits > 0);
    (0..3).for_each(|_| rig.settle());
    assert!(rig.log.stats().buffer_bytes <= BOUND as u64, "large ones are not kept");
    disk.crash(1);
    assert_eq!(Rig::simulated(&disk, 1).rows.len(), WORKERS * 40);
}

#[test]
fn each_of_two_loggers_has_half_of_the_bound() {
    const BOUND: usize = 12 * LOG_BUFFER_BYTES;
    let limits = ensile_durability::LogConfig { buffer_bytes_max: BOUND, ..config(2) };
    let rig = Rig::open(Arc::new(SimDisk::new()), limits, Clock::manual()).expect("recovers");
    let (mut worker, mut bytes) = (rig.worker(), 0);
    std::thread::scope(|scope| {
        let commits = scope.spawn(|| {
            for key in 0..40 {
                worker.commit(&rig.epochs, key, &[1; LOG_BUFFER_BYTES / 2]).expect("runs");
            }
        });
        // Nothing is written until the only worker waits for its logger.
        while rig.log.stats().buffer_waits == 0 {
            std::thread::yield_now();
        }
        bytes = rig.log.stats().buffer_bytes;
        while !commits.is_finished() {
            rig.settle();
        }
    });
    assert!(bytes <= (BOUND / 2 + LOG_BUFFER_BYTES) as u64, "{bytes} bytes");
}

#[test]
fn buffers_of_ended_workers_are_given_back() {
    let rig = Rig::simulated(&SimDisk::new(), 1);
    for key in 0..50 {
        rig.commit_epoch(&mut rig.worker(), key, b"x");
    }
    rig.settle();
    assert!(rig.log.stats().buffer_bytes <= 6 * LOG_BUFFER_BYTES as u64, "{:?}", rig.log.stats());
}
