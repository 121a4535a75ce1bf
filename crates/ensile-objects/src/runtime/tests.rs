//! What a panic of the application's leaves behind in the runtime.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ensile_base::Tid;
use ensile_base::sync::Mutex;
use ensile_sim::SimDisk;

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
        out.extend_from_slice(&number.to_le_bytes());
        assert_ne!(*number, NO_NUMBER, "told to");
    }

    fn decode_operation(_: u16, bytes: &[u8]) -> CodecResult<u64> {
        bytes.try_into().map(u64::from_le_bytes).map_err(|_| "not eight bytes".into())
    }
}

fn open(disk: &SimDisk) -> Objects<u64, Number> {
    let builder = ObjectsBuilder::new("unused").disk(Arc::new(disk.mounted()));
    builder.durability(ObjectDurability::Relaxed).open().expect("opens")
}

#[test]
fn a_panic_under_an_objects_lock_does_not_make_later_changes_those_that_wait() {
    let numbers = open(&SimDisk::new());
    let runtime = numbers.runtime();
    let lock = Mutex::new(Tid::ZERO);
    let panics = || {
        let _held = lock.lock();
        panic!("told to");
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    let mut worker = runtime.worker();
    let locked = runtime.try_lock(&lock, &mut worker).expect("the log takes entries");
    assert!(locked.is_some(), "it is free");
    drop(locked);
    worker.release();
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
