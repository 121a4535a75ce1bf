//! The grammar: round trips, refusals, and the bytes that `docs/internals/formats/log.md` shows.

use ensile_base::Tid;

use super::entries::FramedEntries;
use super::origin::{OPENING_BYTES, Opened, Origin, PartPlace};
use super::scan::ChainPlace;
use super::*;
use crate::buffers::Buffer;
use crate::near_duplicates;
use crate::recoverable::EntryKind;
use crate::samples::{self, assert_documented, hex_examples, reseal};

const SALT: Salt = Salt(0x1a2b_3c4d);

fn origin() -> Origin {
    Origin { salt: SALT, ..samples::origin() }
}

/// The data block of the format document.
fn documented() -> (Header, Vec<u8>) {
    let mut buffer = Buffer::usual();
    buffer.push(Tid::first_of(Epoch::new(5)).successor().expect("the first"), |body| {
        body.extend_from_slice(b"hello")
    });
    let (payload_bytes, payload_crc) = buffer.seal();
    let (epoch_min, epoch_max) = buffer.epochs();
    let header = Header {
        sequence: 1,
        payload_bytes,
        entries: buffer.entries(),
        epoch_min,
        epoch_max,
        mark: Epoch::new(4),
        published: Epoch::new(3),
        previous_crc: 0x0102_0304,
        payload_crc,
        ..Header::new(BlockKind::Data, 0, 1)
    };
    header.encode(buffer.block(), SALT);
    (header, buffer.block().to_vec())
}

/// The opening block of the format document.
fn documented_opening() -> (Header, Vec<u8>) {
    let header = Header {
        sequence: 7,
        epoch_max: Epoch::new(9),
        mark: Epoch::new(9),
        published: Epoch::new(8),
        previous_crc: 0x0102_0304,
        ..Header::new(BlockKind::LogOpening, 0, 1)
    };
    let (block, _) = origin().encode(header.clone(), PartPlace::default());
    (header, block.to_vec())
}

#[test]
fn the_documented_bytes_are_the_ones_that_are_written() {
    let examples = hex_examples(include_str!("../../../../../docs/internals/formats/log.md"));
    let (header, written) = documented();
    assert_documented(&examples[0], &written);
    assert_eq!(Header::decode(&written, SALT).expect("decodes").0, header);
    let (header, written) = documented_opening();
    assert_documented(&examples[1], &written);
    let opened = Opened::decode(&written).expect("decodes");
    let payload_crc = crc32c(&written[HEADER_BYTES..]);
    assert_eq!(opened.header, Header { payload_bytes: 48, payload_crc, ..header });
    assert_eq!((opened.origin, opened.place), (origin(), PartPlace::default()));
}

#[test]
fn an_opening_block_tells_every_kind_of_file() {
    let place = PartPlace { checkpoint: 4, file: 2 };
    for entries in [EntryKind::Values, EntryKind::Operations] {
        let origin = Origin { entries, ..origin() };
        let header = Header { epoch_max: Epoch::new(9), ..Header::new(BlockKind::CheckpointOpening, 1, 3) };
        let (block, crc) = origin.encode(header, place);
        let opened = Opened::decode(&block).expect("decodes");
        assert_eq!((opened.origin, opened.place, opened.crc), (origin, place, crc));
        assert_eq!(
            (opened.header.kind, opened.header.epoch_max),
            (BlockKind::CheckpointOpening, Epoch::new(9))
        );
    }
}

#[test]
fn every_flipped_bit_and_every_cut_of_an_opening_block_is_seen() {
    let (_, block) = documented_opening();
    for bit in 0..OPENING_BYTES * 8 {
        let mut damaged = block.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let found = Opened::decode(&damaged).expect_err("damaged");
        let expected = match bit / 8 {
            0..4 => NotABlock::NoMagic,
            4..HEADER_BYTES => NotABlock::BadCrc,
            _ => NotABlock::BadPayload,
        };
        assert_eq!(found, expected, "bit {bit}");
    }
    for length in 0..OPENING_BYTES {
        let expected = if length == 0 { NotABlock::Empty } else { NotABlock::Cut };
        assert_eq!(Opened::decode(&block[..length]), Err(expected), "cut to {length}");
    }
}

