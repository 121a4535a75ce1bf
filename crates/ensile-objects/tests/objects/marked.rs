//! Objects that come and go, of an application that marks lives: its call-backs refuse an operation on a missing object
//! (O10).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_objects::simulation::Disk;
use ensile_objects::{
    Application, ApplicationLog, CallBackResult, ErrorKind, ObjectLife, ObjectWriter, ObjectsError,
    ObjectsResult as Result,
};
use ensile_sim::SimDisk;

use crate::rig::{CHECKPOINTERS, builder};
use crate::tally::Tally;

const MAKE: u32 = 0;
const ADD: u32 = 1;
const REMOVE: u32 = 2;

#[derive(Default)]
struct Numbers {
    objects: Mutex<BTreeMap<u64, u64>>,
    /// Removed objects, whose absence a checkpoint notes.
    absent: Mutex<BTreeSet<u64>>,
}

fn change(objects: &mut BTreeMap<u64, u64>, object: u64, operation: u32, by: u64) -> CallBackResult {
    match (operation, objects.get_mut(&object)) {
        (MAKE, None) => drop(objects.insert(object, by)),
        (ADD, Some(number)) => *number = number.wrapping_mul(2).wrapping_add(by),
        (REMOVE, Some(_)) => drop(objects.remove(&object)),
        (MAKE, Some(_)) => return Err("it is there".into()),
        _ => return Err("there is no such object".into()),
    }
    Ok(())
}

impl Numbers {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.objects.lock().expect("nothing panics")
    }
}

impl Application for Numbers {
    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
        let objects = self.all();
        let absent = self.absent.lock().expect("nothing panics");
        let mut all: BTreeMap<u64, Option<u64>> =
            absent.range(from..).map(|object| (*object, None)).collect();
        all.extend(objects.range(from..).map(|(object, number)| (*object, Some(*number))));
        for (object, number) in all {
            let has_room = match number {
                Some(number) => out.ckpt(object, &number.to_le_bytes()),
                None => out.absent(object),
            };
            if !has_room {
                return Some(object + 1);
            }
        }
        None
    }

    fn load_one(&self, object: u64, bytes: &[u8]) -> CallBackResult {
        let number = u64::from_le_bytes(bytes.try_into().map_err(|_| "no number")?);
        self.all().insert(object, number);
        Ok(())
    }

    fn replay_one(&self, object: u64, operation: u32, parameters: &[&[u8]]) -> CallBackResult {
        let by = u64::from_le_bytes(parameters[0].try_into().map_err(|_| "no number")?);
        change(&mut self.all(), object, operation, by)
    }
}

struct Lived {
    numbers: Arc<Numbers>,
    log: ApplicationLog,
    clock: Clock,
    is_marked: bool,
}

impl Lived {
    fn try_open(disk: &SimDisk, is_marked: bool) -> Result<Self> {
        let (numbers, clock) = (Arc::<Numbers>::default(), Clock::manual());
        let builder = builder(disk, 2).manual_clock(clock.clone());
        let builder = if is_marked { builder.mark_lives() } else { builder };
        let log = builder.open_application(Arc::clone(&numbers))?;
        Ok(Self { numbers, log, clock, is_marked })
    }

    fn open(disk: &SimDisk) -> Self {
        Self::try_open(disk, true).expect("opens")
    }

    fn change(&self, object: u64, operation: u32, by: u64) -> Result<Epoch> {
        let mut objects = self.numbers.all();
        let parameter = by.to_le_bytes();
        let receipt = match operation {
            MAKE if self.is_marked => {
                self.log.log_life(object, ObjectLife::Creation, operation, &[&parameter])
            }
            REMOVE if self.is_marked => {
                self.log.log_life(object, ObjectLife::Removal, operation, &[&parameter])
            }
            _ => self.log.log(object, operation, &[&parameter]),
        }?;
        change(&mut objects, object, operation, by).expect("a test changes what is there");
        Ok(receipt.epoch())
    }

    fn all(&self) -> BTreeMap<u64, u64> {
        self.numbers.all().clone()
    }

    fn settle(&self) {
        for _ in 0..2 {
            self.clock.advance(Duration::from_millis(1));
            self.log.heartbeat_step();
            (0..4).for_each(|step| {
                self.log.logger_step(step % 2);
            });
        }
    }

