//! Roots: what comes back, and what contradicts itself.
//!
//! Neighbours: the tests of [`super`].

use super::super::place::PageBound;
use super::{DirectoryPlace, RemovesPlace, Root};
use crate::block::extent::{Extent, ExtentPlace};

fn place(first: u32) -> ExtentPlace {
    ExtentPlace { extent: Extent { folder: 0, first, units: 2 }, header_crc: first }
}

fn part(key: &str, checkpoint: u64) -> DirectoryPlace {
    let bound = PageBound { section: 7, first_key: key.as_bytes().into() };
    DirectoryPlace { bound, number: 3, checkpoint, pages: 2, bytes: 1 << 20, place: place(9) }
}

fn root() -> Root {
    let removes = (0..2).map(|number| RemovesPlace { number, checkpoint: 9, place: place(20) }).collect();
    Root { parts: vec![part("", 8), part("m", 9)], removes }
}

#[test]
fn a_root_comes_back_as_it_was_written() {
    for root in [root(), Root::default()] {
        let bytes = root.encode(9);
        assert_eq!(Root::decode(&bytes, root.parts.len() as u32, 9), Some(root));
    }
    let bytes = root().encode(9);
    for length in 0..bytes.len() {
        let found = Root::decode(&bytes[..length], 2, 9);
        assert_eq!(found.is_some(), found.is_some_and(|found| found.removes.len() < 2), "cut to {length}");
    }
    assert_eq!(Root::decode(&bytes, 3, 9), None);
}

#[test]
fn a_root_that_contradicts_itself_is_none() {
    let parts = |parts| Root { parts, ..root() };
    for (why, root) in [
        ("begins within a section", parts(vec![part("a", 8)])),
        ("has parts out of order", parts(vec![part("", 8), part("m", 8), part("b", 8)])),
        ("has a part twice", parts(vec![part("", 8), part("", 8)])),
        ("has a part of a later checkpoint", parts(vec![part("", 10)])),
        ("has a part of no checkpoint", parts(vec![part("", 0)])),
        ("has a part without pages", parts(vec![DirectoryPlace { pages: 0, ..part("", 8) }])),
    ] {
        assert_eq!(Root::decode(&root.encoded(), root.parts.len() as u32, 9), None, "it {why}");
    }
    // N10: pending removes of the picture before.
    assert_eq!(Root::decode(&root().encode(9), 2, 10), None);
}
