//! Objects without threads of their own: one thread of the application's does all, and others may wait meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ensile_objects::{CheckpointPolicy, CheckpointReason, ObjectReceipt};
use ensile_sim::SimDisk;

use crate::rig::{Tallies, builder};
use crate::tally::Change;

fn open(disk: &SimDisk) -> Tallies {
    builder(disk, 2).without_threads().open().expect("opens")
}

/// Drives until this is so.
fn drive_until(objects: &Tallies, mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::sleep(objects.drive().expect("they are open"));
    }
}

fn operations(objects: &Tallies, key: u64) -> u64 {
    objects.look(&key, |tally| tally.map_or(0, |tally| tally.operations)).expect("is shown").0
}

#[test]
fn one_thread_logs_waits_makes_a_checkpoint_and_closes() {
    let disk = SimDisk::new();
    let objects = open(&disk);
    for key in 0..20 {
        objects.submit(key, &Change::Add(1)).expect("logs");
    }
    // It waits, and nobody else drives.
    objects.submit(7, &Change::Add(1)).expect("logs").1.durable().expect("is durable");
    let (_, receipt) = objects.submit(8, &Change::Add(1)).expect("logs");
    drive_until(&objects, || receipt.is_durable());
    let asked = objects.checkpoint();
    drive_until(&objects, || asked.outcome().is_some());
    assert_eq!(asked.wait().expect("is installed").entries, 20);
    // One that begins by itself.
    let policy = CheckpointPolicy { log_records: Some(5), ..CheckpointPolicy::on_demand() };
    objects.register_policy(&policy).expect("works");
    for key in 0..5 {
        objects.submit(key, &Change::Add(1)).expect("logs");
    }
    let last = || objects.stats().checkpoints.last.expect("one was made").reason;
    drive_until(&objects, || last() == CheckpointReason::LogRecords);
    objects.close().expect("closes");
    assert_eq!(objects.drive(), None);
    let again = open(&disk);
    assert_eq!([0, 7, 8, 19].map(|key| operations(&again, key)), [2, 2, 2, 1]);
}

#[test]
fn threads_wait_while_another_one_drives() {
    let disk = SimDisk::new();
    let objects = open(&disk);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let driver = scope.spawn(|| drive_until(&objects, || is_over.load(Ordering::Relaxed)));
        let waiters: Vec<_> = (0..3)
            .map(|key| {
                let objects = &objects;
                scope.spawn(move || {
                    for _ in 0..10 {
                        let (_, receipt) = objects.submit(key, &Change::Add(1)).expect("logs");
                        receipt.durable().expect("is durable");
                    }
                    objects.checkpoint().wait().expect("is installed");
                })
            })
            .collect();
        waiters.into_iter().for_each(|waiter| waiter.join().expect("waits in vain"));
        is_over.store(true, Ordering::Relaxed);
        driver.join().expect("drives");
    });
    drop(objects);
    let again = open(&disk);
    assert_eq!([0, 1, 2].map(|key| operations(&again, key)), [10; 3]);
}

#[test]
fn where_there_are_threads_nothing_is_to_be_driven() {
    let folder = std::env::temp_dir().join(format!("ensile-objects-driven-{}", std::process::id()));
    let objects: Tallies = ensile_objects::ObjectsBuilder::new(&folder)
        .epoch_interval(Duration::from_millis(3))
        .open()
        .expect("opens");
    let durable = |receipt: ObjectReceipt<'_>| receipt.durable().expect("is durable");
    durable(objects.submit(1, &Change::Add(1)).expect("logs").1);
    assert_eq!(objects.drive(), Some(Duration::from_millis(3)));
    objects.close().expect("closes");
    assert_eq!(objects.drive(), None);
    std::fs::remove_dir_all(&folder).expect("is removed");
}
