//! The floor form: an application of numbers on a simulated disk, in lives with power cuts, and what its call-backs may
//! not do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ensile_base::Epoch;
use ensile_base::clock::Clock;
use ensile_base::random::Random;
use ensile_objects::simulation::Disk;
use ensile_objects::{
    Application, ApplicationLog, CallBackResult, ErrorKind, FolderCheck, ObjectDurability, ObjectWriter,
    Objects, ObjectsError, ObjectsResult as Result,
};
use ensile_sim::SimDisk;

use crate::rig::builder;
use crate::tally::Tally;

const DOUBLE_AND_ADD: u32 = 0;
const REMOVE: u32 = 1;
/// Removes an object, or makes one.
const TOGGLE: u32 = 2;
const PAD: u32 = 3;

/// A number, and bytes that make it long.
type Padded = (u64, usize);

#[derive(Default)]
struct Numbers {
    /// One guard for all.
    objects: Mutex<BTreeMap<u64, Padded>>,
    /// Numbers that were removed in this life.
    removed: Mutex<BTreeMap<u64, ()>>,
    misbehaves: Option<Misbehaviour>,
    version: u16,
    /// Where slices begin, and where the call-back was asked to begin.
    starts: Vec<u64>,
    asked: Mutex<Vec<u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Misbehaviour {
    Panics,
    GoesBack,
    WritesOn,
    StopsEarly,
    WritesTwice,
    GoesBackLater,
    WritesNoObject,
    Refuses,
    /// No misbehaviour: it looks where the slice ends, and says that it would go on there.
    StopsAtTheEnd,
}

fn change(objects: &mut BTreeMap<u64, Padded>, object: u64, operation: u32, by: u64) {
    let number = objects.remove(&object);
    let next = match (operation, number) {
        (REMOVE, _) | (TOGGLE, Some(_)) => return,
        (DOUBLE_AND_ADD, number) => {
            let (number, padding) = number.unwrap_or_default();
            (number.wrapping_mul(2).wrapping_add(by), padding)
        }
        (PAD, number) => (number.unwrap_or_default().0, by as usize),
        (_, _) => (1, 0),
    };
    objects.insert(object, next);
}

impl Numbers {
    /// One call-back panics on purpose, under this lock.
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Padded>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn removed(&self) -> MutexGuard<'_, BTreeMap<u64, ()>> {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Application for Numbers {
    fn version(&self) -> u16 {
        self.version
    }

    fn slice_starts(&self, parts: usize) -> Vec<u64> {
        assert_eq!(parts, 2, "there are two checkpointers");
        self.starts.clone()
    }

    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(from);
        let objects = self.all();
        let removed = self.removed();
        let mut all: BTreeMap<u64, Option<&Padded>> =
            removed.range(from..).map(|(object, ())| (*object, None)).collect();
        all.extend(objects.range(from..).map(|(object, number)| (*object, Some(number))));
        for (object, number) in all {
            if self.misbehaves == Some(Misbehaviour::StopsAtTheEnd) && object >= out.end() {
                return Some(out.end());
            }
            let has_room = match number {
                Some((number, padding)) => {
                    let mut bytes = number.to_le_bytes().to_vec();
                    bytes.resize(8 + padding, 7);
                    out.ckpt(object, &bytes)
                }
                None => out.absent(object),
            };
            match self.misbehaves {
                Some(Misbehaviour::Panics) => panic!("told to"),
                Some(Misbehaviour::GoesBack) => return Some(0),
                Some(Misbehaviour::StopsEarly) => return Some(object + 1),
                Some(Misbehaviour::WritesTwice) => drop(out.ckpt(object, b"")),
                Some(Misbehaviour::WritesNoObject) => drop(out.ckpt(u64::MAX, b"")),
                Some(Misbehaviour::Refuses) => out.refuse("bytes cannot be made"),
                Some(Misbehaviour::GoesBackLater) if !has_room => return Some(object),
                Some(Misbehaviour::WritesOn | Misbehaviour::GoesBackLater) => {}
                Some(Misbehaviour::StopsAtTheEnd) | None if !has_room => return Some(object + 1),
                Some(Misbehaviour::StopsAtTheEnd) | None => {}
            }
        }
        None
    }

