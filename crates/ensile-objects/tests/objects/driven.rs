//! Objects without threads of their own: one thread of the application's does all, and others may wait meanwhile.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use ensile_objects::{
    Application, ApplicationLog, CallBackResult, CheckpointPolicy, CheckpointReason, DurableObjects,
    ObjectReceipt, ObjectWriter, SharedFolder, ShippingConfig,
};
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

/// More than all log buffers take, in entries of this many bytes.
const MORE: (u64, usize) = (250, 300 << 10);

#[test]
fn o9_one_thread_logs_more_than_the_buffers_take_and_never_drives() {
    let disk = SimDisk::new();
    let objects = open(&disk);
    let (entries, bytes) = MORE;
    for key in 0..entries {
        let long = crate::tally::Tally { sum: key, operations: 1, padding: vec![7; bytes] };
        objects.put(key, long).expect("logs");
    }
    assert!(objects.stats().log.buffer_waits > 0, "there was room for all of it");
    objects.close().expect("closes");
    let again = open(&disk);
    assert!((0..entries).all(|key| operations(&again, key) == 1));
}

#[test]
fn o9_one_thread_waits_for_a_checkpoint_and_for_the_shared_store() {
    let disk = SimDisk::new();
    let shared = SharedFolder::new(Arc::new(disk.at("/shared").mounted()));
    let objects: Tallies = builder(&disk.at("/a"), 2)
        .ship_to(ShippingConfig::new(Arc::new(shared)))
        .without_threads()
        .open()
        .expect("opens");
    for key in 0..20 {
        objects.submit(key, &Change::Add(1)).expect("logs");
    }
    assert_eq!(objects.checkpoint().wait().expect("is installed").entries, 20);
    let (_, receipt) = objects.submit(7, &Change::Add(1)).expect("logs");
    let shipped = objects.ship(Duration::from_secs(600)).expect("is shipped");
    assert!(shipped >= receipt.epoch());
    objects.close().expect("closes");
}

#[test]
fn o9_who_asked_for_a_checkpoint_hears_of_a_log_that_has_stopped() {
    let disk = SimDisk::new();
    let objects = open(&disk);
    objects.submit(1, &Change::Add(1)).expect("logs").1.durable().expect("is durable");
    let asked = objects.checkpoint();
    disk.fail_all_syncs(true);
    objects.submit(1, &Change::Add(1)).expect("logs").1.durable().expect_err("its sync fails");
    while objects.drive().is_some() {}
    let outcome = asked.outcome().expect("whoever waits for it would wait for ever");
    outcome.expect_err("the log has stopped");
    asked.wait().expect_err("the log has stopped");
}

/// An application of one object, whose guard is held over the log call and the change.
#[derive(Default)]
struct Guarded {
    object: Mutex<u64>,
    in_checkpoint: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Application for Guarded {
    fn checkpoint(&self, from: u64, out: &mut ObjectWriter<'_>) -> Option<u64> {
        if let Some(hook) = self.in_checkpoint.lock().expect("no panic").take() {
            hook();
        }
        out.ckpt_each(from..1, |_, bytes| {
            let object = self.object.lock().expect("no panic");
            bytes.extend_from_slice(&object.to_le_bytes());
            Ok(Some(object))
        })
    }

    fn load_one(&self, _: u64, bytes: &[u8]) -> CallBackResult {
        *self.object.lock().expect("no panic") = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        Ok(())
    }

    fn replay_one(&self, _: u64, _: u32, _: &[&[u8]]) -> CallBackResult {
        *self.object.lock().expect("no panic") += 1;
        Ok(())
    }
}

fn open_guarded(disk: &SimDisk) -> (Arc<Guarded>, ApplicationLog) {
    let guarded = Arc::new(Guarded::default());
    let log = builder(disk, 1).without_threads().open_application(Arc::clone(&guarded));
    (guarded, log.expect("opens"))
}

impl Guarded {
    /// Logs more than the buffers take, all of it under one hold of the guard.
    fn log_more(&self, log: &ApplicationLog) {
        let mut object = self.object.lock().expect("no panic");
        let (entries, bytes) = MORE;
        for _ in 0..entries {
            log.log(0, 0, &[&vec![7; bytes]]).expect("logs");
            *object += 1;
        }
    }
}

#[test]
fn o9_a_thread_waits_for_log_space_under_a_guard_that_the_driven_checkpoint_wants() {
    let disk = SimDisk::new();
    let (guarded, log) = open_guarded(&disk);
    let ((tell_held, held), (enter, entered)) = (mpsc::channel(), mpsc::channel());
    *guarded.in_checkpoint.lock().expect("no panic") = Some(Box::new(move || {
        enter.send(()).expect("the other thread waits for it");
        // The guard is the other thread's by now, until it has logged all.
        held.recv().expect("it has it");
    }));
    let (all, its_log) = (&guarded, &log);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            entered.recv().expect("a checkpoint begins");
            let mut object = all.object.lock().expect("no panic");
            tell_held.send(()).expect("the call-back waits for it");
            let (entries, bytes) = MORE;
            for _ in 0..entries {
                its_log.log(0, 0, &[&vec![7; bytes]]).expect("logs");
                *object += 1;
            }
        });
        let asked = log.checkpoint();
        while asked.outcome().is_none() {
            std::thread::sleep(log.drive().expect("they are open"));
        }
        assert_eq!(asked.wait().expect("is installed").entries, 1);
    });
    log.close().expect("closes");
    let (again, _log) = open_guarded(&disk);
    assert_eq!(*again.object.lock().expect("no panic"), MORE.0);
}

