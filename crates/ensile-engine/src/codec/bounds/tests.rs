//! Encoded ranges hold exactly the keys that the ranges hold.
//!
//! Neighbours: `key/tests.rs` has the order of the encodings, on which this rests.

use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn holds(range: &ByteRange, key: &[u8]) -> bool {
    let bytes = range.as_range();
    let within = RangeBounds::<[u8]>::contains(&(bytes.lower, bytes.upper), key);
    assert!(!(within && range.is_empty()), "an empty range holds nothing");
    within
}

/// The entry of a non-unique index: the secondary key delimited, the primary key behind it.
fn entry<S: Key>(secondary: &S, primary: &[u8]) -> Vec<u8> {
    let mut bytes = encode_key_delimited::<S>(secondary).as_ref().to_vec();
    bytes.extend_from_slice(primary);
    bytes
}

fn text() -> impl Strategy<Value = String> {
    vec(prop_oneof![Just('\0'), Just('\u{1}'), Just('a'), Just('b'), Just(char::MAX)], 0..4)
        .prop_map(String::from_iter)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![Just(0u8), Just(1), Just(0xFF), any::<u8>()], 0..4)
}

fn bound<K: Debug + Clone + 'static>(key: impl Strategy<Value = K>) -> impl Strategy<Value = Bound<K>> {
    (key, 0..3).prop_map(|(key, kind)| match kind {
        0 => Bound::Included(key),
        1 => Bound::Excluded(key),
        _ => Bound::Unbounded,
    })
}

/// Ranges over `K` against the same ranges over bytes, in a table and in an index.
fn agrees<K: Key + Debug>(bounds: (Bound<K>, Bound<K>), key: &K, primary: &[u8]) {
    let within = RangeBounds::<K>::contains(&bounds, key);
    let keys = KeyBounds::<K>::encode(&bounds);
    assert_eq!(holds(&keys, encode_key::<K>(key).as_ref()), within, "{bounds:?} of keys, {key:?}");
    let entries = KeyBounds::<K>::encode_delimited(&bounds);
    assert_eq!(holds(&entries, &entry(key, primary)), within, "{bounds:?} of entries, {key:?}");
}

proptest! {
    #[test]
    fn of_text(lower in bound(text()), upper in bound(text()), key in text(), primary in bytes()) {
        agrees((lower, upper), &key, &primary);
    }

    #[test]
    fn of_bytes(lower in bound(bytes()), upper in bound(bytes()), key in bytes(), primary in bytes()) {
        agrees((lower, upper), &key, &primary);
    }

    #[test]
    fn of_numbers_at_the_ends(
        lower in bound(prop_oneof![Just(0u8), Just(0xFF), any::<u8>()]),
        upper in bound(prop_oneof![Just(0u8), Just(0xFF), any::<u8>()]),
        key in prop_oneof![Just(0u8), Just(0xFF), any::<u8>()],
        primary in bytes(),
    ) {
        agrees((lower, upper), &key, &primary);
    }

    #[test]
    fn of_tuples(
        lower in bound((any::<bool>(), text(), bytes())),
        upper in bound((any::<bool>(), text(), bytes())),
        key in (any::<bool>(), text(), bytes()),
        primary in bytes(),
    ) {
        agrees((lower, upper), &key, &primary);
    }

    #[test]
    fn of_descending(
        lower in bound(text().prop_map(crate::codec::Descending)),
        upper in bound(text().prop_map(crate::codec::Descending)),
        key in text().prop_map(crate::codec::Descending),
        primary in bytes(),
    ) {
        agrees((lower, upper), &key, &primary);
    }

    #[test]
    fn prefixes_of_text(prefix in text(), key in text(), primary in bytes()) {
        let within = key.starts_with(&prefix);
        assert_eq!(holds(&KeyBounds::<String>::encode(&Prefix(&prefix)), encode_key::<String>(&key).as_ref()), within);
        assert_eq!(holds(&KeyBounds::<String>::encode_delimited(&Prefix(&*prefix)), &entry(&key, &primary)), within);
    }

    #[test]
    fn prefixes_of_bytes(prefix in bytes(), key in bytes(), primary in bytes()) {
        let within = key.starts_with(&prefix);
        assert_eq!(holds(&KeyBounds::<Vec<u8>>::encode(&Prefix(&prefix)), encode_key::<Vec<u8>>(&key).as_ref()), within);
        assert_eq!(holds(&KeyBounds::<Vec<u8>>::encode_delimited(&Prefix(&*prefix)), &entry(&key, &primary)), within);
    }

    #[test]
    fn prefixes_of_tuples(prefix in (text(), bytes()), key in (text(), bytes(), text()), primary in bytes()) {
        type K = (String, Vec<u8>, String);
        let one = (&prefix.0,);
        assert_eq!(holds(&KeyBounds::<K>::encode(&Prefix(&one)), encode_key::<K>(&key).as_ref()), prefix.0 == key.0);
        let within = (&prefix.0, &prefix.1) == (&key.0, &key.1);
        assert_eq!(holds(&KeyBounds::<K>::encode(&Prefix(&prefix)), encode_key::<K>(&key).as_ref()), within);
        assert_eq!(holds(&KeyBounds::<K>::encode_delimited(&Prefix(&prefix)), &entry(&key, &primary)), within);
        type Pair = (String, String);
        let pair = encode_key::<Pair>(&(&key.0, &key.2));
        assert_eq!(holds(&KeyBounds::<Pair>::encode(&Prefix(one)), pair.as_ref()), prefix.0 == key.0);
    }

    #[test]
    fn one_secondary_key(wanted in text(), key in text(), primary in bytes()) {
        assert_eq!(holds(&ByteRange::of_entry::<String>(&wanted), &entry(&key, &primary)), wanted == key);
    }
}

