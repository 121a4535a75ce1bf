//! What a panic leaves behind: one of the application's, and one of ours while a worker is bound.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ensile_base::Tid;
use ensile_base::sync::Mutex;
use ensile_sim::SimDisk;

use crate::testing::{decode_number, encode_number};
use crate::{CodecResult, ObjectDurability, Objects, ObjectsBuilder, Persistent};

/// Its encoder panics where it is told to.
struct Number(u64);

/// Cannot be encoded.
const NO_NUMBER: u64 = u64::MAX;

impl Persistent for Number {
    type Operation = u64;
    type Output = ();
    const VERSION: u16 = 1;
    const OPERATION_VERSION: u16 = 1;

    fn apply(object: &mut Option<Self>, number: &u64) {
        *object = Some(Self(*number));
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Self::encode_operation(&self.0, out);
    }

    fn decode(_: u16, bytes: &[u8]) -> CodecResult<Self> {
        Self::decode_operation(1, bytes).map(Self)
    }

    fn encode_operation(number: &u64, out: &mut Vec<u8>) {
        encode_number(*number, out);
        assert_ne!(*number, NO_NUMBER, "told to");
    }

    fn decode_operation(_: u16, bytes: &[u8]) -> CodecResult<u64> {
        decode_number(bytes)
    }
}

fn open(disk: &SimDisk) -> Objects<u64, Number> {
    let builder = ObjectsBuilder::new("unused").disk(Arc::new(disk.mounted()));
    builder.durability(ObjectDurability::Relaxed).open().expect("opens")
}

#[test]
fn a_panic_under_an_objects_lock_does_not_make_later_changes_those_that_wait() {
    let numbers = open(&SimDisk::new());
    let runtime = &*numbers.runtime;
    let lock = Mutex::new(Tid::ZERO);
    let panics = || {
        let _held = lock.lock();
        panic!("told to");
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    let mut worker = runtime.worker().expect("is open");
    let locked = runtime.try_lock(&lock, &mut worker).expect("the log takes entries");
    assert!(locked.is_some(), "it is free");
    drop(locked);
    worker.appender.release();
    runtime.give_back(worker);
    // So it is with an object that a call of the application's has panicked at.
    numbers.update(1, &5).expect("logs");
    let looks = || numbers.look(&1, |_| panic!("told to")).map(drop);
    assert!(catch_unwind(AssertUnwindSafe(looks)).is_err());
    let checks = || numbers.submit_if(1, &6, |_| -> Result<(), ()> { panic!("told to") }).map(drop);
    assert!(catch_unwind(AssertUnwindSafe(checks)).is_err());
    assert!(numbers.is_found_at_once(&1), "its cell is found and locked without the shard's lock");
    numbers.update(1, &7).expect("logs");
    assert_eq!(numbers.read(&1, |number| number.map(|number| number.0)).expect("reads"), Some(7));
}

#[test]
fn an_encoder_that_panics_has_logged_nothing_and_holds_nothing_back() {
    let numbers = open(&SimDisk::new());
    let (_, before) = numbers.submit(1, &5).expect("logs");
    let panics = || numbers.submit(1, &NO_NUMBER).map(drop);
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    before.durable().expect("the log goes on");
    let (_, behind) = numbers.submit(1, &6).expect("logs");
    behind.durable().expect("the log goes on");
    numbers.close().expect("all is durable");
}

/// Panics while a worker is bound: no object has a last TID of an epoch that has not come.
fn panics_bound(numbers: &Objects<u64, Number>, has_space: bool) {
    let runtime = &*numbers.runtime;
    let of_the_future = Tid::first_of(runtime.epochs.now().plus(1_000_000));
    let mut worker = runtime.worker().expect("is open");
    worker.body.extend_from_slice(b"bytes");
    if has_space {
        let lock = Mutex::new(of_the_future);
        let locked = runtime.lock(&lock, worker).expect("the log takes entries");
        let _ = runtime.log(locked, |last| last);
    } else {
        let mut last = of_the_future;
        let _ = runtime.log_at_once(&mut worker, &mut last);
    }
}

#[test]
fn e1_a_panic_between_bind_and_unbind_ends_the_log_and_holds_nobody_up() {
    for has_space in [false, true] {
        let disk = SimDisk::new();
        let numbers = open(&disk);
        numbers.submit(1, &5).expect("logs").1.durable().expect("is durable");
        let (_, waits) = numbers.submit(1, &6).expect("logs");
        let panics = || panics_bound(&numbers, has_space);
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        // Durable before the panic, or told: nobody waits for a binding that nobody ends.
        for told in [numbers.update(1, &7), numbers.close()] {
            let said = told.expect_err("the log has ended").to_string();
            assert!(said.contains("a thread panicked while it logged an entry"), "{said}");
        }
        let outcome = waits.durable();
        drop(numbers);
        let again = open(&disk);
        let found = again.read(&1, |number| number.map(|number| number.0)).expect("reads");
        assert!(found == Some(6) || (found == Some(5) && outcome.is_err()), "{found:?}, {outcome:?}");
        again.close().expect("closes");
    }
}