#[test]
fn o9_a_result_becomes_durable_while_the_driver_is_in_a_call_back() {
    let disk = SimDisk::new();
    let (guarded, log) = open_guarded(&disk);
    let ((enter, entered), (tell, told)) = (mpsc::channel(), mpsc::channel());
    *guarded.in_checkpoint.lock().expect("no panic") = Some(Box::new(move || {
        enter.send(()).expect("the other thread waits for it");
        told.recv().expect("it is durable");
    }));
    let (all, its_log) = (&guarded, &log);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            entered.recv().expect("a checkpoint begins");
            let receipt = {
                let mut object = all.object.lock().expect("no panic");
                let receipt = its_log.log(0, 0, &[]).expect("logs");
                *object += 1;
                receipt
            };
            receipt.durable().expect("is durable");
            tell.send(()).expect("the call-back waits for it");
        });
        log.checkpoint().wait().expect("is installed");
    });
    log.close().expect("closes");
}

thread_local! {
    /// This thread holds the guard.
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

/// Calls this as a waker.
struct CallAsWaker<F>(F);

impl<F: Fn() + Send + Sync> Wake for CallAsWaker<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// Has `call` called as a waker once this is durable, which it is not yet.
fn call_when_durable(mut durable: DurableObjects, call: impl Fn() + Send + Sync + 'static) {
    let waker = Waker::from(Arc::new(CallAsWaker(call)));
    assert!(Pin::new(&mut durable).poll(&mut Context::from_waker(&waker)).is_pending());
    // A future that is dropped takes its waker back.
    std::mem::forget(durable);
}

#[test]
fn o9_a_waker_is_not_called_under_a_guard_of_the_thread_that_waits_for_log_space() {
    let disk = SimDisk::new();
    let (guarded, log) = open_guarded(&disk);
    let (called, under_guard) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let receipt = log.log(0, 0, &[]).expect("logs");
    *guarded.object.lock().expect("no panic") += 1;
    let counts = (Arc::clone(&called), Arc::clone(&under_guard));
    call_when_durable(receipt.durable_async(), move || {
        counts.0.fetch_add(1, Ordering::Relaxed);
        counts.1.fetch_add(u64::from(HOLDS.with(Cell::get)), Ordering::Relaxed);
    });
    HOLDS.with(|holds| holds.set(true));
    guarded.log_more(&log);
    HOLDS.with(|holds| holds.set(false));
    assert!(log.stats().log.buffer_waits > 0, "there was room for all of it");
    while called.load(Ordering::Relaxed) == 0 {
        std::thread::sleep(log.drive().expect("they are open"));
    }
    assert_eq!(under_guard.load(Ordering::Relaxed), 0, "a waker that takes the guard would wait for ever");
    log.close().expect("closes");
}

#[test]
fn o9_a_waker_waits_for_a_result_of_its_own_and_for_log_space() {
    let disk = SimDisk::new();
    let objects = Arc::new(open(&disk));
    let (_, receipt) = objects.submit(1, &Change::Add(1)).expect("logs");
    let (its, is_over) = (Arc::clone(&objects), Arc::new(AtomicBool::new(false)));
    let over = Arc::clone(&is_over);
    call_when_durable(receipt.durable_async(), move || {
        its.submit(2, &Change::Add(1)).expect("logs").1.durable().expect("is durable");
        let (entries, bytes) = MORE;
        for key in 0..entries {
            let long = crate::tally::Tally { sum: key, operations: 1, padding: vec![7; bytes] };
            its.put(key, long).expect("logs");
        }
        over.store(true, Ordering::Relaxed);
    });
    drive_until(&objects, || is_over.load(Ordering::Relaxed));
    objects.close().expect("closes");
}

#[test]
fn o9_a_waker_on_a_threads_logger_waits_for_log_space() {
    let folder = std::env::temp_dir().join(format!("ensile-objects-waker-{}", std::process::id()));
    let objects: Arc<Tallies> = Arc::new(ensile_objects::ObjectsBuilder::new(&folder).open().expect("opens"));
    let (tell, told) = mpsc::channel();
    let (_, receipt) = objects.submit(1, &Change::Add(1)).expect("logs");
    let its = Arc::clone(&objects);
    let mut durable = receipt.durable_async();
    let waker = Waker::from(Arc::new(CallAsWaker(move || {
        let (entries, bytes) = MORE;
        for key in 0..entries {
            let long = crate::tally::Tally { sum: key, operations: 1, padding: vec![7; bytes] };
            its.put(key, long).expect("logs");
        }
        tell.send(()).expect("the test waits for it");
    })));
    if Pin::new(&mut durable).poll(&mut Context::from_waker(&waker)).is_pending() {
        told.recv_timeout(Duration::from_secs(600)).expect("the logger waits for itself");
    }
    objects.close().expect("closes");
    std::fs::remove_dir_all(&folder).expect("is removed");
}