#[test]
fn every_kind_of_range_is_taken() {
    let at = |number: u16| encode_key::<u16>(&number);
    let keys =
        |range: ByteRange| (0..10).filter(|number| holds(&range, at(*number).as_ref())).collect::<Vec<u16>>();
    assert_eq!(keys(KeyBounds::<u16>::encode(&(3..5))), [3, 4]);
    assert_eq!(keys(KeyBounds::<u16>::encode(&(3..=5))), [3, 4, 5]);
    assert_eq!(keys(KeyBounds::<u16>::encode(&(8..))), [8, 9]);
    assert_eq!(keys(KeyBounds::<u16>::encode(&(..2))), [0, 1]);
    assert_eq!(keys(KeyBounds::<u16>::encode(&(..=2))), [0, 1, 2]);
    assert_eq!(keys(KeyBounds::<u16>::encode(&(..))).len(), 10);
    assert_eq!(keys(KeyBounds::<u16>::encode(&(Bound::Excluded(7), Bound::Excluded(&9).cloned()))), [8]);
    assert_eq!(keys(KeyBounds::<u16>::encode(&(&2..&4))), [2, 3]);
}

#[test]
fn a_range_that_ends_before_it_begins_is_empty_and_one_resumes_behind_the_last_key() {
    let (five, three) = (5, 3);
    assert!(KeyBounds::<u16>::encode(&(five..three)).is_empty());
    assert!(KeyBounds::<u16>::encode(&(five..five)).is_empty());
    assert!(!KeyBounds::<u16>::encode(&(five..=five)).is_empty());
    assert!(KeyBounds::<u16>::encode(&(Bound::Excluded(five), Bound::Excluded(five))).is_empty());
    assert!(KeyBounds::<u8>::encode_delimited(&(Bound::Excluded(255), Bound::<u8>::Unbounded)).is_empty());
    let mut range = KeyBounds::<String>::encode(&("a".."m"));
    range.resume(KeyBuffer::from_bytes(b"c"), Direction::Forward);
    assert!(!holds(&range, b"c") && holds(&range, b"c\0") && !holds(&range, b"m"));
    range.resume(KeyBuffer::from_bytes(b"k"), Direction::Reverse);
    assert!(holds(&range, b"jz") && !holds(&range, b"k") && !holds(&range, b"c"));
}
