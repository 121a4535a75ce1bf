//! What the calls of a collection do, on a disk of the machine or a simulated one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_durability::DurabilityError;
use ensile_objects::{
    CheckpointPolicy, CheckpointReason, CodecResult, ErrorKind, ObjectDurability, Objects, ObjectsBuilder,
    ObjectsError, Persistent,
};
use ensile_sim::SimDisk;

use crate::cause;
use crate::rig::{Life, Tallies, builder, checkpoint};
use crate::tally::{Change, Tally};

/// A folder of the machine's own, removed when it is dropped.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("ensile-objects-{}-{number}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn strict_updates_of_several_threads_are_there_after_a_close_and_after_none() {
    let folder = Folder::new();
    let open = || -> Tallies { ObjectsBuilder::new(&folder.0).recovery_threads(3).open().expect("opens") };
    let objects = open();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for key in 0..30 {
                    objects.update(key % 5, &Change::Grow(10)).expect("logs");
                }
            });
        }
        objects.checkpoint().wait().expect("is installed");
    });
    drop(objects);
    let objects = open();
    for key in 0..5 {
        let operations = objects.read(&key, |tally| tally.expect("is there").operations).expect("reads");
        assert_eq!(operations, 18);
    }
    objects.close().expect("closes");
    let after = objects.submit(1, &Change::Toggle).map(drop);
    assert!(after.as_ref().is_err_and(|error| error.kind() == ErrorKind::Closed), "{after:?}");
}

#[test]
fn a_receipt_is_durable_when_it_says_so_and_one_stands_for_several() {
    let life = Life::open(&SimDisk::new());
    let one = life.objects.submit(1, &Change::Add(1)).expect("logs").1;
    life.tick();
    let other = life.objects.put(2, Tally { sum: 1, operations: 1, padding: vec![] }).expect("logs");
    let both = other.and(one);
    assert!(one.epoch() < other.epoch() && both.epoch() == other.epoch() && !both.is_durable());
    let mut future = Box::pin(both.durable_async());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    life.settle();
    assert!(both.is_durable());
    assert!(matches!(future.as_mut().poll(&mut context), std::task::Poll::Ready(Ok(()))));
    both.durable().expect("is durable");
}

#[test]
fn a_receipt_of_other_objects_is_refused_and_not_waited_for() {
    let (life, other) = (Life::open(&SimDisk::new()), Life::open(&SimDisk::new()));
    let own = life.objects.submit(1, &Change::Add(1)).expect("logs").1;
    let foreign = other.objects.submit(1, &Change::Add(1)).expect("logs").1;
    let both = std::panic::AssertUnwindSafe(|| own.and(foreign));
    assert!(std::panic::catch_unwind(both).is_err(), "one log says nothing of the other");
    let newest = life.objects.stats().epoch;
    let above = life.objects.receipt(newest.next());
    assert!(!above.is_durable());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(polled) = Box::pin(above.durable_async()).as_mut().poll(&mut context) else {
        panic!("it would wait without end");
    };
    for refused in [above.durable(), polled] {
        let Err(ObjectsError::Misuse(text)) = refused else { panic!("{refused:?}") };
        assert!(
            text.contains(&format!("a receipt of epoch {} is of other objects", newest.next())),
            "{text}"
        );
    }
    let of_newest = life.objects.receipt(newest);
    life.settle();
    of_newest.durable().expect("E has come to it");
}

#[test]
fn a_result_on_a_full_disk_is_refused_after_the_wait_that_was_asked_for_and_not_before() {
    let (disk, clock) = (SimDisk::new(), Clock::manual());
    let wait = Duration::from_millis(700);
    let objects = builder(&disk, 1).full_disk_wait(wait).manual_clock(clock.clone()).open().expect("opens");
    let life = Life { objects, clock, loggers: 1 };
    disk.set_capacity(Some(0));
    let large = Tally { sum: 1, operations: 1, padding: vec![1; 100_000] };
    let receipt = life.objects.put(1, large).expect("logs");
    let mut future = Box::pin(receipt.durable_async());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    life.settle();
    life.clock.advance(wait / 2);
    life.settle();
    assert!(future.as_mut().poll(&mut context).is_pending(), "it waits for space");
    life.clock.advance(wait);
    life.settle();
    let std::task::Poll::Ready(answer) = future.as_mut().poll(&mut context) else { panic!("it still waits") };
    let is_told = matches!(answer.as_ref().err().and_then(cause), Some(DurabilityError::NotDurableYet(_)));
    assert!(is_told, "{answer:?}");
}