    fn load_one(&self, object: u64, bytes: &[u8]) -> CallBackResult {
        let (number, padding) = bytes.split_first_chunk().ok_or("no number")?;
        let number = (u64::from_le_bytes(*number), padding.len());
        self.all().insert(object, number);
        Ok(())
    }

    fn replay_one(&self, object: u64, operation: u32, parameters: &[&[u8]]) -> CallBackResult {
        let [by, empty] = parameters else { return Err("two parameters".into()) };
        assert!(empty.is_empty());
        let by = (*by).try_into().map_err(|_| "no number")?;
        change(&mut self.all(), object, operation, u64::from_le_bytes(by));
        Ok(())
    }
}

struct Life {
    numbers: Arc<Numbers>,
    log: ApplicationLog,
    clock: Clock,
}

impl Life {
    fn try_open(disk: &SimDisk, numbers: Numbers) -> Result<Self> {
        let (numbers, clock) = (Arc::new(numbers), Clock::manual());
        let log = builder(disk, 2).manual_clock(clock.clone()).open_application(Arc::clone(&numbers))?;
        Ok(Self { numbers, log, clock })
    }

    fn open(disk: &SimDisk) -> Self {
        Self::try_open(disk, Numbers::default()).expect("opens")
    }

    fn change(&self, object: u64, operation: u32, by: u64) -> Result<Epoch> {
        let mut objects = self.numbers.all();
        let receipt = self.log.log(object, operation, &[&by.to_le_bytes(), &[]])?;
        change(&mut objects, object, operation, by);
        if !objects.contains_key(&object) {
            self.numbers.removed().insert(object, ());
        }
        Ok(receipt.epoch())
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

    fn checkpoint(&self) -> std::result::Result<u64, String> {
        let asked = self.log.checkpoint();
        while asked.outcome().is_none() {
            (0..2).for_each(|checkpointer| {
                self.log.checkpoint_step(checkpointer);
            });
            self.settle();
        }
        asked.wait().map(|report| report.entries).map_err(|error| error.to_string())
    }

    fn rows(&self) -> BTreeMap<u64, Padded> {
        self.numbers.all().clone()
    }
}

fn run(seed: u64) -> (u64, u64) {
    let mut random = Random::from_seed(seed);
    let disk = SimDisk::new();
    let (mut loaded, mut replayed) = (0, 0);
    let mut expected = BTreeMap::new();
    let mut last: (Vec<(Epoch, u64, u32, u64)>, Epoch) = (Vec::new(), Epoch::ZERO);
    for number in 0..6 {
        // One slice, and slices of which some have no object, in turn.
        let starts = [vec![], vec![3], vec![0, 2, 5, 9], vec![7, 100]][(seed + number) as usize % 4].clone();
        let life = Life::try_open(&disk, Numbers { starts, ..Numbers::default() }).expect("opens");
        let report = life.log.recovery();
        loaded += report.checkpoint_entries;
        replayed += report.entries;
        for &(epoch, object, operation, by) in &last.0 {
            if epoch <= report.durable_epoch {
                change(&mut expected, object, operation, by);
            } else {
                assert!(epoch > last.1, "seed {seed} life {number}: {epoch} was reported durable");
            }
        }
        assert_eq!(life.rows(), expected, "seed {seed} life {number}");
        disk.cut_power_at(disk.calls().all + random.next_between(20, 300));
        last = (Vec::new(), report.durable_epoch);
        for _ in 0..500 {
            match random.next_below(10) {
                0 => life.settle(),
                1 => drop(life.log.checkpoint()),
                2..5 => {
                    life.log.checkpoint_step(random.next_below(2) as usize);
                }
                5 => {
                    life.log.logger_step(random.next_below(2) as usize);
                }
                _ => {
                    let object = random.next_below(10);
                    let operation =
                        [DOUBLE_AND_ADD, DOUBLE_AND_ADD, REMOVE, TOGGLE, PAD][random.next_below(5) as usize];
                    let by = if random.percent(10) { 150_000 } else { random.next_below(90) };
                    if let Ok(epoch) = life.change(object, operation, by) {
                        last.0.push((epoch, object, operation, by));
                    }
                }
            }
            if disk.is_without_power() {
                break;
            }
            last.1 = life.log.stats().durable_epoch;
        }
        disk.heal();
        disk.crash(random.next_u64());
        // Dead by now: it closes nothing.
        drop(life);
    }
    (loaded, replayed)
}

#[test]
fn lives_of_an_application_keep_each_operation_that_was_reported_once_and_in_order() {
    let (mut loaded, mut replayed) = (0, 0);
    for seed in 0..40 {
        let (more, again) = run(seed);
        loaded += more;
        replayed += again;
    }
    assert!(loaded > 100 && replayed > 500, "{loaded} loaded, {replayed} replayed");
}

#[test]
fn o7_a_checkpoint_has_the_slots_tid_so_what_it_includes_is_not_replayed() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    life.change(1, DOUBLE_AND_ADD, 1).expect("logs");
    let asked = life.log.checkpoint();
    life.log.checkpoint_step(0);
    life.settle();
    life.settle();
    life.change(1, DOUBLE_AND_ADD, 1).expect("logs");
    while asked.outcome().is_none() {
        (0..2).for_each(|checkpointer| {
            life.log.checkpoint_step(checkpointer);
        });
        life.settle();
    }
    asked.wait().expect("is installed");
    life.change(1, DOUBLE_AND_ADD, 10).expect("logs");
    life.settle();
    drop(life);
    disk.crash(1);
    assert_eq!(Life::open(&disk).rows(), BTreeMap::from([(1, (16, 0))]));
}

