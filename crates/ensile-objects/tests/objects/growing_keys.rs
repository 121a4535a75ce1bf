//! A key whose bytes grow: an encoder may answer with more bytes for a checkpoint than for the operation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ensile_objects::limits::KEY_BYTES_MAX;
use ensile_objects::{CheckpointPolicy, CodecResult, ObjectKey, Objects, ObjectsBuilder};
use ensile_sim::SimDisk;

use crate::tally::{Change, Tally};

static IS_LONG: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct GrowingKey;

impl ObjectKey for GrowingKey {
    fn encode(&self, out: &mut Vec<u8>) {
        let bytes = if IS_LONG.load(Ordering::Relaxed) { KEY_BYTES_MAX + 1 } else { 1 };
        out.resize(out.len() + bytes, 0);
    }

    fn decode(_: &[u8]) -> CodecResult<Self> {
        Ok(Self)
    }
}

#[test]
fn a_key_that_outgrows_its_limit_refuses_checkpoints_until_it_is_short_again() {
    let builder = ObjectsBuilder::new("own").disk(Arc::new(SimDisk::new().mounted()));
    let objects: Objects<GrowingKey, Tally> =
        builder.policy(&CheckpointPolicy::on_demand()).open().expect("opens");
    objects.submit(GrowingKey, &Change::Add(7)).expect("is applied");
    IS_LONG.store(true, Ordering::Relaxed);
    let said = objects.checkpoint().wait().expect_err("the key is too long").to_string();
    assert!(said.contains("has a key of") && said.contains("above the limit"), "{said}");
    IS_LONG.store(false, Ordering::Relaxed);
    objects.checkpoint().wait().expect("the checkpointer still works");
    objects.close().expect("closes");
}