#[test]
fn several_keys_show_what_each_shows_by_itself_and_rest_on_all_of_it() {
    let life = Life::open(&SimDisk::new());
    for key in (0..500).step_by(2) {
        life.objects.submit(key, &Change::Add(key)).expect("logs");
    }
    life.tick();
    let newest = life.objects.submit(40, &Change::Add(1)).expect("logs").1;
    for keys in [0..0, 0..1, 0..16, 30..47, 0..600] {
        let asked: Vec<u64> = keys.clone().chain(keys.clone().take(2)).collect();
        let mut shown = Vec::new();
        let receipt = life
            .objects
            .look_many(&asked, |number, tally| shown.push((number, tally.cloned())))
            .expect("none is poisoned");
        let alone = |key: &u64| life.objects.look(key, |tally| tally.cloned()).expect("none is poisoned");
        let wanted: Vec<_> = asked.iter().map(|key| alone(key).0).enumerate().collect();
        assert_eq!(shown, wanted);
        let rests_on = asked.iter().map(|key| alone(key).1.epoch()).max().unwrap_or_default();
        assert_eq!(receipt.epoch(), rests_on);
        assert_eq!(receipt.is_durable(), !keys.contains(&40) && rests_on <= life.durable());
    }
    life.settle();
    newest.durable().expect("is durable");
    let mut count = 0;
    life.objects.read_many([&40, &41], |_, tally| count += usize::from(tally.is_some())).expect("reads");
    assert_eq!(count, 1);
}

#[test]
fn an_operation_that_is_refused_before_it_is_logged_leaves_nothing() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    let above = |least| {
        move |tally: Option<&Tally>| match tally {
            Some(tally) if tally.sum >= least => Ok(()),
            _ => Err("too little"),
        }
    };
    assert_eq!(life.objects.update_if(1, &Change::Toggle, above(5)).expect("runs"), Err("too little"));
    life.settle();
    assert_eq!(life.objects.stats().log.entries, 0);
    life.objects.submit(1, &Change::Add(9)).expect("logs");
    assert_eq!(life.objects.update_if(1, &Change::Add(1), above(5)).expect("runs"), Ok(19));
}

#[test]
fn objects_longer_than_a_block_come_back_from_a_checkpoint() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    for (key, bytes) in [(1, 3), (2, 70_000), (3, 700_000), (4, 65_520)] {
        life.objects.submit(key, &Change::Grow(bytes)).expect("logs");
    }
    let rows = life.rows();
    life.settle();
    let report = life.checkpoint().expect("is installed");
    assert_eq!(report.entries, 1 + 2 + 11 + 1, "pieces are entries");
    drop(life);
    disk.crash(3);
    let life = Life::open(&disk);
    assert_eq!((life.objects.recovery().entries, life.rows()), (0, rows));
}

#[test]
fn checkpoints_begin_by_the_policy_that_is_registered_and_free_the_log() {
    let life = Life::open(&SimDisk::new());
    let files_after = |rounds: u64| {
        for round in 0..rounds {
            life.objects.submit(round % 3, &Change::Grow(2000)).expect("logs");
            // What is logged is the operation, whatever it makes: many are needed for a file.
            for key in 0..100 {
                life.objects.submit(key, &Change::Add(round)).expect("logs");
            }
            life.settle();
            life.step_checkpointers();
        }
        life.objects.stats()
    };
    assert_eq!(files_after(40).checkpoints.installed, 0);
    let policy = CheckpointPolicy { log_bytes: Some(20_000), ..CheckpointPolicy::on_demand() };
    life.objects.register_policy(&policy).expect("works");
    let stats = files_after(80);
    assert!(stats.checkpoints.installed > 1 && stats.log.files_removed > 2, "{stats:?}");
    let adaptive = ensile_objects::AdaptiveThreshold {
        lower: 9,
        upper: 3,
        ..ensile_objects::AdaptiveThreshold::of_capacity(1)
    };
    let policy = CheckpointPolicy { adaptive: Some(adaptive), ..CheckpointPolicy::on_demand() };
    assert!(life.objects.register_policy(&policy).is_err());
}