#[test]
fn a_call_back_that_misbehaves_makes_no_checkpoint_and_harms_nothing_else() {
    use Misbehaviour::*;
    for (misbehaves, says) in [
        (Panics, "panicked"),
        (GoesBack, "went back"),
        (GoesBackLater, "went back"),
        (WritesTwice, "object 1 was written where 2 is the least number"),
        (WritesNoObject, "was written where 2 is the least number"),
        (Refuses, "bytes cannot be made"),
        (StopsEarly, "ended with room"),
        (WritesOn, "no more room"),
    ] {
        let disk = SimDisk::new();
        let numbers = Numbers { misbehaves: Some(misbehaves), ..Numbers::default() };
        let life = Life::try_open(&disk, numbers).expect("opens");
        for object in 1..5 {
            life.change(object, PAD, 200_000).expect("logs");
        }
        life.settle();
        let said = life.checkpoint().expect_err("is given up");
        assert!(said.contains(says), "{misbehaves:?}: {said}");
        life.change(1, PAD, 3).expect("goes on");
        life.log.close().expect("closes");
        assert_eq!(Life::open(&disk).rows()[&1], (0, 3));
    }
}

/// Ten objects, and slices that begin here; some objects do not fit a block.
fn in_slices(disk: &SimDisk, starts: &[u64]) -> Life {
    let numbers = Numbers { starts: starts.to_vec(), ..Numbers::default() };
    let life = Life::try_open(disk, numbers).expect("opens");
    for object in 0..10 {
        life.change(object, DOUBLE_AND_ADD, object).expect("logs");
        life.change(object, PAD, object % 3 * 200_000).expect("logs");
    }
    life.settle();
    life
}

#[test]
fn slices_are_written_by_a_checkpointer_each_and_every_object_once() {
    for starts in [&[][..], &[5], &[0, 4], &[3, 6, 7, 9], &[10, 20]] {
        let disk = SimDisk::new();
        let life = in_slices(&disk, starts);
        let asked = life.log.checkpoint();
        // The first checkpointer does all that it has to do; the other one has done nothing.
        for _ in 0..200 {
            life.log.checkpoint_step(0);
            life.settle();
        }
        let from = |life: &Life| -> Vec<u64> {
            let mut asked = life.numbers.asked.lock().expect("nothing panics").clone();
            asked.retain(|from| *from == 0 || starts.contains(from));
            asked
        };
        let cut: Vec<u64> =
            std::iter::once(0).chain(starts.iter().copied().filter(|start| *start > 0)).collect();
        let own: Vec<u64> = cut.iter().copied().step_by(2).collect();
        assert!(own.iter().all(|start| from(&life).contains(start)), "{starts:?}: {:?}", from(&life));
        assert!(asked.outcome().is_none(), "{starts:?}: the other one is missing");
        while asked.outcome().is_none() {
            life.log.checkpoint_step(1);
            life.log.checkpoint_step(0);
            life.settle();
        }
        assert!(cut.iter().all(|start| from(&life).contains(start)), "{starts:?}: {:?}", from(&life));
        asked.wait().expect("is installed");
        let rows = life.rows();
        life.log.close().expect("closes");
        let again = Life::open(&disk);
        assert_eq!((again.rows(), again.log.recovery().entries), (rows, 0), "{starts:?}");
    }
}

