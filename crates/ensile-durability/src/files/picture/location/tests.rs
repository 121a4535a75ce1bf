//! Places: what no file can have, how pages follow each other, and which block stands where.

use super::*;
use crate::near_duplicates;

#[test]
fn a_place_that_no_file_can_have_is_none() {
    let good = Extent { folder: 31, first: 1, units: 1 };
    let mut bytes = Vec::new();
    encode_extent(ExtentPlace { extent: good, header_crc: 7 }, &mut bytes);
    let read = |bytes: &[u8]| PlaceBytes(bytes).extent();
    assert_eq!(read(&bytes), Some(ExtentPlace { extent: good, header_crc: 7 }));
    for extent in [
        Extent { folder: 32, ..good },
        Extent { first: 0, ..good },
        Extent { units: 0, ..good },
        Extent { first: u32::MAX, ..good },
    ] {
        let mut other = bytes.clone();
        other[..2].copy_from_slice(&extent.folder.to_le_bytes());
        other[2..6].copy_from_slice(&extent.first.to_le_bytes());
        other[6..10].copy_from_slice(&extent.units.to_le_bytes());
        assert_eq!(read(&other), None, "{extent:?}");
    }
    assert!((0..bytes.len()).all(|length| read(&bytes[..length]).is_none()));
}

#[test]
fn n17_pages_tile_their_sections() {
    let bound = |section, key: &str| PageBound { section, first_key: key.as_bytes().into() };
    let follows = |before, next: PageBound| next.follows(before);
    assert!(follows(None, bound(3, "")) && !follows(None, bound(3, "a")));
    let before = bound(3, "b");
    for (next, is_next) in [
        (bound(3, "c"), true),
        (bound(3, "b"), false),
        (bound(3, "a"), false),
        (bound(4, ""), true),
        (bound(4, "c"), false),
        (bound(2, ""), false),
    ] {
        assert_eq!(follows(Some(&before), next.clone()), is_next, "{next:?}");
    }
}

/// The parts of a header that its place does not have, or that its checksum alone vouches for.
const NOT_IN_A_PLACE: [&str; 9] = [
    "generation",
    "entries",
    "section",
    "epoch_min",
    "epoch_max",
    "mark",
    "published",
    "previous_crc",
    "payload_crc",
];

#[test]
fn a_block_that_is_in_all_but_one_part_the_one_of_its_place_does_not_stand_there() {
    let extent = Extent { folder: 3, first: 70, units: 2 };
    let place = ExtentPlace { extent, header_crc: 0x0102_0304 };
    let stamp = PictureStamp { checkpoint: 9, generation: 4, epoch: Epoch::new(20) };
    let header = Header { payload_bytes: 5000, ..stamp.header(BlockKind::Page, 12, extent) };
    let name = BlockName { kind: BlockKind::Page, number: 12, checkpoint: 9 };
    assert!(name.is_at(&place, &header, place.header_crc));
    for (part, twin) in near_duplicates::headers(&header) {
        let stands_there = name.is_at(&place, &twin, place.header_crc);
        assert_eq!(stands_there, NOT_IN_A_PLACE.contains(&part), "{part}: {twin:?}");
    }
    for (part, twin) in near_duplicates::places(place) {
        assert!(!name.is_at(&twin, &header, place.header_crc), "{part}: {twin:?}");
    }
    for other in [
        BlockName { kind: BlockKind::Continuation, ..name },
        BlockName { number: 13, ..name },
        BlockName { checkpoint: 8, ..name },
    ] {
        assert!(!other.is_at(&place, &header, place.header_crc), "{other:?}");
    }
    let longer = Header { payload_bytes: 2 * 4096, ..header };
    assert!(!name.is_at(&place, &longer, place.header_crc), "it takes another unit");
}
