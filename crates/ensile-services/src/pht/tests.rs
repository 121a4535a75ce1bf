//! A bucket whose change panics: what the table refuses, what its checkpoints say, what the next open makes of it. And
//! which buckets a step of a scan shows, and how it goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use ensile_base::clock::Clock;
use ensile_objects::{Application, CheckpointPolicy, ObjectDurability, ObjectsBuilder};
use ensile_resp::{ReplyEncoder, RequestDecoder, RequestLimits, RespVersion};
use ensile_sim::SimDisk;

use super::table::{BUCKETS, PhtBuckets};
use super::{CallError, PersistentTable, ShownKeys};
use crate::service::{CallResult, CommandRequest, RestsOn, Service};

/// A table, and the clock of its steps.
struct Life {
    table: PersistentTable,
    clock: Clock,
    checkpointers: usize,
}

impl Life {
    fn open(disk: &SimDisk) -> Self {
        Self::open_with(disk, 1)
    }

    fn open_with(disk: &SimDisk, checkpointers: usize) -> Self {
        let clock = Clock::manual();
        let objects = ObjectsBuilder::new("/")
            .disk(Arc::new(disk.mounted()))
            .manual_clock(clock.clone())
            .policy(&CheckpointPolicy::on_demand())
            .durability(ObjectDurability::Relaxed)
            .recovery_threads(1)
            .checkpointers(checkpointers)
            .without_threads();
        Self { table: PersistentTable::open(objects).expect("it opens"), clock, checkpointers }
    }

    fn steps(&self) {
        for _ in 0..300 {
            self.clock.advance(Duration::from_millis(1));
            self.table.persistent_objects().step();
            for number in 1..self.checkpointers {
                self.table.log.checkpoint_step(number);
            }
        }
    }

    fn put(&self, key: &[u8], value: &[u8]) -> CallResult {
        self.table.put(key, value, &RestsOn::default())
    }

    fn value(&self, key: &[u8]) -> Result<Option<Vec<u8>>, CallError> {
        self.table.look(key, &RestsOn::default(), |value| value.map(<[u8]>::to_vec))
    }
}

/// The bucket's next search for a key that it has panics.
fn damage(buckets: &PhtBuckets, number: u64) {
    let damaged = buckets.guarded.replay(number, |bucket| {
        bucket.damage();
        Ok(())
    });
    assert_eq!(damaged, Ok(()));
}

#[test]
fn o6_a_half_changed_bucket_is_refused_and_in_no_checkpoint_and_the_next_open_makes_its_change_again() {
    let disk = SimDisk::new();
    let life = Life::open(&disk);
    for key in [&b"a"[..], b"b"] {
        life.put(key, b"1").expect("it is logged");
    }
    let broken = life.table.buckets.key(b"a").bucket;
    assert_ne!(broken, life.table.buckets.key(b"b").bucket);
    damage(&life.table.buckets, broken);
    assert!(catch_unwind(AssertUnwindSafe(|| life.put(b"a", b"2"))).is_err());
    let told = format!(
        "bucket {broken} is poisoned: a change of it panicked after it was logged; its keys are refused"
    );
    for refused in [life.value(b"a").map(drop), life.put(b"a", b"3")] {
        let refused = refused.expect_err("O6: a half changed bucket is shown");
        assert!(refused.to_string().starts_with(&told), "{refused}");
    }
    assert_eq!(life.value(b"b").expect("it is whole"), Some(b"1".to_vec()));
    drop(life.table.persistent_objects().checkpoint());
    life.steps();
    let checkpoints = life.table.persistent_objects().stats().checkpoints;
    assert_eq!((checkpoints.installed, checkpoints.failed > 0), (0, true));
    let why = checkpoints.last_error.expect("it says why");
    assert!(why.contains(&format!("object {broken} is poisoned")), "{why}");
    assert!(life.table.figures().contains(&("poisoned_buckets", 1)));
    drop(life);
    let life = Life::open(&disk);
    assert_eq!(life.value(b"a").expect("its change was made again"), Some(b"2".to_vec()));
}

