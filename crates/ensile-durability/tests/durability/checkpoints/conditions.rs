//! What the engine's tests cannot bring about: D cut below e_h, triggers at work, a section's entry that needs a large
//! block.

use crate::prelude::*;

#[test]
fn k1_a_log_that_ends_below_an_installed_checkpoints_end_is_damage() {
    let (disk, life, mut worker) = Life::first_with_worker(1, settings());
    life.commit_epochs(&mut worker, 0..20, &[1; 50]);
    let report = life.checkpoint().expect("is installed");
    drop((worker, life));
    disk.crash(3);
    // The log loses its last block, a mark that only the manifest is a witness of.
    let log = disk.files().into_iter().filter(|name| name.starts_with("log0/")).max().expect("a log");
    let mut bytes = disk.bytes(&log);
    let last = bytes.rchunks(8).position(|unit| unit.iter().any(|byte| *byte != 0)).unwrap_or(0);
    bytes.truncate(bytes.len() - 8 * last - 8);
    disk.put(&log, bytes);
    let error = Life::open(&disk, 1, settings()).err().expect("damage").to_string();
    assert!(error.contains(&log) && error.contains(&format!("epoch {}", report.high)), "{error}");
}

#[test]
fn k1_a_demand_that_comes_while_room_is_looked_for_is_not_answered_by_an_older_e_l() {
    let (disk, life, mut worker) = Life::first_with_worker(1, settings());
    disk.stall(&[Operation::FreeSpace]);
    let first = life.checkpoints.demand();
    let (asked_at, second) = std::thread::scope(|scope| {
        let looks = scope.spawn(|| life.step(0));
        while disk.waiting() == 0 {
            assert!(!looks.is_finished(), "the step waits for the disk");
            std::thread::yield_now();
        }
        (0..5).for_each(|_| life.rig.settle());
        let tid = life.commit_epoch(&mut worker, 7, Some(b"before the second demand"));
        let second = life.checkpoints.demand();
        disk.release();
        (tid.epoch(), second)
    });
    run(&life);
    for demand in [first, second] {
        let report = demand.outcome().expect("it has ended").expect("is installed");
        assert!(report.low > asked_at, "e_l is {}, and the demand came behind {asked_at}", report.low);
        assert_eq!(report.entries, 1, "what was committed before the demand is in the checkpoint");
    }
}

#[test]
fn an_idle_database_installs_a_checkpoint_that_the_next_open_accepts() {
    let (disk, life) = Life::first(3, settings());
    // D runs ahead of every mark while nobody commits; e_h does with it.
    (0..50).for_each(|_| life.rig.settle());
    let report = life.checkpoint().expect("is installed");
    assert_eq!(report.entries, 0);
    drop(life);
    disk.crash(5);
    let life = Life::open(&disk, 3, settings()).expect("opens");
    assert_eq!(life.rig.report.checkpoint, Some((report.low, report.high)));
    assert!(life.rig.report.durable_epoch >= report.high);
}

#[test]
fn numbers_go_on_and_only_the_last_checkpoint_stays() {
    let disk = SimDisk::new();
    let mut last = 0;
    for round in 0..3_u8 {
        let (life, mut worker) = Life::with_worker(&disk, 2, settings());
        for _ in 0..2 {
            life.commit(&mut worker, u64::from(round), Some(&[round; 9]));
            let report = life.checkpoint().expect("is installed");
            assert!(report.number > last);
            last = report.number;
            let parts = disk.files().into_iter().filter(|name| name.contains("ckpt-")).collect::<Vec<_>>();
            assert_eq!(parts.len(), 4, "{parts:?}");
            assert!(parts.iter().all(|name| name.contains(&format!("ckpt-{last}-"))), "{parts:?}");
        }
        drop((worker, life));
        disk.crash(u64::from(round));
    }
    let life = Life::open(&disk, 2, settings()).expect("opens");
    assert_eq!(life.found.len(), 3);
    life.end();
}

#[test]
fn entries_larger_than_a_block_are_written_one_at_a_time() {
    let (disk, life, mut worker) = Life::first_with_worker(1, settings());
    let value = |key: u64| vec![key as u8; 300_000 + key as usize];
    for key in 0..64 {
        life.commit_epoch(&mut worker, key, Some(&value(key)));
    }
    let report = life.checkpoint().expect("is installed");
    assert_eq!(report.entries, 64);
    drop((worker, life));
    disk.crash(8);
    let life = Life::open(&disk, 1, settings()).expect("opens");
    assert_eq!(life.rig.report.checkpoint_entries, 64);
    assert!(life.found.iter().all(|(key, (_, found))| found.as_ref() == Some(&value(*key))));
}

