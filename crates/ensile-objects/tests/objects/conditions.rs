//! The scenes of the conditions of `docs/internals/protocols/objects.md`, each of which a planted bug plays.

use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_durability::DurabilityError;
use ensile_objects::{CodecResult, ObjectDurability, ObjectKey, Objects, ObjectsError};
use ensile_sim::SimDisk;

use crate::cause;
use crate::rig::{Life, builder, checkpoint};
use crate::tally::{Change, PANICS, Tally, in_operations};

/// A test that waits for longer hangs.
const HANG: Duration = Duration::from_secs(600);

fn sum(life: &Life, key: u64) -> Option<u64> {
    life.objects.read(&key, |tally| tally.map(|tally| tally.sum)).expect("is not poisoned")
}

fn power_cut(disk: &SimDisk, life: Life) -> Life {
    disk.crash(1);
    // Dead by now: it closes nothing.
    drop(life);
    Life::open(disk)
}

#[test]
fn o1_an_epoch_whose_tids_are_used_is_closed_and_the_operation_gets_one_of_the_next() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    let first = life.objects.submit(1, &Change::Grow(0)).expect("logs").1.epoch();
    let mut last = first;
    for _ in 0..(1 << ensile_base::limits::SEQUENCE_BITS) + 1 {
        last = life.objects.submit(1, &Change::Grow(0)).expect("logs").1.epoch();
    }
    assert!(last > first);
}

/// Object 1 is there when a checkpoint begins, and removed beside it: in e_l itself, or later.
fn removed_beside_a_walk(epochs_later: u32) {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    life.objects.submit(1, &Change::Toggle).expect("logs");
    life.settle();
    let asked = life.objects.checkpoint();
    // It begins: e_l is E. It does not walk before E is larger.
    life.objects.checkpoint_step(0);
    (0..epochs_later).for_each(|_| life.tick());
    // What the log has from e_l on is a toggle, which makes an object where there is none.
    let epoch = life.objects.submit(1, &Change::Toggle).expect("logs").1.epoch();
    assert_eq!(sum(&life, 1), None);
    while asked.outcome().is_none() {
        life.step_checkpointers();
        life.settle();
    }
    let low = asked.wait().expect("is installed").low;
    assert_eq!(low.plus(epochs_later.into()), epoch);
    let life = power_cut(&disk, life);
    assert_eq!(sum(&life, 1), None);
    assert!(life.objects.recovery().checkpoint.is_some());
}

#[test]
fn o2_what_was_removed_beside_a_walk_is_not_made_again_by_its_own_removal() {
    removed_beside_a_walk(2);
}

#[test]
fn o2_what_was_removed_in_the_first_epoch_that_a_checkpoint_does_not_cover_is_not_made_again() {
    removed_beside_a_walk(0);
}

#[test]
fn o2_what_is_remembered_of_a_removed_object_goes_with_a_later_checkpoint() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    for key in 0..100 {
        life.objects.submit(key, &Change::Add(1)).expect("logs");
        life.objects.remove(key).expect("logs");
    }
    assert_eq!(life.objects.stats().objects, 100);
    life.settle();
    life.checkpoint().expect("is installed");
    assert_eq!(life.objects.stats().objects, 0);
    // An absence that nothing is remembered of still rests on the removal (R1).
    let ((), receipt) = life.objects.look(&1, |tally| assert!(tally.is_none())).expect("reads");
    assert!(receipt.epoch() > ensile_base::Epoch::ZERO);
    life.objects.submit(1, &Change::Add(5)).expect("logs");
    life.settle();
    let life = power_cut(&disk, life);
    assert_eq!((sum(&life, 1), sum(&life, 2)), (Some(5), None));
}

/// A key whose hash says nothing: all of them are found where the first one is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Alike(u64);

