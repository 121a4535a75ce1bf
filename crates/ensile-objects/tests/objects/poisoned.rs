//! Objects of an application whose change fails behind its log entry, and whose replay fails at an open (O6).

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_objects::{
    Application, ApplicationLog, CallBackResult, ObjectDurability, ObjectWriter, ObjectsBuilder,
    ObjectsError, ObjectsResult as Result,
};
use ensile_sim::SimDisk;

use crate::rig::{CHECKPOINTERS, builder};
use crate::tally::Tally;

/// The program that is broken fails at this number.
const UNLUCKY: u64 = 13;

/// Sums, of which none is below 1.
#[derive(Default)]
struct Sums {
    objects: Mutex<BTreeMap<u64, u64>>,
    is_broken: bool,
    /// Called on another thread, once, when a walk's call-back begins.
    beside_walk: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Sums {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, number: u64) -> CallBackResult {
        if self.is_broken && number == UNLUCKY { Err("an unlucky number".into()) } else { Ok(()) }
    }
}

impl Application for Sums {
    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
        let beside = self.beside_walk.lock().unwrap_or_else(PoisonError::into_inner).take();
        beside.into_iter().for_each(|beside| {
            std::thread::scope(|scope| scope.spawn(beside).join().expect("returns"));
        });
        for (object, sum) in self.all().range(from..) {
            if !out.ckpt(*object, &sum.to_le_bytes()) {
                return Some(object + 1);
            }
        }
        None
    }

    fn load_one(&self, object: u64, bytes: &[u8]) -> CallBackResult {
        let sum = u64::from_le_bytes(bytes.try_into().map_err(|_| "no sum")?);
        self.check(sum)?;
        self.all().insert(object, sum);
        Ok(())
    }

    fn replay_one(&self, object: u64, _: u32, parameters: &[&[u8]]) -> CallBackResult {
        let by = u64::from_le_bytes(parameters[0].try_into().map_err(|_| "no number")?);
        self.check(by)?;
        *self.all().entry(object).or_default() += by;
        Ok(())
    }
}

struct Summed {
    sums: Arc<Sums>,
    log: ApplicationLog,
    clock: Clock,
}

impl Summed {
    fn try_open(
        disk: &SimDisk,
        is_broken: bool,
        with: impl FnOnce(ObjectsBuilder) -> ObjectsBuilder,
    ) -> Result<Self> {
        let (sums, clock) = (Arc::new(Sums { is_broken, ..Sums::default() }), Clock::manual());
        let builder = with(builder(disk, 1).manual_clock(clock.clone()));
        let log = builder.open_application(Arc::clone(&sums))?;
        Ok(Self { sums, log, clock })
    }

    fn open(disk: &SimDisk) -> Self {
        Self::try_open(disk, false, |builder| builder).expect("opens")
    }

    fn add(&self, object: u64, by: u64) -> Result<()> {
        let mut all = self.sums.all();
        let make = || *all.entry(object).or_default() += by;
        self.log.change(object, 0, &[&by.to_le_bytes()], make).map(drop)
    }

    fn fail_to_add(&self, object: u64, by: u64) {
        fail_to_add(&self.sums, &self.log, object, by);
    }

    fn all(&self) -> BTreeMap<u64, u64> {
        self.sums.all().clone()
    }

    fn checkpoint(&self) -> std::result::Result<u64, String> {
        let asked = self.log.checkpoint();
        while asked.outcome().is_none() {
            (0..CHECKPOINTERS).for_each(|checkpointer| {
                self.log.checkpoint_step(checkpointer);
            });
            self.clock.advance(Duration::from_millis(1));
            self.log.heartbeat_step();
            self.log.logger_step(0);
        }
        asked.wait().map(|report| report.entries).map_err(|error| error.to_string())
    }
}

/// Logs an addition, and panics in place of the change.
fn fail_to_add(sums: &Sums, log: &ApplicationLog, object: u64, by: u64) {
    let changed = catch_unwind(AssertUnwindSafe(|| {
        let _all = sums.all();
        log.change(object, 0, &[&by.to_le_bytes()], || panic!("in mid-change")).map(drop)
    }));
    assert!(changed.is_err(), "the panic is the caller's");
}

