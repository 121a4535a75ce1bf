//! Places of pages: what comes back, and what no version writes.

use super::super::location::{PageBound, PlaceBytes};
use super::*;
use crate::files::block::extent::Extent;

fn place(extents: u32) -> PagePlace {
    let extent = |first| Extent { folder: 1, first, units: 3 };
    PagePlace {
        bound: PageBound { section: 7, first_key: b"key"[..].into() },
        number: 41,
        checkpoint: 5,
        entries: extents,
        payload_crc: extents,
        extents: (0..extents).map(|n| ExtentPlace { extent: extent(1 + 3 * n), header_crc: n }).collect(),
    }
}

fn read(bytes: &[u8]) -> Option<PagePlace> {
    let mut from = PlaceBytes(bytes);
    PagePlace::decode(&mut from).filter(|_| from.is_empty())
}

#[test]
fn a_place_comes_back_as_it_was_written_and_no_part_of_it_does() {
    for extents in [0, 1, 2, 40] {
        let (place, mut bytes) = (place(extents), Vec::new());
        place.encode(&mut bytes);
        assert_eq!(place.bytes(), u64::from(extents) * (3 << 12));
        assert_eq!(read(&bytes), Some(place));
        assert!((0..bytes.len()).all(|length| read(&bytes[..length]).is_none()));
    }
}

#[test]
fn a_page_has_blocks_if_it_has_entries_and_no_number_that_no_life_counts_to() {
    let mut bytes = Vec::new();
    place(1).encode(&mut bytes);
    for at in [16, 24] {
        let mut other = bytes.clone();
        other[at] = 0x80;
        assert_eq!(read(&other), None, "byte {at}");
    }
    // No entries, and a block; an entry, and none; checkpoint zero.
    let mut no_entries = bytes.clone();
    no_entries[25..29].fill(0);
    let mut no_block = bytes[..bytes.len() - 14].to_vec();
    no_block[33..35].fill(0);
    let mut no_checkpoint = bytes;
    no_checkpoint[17..25].fill(0);
    for other in [no_entries, no_block, no_checkpoint] {
        assert_eq!(read(&other), None);
    }
}
