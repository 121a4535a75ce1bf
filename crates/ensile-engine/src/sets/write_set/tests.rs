//! The write-set finds what was written, and keeps its order and its limits.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ensile_base::limits::KEY_BYTES_MAX;
use ensile_base::random::Random;
use ensile_index::testing::partly_equal_keys;

use super::*;

fn put(set: &mut WriteSet, table: u32, key: &[u8], value: &[u8]) -> Result<()> {
    let met = set.find_key(table, key);
    set.add(met, table, key, Some(value), Expect::Anything)
}

#[test]
fn small_and_large_sets_find_every_key_and_no_other() {
    let mut set = WriteSet::default();
    for round in 0..2 {
        for i in 0..1000u32 {
            assert_eq!(set.find(i % 3, &i.to_be_bytes()), None, "round {round}");
            put(&mut set, i % 3, &i.to_be_bytes(), b"v").expect("small");
            assert_eq!(set.find(i % 3, &i.to_be_bytes()), Some(i as usize));
            assert_eq!(set.find(i % 3 + 1, &i.to_be_bytes()), None);
        }
        for i in 0..1000u32 {
            assert_eq!(set.find(i % 3, &i.to_be_bytes()), Some(i as usize));
        }
        set.clear();
        assert!(set.is_empty());
    }
}

#[test]
fn of_keys_that_agree_in_part_each_has_its_own_entry_and_stands_within_its_bounds() {
    for seed in 0..60 {
        let mut random = Random::from_seed(seed);
        let (keys, mut set, mut model) =
            (partly_equal_keys(&mut random), WriteSet::default(), BTreeMap::new());
        for key in &keys {
            if random.percent(70) {
                assert_eq!(set.find(1, key), None, "{key:?}");
                put(&mut set, 2, key, b"of another table").expect("small");
                put(&mut set, 1, key, key).expect("small");
                model.insert(key.as_slice(), set.entries.len() - 1);
            }
            // Entries join the others one by one, or several at once.
            if random.percent(50) {
                set.sort_table(1);
            }
        }
        for key in &keys {
            assert_eq!(set.find(1, key), model.get(key.as_slice()).copied(), "{key:?}");
        }
        set.sort_table(1);
        for lower in &keys {
            let upper = &keys[random.next_below(keys.len() as u64) as usize];
            let mut bound = |key| match random.next_below(3) {
                0 => Bound::Included(key),
                1 => Bound::Excluded(key),
                _ => Bound::Unbounded,
            };
            let bounds = (bound(&lower[..]), bound(&upper[..]));
            let expected = model.iter().filter(|(key, _)| RangeBounds::<[u8]>::contains(&bounds, **key));
            let found = set.in_order(bounds.0, bounds.1).map(|at| *at as usize);
            assert!(found.eq(expected.map(|(_, at)| *at)), "{bounds:?} of {:?}", model.keys());
        }
    }
}

#[test]
fn a_later_write_changes_the_entry() {
    let mut set = WriteSet::default();
    put(&mut set, 1, b"k", b"short").expect("small");
    set.change(0, Some(b"a longer value")).expect("small");
    assert_eq!(set.value(&set.entries[0]), b"a longer value");
    set.change(0, None).expect("small");
    assert_eq!(set.entries[0].kind, WriteKind::Delete);
    assert_eq!(set.entries.len(), 1);
}

#[test]
fn a_value_that_grows_at_the_end_takes_the_room_that_it_has_in_the_end() {
    let mut set = WriteSet::default();
    put(&mut set, 1, b"k", b"").expect("small");
    let value = vec![7; 1 << 20];
    for length in (0..=value.len()).step_by(1 << 16) {
        set.change(0, Some(&value[..length])).expect("fits");
    }
    assert_eq!(set.value(&set.entries[0]), value);
    assert_eq!(set.arena.len(), 1 + value.len());
}

#[test]
fn what_the_write_set_takes_the_log_takes() {
    let mut set = WriteSet::default();
    let mut logged = 0;
    let value = vec![7; 1 << 16];
    for key in 0u32.. {
        let key = key.to_le_bytes();
        if let Err(refused) = put(&mut set, 1, &key, &value) {
            assert!(refused.to_string().ends_with(": split the transaction"), "{refused}");
            break;
        }
        logged += log_entry::bytes(key.len(), value.len());
    }
    assert!(logged <= TRANSACTION_BYTES_MAX, "{logged} bytes");
    assert!(logged + log_entry::bytes(4, value.len()) > TRANSACTION_BYTES_MAX, "{logged} bytes");
}