/// Checks that an object is refused, and no other object is.
fn check_refused(life: &Summed, object: u64, why: &str) {
    let refusals = [
        life.log.log(object, 0, &[&1_u64.to_le_bytes()]).map(drop),
        life.log.change(object, 0, &[&1_u64.to_le_bytes()], || panic!("nothing is made")).map(drop),
    ];
    for refused in refusals {
        let refused = refused.expect_err("O6: it is poisoned");
        assert!(
            matches!(refused, ObjectsError::PoisonedUntilOpen { object: of, .. } if of == object),
            "{refused:?}"
        );
        assert!(refused.to_string().contains(why), "{refused}");
    }
    let refused = life.checkpoint().expect_err("O6: an operation would be lost");
    assert!(refused.contains(&format!("object {object} is poisoned: {why}")), "{refused}");
    assert!(life.log.is_poisoned(object).expect("is this process"));
    assert!(!life.log.is_poisoned(object + 1).expect("is this process"));
    life.add(object + 1, 1).expect("the others go on");
    assert_eq!(life.log.stats().poisoned, 1);
}

#[test]
fn o6_a_change_that_panics_behind_its_log_entry_is_in_no_checkpoint_and_made_by_the_next_open() {
    let disk = SimDisk::new();
    let life = Summed::open(&disk);
    life.add(1, 5).expect("logs");
    assert_eq!(life.checkpoint(), Ok(1));
    life.fail_to_add(1, 7);
    for _ in 0..2 {
        check_refused(&life, 1, "a change of it failed after the log entry");
    }
    life.log.close().expect("closes");
    let life = Summed::open(&disk);
    assert_eq!(life.all(), BTreeMap::from([(1, 12), (2, 2)]));
    assert_eq!((life.log.stats().poisoned, life.checkpoint()), (0, Ok(2)));
}

#[test]
fn o6_a_change_that_fails_while_a_walk_is_under_way_is_in_no_checkpoint() {
    let disk = SimDisk::new();
    let life = Summed::open(&disk);
    life.add(1, 5).expect("logs");
    let (sums, log) = (Arc::clone(&life.sums), life.log.clone());
    let fail = move || fail_to_add(&sums, &log, 1, 7);
    *life.sums.beside_walk.lock().expect("nothing panics") = Some(Box::new(fail));
    let refused = life.checkpoint().expect_err("O6: an operation would be lost");
    assert!(refused.contains("object 1 is poisoned"), "{refused}");
    life.log.close().expect("closes");
    assert_eq!(Summed::open(&disk).all(), BTreeMap::from([(1, 12)]));
}

#[test]
fn o6_an_object_that_the_program_poisons_behind_log_is_refused_as_one_whose_change_panics() {
    let disk = SimDisk::new();
    let life = Summed::open(&disk);
    life.log.log(1, 0, &[&7_u64.to_le_bytes()]).expect("logs");
    assert!(!life.log.is_poisoned(1).expect("is this process"));
    life.log.poison(1).expect("is this process");
    check_refused(&life, 1, "a change of it failed after the log entry");
    life.log.close().expect("closes");
    assert_eq!(Summed::open(&disk).all(), BTreeMap::from([(1, 7), (2, 1)]));
}

#[test]
fn o6_a_call_back_that_passes_a_poisoned_object_over_makes_no_checkpoint() {
    let disk = SimDisk::new();
    let life = Summed::open(&disk);
    life.add(1, 5).expect("logs");
    life.add(2, 5).expect("logs");
    life.fail_to_add(1, 7);
    // As a removal that breaks off might leave it.
    life.sums.all().remove(&1);
    let refused = life.checkpoint().expect_err("O6: an operation would be lost");
    assert!(refused.contains("object 1 is poisoned"), "{refused}");
}

#[test]
fn o6_without_a_log_no_change_is_taken_after_a_failed_one_as_no_checkpoint_would_have_it() {
    let disk = SimDisk::new();
    let unlogged = |builder: ObjectsBuilder| builder.durability(ObjectDurability::NoLog);
    let life = Summed::try_open(&disk, false, unlogged).expect("opens");
    life.add(1, 5).expect("is open");
    assert_eq!(life.checkpoint(), Ok(1));
    life.fail_to_add(1, 7);
    for object in [1, 2] {
        let refused = life.add(object, 1).expect_err("no checkpoint would keep it");
        assert!(matches!(refused, ObjectsError::PoisonedUnlogged { object: 1, .. }), "{refused:?}");
        assert!(
            refused.to_string().contains("open again; the open has the state of the last checkpoint"),
            "{refused}"
        );
    }
    let refused = life.checkpoint().expect_err("object 1 is half changed");
    assert!(refused.contains("object 1 is poisoned: a change of it failed"), "{refused}");
    life.log.close().expect("closes");
    assert_eq!(Summed::open(&disk).all(), BTreeMap::from([(1, 5)]));
}