#[test]
fn a_call_back_stops_where_its_slice_ends_and_says_so() {
    let disk = SimDisk::new();
    let numbers =
        Numbers { starts: vec![3, 6], misbehaves: Some(Misbehaviour::StopsAtTheEnd), ..Numbers::default() };
    let life = Life::try_open(&disk, numbers).expect("opens");
    for object in 0..10 {
        life.change(object, PAD, object % 3 * 200_000).expect("logs");
    }
    life.settle();
    life.checkpoint().expect("is installed");
    let rows = life.rows();
    life.log.close().expect("closes");
    let again = Life::open(&disk);
    assert_eq!((again.rows(), again.log.recovery().entries), (rows, 0));
}

#[test]
fn slices_that_do_not_ascend_make_no_checkpoint_and_harm_nothing_else() {
    for starts in [[5, 3], [4, 4]] {
        let disk = SimDisk::new();
        let life = in_slices(&disk, &starts);
        let said = life.checkpoint().expect_err("is given up");
        assert!(said.contains("`slice_starts` does not ascend"), "{said}");
        let rows = life.rows();
        life.log.close().expect("closes");
        assert_eq!(Life::open(&disk).rows(), rows);
    }
}

#[test]
fn a_receipt_is_had_again_by_its_epoch_which_is_not_above_e() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    let epoch = life.change(1, DOUBLE_AND_ADD, 1).expect("logs");
    let receipt = life.log.receipt(epoch);
    assert!(receipt.epoch() == epoch && epoch <= life.log.epoch() && !receipt.is_durable());
    life.settle();
    assert!(receipt.is_durable() && epoch < life.log.epoch());
    receipt.durable().expect("is durable");
}

#[test]
fn a_call_back_that_fails_and_a_folder_of_a_collection_fail_the_open() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    life.log.log(1, DOUBLE_AND_ADD, &[b"one parameter, and not two"]).expect("logs");
    assert!(life.log.log(u64::MAX, 0, &[]).is_err());
    life.log.close().expect("closes");
    let refused = Life::try_open(&disk, Numbers::default()).map(drop).expect_err("fails").to_string();
    assert!(refused.contains("two parameters"), "{refused}");
    let refused = builder(&disk, 1).open::<u64, Tally>().map(drop).expect_err("fails").to_string();
    assert!(
        refused.contains("an application's own objects") && refused.contains("open_application"),
        "{refused}"
    );
    assert!(!refused.contains("newer"), "no version opens it so: {refused}");

    let disk = SimDisk::new();
    let objects: Objects<u64, Tally> = builder(&disk, 1).open().expect("opens");
    objects.submit(1, &crate::tally::Change::Toggle).expect("logs");
    objects.close().expect("closes");
    let refused = Life::try_open(&disk, Numbers::default()).map(drop).expect_err("fails").to_string();
    assert!(refused.contains("a collection's objects") && !refused.contains("newer"), "{refused}");
}

#[test]
fn a_replay_that_panics_names_the_object_and_a_way_out() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    life.change(2, DOUBLE_AND_ADD, 1).expect("logs");
    let by = 1_u64.to_le_bytes();
    let receipt = life.log.log(7, DOUBLE_AND_ADD, &[&by, b"is to be empty"]).expect("logs");
    let epoch = receipt.epoch();
    life.log.close().expect("closes");
    let refused = Life::try_open(&disk, Numbers::default()).map(drop).expect_err("panics");
    let is_told =
        matches!(&refused, ObjectsError::NotReplayed { object: 7, tid, .. } if tid.epoch() == epoch);
    assert!(is_told, "{refused:?}");
    let said = refused.to_string();
    for part in
        ["the call-back panicked: assertion failed: empty.is_empty()", "mend the call-back, or let it pass"]
    {
        assert!(said.contains(part), "{said}");
    }
    // As it was: a program that was mended opens it.
    let log = builder(&disk, 2).open_application(Arc::new(Patient(Numbers::default()))).expect("opens");
    assert_eq!(log.recovery().entries, 2);
}

/// Numbers whose program has passed an operation over that it could not replay.
struct Patient(Numbers);

