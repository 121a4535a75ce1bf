//! What the changes of an application's own objects take: as they are made, and at recovery.

use std::sync::Arc;
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_base::sync::{AtomicU64, Ordering};
use ensile_objects::{
    Application, ApplicationLog, CallBackResult, CheckpointPolicy, CheckpointReason, GuardedObjects,
    ObjectWriter, ObjectsResult as Result, RecoveryForecast, RestsOn,
};
use ensile_sim::SimDisk;

use crate::rig::{CHECKPOINTERS, builder};

/// Counters whose changes take as long as is set.
struct Slow {
    counters: GuardedObjects<u64>,
    clock: Clock,
    micros: AtomicU64,
}

impl Slow {
    fn make(&self, counter: &mut u64) {
        // Relaxed: one thread.
        self.clock.advance(Duration::from_micros(self.micros.load(Ordering::Relaxed)));
        *counter += 1;
    }
}

impl Application for Slow {
    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
        self.counters.checkpoint(from, out, |counter, bytes| {
            bytes.extend_from_slice(&counter.to_le_bytes());
            true
        })
    }

    fn load_one(&self, object: u64, bytes: &[u8]) -> CallBackResult {
        let loaded = u64::from_le_bytes(bytes.try_into().map_err(|_| "no number")?);
        self.counters.replay(object, |counter| {
            *counter = loaded;
            Ok(())
        })
    }

    fn replay_one(&self, object: u64, _: u32, _: &[&[u8]]) -> CallBackResult {
        self.counters.replay(object, |counter| {
            self.make(counter);
            Ok(())
        })
    }
}

/// How an application makes its changes.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Behind `log`: nothing is measured.
    Logs,
    /// By `ApplicationLog::change`.
    Changes,
    /// By a guard, with the receipt.
    Guards,
}

struct Life {
    slow: Arc<Slow>,
    log: ApplicationLog,
}

impl Life {
    /// Changes, and replays of them, take this long.
    fn open(disk: &SimDisk, micros: u64, policy: &CheckpointPolicy) -> Self {
        let clock = Clock::manual();
        let counters = GuardedObjects::new(10, |_| 0);
        let slow = Arc::new(Slow { counters, clock: clock.clone(), micros: AtomicU64::new(micros) });
        let builder = builder(disk, 1).manual_clock(clock).policy(policy);
        let log = builder.open_application(Arc::clone(&slow)).expect("opens");
        Self { slow, log }
    }

    fn change(&self, way: Way, object: u64) -> Result<()> {
        let rests = RestsOn::default();
        let mut counter = self.slow.counters.lock(object, &rests).expect("it is whole");
        match way {
            Way::Logs => {
                let logged = || -> Result<Epoch> { Ok(self.log.log(object, 0, &[])?.epoch()) };
                counter.change(&rests, logged, |counter| self.slow.make(counter))
            }
            Way::Changes => {
                let made = || {
                    let logged = || Ok::<_, ()>(Epoch::ZERO);
                    counter.change(&rests, logged, |counter| self.slow.make(counter)).expect("is made");
                };
                self.log.change(object, 0, &[], made).map(drop)
            }
            Way::Guards => {
                let logged = || self.log.log(object, 0, &[]);
                counter.change(&rests, logged, |counter| self.slow.make(counter))
            }
        }
    }

    fn settle(&self) {
        for _ in 0..2 {
            self.slow.clock.advance(Duration::from_millis(1));
            self.log.heartbeat_step();
            self.log.logger_step(0);
        }
    }

    fn step_checkpointers(&self) {
        (0..CHECKPOINTERS).for_each(|checkpointer| {
            self.log.checkpoint_step(checkpointer);
        });
    }

    fn recovery(&self) -> RecoveryForecast {
        self.log.stats().checkpoints.recovery.expect("it has a log")
    }

    /// Changes are made until a checkpoint begins by itself, and is installed: how many, and what was predicted then.
    fn until_a_checkpoint(&self, way: Way, micros: u64) -> (u64, RecoveryForecast) {
        // Relaxed: one thread.
        self.slow.micros.store(micros, Ordering::Relaxed);
        let installed = self.log.stats().checkpoints.installed;
        let mut changes = 0;
        while self.log.stats().checkpoints.running.is_none() {
            assert!(changes < 1_000_000, "none begins: {:?}", self.log.stats().checkpoints);
            (0..10).for_each(|object| self.change(way, object).expect("logs"));
            changes += 10;
            self.settle();
            self.step_checkpointers();
        }
        while self.log.stats().checkpoints.installed == installed {
            self.settle();
            self.step_checkpointers();
        }
        let last = self.log.stats().checkpoints.last.expect("it is installed");
        assert_eq!(last.reason, CheckpointReason::RecoveryTime);
        (changes, last.recovery)
    }
}

fn target(millis: u64) -> CheckpointPolicy {
    CheckpointPolicy { recovery_time: Some(Duration::from_millis(millis)), ..CheckpointPolicy::on_demand() }
}

#[test]
fn k6_own_objects_changes_that_are_ten_times_as_dear_begin_checkpoints_ten_times_as_often() {
    for way in [Way::Changes, Way::Guards] {
        let life = Life::open(&SimDisk::new(), 500, &target(2_000));
        for (micros, most) in [(500, 4_000), (5_000, 400), (500, 4_000)] {
            let (changes, recovery) = life.until_a_checkpoint(way, micros);
            assert!((most / 3..=most).contains(&changes), "{way:?}: {changes} of {micros} us");
            let took = Duration::from_micros(changes * micros);
            assert!(recovery.replay.abs_diff(took) < took / 10, "{recovery:?}, and they took {took:?}");
            assert_eq!(recovery.rates.applied_nanos_per_entry, micros * 1_000, "{way:?}");
        }
    }
}

#[test]
fn k6_an_application_that_only_logs_is_predicted_by_what_its_recoveries_took() {
    let disk = SimDisk::new();
    let life = Life::open(&disk, 1_000, &CheckpointPolicy::on_demand());
    for round in 0..400 {
        life.change(Way::Logs, round % 10).expect("logs");
    }
    life.settle();
    life.step_checkpointers();
    assert_eq!(life.recovery().rates.applied_nanos_per_entry, 0, "nobody knows");
    life.log.close().expect("closes");
    drop(life);

    // It replays them, and then all is in a checkpoint.
    let life = Life::open(&disk, 1_000, &target(2_000));
    assert_eq!(life.log.recovery().entries, 400);
    let predicted = life.recovery().replay;
    let took = Duration::from_millis(400);
    assert!(predicted.abs_diff(took) < took / 10, "{predicted:?}");
    let asked = life.log.checkpoint();
    while asked.outcome().is_none() {
        life.settle();
        life.step_checkpointers();
    }
    life.log.close().expect("closes");
    drop(life);

    // A life that replays nothing knows it still, and one that measures does not count it twice.
    for way in [Way::Logs, Way::Changes] {
        let life = Life::open(&disk, 1_000, &target(2_000));
        let (changes, recovery) = life.until_a_checkpoint(way, 1_000);
        let took = Duration::from_millis(changes);
        assert!(recovery.replay.abs_diff(took) < took / 10, "{way:?}: {recovery:?}, and they took {took:?}");
        life.log.close().expect("closes");
    }
}