#[test]
fn o6_a_change_that_panics_again_at_recovery_poisons_its_bucket_and_the_others_are_served() {
    let (buckets, rests) = (PhtBuckets::new(), RestsOn::default());
    for bytes in [&b"a"[..], b"b"] {
        let key = buckets.key(bytes);
        buckets.replay_one(key.bucket, 1, &[bytes, b"1"]).expect("operation 1 sets a value");
    }
    let broken = buckets.key(b"a").bucket;
    damage(&buckets, broken);
    for value in [&b"2"[..], b"3"] {
        buckets.replay_one(broken, 1, &[b"a", value]).expect("the others are to be served");
    }
    assert!(buckets.guarded.lock(broken, &rests).is_err(), "O6: a half changed bucket is shown");
    let key = buckets.key(b"b");
    assert_eq!(buckets.guarded.lock(key.bucket, &rests).expect("it is whole").get(key), Some(&b"1"[..]));
}

#[test]
fn each_checkpointer_has_a_slice_of_the_buckets_and_the_next_open_has_all_elements() {
    assert_eq!(PhtBuckets::new().slice_starts(4), [BUCKETS / 4, BUCKETS / 2, BUCKETS / 4 * 3]);
    let disk = SimDisk::new();
    let open = || Life::open_with(&disk, 2);
    let life = open();
    let keys = || (0..500_u32).map(u32::to_le_bytes);
    for key in keys() {
        life.put(&key, &key).expect("it is logged");
    }
    drop(life.table.persistent_objects().checkpoint());
    life.steps();
    assert_eq!(life.table.persistent_objects().stats().checkpoints.installed, 1);
    drop(life);
    let life = open();
    for key in keys() {
        assert_eq!(life.value(&key).expect("it is whole"), Some(key.to_vec()));
    }
}

#[test]
fn a_step_of_a_scan_shows_whole_buckets_within_its_limit() {
    let bucket = |keys: &'static str| keys.as_bytes().chunks(1);
    let mut keys = ShownKeys::with_limit(200);
    assert!(keys.add(bucket("ab")) && keys.add(bucket("")) && keys.add(bucket("c")));
    let before = keys.bytes;
    assert!(!keys.add(bucket("defgh")), "W2: no part of it");
    assert_eq!((keys.keys.len(), keys.bytes), (3, before));
    assert!(keys.add(bucket("d")), "another one fits");
    let mut none = ShownKeys::with_limit(50);
    assert!(!none.add(bucket("ab")) && none.keys.is_empty(), "W2: it is too long by itself");
}

/// A client that follows the advice goes on, or is done: no bucket has the number that is behind the last one.
#[test]
fn a_bucket_that_a_scan_cannot_show_is_told_with_a_cursor_that_goes_on_or_ends() {
    let life = Life::open(&SimDisk::new());
    let scan = |from: u64| {
        let mut decoder = RequestDecoder::new(RequestLimits::default());
        let line = format!("SCAN {from}\r\n");
        let requests = decoder.decode(line.as_bytes(), 1);
        let request = CommandRequest::new(requests.iter().next().expect("a request"));
        let mut reply = Vec::new();
        let mut encoder = ReplyEncoder::new(&mut reply, RespVersion::Resp2);
        life.table.scan_within(100, &request, &mut encoder).map(|()| reply)
    };
    for (bucket, advice) in [
        (7, "or go on behind it, from cursor 8"),
        (BUCKETS - 1, "or end the scan here, as no bucket is behind it (cursor 0)"),
    ] {
        let keys = (0_u64..).map(|number| format!("key {number}").into_bytes());
        let its = keys.filter(|key| life.table.buckets.key(key).bucket == bucket);
        its.take(20).for_each(|key| life.put(&key, b"1").expect("it is logged"));
        let error = scan(bucket).expect_err("its keys do not fit").to_string();
        assert!(error.ends_with(advice), "{error}");
    }
    let reply = scan(8).expect_err("the last is met").to_string();
    assert!(!reply.contains(&BUCKETS.to_string()), "{reply}");
}
