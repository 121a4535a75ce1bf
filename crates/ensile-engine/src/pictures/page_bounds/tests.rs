//! The search for a key's page.

use proptest::prelude::*;

use super::*;

/// Keys that share much, differ in zeros at their ends, and have equal slices.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0_u8), Just(1), Just(0xFF), any::<u8>()];
    let tail = proptest::collection::vec(byte, 0..20);
    let head = prop_oneof![
        Just(""),
        Just("p"),
        Just("prefix"),
        Just("prefix of all"),
        Just("prefix of all eight more")
    ];
    (head, tail).prop_map(|(head, tail)| [head.as_bytes(), &tail].concat())
}

/// Keys that a slice has all of: evenly spread, in heaps that fall into one range each, and shorter ones.
fn short_keys() -> impl Strategy<Value = Vec<u8>> {
    let number = |number: u64| number.to_be_bytes().to_vec();
    let spread = (0..64_u64).prop_map(move |at| number(at << 58));
    let heaped = (0..4_u64, 0..32_u64).prop_map(move |(heap, at)| number(heap << 60 | at));
    let few = prop_oneof![Just(0_u8), Just(1), Just(0xFF), any::<u8>()];
    prop_oneof![spread, heaped, proptest::collection::vec(few, 0..8)]
}

/// Bounds with a common prefix of any length, and keys around them.
fn check(mut bounds: Vec<Vec<u8>>, looked_up: &[Vec<u8>]) {
    bounds.retain(|bound| !bound.is_empty());
    bounds.sort();
    bounds.dedup();
    let pages = PageBounds::new(&bounds);
    assert_eq!(pages.len(), bounds.len() + 1);
    for key in looked_up.iter().chain(&bounds).map(Vec::as_slice).chain([&b""[..]]) {
        let page = pages.page_of(key);
        assert_eq!(page, bounds.partition_point(|bound| bound.as_slice() <= key), "{key:?}");
        assert!(pages.lower(page) <= key && pages.upper(page).is_none_or(|upper| key < upper));
    }
}

proptest! {
    #[test]
    fn the_search_finds_what_a_plain_one_finds(
        bounds in proptest::collection::vec(keys(), 0..40),
        looked_up in proptest::collection::vec(keys(), 0..40),
    ) {
        check(bounds, &looked_up);
    }

    #[test]
    fn short_keys_are_found_by_their_slices(
        bounds in proptest::collection::vec(short_keys(), 0..100),
        looked_up in proptest::collection::vec(prop_oneof![short_keys(), keys()], 0..40),
    ) {
        check(bounds, &looked_up);
    }

    #[test]
    fn bounds_that_share_a_prefix_are_searched_behind_it(
        prefix in keys(),
        bounds in proptest::collection::vec(keys(), 0..40),
        looked_up in proptest::collection::vec(keys(), 0..40),
    ) {
        let behind = |tails: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
            tails.into_iter().map(|tail| [&prefix[..], &tail].concat()).collect()
        };
        let mut looked_up = behind(looked_up);
        looked_up.extend((0..prefix.len()).map(|bytes| prefix[..bytes].to_vec()));
        check(behind(bounds), &looked_up);
    }
}

#[test]
fn one_page_has_every_key() {
    let pages = PageBounds::default();
    assert_eq!((pages.len(), pages.page_of(b""), pages.page_of(b"any")), (1, 0, 0));
    assert_eq!((pages.lower(0), pages.upper(0)), (&b""[..], None));
}