#[test]
fn the_number_of_no_object_is_not_poisoned() {
    let life = Summed::open(&SimDisk::new());
    let refused = life.log.poison(u64::MAX);
    assert!(
        matches!(&refused, Err(ObjectsError::Misuse(why)) if why.contains("of no object")),
        "{refused:?}"
    );
    assert_eq!(life.log.stats().poisoned, 0);
}

#[test]
fn o6_a_change_that_poisons_by_the_log_in_mid_change_is_refused() {
    let life = Summed::open(&SimDisk::new());
    let (poisoned, _) = life.log.change(1, 0, &[&1_u64.to_le_bytes()], || life.log.poison(1)).expect("logs");
    let refused = poisoned.expect_err("O8: it calls a handle");
    assert!(matches!(refused, ObjectsError::InCallBack), "{refused:?}");
    assert_eq!(life.log.stats().poisoned, 0);
}

/// A folder with object 1 in the checkpoint, and an unlucky addition to it behind.
fn unlucky() -> SimDisk {
    let disk = SimDisk::new();
    let life = Summed::open(&disk);
    life.add(1, 5).expect("logs");
    life.add(2, 5).expect("logs");
    assert_eq!(life.checkpoint(), Ok(2));
    for by in [1, UNLUCKY, 3] {
        life.add(1, by).expect("logs");
    }
    life.log.close().expect("closes");
    disk
}

#[test]
fn o6_a_replay_that_fails_poisons_its_object_if_the_open_asks_for_that_and_a_mended_program_has_everything() {
    let disk = unlucky();
    let refused = Summed::try_open(&disk, true, |builder| builder).map(drop).expect_err("by default");
    assert!(matches!(refused, ObjectsError::NotReplayed { object: 1, .. }), "{refused:?}");
    for more in 0..2 {
        let life = Summed::try_open(&disk, true, ObjectsBuilder::open_poisoned)
            .expect("the others are to be served");
        assert_eq!(life.all()[&1], 6, "what comes behind is passed over");
        assert_eq!(life.all()[&2], 5 + more);
        check_refused(&life, 1, "its operation ");
        life.log.close().expect("closes");
    }
    let life = Summed::open(&disk);
    assert_eq!(life.all(), BTreeMap::from([(1, 22), (2, 7)]));
    assert_eq!(life.checkpoint(), Ok(2));
}

#[test]
fn o6_an_open_counts_every_poisoned_object_and_keeps_reasons_of_1000() {
    let disk = SimDisk::new();
    let life = Summed::open(&disk);
    (0..1002).for_each(|object| life.add(object, UNLUCKY).expect("logs"));
    life.log.close().expect("closes");
    let life = Summed::try_open(&disk, true, ObjectsBuilder::open_poisoned).expect("opens");
    assert_eq!(life.log.stats().poisoned, 1002);
    let reasons = (0..1002).map(|object| life.add(object, 1).expect_err("O6: it is poisoned").to_string());
    assert_eq!(reasons.filter(|reason| reason.contains("an unlucky number")).count(), 1000);
}

#[test]
fn o6_an_object_that_is_not_loaded_is_poisoned_if_the_open_asks_for_that() {
    let disk = SimDisk::new();
    let life = Summed::open(&disk);
    life.add(1, UNLUCKY).expect("logs");
    assert_eq!(life.checkpoint(), Ok(1));
    life.add(1, 1).expect("logs");
    life.log.close().expect("closes");
    assert!(Summed::try_open(&disk, true, |builder| builder).is_err(), "by default");
    let life = Summed::try_open(&disk, true, ObjectsBuilder::open_poisoned).expect("opens");
    assert_eq!(life.all(), BTreeMap::new(), "what comes behind is passed over");
    check_refused(&life, 1, "it is not loaded: an unlucky number");
    life.log.close().expect("closes");
    assert_eq!(Summed::open(&disk).all(), BTreeMap::from([(1, UNLUCKY + 1), (2, 1)]));
}

#[test]
fn a_collection_poisons_by_itself_and_has_no_setting_for_it() {
    let disk = SimDisk::new();
    let refused = builder(&disk, 1).open_poisoned().open::<u64, Tally>().map(drop).expect_err("is refused");
    assert!(matches!(&refused, ObjectsError::Misuse(why) if why.contains("`open_poisoned`")), "{refused:?}");
}