#[test]
fn so_many_logged_operations_ask_for_a_checkpoint() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    let policy = CheckpointPolicy { log_records: Some(100), ..CheckpointPolicy::on_demand() };
    life.objects.register_policy(&policy).expect("works");
    let after = |operations: u64| {
        for key in 0..operations {
            life.objects.submit(key, &Change::Add(1)).expect("logs");
        }
        for _ in 0..20 {
            life.settle();
            life.step_checkpointers();
        }
        life.objects.stats().checkpoints
    };
    assert_eq!(after(99).installed, 0);
    let checkpoints = after(1);
    let reason = checkpoints.last.map(|last| last.reason);
    assert_eq!((checkpoints.installed, reason), (1, Some(CheckpointReason::LogRecords)));
    assert_eq!(after(99).installed, 1, "they are counted from the last one on");
}

#[test]
fn the_debug_mode_names_the_first_difference() {
    let disk = SimDisk::new();
    let objects: Tallies = builder(&disk, 1).check_operations().open().expect("opens");
    objects.submit(1, &Change::Add(3)).expect("is deterministic");
    objects.submit(1, &Change::Toggle).expect("is deterministic");
    let said = objects.submit(1, &Change::AddFromThread).map(drop).expect_err("is not").to_string();
    assert!(said.contains("byte 0 of the object's encoding is 1; applied again, it is 2"), "{said}");
}

#[test]
fn a_folder_is_replayed_against_the_present_program() {
    let folder = Folder::new();
    let objects: Tallies = ObjectsBuilder::new(&folder.0)
        .policy(&CheckpointPolicy::on_demand())
        .durability(ObjectDurability::Relaxed)
        .open()
        .expect("opens");
    for key in 0..10 {
        objects.submit(key, &Change::Add(key)).expect("logs");
    }
    assert!(Tallies::check(&folder.0).is_err(), "it is in use");
    objects.checkpoint().wait().expect("is installed");
    objects.submit(3, &Change::Toggle).expect("logs");
    objects.close().expect("closes");
    let check = Tallies::check(&folder.0).expect("reads");
    assert!(check.is_whole() && check.objects == 9, "{check:?}");

    let objects: Tallies = ObjectsBuilder::new(&folder.0).open().expect("opens");
    objects.update(4, &Change::AddFromThread).expect("logs");
    objects.update(5, &Change::Panic).expect("does not panic now");
    objects.close().expect("closes");
    crate::tally::PANICS.with(|panics| *panics.borrow_mut() = true);
    let check = Tallies::check(&folder.0).expect("reads");
    crate::tally::PANICS.with(|panics| *panics.borrow_mut() = false);
    assert_eq!(check.poisoned, ["5"]);
    assert_eq!(check.difference.as_ref().map(|(key, _)| &key[..]), Some("4"), "{check:?}");
    assert!(!check.is_whole());

    let check = Objects::<u64, Other<3>>::check(&folder.0).expect("reads");
    assert!(!check.examination.is_whole(), "another program understands nothing of it");
}