impl Application for Patient {
    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
        self.0.checkpoint(from, out)
    }

    fn load_one(&self, object: u64, bytes: &[u8]) -> CallBackResult {
        self.0.load_one(object, bytes)
    }

    fn replay_one(&self, object: u64, operation: u32, parameters: &[&[u8]]) -> CallBackResult {
        if object == 7 { Ok(()) } else { self.0.replay_one(object, operation, parameters) }
    }
}

/// Numbers as they are now: until version 0 they were counted in tens.
struct Ones(Numbers);

impl Application for Ones {
    fn version(&self) -> u16 {
        1
    }

    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
        self.0.checkpoint(from, out)
    }

    fn load_one(&self, object: u64, bytes: &[u8]) -> CallBackResult {
        self.0.load_one(object, bytes)
    }

    fn replay_one(&self, object: u64, operation: u32, parameters: &[&[u8]]) -> CallBackResult {
        self.0.replay_one(object, operation, parameters)
    }

    fn load_older(&self, version: u16, object: u64, bytes: &[u8]) -> CallBackResult {
        assert_eq!(version, 0);
        self.0.load_one(object, bytes)?;
        self.0.all().get_mut(&object).ok_or("it was loaded")?.0 *= 10;
        Ok(())
    }

    fn replay_older(
        &self,
        version: u16,
        object: u64,
        operation: u32,
        parameters: &[&[u8]],
    ) -> CallBackResult {
        assert_eq!(version, 0);
        let [by, empty] = parameters else { return Err("two parameters".into()) };
        let by = u64::from_le_bytes((*by).try_into().map_err(|_| "no number")?) * 10;
        self.0.replay_one(object, operation, &[&by.to_le_bytes(), empty])
    }
}

/// A folder of this version, with an object in a checkpoint or not, and an operation on one in the log.
fn written_by(version: u16, with_checkpoint: bool) -> SimDisk {
    let disk = SimDisk::new();
    let life = Life::try_open(&disk, Numbers { version, ..Numbers::default() }).expect("opens");
    if with_checkpoint {
        // In pieces, each of which has the version.
        life.change(1, PAD, 700_000).expect("logs");
        life.change(2, DOUBLE_AND_ADD, 4).expect("logs");
        life.settle();
        life.checkpoint().expect("is installed");
    }
    life.change(2, DOUBLE_AND_ADD, 1).expect("logs");
    life.log.close().expect("closes");
    disk
}

#[test]
fn what_an_older_program_wrote_goes_through_the_up_cast_and_what_a_newer_one_wrote_is_refused() {
    for with_checkpoint in [false, true] {
        let ones = Arc::new(Ones(Numbers::default()));
        let disk = written_by(0, with_checkpoint);
        let log = builder(&disk, 2).open_application(Arc::clone(&ones)).expect("opens");
        let twice = if with_checkpoint { 2 * 40 } else { 0 };
        assert_eq!(ones.0.all()[&2], (twice + 10, 0));
        // From now on it writes its own version, beside what is there of the older one.
        log.log(2, DOUBLE_AND_ADD, &[&3_u64.to_le_bytes(), &[]]).expect("logs");
        change(&mut ones.0.all(), 2, DOUBLE_AND_ADD, 3);
        log.close().expect("closes");
        let expected = ones.0.all().clone();
        let ones = Arc::new(Ones(Numbers::default()));
        let log = builder(&disk, 2).open_application(Arc::clone(&ones)).expect("opens");
        assert_eq!(*ones.0.all(), expected);
        log.close().expect("closes");

        let refused = |written, version| {
            let numbers = Arc::new(Numbers { version, ..Numbers::default() });
            let opened =
                builder(&written_by(written, with_checkpoint), 2).open_application(Arc::clone(&numbers));
            let newer_reached_it = written > version && !numbers.all().is_empty();
            assert!(!newer_reached_it, "a newer version is refused before a call-back has it");
            opened.map(drop).expect_err("is refused").to_string()
        };
        let (older, newer) = (refused(0, 1), refused(3, 2));
        let why = "it is of version 0; this program writes version 1, and has no up-cast from that";
        assert!(older.contains(why) && older.contains("object "), "{older}");
        let what = if with_checkpoint { "an object" } else { "an operation" };
        let why = format!("{what} is of version 3, and this program knows versions up to 2");
        assert!(newer.contains(&why) && newer.contains("at byte"), "{newer}");
    }
}

