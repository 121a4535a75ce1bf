//! The grammar of checkpoint files: the bytes of the document, round trips, and every cut and flipped byte of a file.

use ensile_base::Tid;
use ensile_base::checksum::crc32c;
use ensile_sim::SimDisk;

use super::*;
use crate::files::block::HEADER_BYTES;
use crate::files::block::origin::Origin;
use crate::files::checkpoint::block::CheckpointBlock;
use crate::files::checkpoint::end_block::Totals;
use crate::files::manifest::installed_checkpoint::PartFiles;
use crate::files::names::checkpoint_folder;
use crate::samples::{
    self, assert_documented, hex_examples, origin, other_identity, part_salt, reseal, salt,
};

const PART: PartName = PartName { checkpoint: 4, checkpointer: 1, file: 2 };
const GENERATION: u64 = 3;
const LOW: Epoch = Epoch::new(9);

fn tid(epoch: u64) -> Tid {
    Tid::first_of(Epoch::new(epoch)).successor().expect("the first")
}

/// What the manifest says of the checkpoint's files.
fn part_files() -> PartFiles {
    samples::part_files(PART.checkpoint, GENERATION)
}

/// A checkpoint with these epochs and files.
fn fuzzy(low: Epoch, high: Epoch, files: PartFiles) -> FuzzyCheckpoint {
    FuzzyCheckpoint { low, high, files }
}

/// What the manifest says of the checkpoint.
fn installed() -> FuzzyCheckpoint {
    fuzzy(LOW, LOW, part_files())
}

/// The opening block of a file, and its checksum.
fn opening(part: PartName, origin: Origin) -> (Vec<u8>, u32) {
    let header = Header::new(BlockKind::CheckpointOpening, part.checkpointer, GENERATION);
    let place = PartPlace { checkpoint: part.checkpoint, file: part.file };
    let (block, crc) = origin.encode(Header { epoch_max: LOW, ..header }, place);
    (block.to_vec(), crc)
}

fn rows_header(block: &mut CheckpointBlock, section: u32, sequence: u64, previous_crc: u32) -> Header {
    let entries = block.entries();
    let (payload_bytes, payload_crc) = block.seal();
    let header = Header::new(BlockKind::Rows, PART.checkpointer, GENERATION);
    Header { section, sequence, entries, payload_bytes, previous_crc, payload_crc, ..header }
}

fn end_block(totals: Totals, sequence: u64, previous_crc: u32) -> Vec<u8> {
    let payload = totals.encode();
    let (payload_bytes, payload_crc) = (payload.len() as u32, crc32c(&payload));
    let header = Header::new(BlockKind::End, PART.checkpointer, GENERATION);
    let mut block = vec![0; HEADER_BYTES];
    Header { sequence, payload_bytes, previous_crc, payload_crc, ..header }.encode(&mut block, part_salt());
    block.extend_from_slice(&payload);
    block
}

/// The file of the format document: one block with one entry, and the end block.
fn documented() -> Vec<u8> {
    let mut block = CheckpointBlock::new();
    block.push(tid(5), |into| into.extend_from_slice(b"hello"));
    let header = rows_header(&mut block, 3, 1, opening(PART, origin()).1);
    file_of(&header, &mut block)
}

/// A file of one block.
fn file_of(header: &Header, block: &mut CheckpointBlock) -> Vec<u8> {
    let crc = header.encode(block.block(), part_salt());
    let mut file = opening(PART, origin()).0;
    file.extend_from_slice(block.block());
    file.extend(end_block(Totals { entries: u64::from(header.entries), blocks: 1 }, 2, crc));
    file
}

fn read(bytes: &[u8]) -> Result<Vec<(u32, Tid, Vec<u8>)>, String> {
    read_of(bytes, &installed()).map_err(|error| error.to_string())
}

