//! All ways know the same pages.
//!
//! Neighbours: [`super`].

use clap::ValueEnum as _;

use super::{Heaps, Rows, Way};

#[test]
fn all_ways_know_the_pages_of_which_rows_have_changed() {
    // Leaves lie across the bounds of pages, and the last leaf and the last page are not full.
    let mut rows = Rows::new(1_003, 45, 7);
    for changed in [&[][..], &[0, 44, 45, 700, 700, 1_002], &[44, 899, 900]] {
        let mut pages: Vec<usize> = changed.iter().map(|row| *row as usize / 45).collect();
        pages.dedup();
        for &way in Way::value_variants() {
            rows.change(way, changed);
            let known = rows.freeze(way);
            rows.forget();
            match way {
                Way::LookUp => assert!(known.is_empty()),
                // The row of the leaf is not known, so a page beside may be written too.
                Way::Leaf => assert!(pages.iter().all(|page| known.contains(page)), "{known:?} {pages:?}"),
                _ => assert_eq!(known, pages, "{way:?}"),
            }
        }
    }
    assert!(rows.freeze(Way::Leaf).is_empty(), "no bit is left");
}

#[test]
fn keys_in_heaps_grow_as_their_rows_do() {
    let heaps = Heaps::of(1_003);
    let keys: Vec<_> = (0..1_003).map(|row| heaps.key(row)).collect();
    assert!(keys.is_sorted_by(|a, b| a < b));
    assert_eq!(keys.iter().filter(|key| key[2..] == [0; 6]).count(), 16);
}