impl Hash for Alike {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl ObjectKey for Alike {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(bytes: &[u8]) -> CodecResult<Self> {
        u64::decode(bytes).map(Self)
    }
}

#[test]
fn o2_a_cell_that_is_another_keys_is_not_used() {
    let disk = SimDisk::new();
    let open = || builder(&disk, 1).manual_clock(Clock::manual()).open::<Alike, Tally>().expect("opens");
    let sum = |objects: &Objects<Alike, Tally>, key| {
        objects.read(&Alike(key), |tally| tally.map(|tally| tally.sum)).expect("is not poisoned")
    };
    let objects = open();
    for key in 1..50 {
        objects.submit(Alike(key), &Change::Add(key)).expect("logs");
    }
    objects.remove(Alike(20)).expect("logs");
    for key in 1..50 {
        assert_eq!(sum(&objects, key), (key != 20).then_some(key));
        let allowed = objects.update_if(Alike(key), &Change::Add(1), |tally| tally.map(drop).ok_or(()));
        assert_eq!(allowed.expect("logs").is_ok(), key != 20);
    }
    objects.close().expect("all is durable");
    let objects = open();
    for key in 1..50 {
        assert_eq!(sum(&objects, key), (key != 20).then_some(2 * key + 1));
    }
}

/// A key that panics when a checkpoint asks for its memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Startled(u64);

/// How often that was.
static STARTLED: AtomicUsize = AtomicUsize::new(0);

impl ObjectKey for Startled {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn prefetch(&self) {
        STARTLED.fetch_add(1, Ordering::Relaxed);
        panic!("told to");
    }

    fn decode(bytes: &[u8]) -> CodecResult<Self> {
        u64::decode(bytes).map(Self)
    }
}

#[test]
fn a_prefetch_that_panics_costs_a_checkpoint_nothing() {
    let disk = SimDisk::new();
    let open =
        || builder(&disk, 1).durability(ObjectDurability::Relaxed).open::<Startled, Tally>().expect("opens");
    let objects = open();
    // More than are asked for ahead, in whichever shards they are.
    for key in 0..6_000 {
        objects.submit(Startled(key), &Change::Add(key)).expect("logs");
    }
    checkpoint(&objects);
    assert!(STARTLED.load(Ordering::Relaxed) > 0, "some were asked for");
    objects.close().expect("all is durable");
    let objects = open();
    for key in 0..6_000 {
        let sum = objects.read(&Startled(key), |tally| tally.map(|tally| tally.sum)).expect("reads");
        assert_eq!(sum, Some(key));
    }
}

#[test]
fn an_object_is_reached_beside_a_locked_object_whose_hash_is_the_same() {
    let disk = SimDisk::new();
    let objects = builder(&disk, 1).manual_clock(Clock::manual()).open::<Alike, Tally>().expect("opens");
    for key in 1..4 {
        objects.submit(Alike(key), &Change::Add(key)).expect("logs");
    }
    let sum =
        |key| objects.look(&Alike(key), |tally| tally.map(|tally| tally.sum)).expect("is not poisoned").0;
    // One of these holds the cell that is found first for all of them.
    for held in 1..4 {
        let (((begin, begun), (end, ended)), objects) = ((mpsc::channel(), mpsc::channel()), &objects);
        let others = (1..5).filter(|other| *other != held);
        let expected: Vec<_> = others.clone().map(|other| (other < 4).then_some(other)).collect();
        let (seen, was_held) = thread::scope(|scope| {
            let holder = scope.spawn(move || {
                let look = |_: Option<&Tally>| {
                    begin.send(()).expect("the test waits for it");
                    ended.recv_timeout(HANG).is_ok()
                };
                objects.look(&Alike(held), look).expect("is not poisoned").0
            });
            begun.recv().expect("it looks");
            let seen: Vec<_> = others.map(sum).collect();
            end.send(()).expect("it waits");
            (seen, holder.join().expect("no panic"))
        });
        assert_eq!((seen, was_held), (expected, true));
    }
}

#[test]
fn o3_a_thread_that_waits_for_an_object_keeps_no_operation_from_becoming_durable() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    let (begun, has_begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let (logged, has_logged) = mpsc::channel();
    let (epoch, durable) = thread::scope(|scope| {
        let objects = &life.objects;
        scope.spawn(move || {
            in_operations(Some(Box::new(move || {
                begun.send(()).expect("is waited for");
                may_go_on.recv().expect("is told");
            })));
            objects.submit(1, &Change::Add(1)).map(drop).expect("logs");
            in_operations(None);
        });
        has_begun.recv().expect("begins");
        scope.spawn(move || {
            let epoch = objects.submit(2, &Change::Add(1)).expect("logs").1.epoch();
            logged.send(epoch).expect("is waited for");
            // Waits for the other thread, which is in the midst of an operation.
            objects.submit(1, &Change::Add(1)).map(drop).expect("logs");
        });
        let epoch = has_logged.recv().expect("logs");
        // The thread comes to wait for the lock within two hundred rounds. It lets go of its buffer a while later; the
        // limit is for a thread that waits with its buffer.
        let mut durable = life.durable();
        for round in 0..60_000 {
            if round >= 200 && durable >= epoch {
                break;
            }
            thread::sleep(std::time::Duration::from_millis(1));
            life.settle();
            durable = life.durable();
        }
        go_on.send(()).expect("it waits");
        (epoch, durable)
    });
    assert!(durable >= epoch, "operation of {epoch} waits at D = {durable} for a thread that waits");
}

#[test]
fn o4_operations_that_a_checkpoint_includes_are_not_applied_again() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    life.objects.submit(1, &Change::Add(1)).expect("logs");
    let asked = life.objects.checkpoint();
    life.objects.checkpoint_step(0);
    life.settle();
    life.settle();
    // Of an epoch behind e_l, and in the checkpoint.
    life.objects.submit(1, &Change::Add(1)).expect("logs");
    while asked.outcome().is_none() {
        life.step_checkpointers();
        life.settle();
    }
    let (low, high) = asked.wait().map(|report| (report.low, report.high)).expect("is installed");
    assert!(low < high);
    life.objects.submit(1, &Change::Add(10)).expect("logs");
    life.settle();
    let life = power_cut(&disk, life);
    assert_eq!(sum(&life, 1), Some(16));
}