#[test]
fn the_debug_mode_of_collections_is_refused_for_an_application_and_names_its_own() {
    let disk = SimDisk::new();
    let opened = builder(&disk, 1).check_operations().open_application(Arc::new(Numbers::default()));
    let refused = opened.map(drop).expect_err("is for collections");
    assert!(matches!(refused, ObjectsError::Misuse(_)), "{refused:?}");
    assert!(refused.to_string().contains("by `open_application_checked`"), "{refused}");
    assert_eq!(disk.calls().all, 0, "nothing was made");
}

/// A life in the debug mode.
fn open_checked(disk: &SimDisk, fresh: Numbers) -> Result<Life> {
    let (numbers, clock) = (Arc::new(Numbers::default()), Clock::manual());
    let builder = builder(disk, 2).manual_clock(clock.clone());
    let log = builder.open_application_checked(Arc::clone(&numbers), fresh)?;
    Ok(Life { numbers, log, clock })
}

/// What a checkpoint says of a life in the debug mode after this was done to it.
fn said_after(done: impl FnOnce(&Life)) -> String {
    let life = open_checked(&recorded(), Numbers::default()).expect("opens");
    life.change(2, DOUBLE_AND_ADD, 1).expect("logs");
    done(&life);
    life.settle();
    let said = life.checkpoint().expect_err("is given up");
    assert!(life.log.difference().is_some_and(|difference| said.contains(&difference)), "{said}");
    assert_eq!(life.checkpoint().expect_err("is given up"), said, "and so are all others");
    life.log.close().expect("closes");
    said
}

#[test]
fn the_debug_mode_of_an_application_names_what_its_operations_do_not_make() {
    let disk = recorded();
    for _ in 0..2 {
        let life = open_checked(&disk, Numbers::default()).expect("opens");
        for object in 1..9 {
            for operation in [DOUBLE_AND_ADD, TOGGLE, TOGGLE, PAD] {
                life.change(object, operation, object * 300).expect("logs");
            }
            life.change(object + 10, REMOVE, 0).expect("logs");
        }
        life.settle();
        life.checkpoint().expect("nothing differs");
        assert_eq!(life.log.difference(), None);
        life.change(3, DOUBLE_AND_ADD, 7).expect("logs");
        life.log.close().expect("closes");
    }
    let said = said_after(|life| {
        life.numbers.all().insert(2, (9, 0));
    });
    let differs = "object 2 is not what its operations make of it: byte 0 of the object's encoding is 9; applied again, it is 5";
    assert!(said.contains(differs), "a change that was not logged: {said}");
    let said = said_after(|life| {
        let logged = life.log.log(2, DOUBLE_AND_ADD, &[&1_u64.to_le_bytes(), &[]]);
        logged.map(drop).expect("logs");
    });
    assert!(said.contains("object 2 is not what"), "a change that was not made: {said}");
    let said = said_after(|life| life.log.log(4, TOGGLE, &[b"one"]).map(drop).expect("logs"));
    assert!(
        said.contains("object 4 is not what its operations make of it: its operation 2 is not replayed"),
        "{said}"
    );
    let broken = Numbers { misbehaves: Some(Misbehaviour::Refuses), ..Numbers::default() };
    let refused = open_checked(&recorded(), broken).map(drop).expect_err("the copy is not the same");
    assert!(matches!(refused, ObjectsError::NotDeterministic { .. }), "{refused:?}");
    assert!(
        refused.to_string().contains("object 1 is not deterministic: its copy is not written"),
        "{refused}"
    );
}

#[test]
fn objects_longer_than_a_block_are_written_in_pieces() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    life.change(1, PAD, 700_000).expect("logs");
    life.change(2, PAD, 3).expect("logs");
    life.settle();
    let rows = life.rows();
    assert_eq!(life.checkpoint(), Ok(11 + 1));
    drop(life);
    disk.crash(1);
    let life = Life::open(&disk);
    assert_eq!((life.rows(), life.log.recovery().entries), (rows, 0));
}

/// Numbers to which each replay adds something else.
struct Drifting(Numbers, u64);

