//! Checkpointers give way by the niceness that was set. An object looks at it while a checkpointer encodes it.
#![cfg(target_os = "linux")]

use std::sync::Arc;

use ensile_base::sync::Mutex;
use ensile_objects::{CheckpointPolicy, Objects, ObjectsBuilder, Persistent};
use ensile_sim::SimDisk;
use ensile_sim::process_threads::own_niceness;

use crate::rig::CHECKPOINTERS;

/// Threads on which objects were encoded, by name, with their niceness then.
static SEEN: Mutex<Vec<(String, i64)>> = Mutex::new(Vec::new());

/// An object that looks at who encodes it.
struct Watched;

impl Persistent for Watched {
    type Operation = ();
    type Output = ();
    const VERSION: u16 = 1;
    const OPERATION_VERSION: u16 = 1;

    fn apply(object: &mut Option<Self>, (): &()) {
        *object = Some(Self);
    }

    fn encode(&self, _: &mut Vec<u8>) {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        SEEN.lock().push((name, own_niceness()));
    }

    fn decode(_: u16, _: &[u8]) -> Result<Self, Box<str>> {
        Ok(Self)
    }

    fn encode_operation((): &(), _: &mut Vec<u8>) {}

    fn decode_operation(_: u16, _: &[u8]) -> Result<(), Box<str>> {
        Ok(())
    }
}

fn on_threads() -> ObjectsBuilder {
    ObjectsBuilder::new("/")
        .disk(Arc::new(SimDisk::new().mounted()))
        .checkpointers(CHECKPOINTERS)
        .policy(&CheckpointPolicy::on_demand())
}

#[test]
fn checkpointers_have_the_niceness_that_was_set_above_the_opening_threads() {
    for (set, added) in [(None, 0), (Some(0), 0), (Some(3), 3), (Some(19), 19)] {
        let builder = match set {
            Some(niceness) => on_threads().checkpoint_niceness(niceness),
            None => on_threads(),
        };
        let objects: Objects<u64, Watched> = builder.open().expect("opens");
        // So many that each checkpointer's half of the shards has some.
        (0..64).for_each(|key| objects.update(key, &()).expect("is logged"));
        SEEN.lock().clear();
        objects.checkpoint().wait().expect("is installed");
        let mut seen = std::mem::take(&mut *SEEN.lock());
        seen.sort();
        seen.dedup();
        let expected = (own_niceness() + added).min(19);
        let all = (0..CHECKPOINTERS).map(|number| (format!("ensile-obj-ck-{number}"), expected));
        assert_eq!(seen, all.collect::<Vec<_>>(), "{set:?}");
        assert_eq!(objects.stats().checkpoints.niceness_refused, None);
        objects.close().expect("closes");
    }
}

#[test]
fn a_niceness_that_no_thread_can_have_is_refused_with_what_can_be() {
    let refused = on_threads().checkpoint_niceness(20).open::<u64, Watched>().map(drop);
    let why = refused.expect_err("is refused").to_string();
    assert!(why.contains("checkpoint_niceness") && why.contains("19") && why.contains("20"), "{why}");
}