#[test]
fn a_key_and_its_value_come_together_wherever_later_values_went() {
    let mut random = Random::from_seed(3);
    let mut set = WriteSet::default();
    for round in 0..50 {
        let mut moved = [false; 8];
        let mut lengths = [0; 8];
        for step in 0..40u8 {
            let key = random.next_below(8) as u8;
            let name = vec![key; usize::from(key) * 3];
            let most = 1 << random.next_below(7);
            let value = vec![step; random.next_below(most) as usize];
            match set.find(1, &name) {
                Some(at) => {
                    set.change(at, Some(&value)).expect("small");
                    moved[usize::from(key)] |= value.len() > lengths[usize::from(key)];
                }
                None => put(&mut set, 1, &name, &value).expect("small"),
            }
            lengths[usize::from(key)] = value.len();
        }
        let (entries, arena) = set.parts();
        for write in entries.iter() {
            let (key, value) = (arena.key(write), arena.value(write));
            let together = arena.key_and_value(write);
            assert!(
                together.is_none_or(|told| told == (key.len(), &[key, value].concat()[..])),
                "round {round}"
            );
            let index = key.first().map_or(0, |byte| usize::from(*byte));
            assert!(together.is_some() || moved[index], "round {round}: apart for nothing");
        }
        set.clear();
        set.check_room(0, TRANSACTION_BYTES_MAX).expect("nothing is left of the transaction before");
    }
}

#[test]
fn entries_of_a_table_come_in_key_order_however_many_are_new() {
    let mut set = WriteSet::default();
    let keys_of = |set: &mut WriteSet, table: u32, lower: Bound<&[u8]>, upper: Bound<&[u8]>| -> String {
        set.sort_table(table);
        let keys = set.in_order(lower, upper).map(|at| set.key(&set.entries[*at as usize])[0] as char);
        keys.collect()
    };
    let mut written = String::new();
    for new in ["mcza", "k", "", "b", "z0", "yq1x", "~"] {
        for key in new.bytes() {
            if set.find(1, &[key]).is_none() {
                written.push(key as char);
                put(&mut set, 2, &[b'-', key], b"").expect("small");
                put(&mut set, 1, &[key], b"").expect("small");
            }
        }
        let mut sorted: Vec<char> = written.chars().collect();
        sorted.sort_unstable();
        let sorted = String::from_iter(sorted);
        assert_eq!(keys_of(&mut set, 1, Bound::Unbounded, Bound::Unbounded), sorted);
    }
    assert_eq!(keys_of(&mut set, 1, Bound::Included(b"b"), Bound::Included(b"m")), "bckm");
    assert_eq!(keys_of(&mut set, 1, Bound::Excluded(b"b"), Bound::Excluded(b"m")), "ck");
    assert_eq!(keys_of(&mut set, 1, Bound::Included(b"m"), Bound::Excluded(b"b")), "");
    assert_eq!(keys_of(&mut set, 2, Bound::Unbounded, Bound::Unbounded).len(), written.len());
    assert_eq!(keys_of(&mut set, 3, Bound::Unbounded, Bound::Unbounded), "");
    set.clear();
    assert_eq!(keys_of(&mut set, 3, Bound::Unbounded, Bound::Unbounded), "");
    put(&mut set, 3, b"n", b"").expect("small");
    assert_eq!(keys_of(&mut set, 3, Bound::Unbounded, Bound::Unbounded), "n");
}

#[test]
fn an_encoder_that_panics_leaves_no_bytes_in_the_arena() {
    let mut set = WriteSet::default();
    put(&mut set, 1, b"a", b"value").expect("small");
    let before = set.arena.len();
    for key in 0..10u64 {
        let key = key.to_be_bytes();
        let met = set.find_key(1, &key);
        let encode = |value: &mut Vec<u8>| {
            value.extend_from_slice(&[7; 1000]);
            panic!("an application's encoder gives up");
        };
        let add = AssertUnwindSafe(|| {
            set.add_encoded(KeyPlace { met, only_read: None }, 1, &key, Expect::Anything, encode, |_| Ok(()))
        });
        catch_unwind(add).expect_err("it panics");
    }
    assert_eq!(set.arena.len(), before);
    assert_eq!(set.value(&set.entries[0]), b"value");
}

#[test]
fn a_value_that_is_refused_leaves_no_buffer_of_its_size() {
    let mut set = WriteSet::default();
    let encode = |value: &mut Vec<u8>| {
        value.resize(8 * KEEP_BYTES_MAX, 7);
        Ok(())
    };
    let refuse = |_: &[u8]| Err(Error::Misuse("too large".to_owned()));
    set.add_encoded(KeyPlace::default(), 1, b"a", Expect::Anything, encode, refuse)
        .expect_err("it is refused");
    set.clear();
    assert!(set.kept_bytes() <= KEEP_BYTES_MAX, "{} bytes", set.kept_bytes());
}

#[test]
fn announced_keys_leave_positions_for_what_is_written() {
    let mut set = WriteSet::default();
    set.announce(1, &[0; INDEX_KEY_BYTES_MAX + 1]);
    assert_eq!(set.announced_keys(0).len(), 0, "no table has so long a key");
    set.announce(1, &[0; INDEX_KEY_BYTES_MAX]);
    assert_eq!(set.announced_keys(0).len(), 1);
    let mut key = vec![0; KEY_BYTES_MAX];
    for number in 0..2 * ANNOUNCED_BYTES_MAX / KEY_BYTES_MAX {
        key[..8].copy_from_slice(&number.to_be_bytes());
        set.announce(1, &key);
    }
    assert!(set.arena.len() <= ANNOUNCED_BYTES_MAX, "{} bytes are announced", set.arena.len());
    put(&mut set, 1, &key, b"value").expect("fits");
    assert_eq!(set.find(1, &key), Some(0));
}