    /// Takes a checkpoint from its beginning to its end. `besides` comes between its beginning and its walk.
    fn checkpoint(&self, besides: impl FnOnce()) {
        let asked = self.log.checkpoint();
        self.log.checkpoint_step(0);
        self.settle();
        self.settle();
        besides();
        while asked.outcome().is_none() {
            (0..CHECKPOINTERS).for_each(|checkpointer| {
                self.log.checkpoint_step(checkpointer);
            });
            self.settle();
        }
        asked.wait().expect("is installed");
    }

    fn passed_over(&self) -> u64 {
        self.log.recovery().passed_over_entries
    }
}

/// A folder whose checkpoint came behind the removal of object 1, and whose log has two operations from before.
fn removed_before_the_walk(is_marked: bool) -> (SimDisk, Lived) {
    let disk = SimDisk::new();
    let life = Lived::try_open(&disk, is_marked).expect("opens");
    life.change(1, MAKE, 5).expect("logs");
    life.change(2, MAKE, 6).expect("logs");
    life.settle();
    life.checkpoint(|| {
        life.change(1, ADD, 7).expect("logs");
        life.change(1, REMOVE, 0).expect("logs");
    });
    (disk, life)
}

#[test]
fn o10_operations_from_before_a_removal_that_the_walk_came_behind_are_passed_over_and_counted() {
    let (disk, life) = removed_before_the_walk(true);
    life.change(2, ADD, 1).expect("logs");
    life.log.close().expect("closes");
    let life = Lived::open(&disk);
    assert_eq!(life.all(), BTreeMap::from([(2, 13)]));
    assert_eq!((life.passed_over(), life.log.recovery().entries), (2, 3));
}

#[test]
fn without_marks_a_call_back_that_refuses_an_unknown_object_fails_the_open() {
    let (disk, life) = removed_before_the_walk(false);
    life.log.close().expect("closes");
    for is_marked in [false, true] {
        let refused = Lived::try_open(&disk, is_marked).map(drop).expect_err("it is refused");
        assert!(matches!(refused, ObjectsError::NotReplayed { object: 1, .. }), "{refused:?}");
        assert!(refused.to_string().contains("there is no such object"), "{refused}");
    }
}

#[test]
fn o10_an_object_that_is_made_again_behind_the_walk_has_what_came_behind_its_creation() {
    let (disk, life) = removed_before_the_walk(true);
    life.change(1, MAKE, 100).expect("logs");
    life.change(1, ADD, 1).expect("logs");
    life.log.close().expect("closes");
    let life = Lived::open(&disk);
    assert_eq!((life.all()[&1], life.passed_over()), (201, 2));
}

#[test]
fn o10_an_object_whose_absence_a_checkpoint_notes_is_none_until_it_is_made_again() {
    let disk = SimDisk::new();
    let life = Lived::open(&disk);
    life.change(1, MAKE, 5).expect("logs");
    life.settle();
    life.checkpoint(|| {
        life.change(1, REMOVE, 0).expect("logs");
        life.numbers.absent.lock().expect("nothing panics").insert(1);
    });
    // No program does so: nothing says that it was made.
    life.log.log(1, ADD, &[&7_u64.to_le_bytes()]).expect("logs");
    life.change(1, MAKE, 3).expect("logs");
    life.log.close().expect("closes");
    let life = Lived::open(&disk);
    assert_eq!((life.all(), life.passed_over()), (BTreeMap::from([(1, 3)]), 1));
}

#[test]
fn a_folder_that_changes_over_to_marks_and_back_loses_nothing() {
    let disk = SimDisk::new();
    let mut expected = BTreeMap::new();
    for (number, is_marked) in [false, true, false, true, true].into_iter().enumerate() {
        let life = Lived::try_open(&disk, is_marked).expect("opens");
        assert_eq!((life.all(), life.passed_over()), (expected, 0), "life {number}");
        // One that only this life knows, and one that all lives change, make and remove.
        life.change(10 + number as u64, MAKE, 1).expect("logs");
        if number > 0 {
            life.change(9 + number as u64, ADD, 1).expect("logs");
            life.change(1, REMOVE, 0).expect("logs");
        }
        life.change(1, MAKE, number as u64).expect("logs");
        life.change(1, ADD, 1).expect("logs");
        expected = life.all();
        life.log.close().expect("closes");
    }
    assert_eq!(Lived::open(&disk).all(), expected);
}

