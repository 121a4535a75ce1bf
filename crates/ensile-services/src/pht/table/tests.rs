//! Several keys at once, beside threads that change them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::Epoch;
use ensile_base::random::Random;
use ensile_objects::{GuardedObjects, ObjectGuard};

use super::{BUCKETS, PhtBucket, PhtBuckets, PhtChange, PhtKey, TOGETHER};
use crate::service::{CallError, RestsOn};

fn names(count: u64) -> Vec<Vec<u8>> {
    (0..count).map(|number| format!("key {number}").into_bytes()).collect()
}

/// A key's bucket, which is not poisoned.
fn lock<'b>(buckets: &'b PhtBuckets, key: PhtKey<'_>) -> ObjectGuard<'b, PhtBucket> {
    buckets.guarded.lock(key.bucket, &RestsOn::default()).expect("it is not poisoned")
}

fn set(buckets: &PhtBuckets, name: &[u8], value: &[u8]) {
    let key = buckets.key(name);
    let made = buckets.guarded.replay(key.bucket, |bucket| {
        let more = bucket.apply(PhtChange::Set(key, value)).ok_or("a value can always be set")?;
        buckets.elements.add(more, Epoch::ZERO);
        Ok(())
    });
    assert_eq!(made, Ok(()));
}

/// What is shown, in its order.
fn shown(buckets: &PhtBuckets, names: &[&[u8]]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut all = Vec::new();
    let looked = buckets.look_at_many(names.iter().copied(), &RestsOn::default(), |key, bucket| {
        all.push((key.bytes.to_vec(), bucket.get(key).map(<[u8]>::to_vec)));
        Ok(())
    });
    looked.expect("none is poisoned");
    all
}

#[test]
fn a_bucket_and_its_lock_are_a_line() {
    assert_eq!(GuardedObjects::<PhtBucket>::BYTES_EACH, ensile_memory::prefetch::LINE_BYTES);
}

#[test]
fn several_keys_show_what_each_shows_by_itself_in_their_order() {
    let buckets = PhtBuckets::new();
    let all = names(5_000);
    all.iter().step_by(2).for_each(|name| set(&buckets, name, &name[4..]));
    let mut random = Random::from_seed(1);
    for count in (0..3 * TOGETHER).chain([1000]) {
        // Some of them twice, and of one bucket.
        let asked: Vec<&[u8]> =
            (0..count).map(|_| all[random.next_below(all.len() as u64) as usize].as_slice()).collect();
        let asked = [&asked[..], &asked[..count.min(3)]].concat();
        let wanted: Vec<_> = asked
            .iter()
            .map(|name| {
                let key = buckets.key(name);
                let bucket = lock(&buckets, key);
                (name.to_vec(), bucket.get(key).map(<[u8]>::to_vec))
            })
            .collect();
        assert_eq!(shown(&buckets, &asked), wanted);
    }
    assert_eq!(buckets.elements.read(), (2_500, Epoch::ZERO));
}

#[test]
fn what_is_behind_a_refusal_is_not_shown_and_no_lock_is_kept() {
    let buckets = PhtBuckets::new();
    let all = names(40);
    let mut seen = 0;
    let refused = buckets.look_at_many(all.iter().map(Vec::as_slice), &RestsOn::default(), |_, _| {
        seen += 1;
        if seen == 20 { Err(CallError::Cursor) } else { Ok(()) }
    });
    assert!(matches!(refused, Err(CallError::Cursor)) && seen == 20);
    (0..BUCKETS).for_each(|number| drop(buckets.guarded.lock(number, &RestsOn::default())));
}

#[test]
fn o6_a_bucket_whose_change_panics_is_refused_and_no_other_is() {
    let buckets = PhtBuckets::new();
    let all = names(200);
    all.iter().for_each(|name| set(&buckets, name, b"1"));
    let key = buckets.key(&all[7]);
    let half_changed = catch_unwind(AssertUnwindSafe(|| {
        let logged = || Ok::<_, CallError>(Epoch::new(3));
        lock(&buckets, key).change(&RestsOn::default(), logged, |bucket| {
            bucket.set(key, b"2");
            assert_eq!(bucket.get(key), None, "in mid-change");
        })
    }));
    assert!(half_changed.is_err());
    let rests = RestsOn::default();
    let refused = buckets.guarded.lock(key.bucket, &rests).expect_err("O6: half a change is shown");
    assert_eq!(rests.epoch(), Epoch::new(3));
    let refused = CallError::from(refused);
    assert!(refused.to_string().starts_with(&format!("bucket {} is poisoned", key.bucket)), "{refused}");
    let several = buckets.look_at_many(all.iter().map(Vec::as_slice), &rests, |_, _| Ok(()));
    assert!(matches!(several, Err(CallError::PoisonedBucket(_))));
    assert_eq!((0..BUCKETS).filter(|number| buckets.guarded.lock(*number, &rests).is_err()).count(), 1);
    assert_eq!(buckets.guarded.poisoned_count(), 1);
    // A panic of somebody who only looks changes nothing.
    let key = buckets.key(&all[8]);
    let looked = catch_unwind(AssertUnwindSafe(|| {
        let _bucket = lock(&buckets, key);
        panic!("while it looks");
    }));
    assert!(looked.is_err());
    assert_eq!(shown(&buckets, &[&all[8]]), [(all[8].clone(), Some(b"1".to_vec()))]);
}

#[test]
fn a_bucket_that_another_thread_has_is_waited_for_without_others() {
    let buckets = PhtBuckets::new();
    let all = names(64);
    all.iter().for_each(|name| set(&buckets, name, b"0"));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (buckets, all) = (&buckets, &all);
            scope.spawn(move || {
                let mut random = Random::from_seed(thread);
                for _ in 0..5_000 {
                    // Each in another order, so that two that waited for each other's would wait for ever.
                    let asked: Vec<&[u8]> =
                        (0..TOGETHER).map(|_| all[random.next_below(64) as usize].as_slice()).collect();
                    assert!(shown(buckets, &asked).iter().all(|(_, value)| value.is_some()));
                    set(buckets, &all[random.next_below(64) as usize], b"some other value");
                }
            });
        }
    });
}