#[test]
fn l7_an_opening_block_of_a_newer_version_is_told_apart_from_damage() {
    let (_, block) = documented_opening();
    let with = |at: usize, byte: u8| {
        let mut newer = block.clone();
        newer[at] = byte;
        let payload_crc = crc32c(&newer[HEADER_BYTES..]);
        newer[72..76].copy_from_slice(&payload_crc.to_le_bytes());
        reseal(&mut newer, Salt::OPENING);
        Opened::decode(&newer)
    };
    assert_eq!(with(4, 0xff), Err(NotABlock::OtherFormat));
    // Its kind, a flag, the length of its payload; a kind of entries, and what is kept for later.
    for at in [6, 7, 12, 100, 101, 103, 116, 120, 127] {
        assert_eq!(with(at, 0x40), Err(NotABlock::Unknown), "byte {at}");
    }
}

#[test]
fn an_opening_block_is_read_at_the_beginning_of_a_file_only_and_other_blocks_are_not() {
    let (_, opening) = documented_opening();
    assert_eq!(Header::decode(&opening, SALT), Err(NotABlock::BadCrc));
    // Under the log's own checksum too.
    let mut forged = opening;
    reseal(&mut forged, SALT);
    assert_eq!(Header::decode(&forged, SALT).map(|found| found.0.kind), Ok(BlockKind::Unknown));
    let mut data = documented().1;
    reseal(&mut data, Salt::OPENING);
    assert_eq!(Opened::decode(&data), Err(NotABlock::Unknown));
}