/// An object of which an operation has panicked, beside another one.
fn poisoned(disk: &SimDisk) -> Life {
    let life = Life::open(disk);
    life.objects.submit(1, &Change::Add(1)).expect("logs");
    PANICS.with(|panics| *panics.borrow_mut() = true);
    let panic = catch_unwind(AssertUnwindSafe(|| life.objects.submit(1, &Change::Panic).map(drop)));
    assert!(panic.is_err(), "the panic is the caller's");
    life.objects.submit(2, &Change::Add(7)).expect("others go on");
    life.settle();
    life
}

fn assert_poisoned(life: &Life, key: u64) {
    let read = life.objects.read(&key, |_| ());
    let updated = life.objects.submit(key, &Change::Add(1)).map(drop);
    for refused in [read, updated] {
        assert!(matches!(refused, Err(ObjectsError::Poisoned { .. })), "{refused:?}");
    }
    assert_eq!(life.objects.stats().poisoned, 1);
}

#[test]
fn o6_an_operation_that_panics_poisons_its_object_and_nothing_else() {
    let disk = SimDisk::new();
    let life = poisoned(&disk);
    assert_poisoned(&life, 1);
    assert_eq!(sum(&life, 2), Some(7));
    // Half a change is in no checkpoint, and the log that has the whole truth stays.
    let refused = life.checkpoint().expect_err("cannot be written").to_string();
    assert!(refused.contains("object 1 is poisoned"), "{refused}");
    let life = power_cut(&disk, life);
    assert_poisoned(&life, 1);
    assert_eq!(sum(&life, 2), Some(7));
    // A program that was mended.
    PANICS.with(|panics| *panics.borrow_mut() = false);
    let life = power_cut(&disk, life);
    assert_eq!(sum(&life, 1), Some(u64::MAX), "the operation, whole");
    life.checkpoint().expect("is installed");
}

#[test]
fn o6_a_look_at_all_objects_shows_the_others_and_names_a_poisoned_object() {
    let life = poisoned(&SimDisk::new());
    life.objects.submit(3, &Change::Add(9)).expect("logs");
    let mut shown = Vec::new();
    let looked = life.objects.for_each(|key, _| shown.push(*key));
    shown.sort_unstable();
    assert_eq!(shown, [2, 3]);
    assert!(matches!(&looked, Err(ObjectsError::Poisoned { object }) if &**object == "1"), "{looked:?}");
    PANICS.with(|panics| *panics.borrow_mut() = false);
}

#[test]
fn o6_a_whole_value_or_a_removal_ends_the_poison() {
    for removes in [false, true] {
        let disk = SimDisk::new();
        let life = poisoned(&disk);
        if removes {
            life.objects.remove(1).expect("logs");
        } else {
            life.objects
                .put(1, crate::tally::Tally { sum: 3, operations: 0, padding: Vec::new() })
                .expect("logs");
        }
        let expected = (!removes).then_some(3);
        assert_eq!((sum(&life, 1), life.objects.stats().poisoned), (expected, 0));
        life.settle();
        let life = power_cut(&disk, life);
        assert_eq!((sum(&life, 1), life.objects.stats().poisoned), (expected, 0), "replayed");
        life.checkpoint().expect("is installed");
        PANICS.with(|panics| *panics.borrow_mut() = false);
    }
}

