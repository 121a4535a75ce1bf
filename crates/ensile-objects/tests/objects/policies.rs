//! When checkpoints begin by themselves: by the load, by records, and in time for a recovery.

use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_objects::{
    AdaptiveThreshold, CheckpointPolicy, CheckpointReason, CheckpointStats, CheckpointVerdict,
    RecoveryForecast,
};
use ensile_sim::SimDisk;

use crate::rig::{Life, builder};
use crate::tally::{Change, Tally, in_operations};

fn target(millis: u64) -> CheckpointPolicy {
    CheckpointPolicy { recovery_time: Some(Duration::from_millis(millis)), ..CheckpointPolicy::on_demand() }
}

fn checkpoints(life: &Life) -> CheckpointStats {
    life.objects.stats().checkpoints
}

fn recovery(life: &Life) -> RecoveryForecast {
    checkpoints(life).recovery.expect("it has a log")
}

/// Operations that take so long are made until a checkpoint begins by itself: how many, and what was predicted then.
fn until_a_checkpoint(life: &Life, micros: u64) -> (u64, RecoveryForecast) {
    let installed = checkpoints(life).installed;
    let clock = life.clock.clone();
    in_operations(Some(Box::new(move || clock.advance(Duration::from_micros(micros)))));
    let mut operations = 0;
    while checkpoints(life).running.is_none() {
        assert!(operations < 1_000_000, "none begins: {:?}", checkpoints(life));
        for key in 0..10 {
            life.objects.submit(key, &Change::Add(1)).expect("logs");
        }
        operations += 10;
        life.settle();
        life.step_checkpointers();
    }
    in_operations(None);
    while checkpoints(life).installed == installed {
        life.settle();
        life.step_checkpointers();
    }
    let last = checkpoints(life).last.expect("it is installed");
    assert_eq!(last.reason, CheckpointReason::RecoveryTime);
    (operations, last.recovery)
}

#[test]
fn operations_that_are_ten_times_as_dear_begin_checkpoints_ten_times_as_often() {
    let life = Life::open(&SimDisk::new());
    life.objects.register_policy(&target(2_000)).expect("works");
    for (micros, dearest) in [(500, 4_000), (5_000, 400), (500, 4_000)] {
        let (operations, recovery) = until_a_checkpoint(&life, micros);
        assert!((dearest / 3..=dearest).contains(&operations), "{operations} of {micros} us");
        let (replay, took) = (recovery.replay, Duration::from_micros(operations * micros));
        assert!(replay.abs_diff(took) < took / 10, "{replay:?}, and they took {took:?}");
        // It is looked at behind ten of them.
        let (expected, late) = (Duration::from_millis(2_000), Duration::from_micros(10 * micros + 10_000));
        let (now, then) = (recovery.total(), recovery.total() + recovery.growth);
        assert!(now <= expected + late && then >= expected, "{recovery:?}");
        assert_eq!((recovery.target, recovery.rates.is_measured), (Some(expected), false));
    }
    // What the checkpoint holds is not replayed.
    assert!(recovery(&life).replay < Duration::from_millis(100), "{:?}", recovery(&life));
}

#[test]
fn a_target_that_cannot_be_kept_is_refused_where_it_is_set_and_told_behind_an_open() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    life.objects.register_policy(&target(5_000)).expect("works");
    let said = life.objects.register_policy(&target(20)).expect_err("is refused").to_string();
    assert!(
        said.contains("a recovery time of 20ms cannot be kept: loading the checkpoint alone takes 50"),
        "{said}"
    );
    assert_eq!(recovery(&life).target, Some(Duration::from_secs(5)), "the policy before stands");
    assert_eq!(checkpoints(&life).unreachable, None);
    drop(life);
    let objects: crate::rig::Tallies = builder(&disk, 1)
        .manual_clock(Clock::manual())
        .policy(&target(20))
        .open()
        .expect("opens all the same");
    let told = objects.stats().checkpoints;
    assert!(told.unreachable.is_some_and(|told| said.contains(&told)), "{said}");
    assert!(!told.recovery.expect("it has a log").is_reachable());
}

#[test]
fn the_load_may_be_of_requests_and_the_threshold_of_records() {
    let life = Life::open(&SimDisk::new());
    let window = Duration::from_secs(1);
    let adaptive = AdaptiveThreshold { lower: 100, upper: 800, window, ..AdaptiveThreshold::of_ups(10_000) };
    let policy = CheckpointPolicy { adaptive: Some(adaptive), ..CheckpointPolicy::on_demand() };
    life.objects.register_policy(&policy).expect("works");
    // So many requests a millisecond, one of which is logged, until a checkpoint has begun: its records.
    let until = |served: u64, lost: u64| {
        let installed = checkpoints(&life).installed;
        let before = life.objects.stats().log.entries;
        // The average has to learn of the load first.
        for look in 0_u64.. {
            assert!(look < 30_000, "none begins: {:?}", checkpoints(&life));
            life.objects.report_requests(served, lost);
            if look > 20_000 {
                life.objects.submit(look % 7, &Change::Add(1)).expect("logs");
            }
            life.tick();
            life.step_loggers();
            life.step_checkpointers();
            if checkpoints(&life).running.is_some() {
                break;
            }
        }
        let seen = checkpoints(&life);
        while checkpoints(&life).installed == installed {
            life.settle();
            life.step_checkpointers();
        }
        let report = checkpoints(&life).last.expect("is installed");
        assert_eq!(report.reason, CheckpointReason::Adaptive);
        let reading = report.adaptive.expect("a threshold follows the load");
        assert_eq!((Some(reading.load), Some(reading.capacity)), (seen.load, seen.capacity));
        assert_eq!(Some(reading.threshold), seen.log_records_threshold);
        assert!(reading.reached >= reading.threshold, "{reading:?}");
        (life.objects.stats().log.entries - before, seen)
    };
    let (records, seen) = until(1, 0);
    assert!((100..120).contains(&records), "{records} of few requests");
    assert_eq!(
        (seen.log_records_threshold, seen.log_bytes_threshold, seen.capacity),
        (Some(100), None, Some(10_000))
    );
    let (records, seen) = until(9, 0);
    assert!((800..820).contains(&records), "{records} of many requests, of which no more are logged");
    assert!(seen.load.is_some_and(|load| load > 0.85), "{seen:?}");
    // 4 of 8 are lost: it can do 4 / 0.95 a millisecond, and is beyond that.
    let probed = AdaptiveThreshold { is_probed: true, ..adaptive };
    let policy = CheckpointPolicy { adaptive: Some(probed), ..CheckpointPolicy::on_demand() };
    life.objects.register_policy(&policy).expect("works");
    let (_, seen) = until(4, 4);
    assert_eq!((seen.capacity, seen.log_records_threshold), (Some(4_210), Some(800)), "{seen:?}");
}

#[test]
fn it_says_why_none_begins() {
    let life = Life::open(&SimDisk::new());
    assert_eq!(checkpoints(&life).verdict, CheckpointVerdict::NotLooked);
    let put = || life.objects.put(1, Tally { sum: 1, operations: 1, padding: vec![] }).map(drop);
    put().expect("logs");
    life.settle();
    life.step_checkpointers();
    assert_eq!(checkpoints(&life).verdict, CheckpointVerdict::NotDue);
    let interval = Some(Duration::from_millis(1));
    life.objects
        .register_policy(&CheckpointPolicy { interval, ..CheckpointPolicy::on_demand() })
        .expect("works");
    life.settle();
    life.step_checkpointers();
    assert_eq!(checkpoints(&life).verdict, CheckpointVerdict::HardlyGrew);
}