/// Steps all checkpointers until none has anything to do.
fn run(life: &Life) {
    for _ in 0..200 {
        life.rig.settle();
        let steps = [life.step(0), life.step(1)];
        if steps == [CheckpointStep::Idle; 2] {
            return;
        }
    }
    panic!("the checkpoint does not end");
}

#[test]
fn checkpoints_begin_by_time_and_by_bytes_of_log() {
    let disk = SimDisk::new();
    let interval = Some(Duration::from_secs(10));
    let settings = CheckpointConfig { interval, log_bytes: Some(8 << 20), ..settings() };
    let (life, mut worker) = Life::with_worker(&disk, 1, settings);
    let installed = || life.checkpoints.stats().installed;
    let write = |worker: &mut crate::rig::Worker, megabytes: u64| {
        for key in 0..megabytes {
            life.commit_epoch(worker, key % 8, Some(&vec![3; 1 << 20]));
        }
    };
    life.rig.clock.advance(Duration::from_secs(20));
    run(&life);
    assert_eq!(installed(), 0, "the log has not grown");
    write(&mut worker, 2);
    run(&life);
    assert_eq!(installed(), 1, "by time");
    write(&mut worker, 7);
    run(&life);
    assert_eq!(installed(), 1, "neither enough time nor enough bytes");
    write(&mut worker, 1);
    run(&life);
    assert_eq!(installed(), 2, "by bytes");
}

#[test]
fn checkpoints_begin_by_entries_of_the_log_since_the_last_one() {
    let settings = CheckpointConfig { log_records: Some(5), ..settings() };
    let (life, mut worker) = Life::with_worker(&SimDisk::new(), 1, settings);
    for (commits, installed) in [(4, 0), (1, 1), (4, 1), (1, 2), (4, 2)] {
        life.commit_epochs(&mut worker, 0..commits, &[3; 8]);
        run(&life);
        assert_eq!(life.checkpoints.stats().installed, installed, "behind {commits} more");
    }
}

#[test]
fn the_bandwidth_is_kept_to_by_the_simulated_clock() {
    let disk = SimDisk::new();
    let settings = CheckpointConfig { bandwidth: Some(100_000), ..settings() };
    let (life, mut worker) = Life::with_worker(&disk, 1, settings);
    life.commit_all(&mut worker, 0..64, &[1; 5000]);
    let before = life.rig.clock.nanos();
    let report = life.checkpoint().expect("is installed");
    let took = Duration::from_nanos(life.rig.clock.nanos() - before);
    let least = Duration::from_secs_f64(report.bytes as f64 / 100_000.0);
    assert!(took >= least.mul_f64(0.9), "{took:?} for {} bytes", report.bytes);
}

/// Commits go on beside a picture: what they displace is in memory until a checkpointer takes it.
#[test]
fn k3_what_commits_leave_is_looked_for_every_few_ms_while_the_bandwidth_is_used_up() {
    for (settings, longest) in [(settings(), Duration::from_secs(1)), (pictures(), Duration::from_millis(10))]
    {
        let (disk, settings) = (SimDisk::new(), CheckpointConfig { bandwidth: Some(1000), ..settings });
        let (life, mut worker) = Life::with_worker(&disk, 1, settings);
        life.commit_all(&mut worker, 0..64, &[1; 5000]);
        let handle = life.checkpoints.demand();
        let mut waits = Vec::new();
        for round in 0..100 {
            life.commit(&mut worker, round % 64, Some(&[2; 100]));
            for checkpointer in 0..life.checkpoints.checkpointers() {
                if let CheckpointStep::Paced(wait) = life.step(checkpointer) {
                    waits.push(wait);
                }
            }
            life.rig.settle();
        }
        assert!(handle.outcome().is_none(), "a page takes seconds");
        assert_eq!(waits.iter().max(), Some(&longest), "{waits:?}");
    }
}

#[test]
fn a_checkpoint_that_is_asked_for_at_a_rate_keeps_it_and_the_next_does_not() {
    const RATE: u64 = 10_000;
    for settings in [settings(), pictures()] {
        let (_, life, mut worker) = Life::first_with_worker(1, settings);
        let mut took_at = |rate| {
            life.commit_all(&mut worker, 0..64, &[1; 5000]);
            let before = life.rig.clock.nanos();
            let handle = life.checkpoints.demand_paced(rate);
            let report = loop {
                match handle.outcome() {
                    Some(outcome) => break outcome.expect("is installed"),
                    None => {
                        life.step_all();
                    }
                }
            };
            let took = Duration::from_nanos(life.rig.clock.nanos() - before);
            (took, Duration::from_secs_f64(report.bytes_written as f64 / RATE as f64))
        };
        let (took, at_rate) = took_at(Some(RATE));
        assert!(took >= at_rate.mul_f64(0.9), "{took:?}, and {at_rate:?} at the rate");
        let (took, at_rate) = took_at(None);
        assert!(took < at_rate.mul_f64(0.5), "{took:?}, and {at_rate:?} at the rate");
    }
}