/// Allows what is there only.
fn if_there(tally: Option<&Tally>) -> Result<(), &'static str> {
    tally.map(drop).ok_or("nothing there")
}

#[test]
fn r2_a_refusal_is_told_once_what_it_saw_is_durable() {
    let disk = SimDisk::new();
    let life = Life::try_open_at(ObjectDurability::Strict, &disk, 1).expect("opens");
    let refused = life.objects.update_if(1, &Change::Add(1), if_there).expect("rests on nothing");
    assert_eq!(refused, Err("nothing there"));
    life.objects.submit(1, &Change::Add(9)).expect("logs");
    life.objects.remove(1).expect("logs");
    // From its check on nothing becomes durable, and each call that waits is told.
    let refused = life.objects.update_if(1, &Change::Add(1), |tally| {
        disk.fail_all_syncs(true);
        life.settle();
        if_there(tally)
    });
    assert!(
        matches!(refused.as_ref().err().and_then(cause), Some(DurabilityError::OutcomeUnknown(_))),
        "a refusal tells of a removal that a crash takes back: {refused:?}"
    );
}

#[test]
fn r1_all_objects_are_shown_once_what_is_shown_is_durable() {
    for removes in [false, true] {
        let disk = SimDisk::new();
        let life = Life::try_open_at(ObjectDurability::Strict, &disk, 1).expect("opens");
        life.objects.for_each(|_, _| panic!("there are none")).expect("rests on nothing");
        life.objects.submit(1, &Change::Add(9)).expect("logs");
        if removes {
            life.objects.remove(1).expect("logs");
        }
        disk.fail_all_syncs(true);
        life.settle();
        let mut shown = 0;
        let told = life.objects.for_each(|_, _| shown += 1);
        assert_eq!(shown, usize::from(!removes));
        assert!(
            matches!(told.as_ref().err().and_then(cause), Some(DurabilityError::OutcomeUnknown(_))),
            "what a crash takes back is shown as durable: {told:?}"
        );
    }
}

#[test]
fn r2_a_refusals_receipt_is_of_what_it_saw_also_of_an_absence_that_is_forgotten() {
    let life = Life::open(&SimDisk::new());
    life.objects.submit(1, &Change::Add(9)).expect("logs");
    life.tick();
    let removed = life.objects.remove(1).expect("logs").epoch();
    let refused = |life: &Life| {
        let (outcome, receipt) = life.objects.submit_if(1, &Change::Add(1), if_there).expect("runs");
        assert_eq!(outcome, Err("nothing there"));
        receipt.epoch()
    };
    let all = |life: &Life| life.objects.look_each(|_, _| panic!("there are none")).expect("runs").epoch();
    assert_eq!((refused(&life), all(&life)), (removed, removed));
    life.settle();
    life.checkpoint().expect("is installed");
    assert_eq!(life.objects.stats().objects, 0, "its cell went");
    assert!(all(&life) == removed && refused(&life) >= removed);
    // A cell without an operation was made for the check.
    assert!(life.objects.stats().objects == 1 && refused(&life) >= removed && all(&life) == removed);
    let looked = life.objects.look(&1, |object| assert!(object.is_none())).expect("runs").1.epoch();
    let keys = [1, 2];
    let many =
        life.objects.look_many(keys.iter(), |_, object| assert!(object.is_none())).expect("runs").epoch();
    assert!(looked >= removed && many >= removed, "{looked}, {many}, behind {removed}");
    let (outcome, receipt) = life.objects.submit_if(1, &Change::Add(1), |_| Ok::<(), ()>(())).expect("runs");
    assert!(outcome == Ok(1) && receipt.epoch() > removed);
}

#[test]
fn a_conditional_changes_receipt_is_of_the_epoch_in_which_it_was_logged() {
    let life = Life::open(&SimDisk::new());
    for round in 0..3 {
        life.tick();
        let now = life.objects.submit(1, &Change::Add(1)).expect("logs").1.epoch();
        let (outcome, receipt) = life.objects.submit_if(1, &Change::Add(1), if_there).expect("runs");
        assert!(outcome.is_ok() && receipt.epoch() == now, "round {round}: {outcome:?} in {now}");
    }
}