impl Application for Drifting {
    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
        self.0.checkpoint(from, out)
    }

    fn load_one(&self, object: u64, bytes: &[u8]) -> CallBackResult {
        self.0.load_one(object, bytes)
    }

    fn replay_one(&self, object: u64, operation: u32, parameters: &[&[u8]]) -> CallBackResult {
        self.0.replay_one(object, operation, parameters)?;
        let mut all = self.0.all();
        match object {
            2 => all.entry(2).or_default().0 += self.1,
            3 if self.1 > 1 => drop(all.remove(&3)),
            _ => {}
        }
        Ok(())
    }
}

/// A recorded folder: objects 1 to 5 in a checkpoint, two of them longer than what is compared at once, and operations.
fn recorded() -> SimDisk {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    for object in 1..6 {
        life.change(object, DOUBLE_AND_ADD, object).expect("logs");
    }
    for object in [1, 4] {
        life.change(object, PAD, 1_500_000).expect("logs");
    }
    life.settle();
    life.checkpoint().expect("is installed");
    life.change(3, DOUBLE_AND_ADD, 7).expect("logs");
    life.change(5, REMOVE, 0).expect("logs");
    life.log.close().expect("closes");
    disk
}

fn checked<A: Application>(disk: &SimDisk, make: impl FnMut() -> A) -> FolderCheck {
    ApplicationLog::check_on(&(Arc::new(disk.mounted()) as Arc<dyn Disk>), make).expect("reads")
}

#[test]
fn a_recorded_folder_is_replayed_twice_and_the_first_difference_is_named() {
    let disk = recorded();
    let check = checked(&disk, Numbers::default);
    assert!(check.is_whole() && check.objects == 4, "{check}");
    // Nothing was changed.
    assert_eq!(Life::open(&disk).rows()[&3], (13, 0));

    let drifting = |drifts: bool| {
        let mut made = 0;
        move || {
            made += u64::from(drifts);
            Drifting(Numbers::default(), made)
        }
    };
    assert!(checked(&recorded(), drifting(false)).is_whole());
    let check = checked(&recorded(), drifting(true));
    let said = check.to_string();
    assert!(
        !check.is_whole() && said.contains("object 3: replayed again, there is no such object"),
        "{said}"
    );
    let disk = recorded();
    let life = Life::open(&disk);
    life.change(2, DOUBLE_AND_ADD, 1).expect("logs");
    life.log.close().expect("closes");
    let said = checked(&disk, drifting(true)).to_string();
    assert!(
        said.contains("object 2: byte 0 of the object's encoding is 6; applied again, it is 7"),
        "{said}"
    );
}

#[test]
fn a_check_names_what_is_not_understood_and_what_no_checkpoint_can_be_made_of() {
    let disk = recorded();
    let life = Life::open(&disk);
    life.log.log(9, DOUBLE_AND_ADD, &[b"one parameter, and not two"]).expect("logs");
    life.log.close().expect("closes");
    let check = checked(&disk, Numbers::default);
    let is_named = matches!(check.not_replayed, Some(ObjectsError::NotReplayed { object: 9, .. }));
    assert!(is_named && check.to_string().contains("two parameters"), "{check}");

    for (with_checkpoint, what) in [(true, "an object"), (false, "an operation")] {
        let check = checked(&written_by(3, with_checkpoint), Numbers::default);
        let said = check.to_string();
        assert!(!check.examination.is_whole() && said.contains(what) && said.contains("version 3"), "{said}");
    }

    let refuses = || Numbers { misbehaves: Some(Misbehaviour::Refuses), ..Numbers::default() };
    let check = checked(&recorded(), refuses);
    assert_eq!(check.not_written.as_deref(), Some("bytes cannot be made"), "{check}");
    let panics = || Numbers { misbehaves: Some(Misbehaviour::Panics), ..Numbers::default() };
    assert!(checked(&recorded(), panics).to_string().contains("the application's call-back panicked"));
}

#[test]
fn a_closed_log_takes_no_operation_also_without_logging() {
    let unlogged = builder(&SimDisk::new(), 1).durability(ObjectDurability::NoLog);
    let log = unlogged.open_application(Arc::new(Numbers::default())).expect("opens");
    log.log(1, PAD, &[]).expect("is open");
    log.close().expect("closes");
    let refused = log.log(1, PAD, &[]).map(drop);
    assert!(refused.as_ref().is_err_and(|error| error.kind() == ErrorKind::Closed), "{refused:?}");
}