#[test]
fn a_check_names_what_panics_or_is_refused_only_the_second_time() {
    let folder = Folder::new();
    let objects: Tallies = ObjectsBuilder::new(&folder.0).open().expect("opens");
    objects.submit(1, &Change::Toggle).expect("makes it");
    objects.submit(1, &Change::Toggle).expect("removes it");
    objects.close().expect("closes");
    let calls = std::cell::Cell::new(0);
    crate::tally::in_operations(Some(Box::new(move || {
        calls.set(calls.get() + 1);
        // Two operations, twice.
        assert_ne!(calls.get(), 4, "told to");
    })));
    let check = Tallies::check(&folder.0).expect("reads");
    crate::tally::in_operations(None);
    assert!(check.poisoned == ["1"] && !check.is_whole(), "{check}");
    assert!(Tallies::check(&folder.0).expect("reads").is_whole());

    let folder = Folder::new();
    let once: Objects<u64, Once> = ObjectsBuilder::new(&folder.0).open().expect("opens");
    once.update(1, &7).expect("logs");
    once.remove(1).expect("logs");
    once.close().expect("closes");
    ONCE_APPLIED.with(|applied| applied.set(false));
    let said = Objects::<u64, Once>::check(&folder.0).expect("reads").to_string();
    assert!(said.contains("NOT") && said.contains("read again, it is refused: "), "{said}");
    assert!(said.contains("understood once"), "{said}");
}

thread_local! {
    static ONCE_APPLIED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// No operation of it is understood once one was applied.
struct Once(u64);

impl Persistent for Once {
    type Operation = u64;
    type Output = ();
    const VERSION: u16 = 1;
    const OPERATION_VERSION: u16 = 1;

    fn apply(once: &mut Option<Self>, number: &u64) {
        ONCE_APPLIED.with(|applied| applied.set(true));
        *once = Some(Self(*number));
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }

    fn decode(_: u16, bytes: &[u8]) -> CodecResult<Self> {
        bytes.try_into().map(u64::from_le_bytes).map(Self).map_err(|_| "not eight bytes".into())
    }

    fn encode_operation(number: &u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&number.to_le_bytes());
    }

    fn decode_operation(_: u16, bytes: &[u8]) -> CodecResult<u64> {
        if ONCE_APPLIED.with(std::cell::Cell::get) {
            return Err("understood once".into());
        }
        bytes.try_into().map(u64::from_le_bytes).map_err(|_| "not eight bytes".into())
    }
}

/// A tally as the program before had it, or a later one.
struct Other<const VERSION: u16>(u64);

impl<const V: u16> Persistent for Other<V> {
    type Operation = u64;
    type Output = ();
    const VERSION: u16 = V;
    const OPERATION_VERSION: u16 = 1;

    fn apply(_: &mut Option<Self>, _: &u64) {}

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }

    fn decode(_: u16, _: &[u8]) -> CodecResult<Self> {
        Err("is not read here".into())
    }

    fn encode_operation(by: &u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&by.to_le_bytes());
    }

    fn decode_operation(_: u16, _: &[u8]) -> CodecResult<u64> {
        Err("is not read here".into())
    }
}

fn written_by<const V: u16>(with_checkpoint: bool) -> SimDisk {
    let disk = SimDisk::new();
    let objects: Objects<u64, Other<V>> =
        builder(&disk, 1).durability(ObjectDurability::Relaxed).open().expect("opens");
    objects.put(1, Other(77)).expect("logs");
    if with_checkpoint {
        checkpoint(&objects);
    }
    objects.close().expect("closes");
    disk
}

#[test]
fn older_versions_are_made_ones_of_today_and_newer_ones_are_refused() {
    for with_checkpoint in [false, true] {
        let life = Life::open(&written_by::<1>(with_checkpoint));
        assert_eq!(life.objects.read(&1, |tally| tally.map(|tally| tally.sum)).expect("reads"), Some(77));
        let refused = Life::try_open(&written_by::<3>(with_checkpoint), 1)
            .map(drop)
            .expect_err("is refused")
            .to_string();
        assert!(
            refused.contains("an object is of version 3, and this program knows versions up to 2"),
            "{refused}"
        );
    }
}

#[test]
fn a_key_that_is_too_long_is_refused() {
    let disk = SimDisk::new();
    let objects: Objects<String, Tally> = builder(&disk, 1).open().expect("opens");
    let key = "k".repeat(ensile_base::limits::KEY_BYTES_MAX + 1);
    assert!(matches!(objects.submit(key, &Change::Toggle), Err(ObjectsError::KeyTooLong { .. })));
    assert_eq!(objects.stats().objects, 0);
}
