//! A close that panics: nothing goes on behind it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ensile_sim::SimDisk;

use crate::{CodecResult, Objects, ObjectsBuilder, ObjectsError, Persistent};

struct Counter(u64);

impl Persistent for Counter {
    type Operation = u64;
    type Output = u64;
    const VERSION: u16 = 1;
    const OPERATION_VERSION: u16 = 1;

    fn apply(object: &mut Option<Self>, by: &u64) -> u64 {
        let counter = object.get_or_insert(Self(0));
        counter.0 += by;
        counter.0
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Self::encode_operation(&self.0, out);
    }

    fn decode(_: u16, bytes: &[u8]) -> CodecResult<Self> {
        Self::decode_operation(1, bytes).map(Self)
    }

    fn encode_operation(by: &u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&by.to_le_bytes());
    }

    fn decode_operation(_: u16, bytes: &[u8]) -> CodecResult<u64> {
        bytes.try_into().map(u64::from_le_bytes).map_err(|_| "not eight bytes".into())
    }
}

#[test]
fn a_close_that_panics_ends_the_threads_and_gives_the_folder_back() {
    let disk = SimDisk::new();
    let open = || -> Objects<u64, Counter> {
        ObjectsBuilder::new("unused").disk(Arc::new(disk.mounted())).open().expect("opens")
    };
    let counters = open();
    counters.submit(1, &5).expect("logs").1.durable().expect("is durable");
    let panics = || counters.runtime().close_by(|| std::panic::resume_unwind(Box::new("a bug")));
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert!(counters.runtime().threads.have_ended(), "the close has waited for all of them");
    assert!(counters.update(1, &5).is_err());
    let error = counters.close().expect_err("it does not panic again");
    assert!(
        matches!(error, ObjectsError::Durability(_)) && error.to_string().contains("panicked"),
        "{error}"
    );
    drop(counters);
    let again = open();
    assert_eq!(again.update(1, &1).expect("logs"), 6, "what was durable is there");
    again.close().expect("closes");
}

#[test]
fn changes_that_the_log_refuses_take_no_worker_each_and_leave_no_object() {
    let disk = SimDisk::new();
    let counters: Objects<u64, Counter> =
        ObjectsBuilder::new("refusing").disk(Arc::new(disk.mounted())).open().expect("opens");
    counters.update(1, &1).expect("is durable");
    disk.fail_all_syncs(true);
    counters.update(1, &1).expect_err("its sync fails, and the log ends");
    let figures = || (counters.runtime().epochs.registered().0, counters.stats().objects);
    let before = figures();
    for key in 0..1000 {
        counters.submit(key, &1).expect_err("the log has ended");
        counters.put(key, Counter(1)).expect_err("the log has ended");
        let allowed = counters.update_if(key, &1, |_| Ok::<(), ()>(()));
        allowed.expect_err("the log has ended");
    }
    assert_eq!(figures(), before);
    counters.close().expect_err("not everything is durable");
}
