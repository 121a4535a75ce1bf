//! Objects under the library's guards: one whose operation panics at recovery, through lives.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_objects::simulation::Disk;
use ensile_objects::{
    Application, ApplicationLog, CallBackResult, GuardedObjects, ObjectDurability, ObjectWriter,
    ObjectsError, ObjectsResult, RestsOn,
};
use ensile_sim::SimDisk;

use crate::rig::{CHECKPOINTERS, builder};

/// The program of today breaks off in the midst of adding this.
const UNLUCKY: u64 = 13;

/// Pairs of numbers whose halves are equal.
struct Pairs {
    objects: GuardedObjects<[u64; 2]>,
    is_broken: bool,
}

impl Pairs {
    fn new(is_broken: bool) -> Self {
        Self { objects: GuardedObjects::new(4, |_| [0; 2]), is_broken }
    }

    fn add(&self, pair: &mut [u64; 2], by: u64) {
        pair[0] += by;
        assert!(!self.is_broken || by != UNLUCKY, "broken");
        pair[1] += by;
    }
}

impl Application for Pairs {
    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
        self.objects.checkpoint(from, out, |pair, bytes| {
            assert_eq!(pair[0], pair[1], "O6: half a change is in a checkpoint");
            bytes.extend_from_slice(&pair[0].to_le_bytes());
            pair[0] > 0
        })
    }

    fn load_one(&self, object: u64, bytes: &[u8]) -> CallBackResult {
        let number = u64::from_le_bytes(bytes.try_into().map_err(|_| "no number")?);
        self.objects.replay(object, |pair| {
            *pair = [number; 2];
            Ok(())
        })
    }

    fn replay_one(&self, object: u64, _: u32, parameters: &[&[u8]]) -> CallBackResult {
        let by = u64::from_le_bytes(parameters[0].try_into().map_err(|_| "no number")?);
        self.objects.replay(object, |pair| {
            self.add(pair, by);
            Ok(())
        })
    }
}

struct Life {
    pairs: Arc<Pairs>,
    log: ApplicationLog,
    clock: Clock,
}

impl Life {
    fn open(disk: &SimDisk, is_broken: bool) -> Self {
        let (pairs, clock) = (Arc::new(Pairs::new(is_broken)), Clock::manual());
        let log = builder(disk, 1).manual_clock(clock.clone()).open_application(Arc::clone(&pairs));
        Self { pairs, log: log.expect("O6: the others are to be served"), clock }
    }

    fn add(&self, object: u64, by: u64) {
        let rests = RestsOn::default();
        let mut pair = self.pairs.objects.lock(object, &rests).expect("it is whole");
        let logged = || -> ObjectsResult<_> { Ok(self.log.log(object, 0, &[&by.to_le_bytes()])?.epoch()) };
        pair.change(&rests, logged, |pair| self.pairs.add(pair, by)).expect("it is logged");
        assert_eq!(rests.epoch(), pair.last());
    }

    fn pair(&self, object: u64) -> Option<[u64; 2]> {
        self.pairs.objects.lock(object, &RestsOn::default()).ok().map(|pair| *pair)
    }