/// Begins a checkpoint of some rows at a byte a second, which takes hours, and steps it for a while.
fn slow_one(life: &Life, worker: &mut Worker) -> CheckpointHandle {
    life.commit_all(worker, 0..64, &[1; 5000]);
    let handle = life.checkpoints.demand_paced(Some(1));
    for _ in 0..200 {
        life.step_all();
    }
    assert!(handle.outcome().is_none() && handle.progress().bytes > 0, "{:?}", handle.progress());
    handle
}

#[test]
fn a_rate_ends_with_the_caller_that_asked_and_the_checkpoint_holds_nobody_up() {
    for settings in [settings(), pictures()] {
        let (_, life, mut worker) = Life::first_with_worker(1, settings);
        let handle = slow_one(&life, &mut worker);
        // One of two handles of a caller is none.
        drop(handle.clone());
        life.step(0);
        let written = handle.progress().bytes;
        for _ in 0..50 {
            life.step(0);
            life.step(1);
            life.rig.settle();
        }
        assert_eq!(handle.progress().bytes, written, "it waits for the rate");
        drop(handle);
        assert_eq!(life.turn().number, 1);
    }
}

#[test]
fn a_rate_does_not_count_while_the_log_waits_for_space() {
    for settings in [settings(), pictures()] {
        let (disk, life, mut worker) = Life::first_with_worker(1, settings);
        let handle = slow_one(&life, &mut worker);
        disk.set_capacity(Some(disk.used_bytes()));
        for key in 0..8 {
            life.commit(&mut worker, key, Some(&[2; 5000]));
        }
        let is_full = || matches!(life.rig.log.health(), Health::Full(_));
        for _ in 0..10_000 {
            if handle.outcome().is_some() {
                break;
            }
            life.step_all();
        }
        assert!(handle.outcome().is_some(), "it waits for its rate, and the log for space: {}", is_full());
        disk.set_capacity(None);
        life.checkpoint().expect("is installed");
    }
}

#[test]
fn a_rate_does_not_count_once_half_of_the_free_space_has_gone() {
    for settings in [settings(), pictures()] {
        let (disk, life, mut worker) = Life::first_with_worker(1, settings);
        disk.set_capacity(Some(disk.used_bytes() + (4 << 20)));
        let handle = slow_one(&life, &mut worker);
        for round in 0..10_000 {
            if handle.outcome().is_some() {
                break;
            }
            if round < 500 {
                life.commit(&mut worker, round % 64, Some(&[2; 5000]));
            }
            life.step_all();
        }
        let outcome = handle.outcome();
        assert!(matches!(outcome, Some(Ok(_))), "{outcome:?}");
    }
}

#[test]
fn what_a_slow_checkpoint_took_says_nothing_of_the_next_one() {
    let (_, life, mut worker) = Life::first_with_worker(1, settings());
    let expected = || life.checkpoints.stats().recovery.expect("it has a log").checkpoint;
    let before = expected();
    let handle = slow_one(&life, &mut worker);
    life.rig.clock.advance(Duration::from_secs(600));
    drop(handle);
    assert!(life.turn().elapsed >= Duration::from_secs(600));
    assert!(expected() < before * 2, "{:?}, and {before:?} before", expected());
    // What one took that was as fast as it may be does.
    let took = life.checkpoint().expect("is installed").elapsed;
    assert!(expected() >= took && expected() < took * 2, "{:?}, and it took {took:?}", expected());
}

#[test]
fn a_walk_that_panics_ends_the_attempt_and_nobody_waits_for_it() {
    struct Panics(Store);
    impl ensile_durability::Walk for Panics {
        fn slices(&self, parts: usize) -> Vec<Vec<ensile_durability::Slice>> {
            self.0.slices(parts)
        }
        fn walk(
            &self,
            _: &ensile_durability::Slice,
            _: &mut Vec<u8>,
            _: ensile_base::Epoch,
            _: &mut ensile_durability::CheckpointBlock,
        ) -> bool {
            panic!("a bug in the walk")
        }
    }
    let (_, life) = Life::first(1, settings());
    let handle = life.checkpoints.demand();
    let walk = Panics(Store::default());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for _ in 0..20 {
            life.rig.settle();
            life.checkpoints.step(0, &walk);
        }
    }));
    assert!(panicked.is_err());
    assert!(handle.wait().is_err());
    assert_eq!(life.step(1), CheckpointStep::Stopped);
    assert!(life.checkpoints.demand().wait().is_err());
    life.checkpoints.close(&life.store);
    life.rig.log.close().expect("the log goes on");
}
