//! Several keys at once, beside threads that change them.

use std::convert::Infallible;

use ensile_base::random::Random;

use super::{BUCKETS, LockedBucket, PhtBuckets, PhtChange, TOGETHER};

fn names(count: u64) -> Vec<Vec<u8>> {
    (0..count).map(|number| format!("key {number}").into_bytes()).collect()
}

fn set(buckets: &PhtBuckets, name: &[u8], value: &[u8]) {
    let key = buckets.key(name);
    let more = buckets.lock_of(key).apply(PhtChange::Set(key, value));
    buckets.count(more.expect("a value can always be set"));
}

/// What is shown, in its order.
fn shown(buckets: &PhtBuckets, names: &[&[u8]]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut all = Vec::new();
    let Ok(()) = buckets.look_at_many(names.iter().copied(), |key, bucket| {
        all.push((key.bytes.to_vec(), bucket.get(key).map(<[u8]>::to_vec)));
        Ok::<(), Infallible>(())
    });
    all
}

#[test]
fn a_bucket_and_its_lock_are_a_line() {
    assert_eq!(size_of::<LockedBucket>(), ensile_memory::prefetch::LINE_BYTES);
}

#[test]
fn several_keys_show_what_each_shows_by_itself_in_their_order() {
    let buckets = PhtBuckets::new();
    let all = names(5_000);
    all.iter().step_by(2).for_each(|name| set(&buckets, name, &name[4..]));
    let mut random = Random::seeded(1);
    for count in (0..3 * TOGETHER).chain([1000]) {
        // Some of them twice, and of one bucket.
        let asked: Vec<&[u8]> =
            (0..count).map(|_| all[random.below(all.len() as u64) as usize].as_slice()).collect();
        let asked = [&asked[..], &asked[..count.min(3)]].concat();
        let wanted: Vec<_> = asked
            .iter()
            .map(|name| {
                let key = buckets.key(name);
                (name.to_vec(), buckets.lock_of(key).get(key).map(<[u8]>::to_vec))
            })
            .collect();
        assert_eq!(shown(&buckets, &asked), wanted);
    }
    assert_eq!(buckets.elements(), 2_500);
}

#[test]
fn what_is_behind_a_refusal_is_not_shown_and_no_lock_is_kept() {
    let buckets = PhtBuckets::new();
    let all = names(40);
    let mut seen = 0;
    let refused = buckets.look_at_many(all.iter().map(Vec::as_slice), |_, _| {
        seen += 1;
        if seen == 20 { Err("enough") } else { Ok(()) }
    });
    assert_eq!((refused, seen), (Err("enough"), 20));
    (0..BUCKETS).for_each(|number| drop(buckets.lock(number)));
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
                let mut random = Random::seeded(thread);
                for _ in 0..5_000 {
                    // Each in another order, so that two that waited for each other's would wait for ever.
                    let asked: Vec<&[u8]> =
                        (0..TOGETHER).map(|_| all[random.below(64) as usize].as_slice()).collect();
                    assert!(shown(buckets, &asked).iter().all(|(_, value)| value.is_some()));
                    set(buckets, &all[random.below(64) as usize], b"some other value");
                }
            });
        }
    });
}