    fn checkpoint(&self) -> Result<u64, String> {
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

#[test]
fn o6_an_object_whose_replay_panics_is_refused_and_a_mended_program_has_all_of_its_operations() {
    let disk = SimDisk::new();
    let life = Life::open(&disk, false);
    life.add(1, 1);
    life.add(2, 5);
    assert_eq!(life.checkpoint(), Ok(2));
    for (object, by) in [(1, UNLUCKY), (1, 4), (2, 1)] {
        life.add(object, by);
    }
    life.log.close().expect("closes");

    for more in 0..2 {
        let life = Life::open(&disk, true);
        assert_eq!((life.pair(1), life.pair(2)), (None, Some([6 + more; 2])), "O6: half a change is shown");
        assert_eq!(life.pairs.objects.poisoned_count(), 1);
        let refused = life.checkpoint().expect_err("O6: a poisoned object is in a checkpoint");
        assert!(refused.contains("object 1 is poisoned"), "{refused}");
        life.add(2, 1);
        life.log.close().expect("closes");
    }
    let mounted = Arc::new(disk.mounted()) as Arc<dyn Disk>;
    let check = ApplicationLog::check_on(&mounted, || Pairs::new(true)).expect("reads");
    assert!(check.not_written.is_some_and(|why| why.contains("object 1 is poisoned")));
    assert!(ApplicationLog::check_on(&mounted, || Pairs::new(false)).expect("reads").is_whole());

    let life = Life::open(&disk, false);
    assert_eq!((life.pair(1), life.pair(2)), (Some([18; 2]), Some([8; 2])), "an operation is lost");
    assert_eq!(life.checkpoint(), Ok(2));
}

#[test]
fn o6_without_a_log_a_change_that_panics_ends_the_changes_of_all_guarded_objects() {
    let (disk, pairs) = (SimDisk::new(), Arc::new(Pairs::new(true)));
    let unlogged = builder(&disk, 1).manual_clock(Clock::manual()).durability(ObjectDurability::NoLog);
    let log = unlogged.open_application(Arc::clone(&pairs)).expect("opens");
    let add = |object, by: u64| {
        let rests = RestsOn::default();
        let mut pair = pairs.objects.lock(object, &rests).expect("it is whole");
        pair.change(&rests, || log.log(object, 0, &[&by.to_le_bytes()]), |pair| pairs.add(pair, by))
    };
    add(1, 1).expect("is taken");
    assert!(catch_unwind(AssertUnwindSafe(|| add(2, UNLUCKY))).is_err());
    let refused = add(1, 1).expect_err("O6: no checkpoint would keep it");
    assert!(matches!(refused, ObjectsError::PoisonedUnlogged { object: 2, .. }), "{refused:?}");
    assert_eq!((log.stats().poisoned, pairs.objects.poisoned_count()), (1, 1));
}

#[test]
fn o8_a_thread_with_a_guard_neither_closes_nor_waits_for_a_checkpoint_or_a_backup() {
    let life = Life::open(&SimDisk::new(), false);
    life.add(1, 1);
    let asked = life.log.checkpoint();
    {
        let _guard = life.pairs.objects.lock(2, &RestsOn::default()).expect("it is whole");
        let waited = [asked.wait().map(drop), life.log.backup("nowhere").map(drop), life.log.close()];
        for (call, result) in waited.iter().enumerate() {
            let is_refused = matches!(result, Err(ObjectsError::InCallBack));
            assert!(is_refused, "{call}: {result:?}");
        }
    }
    assert_eq!(life.checkpoint(), Ok(1));
    life.log.close().expect("closes");
}

/// An object under a lock of the application's own. Its checkpoint tells the test before it waits for the lock.
struct Locked {
    number: Mutex<u64>,
    tell: mpsc::Sender<()>,
}

impl Application for Locked {
    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
        if from > 5 {
            return None;
        }
        self.tell.send(()).expect("the test waits for it");
        let number = self.number.lock().expect("no panic");
        (!out.ckpt(5, &number.to_le_bytes())).then_some(6)
    }

    fn load_one(&self, _: u64, _: &[u8]) -> CallBackResult {
        Ok(())
    }

    fn replay_one(&self, _: u64, _: u32, _: &[&[u8]]) -> CallBackResult {
        Ok(())
    }
}

#[test]
fn a_call_back_that_waits_for_a_lock_is_shown_in_the_figures() {
    let (clock, (tell, told)) = (Clock::manual(), mpsc::channel());
    let locked = Arc::new(Locked { number: Mutex::new(1), tell });
    let log = builder(&SimDisk::new(), 1).manual_clock(clock.clone()).open_application(Arc::clone(&locked));
    let log = log.expect("opens");
    let waiting = || log.stats().waiting_call_back.map(|waiting| (waiting.object, waiting.waited.as_secs()));
    let held = locked.number.lock().expect("no panic");
    std::thread::scope(|scope| {
        let steps = scope.spawn(|| {
            let asked = log.checkpoint();
            while asked.outcome().is_none() {
                (0..CHECKPOINTERS).for_each(|checkpointer| _ = log.checkpoint_step(checkpointer));
                clock.advance(Duration::from_millis(1));
                log.heartbeat_step();
                log.logger_step(0);
            }
            asked.wait().map(|report| report.entries).map_err(|error| error.to_string())
        });
        told.recv().expect("it is called");
        log.heartbeat_step();
        assert_eq!(waiting(), None);
        clock.advance(Duration::from_secs(11));
        log.heartbeat_step();
        let shown = waiting();
        drop(held);
        assert_eq!(shown, Some((0, 11)));
        assert_eq!(steps.join().expect("no panic"), Ok(1));
    });
    assert_eq!(waiting(), None);
}