/// A life with a folder's first marked object, 2, in the checkpoint, and object 1 made without a mark.
fn made_without_a_mark(disk: &SimDisk) {
    let life = Lived::open(disk);
    life.change(2, MAKE, 6).expect("logs");
    life.settle();
    life.checkpoint(|| ());
    let unmarked = Lived { is_marked: false, ..life };
    unmarked.change(1, MAKE, 5).expect("logs");
    unmarked.change(1, ADD, 1).expect("logs");
    unmarked.log.close().expect("closes");
}

#[test]
fn o10_changes_of_an_object_that_was_made_without_a_mark_fail_the_open_and_a_program_without_marks_has_them()
{
    let disk = SimDisk::new();
    made_without_a_mark(&disk);
    let all = BTreeMap::from([(1, 11), (2, 6)]);
    for _ in 0..2 {
        let refused = Lived::try_open(&disk, true).map(drop).expect_err("changes would be lost");
        assert_eq!(refused.kind(), ErrorKind::FixCall, "{refused:?}");
        let text = refused.to_string();
        assert!(text.starts_with("object 1: changes of it would be lost"), "{text}");
        assert!(text.contains("open without `mark_lives`"), "{text}");
    }
    let life = Lived::try_open(&disk, false).expect("every operation is replayed");
    assert_eq!(life.all(), all);
    life.checkpoint(|| ());
    life.log.close().expect("closes");
    let life = Lived::open(&disk);
    assert_eq!((life.all(), life.passed_over()), (all, 0));
}

#[test]
fn o10_an_object_that_was_made_without_a_mark_is_poisoned_if_the_open_asks_for_that() {
    let disk = SimDisk::new();
    made_without_a_mark(&disk);
    let numbers = Arc::<Numbers>::default();
    let builder = builder(&disk, 2).manual_clock(Clock::manual()).mark_lives().open_poisoned();
    let log = builder.open_application(Arc::clone(&numbers)).expect("the others are to be served");
    assert_eq!(*numbers.all(), BTreeMap::from([(2, 6)]));
    assert!(log.is_poisoned(1).expect("is this process") && !log.is_poisoned(2).expect("is this process"));
    let refused = log.log(1, ADD, &[]).map(drop).expect_err("O6: it is poisoned");
    assert!(refused.to_string().contains("no logged operation is marked as its creation"), "{refused}");
}

#[test]
fn o10_a_check_of_a_recorded_folder_names_an_object_that_was_made_without_a_mark() {
    let disk = SimDisk::new();
    made_without_a_mark(&disk);
    let mounted = Arc::new(disk.mounted()) as Arc<dyn Disk>;
    let check = ApplicationLog::check_on(&mounted, Numbers::default).expect("reads");
    assert!(!check.is_whole() && check.to_string().contains("object 1"), "{check}");
}

#[test]
fn a_mark_without_the_declaration_is_refused_with_the_name_of_the_setting() {
    let disk = SimDisk::new();
    let life = Lived::try_open(&disk, false).expect("opens");
    let refused = [
        life.log.log_life(1, ObjectLife::Creation, MAKE, &[]).map(drop),
        life.log.change_life(1, ObjectLife::Removal, MAKE, &[], || panic!("nothing is made")).map(drop),
    ];
    for refused in refused {
        let refused = refused.expect_err("no marks are logged");
        assert!(matches!(refused, ObjectsError::Misuse(_)), "{refused:?}");
        assert!(refused.to_string().contains("open it with `mark_lives`"), "{refused}");
    }
    life.log.close().expect("closes");
    assert_eq!(Lived::open(&disk).log.recovery().entries, 0, "nothing was logged");
}

#[test]
fn a_collection_is_not_opened_with_marks() {
    let disk = SimDisk::new();
    let refused = builder(&disk, 1).mark_lives().open::<u64, Tally>().map(drop).expect_err("is refused");
    assert!(matches!(&refused, ObjectsError::Misuse(why) if why.contains("`mark_lives`")), "{refused:?}");
    assert_eq!(disk.calls().all, 0, "nothing was made");
}

