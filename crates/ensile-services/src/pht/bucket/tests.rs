//! A bucket beside a map: whatever is done to it, it has the same elements.

use std::collections::BTreeMap;

use ensile_base::random::Random;

use super::{FREE, LEFT_BYTES_MIN, PhtBucket, PhtKey, element_bytes, place_of};

fn key(bytes: &[u8], tag: u32) -> PhtKey<'_> {
    PhtKey { bytes, bucket: 0, tag }
}

impl PhtBucket {
    /// Its slots lead nowhere from now on: the next search for a key that is there panics.
    pub(crate) fn damage(&mut self) {
        self.slots.iter_mut().filter(|slot| **slot != FREE).for_each(|slot| *slot |= u64::from(u32::MAX));
    }

    /// Slots and elements fit together, and what was left is counted.
    fn check(&self) {
        let mut places: Vec<usize> =
            self.slots.iter().filter(|slot| **slot != FREE).map(|slot| place_of(*slot)).collect();
        assert_eq!(places.len(), self.len());
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), self.len(), "no two slots have one element");
        let used: usize = self.iter().map(|(key, value)| element_bytes(key.len(), value.len())).sum();
        let left = self.left as usize * 8;
        assert_eq!(used + left, self.elements.len());
        assert!(left <= LEFT_BYTES_MIN || left * 2 <= self.elements.len());
        assert!(self.len() * 4 <= self.slots.len() * 3);
    }
}

#[test]
fn it_has_what_a_map_has_whatever_is_done() {
    for seed in 0..40 {
        let mut random = Random::from_seed(seed);
        let (mut bucket, mut map) = (PhtBucket::default(), BTreeMap::new());
        let (keys, longest) = (1 + random.next_below(300), 1 + random.next_below(400));
        for _ in 0..4000 {
            let number = random.next_below(keys);
            let bytes = format!("key {number}{}", "x".repeat(number as usize % 20));
            // Tags that meet, and some that are the same.
            let at = key(bytes.as_bytes(), (number % 97) as u32 * 0x0100_0001);
            if random.percent(35) {
                bucket.remove(at);
                map.remove(&bytes);
            } else {
                let value = vec![number as u8; random.next_below(longest) as usize];
                bucket.set(at, &value);
                map.insert(bytes.clone(), value);
            }
            bucket.prefetch_slots(at);
            bucket.prefetch_element(at);
            assert_eq!(bucket.get(at), map.get(&bytes).map(Vec::as_slice), "seed {seed}");
        }
        bucket.check();
        let all: BTreeMap<String, Vec<u8>> =
            bucket.iter().map(|(key, value)| (String::from_utf8_lossy(key).into(), value.to_vec())).collect();
        assert_eq!(all, map, "seed {seed}");
        for number in 0..keys {
            let bytes = format!("key {number}{}", "x".repeat(number as usize % 20));
            bucket.remove(key(bytes.as_bytes(), (number % 97) as u32 * 0x0100_0001));
        }
        bucket.check();
        assert_eq!((bucket.len(), bucket.iter().count()), (0, 0));
        assert!(!bucket.slots.is_empty(), "it had elements, and the log has operations on them");
    }
}

#[test]
fn an_unused_bucket_takes_no_memory_and_has_nothing() {
    let mut bucket = PhtBucket::default();
    let at = key(b"a", 7);
    bucket.prefetch_slots(at);
    bucket.prefetch_element(at);
    bucket.remove(at);
    assert!(bucket.get(at).is_none() && bucket.slots.is_empty());
    assert_eq!(bucket.elements.capacity(), 0);
    bucket.set(at, b"");
    assert_eq!((bucket.get(at), bucket.len()), (Some(&b""[..]), 1));
}

#[test]
fn a_large_value_takes_no_more_memory_than_it_needs_and_gives_it_back() {
    let mut bucket = PhtBucket::default();
    let (large, at) = (vec![1; 1 << 20], key(b"large", 1));
    bucket.set(at, &large);
    assert!(bucket.elements.capacity() < large.len() + 100);
    bucket.set(at, b"small");
    assert!(bucket.elements.capacity() < 100, "{}", bucket.elements.capacity());
    assert_eq!(bucket.get(at), Some(&b"small"[..]));
}

#[test]
fn a_value_of_the_same_length_changes_no_other_byte() {
    let mut bucket = PhtBucket::default();
    let lengths =
        [(0, 0), (1, 1), (3, 0), (7, 6), (254, 254), (254, 255), (255, 254), (255, 255), (300, 70_000)];
    let keys: Vec<Vec<u8>> =
        lengths.iter().zip(b'a'..).map(|((bytes, _), name)| vec![name; *bytes]).collect();
    let at = |number: usize| key(&keys[number], number as u32);
    for (number, (_, value)) in lengths.into_iter().enumerate() {
        bucket.set(at(number), &vec![1; value]);
    }
    for (number, (_, value)) in lengths.into_iter().enumerate() {
        let (before, slots) = (bucket.elements.clone(), bucket.slots.clone());
        bucket.set(at(number), &vec![2; value]);
        assert_eq!(bucket.get(at(number)), Some(&vec![2; value][..]));
        let changed = before.iter().zip(&bucket.elements).filter(|(before, now)| before != now).count();
        assert_eq!((changed, before.len(), slots), (value, bucket.elements.len(), bucket.slots.clone()));
        bucket.check();
    }
}

#[test]
fn lengths_at_the_border_of_the_short_ones_come_back() {
    let mut bucket = PhtBucket::default();
    let lengths = [0, 1, 253, 254, 255, 256, 257, 16_384, 70_000];
    for (number, key_bytes) in lengths.into_iter().enumerate() {
        let bytes = vec![b'k'; key_bytes];
        let at = key(&bytes, number as u32);
        // Each after each other, so that one takes the place of the other where it fits.
        for (from, to) in lengths.into_iter().flat_map(|from| lengths.map(|to| (from, to))) {
            bucket.set(at, &vec![1; from]);
            bucket.set(at, &vec![2; to]);
            assert_eq!(bucket.get(at), Some(&vec![2; to][..]), "{key_bytes}: {from} to {to}");
        }
        bucket.check();
    }
    assert_eq!(bucket.len(), lengths.len());
}