/// The rows of a file, or the first error.
fn read_of(bytes: &[u8], of: &FuzzyCheckpoint) -> Result<Vec<(u32, Tid, Vec<u8>)>, DurabilityError> {
    let disk = SimDisk::new();
    disk.create_folder(&checkpoint_folder(PART.checkpointer)).expect("makes the folder");
    let file = disk.create(&PART.to_string()).expect("makes the file");
    file.write_at(bytes, 0).expect("writes");
    let mut reader = PartReader::open(&disk, PART, of).expect("is there");
    let mut found = Vec::new();
    while let Some(rows) = reader.next_rows()? {
        let entries = rows.entries();
        let entries = entries.map_err(|detail| DurabilityError::damaged_file("", rows.offset, detail))?;
        found.extend(entries.iter().map(|entry| (rows.section, entry.tid, entry.body.to_vec())));
    }
    assert!(reader.end().is_some());
    Ok(found)
}

#[test]
fn the_documented_bytes_are_the_ones_that_are_written() {
    let examples = hex_examples(include_str!("../../../../../../docs/internals/formats/checkpoint.md"));
    let [bytes] = &examples[..] else { panic!("one example in hex") };
    assert_documented(bytes, &documented());
    assert_eq!(read(bytes), Ok(vec![(3, tid(5), b"hello".to_vec())]));
}

#[test]
fn every_cut_and_every_flipped_bit_is_seen() {
    let file = documented();
    for length in 0..file.len() {
        assert!(read(&file[..length]).is_err(), "cut to {length}");
    }
    for at in 0..file.len() {
        for bit in 0..8 {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << bit;
            assert!(read(&damaged).is_err(), "bit {bit} of byte {at}");
        }
    }
    for more in [&[0u8; 8][..], &file] {
        assert!(read(&[&file, more].concat()).is_err(), "{} bytes behind the end", more.len());
    }
}

/// The number of entries comes from the file: no reader takes memory for more than the payload has room for.
#[test]
fn k1_more_or_fewer_entries_than_the_header_says_and_one_of_the_own_epoch_are_refused() {
    let mut block = CheckpointBlock::new();
    block.push(tid(5), |into| into.extend_from_slice(b"hello"));
    let header = rows_header(&mut block, 3, 1, opening(PART, origin()).1);
    let header = Header { entries: u32::MAX, ..header };
    let error = read(&file_of(&header, &mut block)).expect_err("no room");
    assert!(error.contains("checkpoint1/ckpt-4-2") && error.contains("byte 128"), "{error}");
    assert!(error.contains("no room for its entries"), "{error}");
    let mut block = CheckpointBlock::new();
    block.push(tid(5), |into| into.extend_from_slice(b"a body as long as two frames of entries"));
    let header = rows_header(&mut block, 3, 1, opening(PART, origin()).1);
    let error = read(&file_of(&Header { entries: 2, ..header }, &mut block)).expect_err("one is missing");
    assert!(error.contains("fewer or more entries"), "{error}");
    let mut block = CheckpointBlock::new();
    block.push(tid(LOW.number()), |body| body.push(1));
    let header = rows_header(&mut block, 1, 1, opening(PART, origin()).1);
    let error = read(&file_of(&header, &mut block)).expect_err("refused");
    assert!(error.contains("not below the checkpoint's"), "{error}");
}

#[test]
fn a_block_that_is_left_out_or_comes_twice_is_seen() {
    let (first, mut crc) = opening(PART, origin());
    let mut blocks = Vec::new();
    for sequence in 0..3 {
        let mut block = CheckpointBlock::new();
        block.push(tid(2 + sequence), |body| body.push(sequence as u8));
        let header = rows_header(&mut block, 1, sequence + 1, crc);
        crc = header.encode(block.block(), part_salt());
        blocks.push(block.block().to_vec());
    }
    let end = end_block(Totals { entries: 3, blocks: 3 }, 4, crc);
    let with = |order: &[usize]| {
        let mut file = first.clone();
        file.extend(order.iter().flat_map(|block| blocks[*block].clone()));
        file.extend_from_slice(&end);
        read(&file)
    };
    assert_eq!(with(&[0, 1, 2]).map(|found| found.len()), Ok(3));
    for order in [&[0, 2][..], &[0, 1], &[1, 2], &[0, 1, 1, 2], &[0, 2, 1], &[]] {
        assert!(with(order).is_err(), "{order:?}");
    }
}

