//! Roots: what comes back, and what contradicts itself.

use ensile_base::Epoch;

use super::super::location::{PageBound, PictureStamp};
use super::*;
use crate::near_duplicates;

fn place(first: u32) -> ExtentPlace {
    ExtentPlace { extent: Extent { folder: 0, first, units: 2 }, header_crc: first }
}

fn part(key: &str, checkpoint: u64) -> DirectoryPlace {
    let bound = PageBound { section: 7, first_key: key.as_bytes().into() };
    DirectoryPlace { bound, number: 3, checkpoint, pages: 2, bytes: 1 << 20, place: place(9) }
}

fn root() -> Root {
    let removes = (0..2).map(|number| RemovesPlace { number, checkpoint: 9, place: place(20) }).collect();
    Root { parts: vec![part("", 8), part("m", 9)], removes, tails: Vec::new() }
}

fn tail(number: u64, unit: u32) -> TailPlace {
    TailPlace { number, folder: 1, unit, unit_offset: 1000, bytes: 160, header_crc: 5 }
}

fn with_tails() -> Root {
    Root { tails: vec![tail(2, 30), tail(3, 31)], ..root() }
}

/// What a root says of itself, read with what its header says.
fn decoded(root: &Root, checkpoint: u64) -> Option<Root> {
    Root::decode(&root.to_bytes(), root.kind(), root.parts.len() as u32, checkpoint)
}

#[test]
fn a_root_comes_back_as_it_was_written() {
    for root in [root(), with_tails(), Root::default()] {
        root.encode(9);
        assert_eq!(decoded(&root, 9), Some(root));
    }
    for root in [root(), with_tails()] {
        let bytes = root.encode(9);
        for length in 0..bytes.len() {
            let found = Root::decode(&bytes[..length], root.kind(), 2, 9);
            assert_eq!(found.is_some(), found.is_some_and(|found| found.removes.len() < 2), "to {length}");
        }
        assert_eq!(Root::decode(&bytes, root.kind(), 3, 9), None);
    }
    assert_eq!(Root::decode(&with_tails().encode(9), BlockKind::Root, 2, 9), None, "tails are no blocks");
    let mut none = root().to_bytes();
    let parts = Root { removes: Vec::new(), ..root() }.to_bytes().len();
    none.splice(parts..parts, [0; 4]);
    assert_eq!(Root::decode(&none, BlockKind::RootWithTails, 2, 9), None, "it has tails");
}

#[test]
fn a_tail_that_no_unit_has_room_for_is_none() {
    let one = |change: fn(&mut TailPlace)| {
        let mut root = with_tails();
        change(&mut root.tails[1]);
        root
    };
    assert!(decoded(&one(|tail| tail.unit_offset = 4096 - 160), 9).is_some());
    for (why, root) in [
        ("goes beyond its unit", one(|tail| tail.unit_offset = 4096 - 152)),
        ("begins where no block does", one(|tail| tail.unit_offset = 1004)),
        ("ends where no block does", one(|tail| tail.bytes = 164)),
        ("has no payload", one(|tail| tail.bytes = 80)),
        ("is behind no block", one(|tail| tail.unit_offset = 0)),
        ("is in the opening block's unit", one(|tail| tail.unit = 0)),
        ("is in a folder that no database has", one(|tail| tail.folder = 32)),
        ("is in another one's unit", one(|tail| tail.unit = 30)),
        ("has a number that no version writes", one(|tail| tail.number = 1 << 63)),
    ] {
        // Encoding checks each by itself, so the bytes are changed.
        let mut bytes = with_tails().to_bytes();
        let mut place = Vec::new();
        let wrong = root.tails[1];
        place.extend_from_slice(&wrong.number.to_le_bytes());
        place.extend_from_slice(&wrong.folder.to_le_bytes());
        place.extend_from_slice(&wrong.unit.to_le_bytes());
        place.extend_from_slice(&wrong.unit_offset.to_le_bytes());
        place.extend_from_slice(&wrong.bytes.to_le_bytes());
        let first = Root { removes: Vec::new(), tails: Vec::new(), ..root.clone() }.to_bytes().len();
        let at = first + 4 + TailPlace::PLACE_BYTES;
        bytes[at..at + place.len()].copy_from_slice(&place);
        assert_eq!(Root::decode(&bytes, root.kind(), 2, 9), None, "it {why}");
    }
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
        assert_eq!(decoded(&root, 9), None, "it {why}");
    }
    // N10: pending removes of the picture before.
    assert_eq!(decoded(&root(), 10), None);
}

#[test]
fn a_block_that_is_in_all_but_one_part_the_one_of_a_tail_is_another_one() {
    let tail = tail(2, 30);
    let unit = Extent { folder: tail.folder, first: tail.unit, units: 1 };
    let stamp = PictureStamp { checkpoint: 9, generation: 4, epoch: Epoch::new(20) };
    let header = Header {
        payload_bytes: u32::from(tail.bytes) - HEADER_BYTES as u32,
        ..stamp.header(BlockKind::PendingRemoves, tail.number, unit)
    };
    assert!(tail.matches_block(&header, tail.header_crc, 9));
    let in_a_place = ["kind", "sequence", "checkpoint", "owner", "first_unit"];
    for (part, twin) in near_duplicates::headers(&header) {
        assert_eq!(
            tail.matches_block(&twin, tail.header_crc, 9),
            !in_a_place.contains(&part),
            "{part}: {twin:?}"
        );
    }
    for crc in near_duplicates::half_words(tail.header_crc) {
        assert!(!tail.matches_block(&header, crc, 9), "{crc:x}");
    }
    let shorter = Header { payload_bytes: header.payload_bytes - 16, ..header };
    assert!(!tail.matches_block(&shorter, tail.header_crc, 9), "it has another length");
}
