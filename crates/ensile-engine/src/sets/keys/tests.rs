//! The table of keys met, against a plain map.

use std::collections::HashMap;

use ensile_base::random::Random;
use ensile_index::testing::partly_equal_keys;

use super::*;

/// A table with its arena.
#[derive(Default)]
struct Keys {
    table: KeyTable<'static>,
    arena: Vec<u8>,
}

impl Keys {
    fn find(&mut self, table: u32, key: &[u8]) -> Option<usize> {
        let found = self.table.find(&mut self.arena, table, key);
        assert_eq!(self.table.find_among(&self.arena, table, key), found, "both ways to look");
        found
    }

    fn find_or_enter(&mut self, table: u32, key: &[u8]) -> usize {
        if let Some(at) = self.table.find(&mut self.arena, table, key) {
            return at;
        }
        let start = self.arena.len();
        self.arena.extend_from_slice(key);
        self.table.enter(&self.arena, table, start)
    }

    fn restart(&mut self) {
        let bytes = self.table.restart(&self.arena);
        self.arena.truncate(bytes);
    }
}

#[test]
fn a_key_stands_once_however_many_there_are_and_in_whatever_order_they_come() {
    let mut random = Random::from_seed(11);
    for round in 0..200 {
        let mut keys = Keys::default();
        let mut model = HashMap::new();
        let most = 1 + random.next_below(60);
        for _ in 0..random.next_below(300) {
            let name = vec![7; random.next_below(20) as usize];
            let (table, key) =
                (random.next_below(3) as u32, [&name[..], &random.next_below(most).to_be_bytes()].concat());
            let at = keys.find_or_enter(table, &key);
            let expected = model.len();
            assert_eq!(*model.entry((table, key)).or_insert(expected), at, "round {round}");
            keys.table.check(&keys.arena);
        }
        for ((table, key), at) in &model {
            assert_eq!(keys.find(*table, key), Some(*at));
            assert_eq!(keys.find(*table + 3, key), None);
        }
        keys.restart();
        assert!(keys.arena.is_empty());
        assert!(model.keys().all(|(table, key)| keys.find(*table, key).is_none()));
    }
}

/// Few keys are compared one by one, more behind a filter, and many are searched by their hashes.
#[test]
fn of_keys_that_agree_in_part_each_has_its_own_place() {
    for seed in 0..300 {
        let mut random = Random::from_seed(seed);
        let candidates = partly_equal_keys(&mut random);
        let few = [1, 2, 5, 40, candidates.len()][seed as usize % 5].min(candidates.len());
        let (mut keys, mut model) = (Keys::default(), HashMap::new());
        for (at, key) in candidates[..few].iter().enumerate() {
            let table = random.next_below(2) as u32;
            assert_eq!(keys.find(table, key), None, "seed {seed}: {key:?}");
            if at < few / 3 {
                keys.table.announce(&mut keys.arena, table, key);
            } else {
                keys.find_or_enter(table, key);
            }
            model.insert((table, key.clone()), at);
            assert_eq!(keys.table.len(), model.len(), "seed {seed}: {key:?} is new");
        }
        for (table, key) in candidates.iter().flat_map(|key| [(0, key), (1, key)]) {
            let place = model.get(&(table, key.clone())).copied();
            assert_eq!(keys.find(table, key), place, "seed {seed}: {key:?} of table {table}");
        }
        keys.table.check(&keys.arena);
    }
}

#[test]
fn keys_of_one_hash_are_told_apart() {
    let (mut numbers, mut pairs) = (HashMap::new(), Vec::new());
    for number in 0..300_000u64 {
        let hash = hash_key(1, &number.to_be_bytes());
        pairs.extend(numbers.insert(hash, number).map(|other| (other, number)));
    }
    assert!(!pairs.is_empty(), "of so many keys some have one hash");
    for (one, other) in pairs {
        let mut keys = Keys::default();
        for number in 1 << 32..(1 << 32) + LINEAR_MAX as u64 {
            keys.find_or_enter(1, &number.to_be_bytes());
        }
        let at = keys.find_or_enter(1, &one.to_be_bytes());
        assert_eq!(keys.find(1, &other.to_be_bytes()), None, "{one} and {other}");
        assert_eq!(keys.find_or_enter(1, &other.to_be_bytes()), at + 1);
        assert_eq!(keys.find(1, &one.to_be_bytes()), Some(at));
    }
}

#[test]
fn keys_of_all_lengths_are_kept_as_they_are() {
    for length in 0..40u8 {
        let (key, mut arena) =
            ((0..length).map(|byte| byte.wrapping_mul(83)).collect::<Vec<u8>>(), vec![9; 3]);
        super::append(&mut arena, &key);
        assert_eq!(arena, [&[9; 3], &key[..]].concat());
        let mut keys = Keys::default();
        keys.table.announce(&mut keys.arena, 5, &key);
        keys.table.announce(&mut keys.arena, 5, &key);
        assert_eq!((keys.table.len(), keys.find(5, &key)), (1, Some(0)), "once");
        assert_eq!(keys.find(5, &[&key[..], &[0]].concat()), None);
        keys.table.check(&keys.arena);
    }
}

#[test]
fn requests_of_a_batch_see_their_own_announcements_only_and_leave_them_clean() {
    let mut random = Random::from_seed(12);
    for _ in 0..100 {
        let mut keys = Keys::default();
        let mut bounds = vec![0];
        let sizes: Vec<u64> = (0..5).map(|_| random.next_below(2 * LINEAR_MAX as u64 + 2)).collect();
        for size in &sizes {
            keys.table.begin_request();
            // Every key twice, and the same keys for all requests.
            for key in (0..*size).chain(0..*size) {
                keys.table.announce(&mut keys.arena, 1, &key.to_be_bytes());
            }
            bounds.push(keys.table.len());
        }
        for (request, size) in sizes.iter().enumerate() {
            assert_eq!(bounds[request + 1] - bounds[request], *size as usize, "each once");
            keys.table.activate(&keys.arena, bounds[request], bounds[request + 1]);
            for attempt in 0..2 {
                for key in 0..2 * size + 3 {
                    let found = keys.find(1, &key.to_be_bytes());
                    assert_eq!(found.is_some(), key < *size, "attempt {attempt}");
                    let at = keys.find_or_enter(1, &key.to_be_bytes());
                    assert_eq!(keys.table.key_at(at).write(), None, "nothing is left of the attempt before");
                    keys.table.set_write(at, key as usize);
                    keys.table.check(&keys.arena);
                }
                if let Some(last) = size.checked_sub(1) {
                    // Behind it stands the next request's first key, which is the same one.
                    for (key, at) in [(last, bounds[request + 1] - 1), (0, bounds[request])] {
                        assert_eq!(keys.find(1, &key.to_be_bytes()), Some(at), "its own");
                    }
                }
                keys.restart();
                keys.table.check(&keys.arena);
            }
        }
    }
}

#[test]
fn keys_that_differ_in_one_byte_spread_over_the_slots() {
    for byte in 0..8 {
        let mut slots = std::collections::HashSet::new();
        for value in 0..=255u8 {
            let mut key = [7; 8];
            key[byte] = value;
            slots.insert(hash_key(3, &key) & 1023);
        }
        assert!(slots.len() > 190, "byte {byte}: {} slots of 256 keys", slots.len());
    }
}