#[test]
fn k1_operations_may_have_the_epochs_of_the_walk_and_values_may_not() {
    let of = fuzzy(LOW, LOW.plus(3), part_files());
    let found = |entries: EntryKind, epoch: u64| {
        let mut block = CheckpointBlock::new();
        block.push(tid(epoch), |body| body.push(1));
        let origin = Origin { entries, ..origin() };
        let (mut file, crc) = opening(PART, origin);
        let header = rows_header(&mut block, 1, 1, crc);
        let crc = header.encode(block.block(), part_salt());
        file.extend_from_slice(block.block());
        file.extend(end_block(Totals { entries: 1, blocks: 1 }, 2, crc));
        read_of(&file, &of).map(|entries| entries.len())
    };
    let (low, high) = (LOW.number(), LOW.number() + 3);
    for epoch in [low - 1, low, high] {
        assert_eq!(found(EntryKind::Operations, epoch).ok(), Some(1), "an object's state of epoch {epoch}");
        assert_eq!(
            found(EntryKind::Values, epoch).ok(),
            (epoch < low).then_some(1),
            "a value of epoch {epoch}"
        );
    }
    assert!(found(EntryKind::Operations, high + 1).is_err(), "no walk has seen what came behind e_h");
}

#[test]
fn i1_a_file_of_another_database_is_told_apart_from_damage() {
    let file = documented();
    let other = other_identity();
    let of = fuzzy(LOW, LOW, PartFiles { database: other, ..part_files() });
    match read_of(&file, &of) {
        Err(DurabilityError::NotOurs { found, own, .. }) => {
            assert_eq!((&*found, &*own), (&*origin().identity.to_string(), &*other.to_string()));
        }
        found => panic!("{found:?}"),
    }
}

#[test]
fn a_file_of_another_checkpoint_or_place_is_damage() {
    let file = documented();
    let others = [
        fuzzy(LOW, LOW, PartFiles { generation: 4, ..part_files() }),
        fuzzy(LOW.next(), LOW.next(), part_files()),
        fuzzy(LOW, LOW, PartFiles { salt: salt("5e6f7a8c"), ..part_files() }),
    ];
    for of in others {
        assert!(matches!(read_of(&file, &of), Err(DurabilityError::Damaged { offset: 0, .. })), "{of:?}");
    }
    for part in [
        PartName { checkpoint: 5, ..PART },
        PartName { checkpointer: 0, ..PART },
        PartName { file: 1, ..PART },
    ] {
        let with = [opening(part, origin()).0, file[OPENING_BYTES..].to_vec()].concat();
        assert!(
            matches!(read_of(&with, &installed()), Err(DurabilityError::Damaged { offset: 0, .. })),
            "{part}"
        );
    }
}

/// The chain alone would not tell: this block follows its own checkpoint's opening block, and may be put behind this
/// one's.
#[test]
fn a_block_copied_from_another_checkpoint_has_a_wrong_checksum() {
    let mut block = CheckpointBlock::new();
    block.push(tid(5), |into| into.extend_from_slice(b"hello"));
    let header = rows_header(&mut block, 3, 1, opening(PART, origin()).1);
    header.encode(block.block(), salt("11111111"));
    let mut file = opening(PART, origin()).0;
    file.extend_from_slice(block.block());
    let error = read(&file).expect_err("refused");
    assert!(error.contains("the block header's checksum is wrong"), "{error}");
}

#[test]
fn l7_what_a_newer_version_wrote_is_told_apart_from_damage_in_every_block() {
    let file = documented();
    let end = file.len() - HEADER_BYTES - 16;
    for (at, salt_of) in [(0, Salt::OPENING), (OPENING_BYTES, part_salt()), (end, part_salt())] {
        for (byte, value) in [(4, 5), (6, 0xff), (7, 1), (7, 2)] {
            let mut newer = file.clone();
            newer[at + byte] = value;
            reseal(&mut newer[at..], salt_of);
            let found = read_of(&newer, &installed());
            let is_newer =
                matches!(found, Err(DurabilityError::Unknown { offset, .. }) if offset == at as u64);
            assert!(is_newer, "byte {byte} of the block at {at}: {found:?}");
        }
    }
}
