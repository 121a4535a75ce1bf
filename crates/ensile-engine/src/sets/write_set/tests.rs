//! The write-set finds what was written, and keeps its order and its limits.

use std::ops::Bound;

use ensile_base::limits::TRANSACTION_BYTES_MAX;
use ensile_base::random::Random;

use super::{Expect, WriteKind, WriteSet, log_entry};
use crate::error::Result;

fn add(set: &mut WriteSet, write: (u32, &[u8], &[u8])) -> Result<()> {
    let met = set.find_key(write.0, write.1);
    set.add(met, write, WriteKind::Put, Expect::Anything)
}

#[test]
fn small_and_large_sets_find_every_key_and_no_other() {
    let mut set = WriteSet::default();
    for round in 0..2 {
        for i in 0..1000u32 {
            assert_eq!(set.find(i % 3, &i.to_be_bytes()), None, "round {round}");
            add(&mut set, (i % 3, &i.to_be_bytes(), b"v")).expect("small");
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
fn a_later_write_changes_the_entry() {
    let mut set = WriteSet::default();
    add(&mut set, (1, b"k", b"short")).expect("small");
    set.change(0, WriteKind::Put, b"a longer value").expect("small");
    assert_eq!(set.value(&set.entries[0]), b"a longer value");
    set.change(0, WriteKind::Delete, b"").expect("small");
    assert_eq!(set.entries[0].kind, WriteKind::Delete);
    assert_eq!(set.entries.len(), 1);
}

#[test]
fn a_value_that_grows_at_the_end_takes_the_room_that_it_has_in_the_end() {
    let mut set = WriteSet::default();
    add(&mut set, (1, b"k", b"")).expect("small");
    let value = vec![7; 1 << 20];
    for length in (0..=value.len()).step_by(1 << 16) {
        set.change(0, WriteKind::Put, &value[..length]).expect("fits");
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
        if add(&mut set, (1, &key, &value)).is_err() {
            break;
        }
        logged += log_entry::bytes(key.len(), value.len());
    }
    assert!(logged <= TRANSACTION_BYTES_MAX, "{logged} bytes");
    assert!(logged + log_entry::bytes(4, value.len()) > TRANSACTION_BYTES_MAX, "{logged} bytes");
}

#[test]
fn a_key_and_its_value_come_together_wherever_later_values_went() {
    let mut random = Random::seeded(3);
    let mut set = WriteSet::default();
    for round in 0..50 {
        let mut moved = [false; 8];
        let mut lengths = [0; 8];
        for step in 0..40u8 {
            let key = random.below(8) as u8;
            let name = vec![key; usize::from(key) * 3];
            let most = 1 << random.below(7);
            let value = vec![step; random.below(most) as usize];
            match set.find(1, &name) {
                Some(at) => {
                    set.change(at, WriteKind::Put, &value).expect("small");
                    moved[usize::from(key)] |= value.len() > lengths[usize::from(key)];
                }
                None => add(&mut set, (1, &name, &value)).expect("small"),
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
        let keys = set.in_order(lower, upper).iter().map(|at| set.key(&set.entries[*at as usize])[0] as char);
        keys.collect()
    };
    let mut written = String::new();
    for new in ["mcza", "k", "", "b", "z0", "yq1x", "~"] {
        for key in new.bytes() {
            if set.find(1, &[key]).is_none() {
                written.push(key as char);
                add(&mut set, (2, &[b'-', key], b"")).expect("small");
                add(&mut set, (1, &[key], b"")).expect("small");
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
    add(&mut set, (3, b"n", b"")).expect("small");
    assert_eq!(keys_of(&mut set, 3, Bound::Unbounded, Bound::Unbounded), "n");
}