#[test]
fn a_change_with_a_mark_makes_the_change_and_returns_the_receipt() {
    let disk = SimDisk::new();
    let life = Lived::open(&disk);
    let made = life.log.change_life(1, ObjectLife::Creation, MAKE, &[&8_u64.to_le_bytes()], || {
        change(&mut life.numbers.all(), 1, MAKE, 8)
    });
    let (made, receipt) = made.expect("logs");
    assert!(made.is_ok() && receipt.epoch() > Epoch::ZERO);
    life.log.close().expect("closes");
    assert_eq!(Lived::open(&disk).all(), BTreeMap::from([(1, 8)]));
}

#[test]
fn o10_the_debug_mode_names_a_change_that_recovery_would_pass_over() {
    let (disk, life) = removed_before_the_walk(true);
    life.log.close().expect("closes");
    let (numbers, clock) = (Arc::<Numbers>::default(), Clock::manual());
    let builder = builder(&disk, 2).manual_clock(clock.clone()).mark_lives();
    let log = builder.open_application_checked(Arc::clone(&numbers), Numbers::default()).expect("opens");
    let life = Lived { numbers, log, clock, is_marked: true };
    for operation in [MAKE, ADD, REMOVE, MAKE, ADD] {
        life.change(1, operation, 3).expect("logs");
    }
    life.change(2, ADD, 3).expect("logs");
    life.checkpoint(|| ());
    assert_eq!(life.log.difference(), None);
    // It is made without a word, and so would be lost.
    life.numbers.all().insert(7, 1);
    life.change(7, ADD, 1).expect("logs");
    let difference = life.log.difference().expect("it is named");
    assert!(
        difference.starts_with("object 7 ") && difference.contains("its operation 1 is marked as a change"),
        "{difference}"
    );
}

#[test]
fn o10_a_check_of_a_recorded_folder_passes_over_what_an_open_does() {
    let (disk, life) = removed_before_the_walk(true);
    life.log.close().expect("closes");
    let mounted = Arc::new(disk.mounted()) as Arc<dyn Disk>;
    let check = ApplicationLog::check_on(&mounted, Numbers::default).expect("reads");
    assert!(check.is_whole() && check.objects == 1, "{check}");
}

/// Six lives with power cuts. The number of passed over operations.
fn lives(seed: u64) -> u64 {
    let mut random = Random::from_seed(seed);
    let disk = SimDisk::new();
    let mut passed_over = 0;
    let mut expected = BTreeMap::new();
    let mut logged: Vec<(Epoch, u64, u32, u64)> = Vec::new();
    for number in 0..6 {
        let life = Lived::open(&disk);
        let report = life.log.recovery();
        passed_over += report.passed_over_entries;
        for (epoch, object, operation, by) in logged.drain(..) {
            if epoch <= report.durable_epoch {
                change(&mut expected, object, operation, by).expect("the history is right");
            }
        }
        assert_eq!(life.all(), expected, "seed {seed} life {number}");
        disk.cut_power_at(disk.calls().all + random.next_between(20, 300));
        while !disk.is_without_power() {
            match random.next_below(12) {
                0 => life.settle(),
                1 => drop(life.log.checkpoint()),
                2..6 => {
                    life.log.checkpoint_step(random.next_below(2) as usize);
                }
                6 => {
                    life.log.logger_step(random.next_below(2) as usize);
                }
                _ => {
                    let object = random.next_below(10);
                    let operation = match (life.all().contains_key(&object), random.percent(40)) {
                        (false, _) => MAKE,
                        (true, true) => REMOVE,
                        (true, false) => ADD,
                    };
                    let by = random.next_below(90);
                    if let Ok(epoch) = life.change(object, operation, by) {
                        logged.push((epoch, object, operation, by));
                    }
                }
            }
        }
        disk.heal();
        disk.crash(random.next_u64());
        // Dead by now: it closes nothing.
        drop(life);
    }
    passed_over
}

#[test]
fn o10_lives_of_objects_that_come_and_go_lose_nothing_and_open_every_time() {
    let passed_over: u64 = (0..40).map(lives).sum();
    assert!(passed_over > 50, "{passed_over} passed over");
}
