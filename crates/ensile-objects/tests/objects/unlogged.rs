//! Objects without a log: what a checkpoint has is kept, and nothing else.

use std::task::{Context, Poll, Waker};

use ensile_objects::{ErrorKind, ObjectDurability, ObjectsError};
use ensile_sim::SimDisk;

use crate::rig::{Life, Rows, builder};
use crate::tally::{Change, Tally};

fn unlogged(disk: &SimDisk) -> Life {
    Life::try_open_at(ObjectDurability::NoLog, disk, 1).expect("opens")
}

#[test]
fn only_what_a_checkpoint_has_is_kept() {
    let disk = SimDisk::new();
    let life = unlogged(&disk);
    let add = |key, by| life.objects.submit(key, &Change::Add(by)).expect("is applied");
    assert_eq!((add(1, 5).0, add(1, 5).0, add(2, 7).0), (5, 15, 7));
    life.objects.put(3, Tally { sum: 9, operations: 1, padding: vec![1; 70_000] }).expect("is put");
    life.objects.submit(4, &Change::Add(1)).expect("is applied");
    life.objects.remove(4).expect("is removed");
    let report = life.checkpoint().expect("is installed");
    assert_eq!(
        (report.entries, life.objects.stats().log.entries),
        (5, 0),
        "two pieces of 3, and that 4 is absent"
    );
    let kept = life.rows();
    assert_eq!(kept.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    add(1, 100);
    life.objects.remove(2).expect("is removed");
    life.objects.submit(5, &Change::Toggle).expect("is applied");
    assert_eq!(life.rows().keys().copied().collect::<Vec<_>>(), [1, 3, 5], "it serves what was changed");
    drop(life);
    assert_eq!(Life::open(&disk).rows(), kept, "a clean end keeps no more than a crash");
    disk.crash(1);
    let life = unlogged(&disk);
    assert_eq!(life.rows(), kept);
    assert_eq!(life.objects.update(1, &Change::Add(1)).expect("is applied"), 31, "update waits for nothing");
    life.checkpoint().expect("is installed");
    disk.crash(2);
    drop(life);
    // A life with a log goes on from there.
    let life = Life::open(&disk);
    life.objects.submit(1, &Change::Add(0)).expect("logs");
    life.settle();
    disk.crash(3);
    drop(life);
    assert_eq!(Life::open(&disk).rows()[&1].sum, 62);
}

#[test]
fn nothing_that_was_logged_before_is_lost_by_a_life_without_a_log() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    life.objects.submit(1, &Change::Add(4)).expect("logs");
    life.settle();
    drop(life);
    let life = unlogged(&disk);
    life.objects.submit(1, &Change::Add(1)).expect("is applied");
    drop(life);
    disk.crash(1);
    let rows: Rows = Life::open(&disk).rows();
    assert_eq!((rows.len(), rows[&1].sum), (1, 4));
}

#[test]
fn no_receipt_is_durable_and_waiting_for_one_is_an_error() {
    let life = unlogged(&SimDisk::new());
    let (_, receipt) = life.objects.submit(1, &Change::Add(1)).expect("is applied");
    life.settle();
    assert!(!receipt.is_durable());
    assert!(matches!(receipt.durable(), Err(ObjectsError::NotLogged)));
    let mut future = Box::pin(receipt.durable_async());
    let answer = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(answer, Poll::Ready(Err(ObjectsError::NotLogged))), "{answer:?}");
    life.objects.close().expect("closes");
    let after = life.objects.submit(1, &Change::Add(1)).map(drop);
    assert!(after.as_ref().is_err_and(|error| error.kind() == ErrorKind::Closed), "{after:?}");
}

#[test]
fn a_check_refuses_and_a_poisoned_object_is_refused_without_a_log_as_with_one() {
    let life = unlogged(&SimDisk::new());
    let refuse = |tally: Option<&Tally>| if tally.is_none() { Err("nothing there") } else { Ok(()) };
    let refused = life.objects.update_if(1, &Change::Add(1), refuse).expect("runs");
    assert_eq!(refused, Err("nothing there"));
    life.objects.submit(1, &Change::Add(1)).expect("is applied");
    let sum = life.objects.update_if(1, &Change::Add(1), refuse).expect("runs").expect("it is there");
    assert_eq!(sum, 3);
    crate::tally::PANICS.with(|panics| *panics.borrow_mut() = true);
    let panicking = std::panic::AssertUnwindSafe(|| life.objects.submit(1, &Change::Panic).map(drop));
    assert!(std::panic::catch_unwind(panicking).is_err());
    crate::tally::PANICS.with(|panics| *panics.borrow_mut() = false);
    let poisoned = life.objects.submit(1, &Change::Add(1)).map(drop);
    assert!(matches!(poisoned, Err(ObjectsError::Poisoned { .. })), "{poisoned:?}");
    life.objects.remove(1).expect("ends the poison");
    assert_eq!(life.objects.submit(1, &Change::Add(2)).expect("is applied").0, 2);
}

#[test]
fn keys_of_another_program_are_refused_where_a_checkpoint_alone_has_them() {
    let disk = SimDisk::new();
    let life = unlogged(&disk);
    life.objects.submit(7, &Change::Add(1)).expect("is applied");
    life.checkpoint().expect("is installed");
    drop(life);
    let even = |key: &[u8]| {
        if key.iter().all(|byte| byte % 2 == 0) { Ok(()) } else { Err("it is odd".to_owned()) }
    };
    let opened = builder(&disk, 1).accept_keys(even).open::<u64, Tally>().map(drop);
    let refused = opened.expect_err("a key is odd");
    assert_eq!(refused.kind(), ErrorKind::WrongFolder, "{refused}");
    assert!(refused.to_string().contains("none of this program's: it is odd"), "{refused}");
    assert_eq!(unlogged(&disk).rows().keys().copied().collect::<Vec<_>>(), [7], "nothing was changed");
}