#[test]
fn entries_come_back_as_they_were_pushed() {
    let mut buffer = Buffer::usual();
    let mut tid = Tid::first_of(Epoch::new(9));
    let mut expected = Vec::new();
    for length in [0usize, 1, 7, 8, 300] {
        tid = tid.successor().expect("a few");
        let body = vec![length as u8; length];
        buffer.push(tid, |out| out.extend_from_slice(&body));
        expected.push((tid, body));
    }
    let (payload, _) = buffer.seal();
    let block = buffer.block();
    assert!(block.len().is_multiple_of(8));
    let entries = FramedEntries::new(&block[HEADER_BYTES..HEADER_BYTES + payload as usize]);
    let found: Vec<_> =
        entries.map(|entry| entry.map(|(tid, body)| (tid, body.to_vec())).expect("framed")).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_cut_payload_and_status_bits_in_a_logged_tid_are_refused() {
    let (header, block) = documented();
    let payload = &block[HEADER_BYTES..HEADER_BYTES + header.payload_bytes as usize];
    for length in 1..payload.len() {
        assert!(FramedEntries::new(&payload[..length]).any(|entry| entry.is_err()), "cut to {length}");
    }
    let (header, mut block) = documented();
    block[HEADER_BYTES] |= 1;
    let payload = &block[HEADER_BYTES..HEADER_BYTES + header.payload_bytes as usize];
    assert!(FramedEntries::new(payload).next().is_some_and(|entry| entry.is_err()));
}

#[test]
fn every_flipped_bit_of_a_header_or_of_its_salt_is_seen() {
    let (_, block) = documented();
    for bit in 0..HEADER_BYTES * 8 {
        let mut damaged = block.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let found = Header::decode(&damaged, SALT).expect_err("damaged");
        let expected = if bit < 32 { NotABlock::NoMagic } else { NotABlock::BadCrc };
        assert_eq!(found, expected, "bit {bit}");
    }
    assert_eq!(Header::decode(&[0; HEADER_BYTES], SALT), Err(NotABlock::Zeros));
    let (_, block) = documented();
    for bit in 0..32 {
        assert_eq!(Header::decode(&block, Salt(SALT.0 ^ 1 << bit)), Err(NotABlock::BadCrc));
    }
}

#[test]
fn l7_a_block_of_a_newer_version_tells_its_place_and_no_kind() {
    let (header, block) = documented();
    // A format, a kind, a flag: each of the reserved ones.
    for (at, byte) in [(4, 0xff), (6, 6), (6, 0xff), (7, 1), (7, 2), (7, 0x81)] {
        let mut newer = block.clone();
        newer[at] = byte;
        reseal(&mut newer, SALT);
        let (found, _) = Header::decode(&newer, SALT).expect("its checksum holds");
        assert_eq!(found.kind, BlockKind::Unknown, "{byte} at {at}");
        let place = |header: &Header| {
            let Header { owner, generation, sequence, payload_bytes, previous_crc, .. } = *header;
            (owner, generation, sequence, payload_bytes, previous_crc)
        };
        assert_eq!(place(&found), place(&header));
    }
}

#[test]
#[should_panic(expected = "larger than what was reserved")]
fn an_entry_beyond_its_reservation_is_a_bug_that_stops() {
    let mut buffer = Buffer::for_entry(10);
    buffer.push(Tid::first_of(Epoch::new(1)), |body| body.extend_from_slice(&[0; 100]));
}

#[test]
fn the_largest_epoch_and_a_section_of_more_than_32_bits_are_unknown() {
    let set: [fn(&mut Header); 4] = [
        |header| header.epoch_min = Epoch::MAX,
        |header| header.epoch_max = Epoch::MAX,
        |header| header.mark = Epoch::MAX,
        |header| header.published = Epoch::MAX,
    ];
    for set in set {
        let (mut header, mut block) = documented();
        set(&mut header);
        for (at, epoch) in
            [(32, header.epoch_min), (40, header.epoch_max), (48, header.mark), (56, header.published)]
        {
            block[at..at + 8].copy_from_slice(&epoch.number().to_le_bytes());
        }
        reseal(&mut block, SALT);
        assert_eq!(
            Header::decode(&block, SALT).map(|found| found.0.kind),
            Ok(BlockKind::Unknown),
            "{header:?}"
        );
    }
    let header = Header { section: u32::MAX, ..Header::new(BlockKind::Rows, 1, 3) };
    let mut block = vec![0; HEADER_BYTES];
    header.encode(&mut block, SALT);
    assert_eq!(Header::decode(&block, SALT).map(|found| found.0), Ok(header));
    block[36] = 1;
    reseal(&mut block, SALT);
    assert_eq!(Header::decode(&block, SALT).map(|found| found.0.kind), Ok(BlockKind::Unknown));
}

/// Of a page file: a header of this kind, with all that it can say.
fn extent_header(kind: BlockKind) -> Header {
    let header = Header { sequence: 7, first_unit: 9, checkpoint: 4, entries: 2, ..Header::new(kind, 1, 3) };
    let has_section = matches!(kind, BlockKind::Page | BlockKind::Continuation);
    let previous_crc = u32::from(kind == BlockKind::Continuation) * 77;
    Header { epoch_max: Epoch::new(8), section: u32::from(has_section) * 5, previous_crc, ..header }
}

const EXTENT_KINDS: [BlockKind; 6] = [
    BlockKind::Page,
    BlockKind::Continuation,
    BlockKind::PendingRemoves,
    BlockKind::DirectoryPart,
    BlockKind::Root,
    BlockKind::RootWithTails,
];

#[test]
fn l7_a_block_of_a_page_file_says_its_unit_and_checkpoint_and_is_unknown_in_other_files() {
    for kind in EXTENT_KINDS {
        let header = extent_header(kind);
        let mut block = vec![0; HEADER_BYTES];
        header.encode(&mut block, SALT);
        assert_eq!(Header::decode(&block, SALT).map(|found| found.0), Ok(header.clone()));
        assert_eq!(header.epoch_seen(), Epoch::new(8), "a unit is no mark");
        // A unit, a checkpoint and a section that no version writes.
        let ends = [(52, 1), (63, 0x80)].into_iter().chain((header.section > 0).then_some((36, 1)));
        for (at, byte) in ends {
            let mut other = block.clone();
            other[at] = byte;
            reseal(&mut other, SALT);
            let found = Header::decode(&other, SALT).expect("its checksum holds").0;
            assert_eq!((found.kind, found.sequence), (BlockKind::Unknown, 7), "{kind:?}, byte {at}");
        }
    }
    for kind in EXTENT_KINDS {
        let mut block = vec![0; HEADER_BYTES];
        extent_header(kind).encode(&mut block, SALT);
        assert_eq!(block[4..6], [5, 0]);
        block[4] = 4;
        reseal(&mut block, SALT);
        let found = Header::decode(&block, SALT).expect("its checksum holds").0.kind;
        assert_eq!(found, BlockKind::Unknown);
    }
    let (_, mut block) = documented();
    block[4] = 5;
    reseal(&mut block, SALT);
    assert_eq!(Header::decode(&block, SALT).expect("its checksum holds").0.kind, BlockKind::Unknown);
}

#[test]
fn l5_a_block_that_is_in_all_but_one_part_the_next_one_does_not_continue_the_chain() {
    let before = Header { sequence: 4, ..Header::new(BlockKind::Mark, 3, 5) };
    let place = ChainPlace::after_block(&before, 0x0102_0304);
    let next = Header { sequence: 5, previous_crc: 0x0102_0304, ..before };
    assert!(place.matches_header(&next));
    for (part, twin) in near_duplicates::headers(&next) {
        let is_chained = ["owner", "generation", "sequence", "previous_crc"].contains(&part);
        assert_eq!(place.matches_header(&twin), !is_chained, "{part}: {twin:?}");
    }
}
