//! The grammar of checkpoint files: the bytes of the document, round trips, and every cut and flipped byte of a file.

use super::{BLOCK_BYTES_MAX, CheckpointBlock, HEADER_BYTES, Header, Kind, LargePermit, Totals};
use crate::checkpoint::read::PartReader;
use crate::compress::Compressor;
use crate::store::names::PartName;
use ensile_base::{Epoch, Tid};
use ensile_disk::Disk;
use ensile_sim::SimDisk;

const PART: PartName = PartName { checkpoint: 4, checkpointer: 1, file: 2 };
const LOW: Epoch = Epoch::new(9);

fn tid(epoch: u64) -> Tid {
    Tid::first_of(Epoch::new(epoch)).successor().expect("the first")
}

fn rows_header(block: &mut CheckpointBlock, section: u32, sequence: u32, previous_crc: u32) -> Header {
    header_of(block, section, sequence, previous_crc, false)
}

fn header_of(
    block: &mut CheckpointBlock,
    section: u32,
    sequence: u32,
    previous_crc: u32,
    compress: bool,
) -> Header {
    let entries = block.entries();
    let compressed = compress && block.compress(&mut Compressor::default());
    let (payload_bytes, payload_crc) = block.seal();
    Header {
        kind: Kind::Rows,
        section,
        part: PART,
        low: LOW,
        sequence,
        entries,
        compressed,
        payload_bytes,
        previous_crc,
        payload_crc,
    }
}

fn end_block(totals: Totals, sequence: u32, previous_crc: u32) -> Vec<u8> {
    let payload = totals.encode();
    let header = Header {
        kind: Kind::End,
        section: 0,
        part: PART,
        low: LOW,
        sequence,
        entries: 0,
        compressed: false,
        payload_bytes: payload.len() as u32,
        previous_crc,
        payload_crc: ensile_base::checksum::crc32c(&payload),
    };
    let mut block = vec![0; HEADER_BYTES];
    header.encode(&mut block);
    block.extend_from_slice(&payload);
    block
}

/// The files of the format document: one block with one entry, and the end block; plain, and compressed.
fn documented() -> [(Vec<u8>, &'static [u8]); 2] {
    let one = |body: &'static [u8], compress: bool| {
        let mut block = CheckpointBlock::new();
        block.push(tid(5), |into| into.extend_from_slice(body));
        let header = header_of(&mut block, 3, 0, 0, compress);
        assert_eq!(header.compressed, compress);
        (file_of(&header, &mut block), body)
    };
    [one(b"hello", false), one(&[b'a'; 64], true)]
}

/// A file of one block.
fn file_of(header: &Header, block: &mut CheckpointBlock) -> Vec<u8> {
    let crc = header.encode(block.block());
    let mut file = block.block().to_vec();
    file.extend(end_block(Totals { entries: u64::from(header.entries), blocks: 1 }, 1, crc));
    file
}

fn read(bytes: &[u8]) -> Result<Vec<(u32, Tid, Vec<u8>)>, String> {
    let disk = SimDisk::new();
    disk.create_folder(&PartName::folder(PART.checkpointer)).expect("makes the folder");
    let file = disk.create(&PART.to_string()).expect("makes the file");
    file.write_at(bytes, 0).expect("writes");
    let mut reader = PartReader::open(&disk, PART, LOW).expect("is there");
    let mut found = Vec::new();
    while let Some(rows) = reader.next_rows().map_err(|error| error.to_string())? {
        for entry in rows.entries() {
            let (tid, body) = entry?;
            found.push((rows.section, tid, body.to_vec()));
        }
    }
    assert!(reader.end().is_some());
    Ok(found)
}

#[test]
fn the_documented_bytes_are_the_ones_that_are_written() {
    let text = include_str!("../../../../../docs/formats/checkpoint.md");
    let examples = text.split("```hex\n").skip(1).filter_map(|rest| rest.split("```").next());
    let examples: Vec<&str> = examples.collect();
    assert_eq!(examples.len(), 2, "two examples in hex");
    for (example, (written, body)) in examples.into_iter().zip(documented()) {
        let digits = example.lines().flat_map(|line| line.split('|').next().unwrap_or("").split_whitespace());
        let bytes: Vec<u8> = digits.map(|pair| u8::from_str_radix(pair, 16).expect("hex digits")).collect();
        let hex: Vec<String> = written.iter().map(|byte| format!("{byte:02x}")).collect();
        let rows: Vec<String> = hex.chunks(8).map(|row| row.join(" ")).collect();
        assert_eq!(bytes, written, "the example should be:\n{}", rows.join("\n"));
        assert_eq!(read(&bytes), Ok(vec![(3, tid(5), body.to_vec())]));
    }
}

#[test]
fn every_cut_and_every_flipped_bit_is_seen() {
    for (file, _) in documented() {
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
}

/// Every bit of a compressed payload flipped where its checksum does not tell: what does not decompress is an error, what
/// does is other entries, and no length takes more memory than a block can have.
#[test]
fn what_is_forged_under_a_good_checksum_is_refused_or_read() {
    let mut block = CheckpointBlock::new();
    for _ in 0..20 {
        block.push(tid(5), |into| into.extend_from_slice(&[b'a'; 64]));
    }
    let header = header_of(&mut block, 3, 0, 0, true);
    assert!(header.compressed, "it becomes shorter");
    let payload = block.block()[HEADER_BYTES..].to_vec();
    let with = |payload: &[u8], header: &Header| {
        let mut block = CheckpointBlock::new();
        block.bytes.extend_from_slice(payload);
        let (_, payload_crc) = block.seal();
        read(&file_of(&Header { payload_crc, ..header.clone() }, &mut block))
    };
    assert_eq!(with(&payload, &header).map(|entries| entries.len()), Ok(20));
    let mut refused = 0;
    for at in 0..header.payload_bytes as usize {
        for bit in 0..8 {
            let mut forged = payload.clone();
            forged[at] ^= 1 << bit;
            refused += usize::from(with(&forged, &header).is_err());
        }
    }
    assert!(refused > 100, "{refused}");
    let error = with(&payload, &Header { entries: u32::MAX, ..header.clone() }).expect_err("no room");
    assert!(error.contains("checkpoint1/ckpt-4-2") && error.contains("byte 0"), "{error}");
    let long = [&u32::MAX.to_le_bytes(), &payload[4..]].concat();
    assert!(with(&long, &header).is_err_and(|error| error.contains("do not decompress")));
    let plain = Header { compressed: false, ..header };
    assert!(with(&payload, &plain).is_err(), "the flag alone makes other entries of it");
}

#[test]
fn large_entries_are_compressed_up_to_the_largest_value() {
    use ensile_base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
    for (body, compresses) in [(2 + KEY_BYTES_MAX + VALUE_BYTES_MAX, true), (super::LARGE_BYTES_MAX, false)] {
        let mut block = CheckpointBlock::new();
        assert!(block.has_room(body));
        block.push(tid(5), |into| into.resize(into.len() + body, 7));
        let header = header_of(&mut block, 3, 0, 0, true);
        assert_eq!(header.compressed, compresses);
        let entries = read(&file_of(&header, &mut block)).expect("it is whole");
        assert_eq!(entries[0].2.len(), body);
    }
}

/// Both kinds of the largest block come back; a walk that asks for room once and pushes twice gets what it got before there
/// was compression: a block that is read.
#[test]
fn several_entries_are_compressed_only_as_far_as_they_are_read() {
    let half = BLOCK_BYTES_MAX / 2;
    for (body, compresses) in [(half - 12, true), (half, false)] {
        let mut block = CheckpointBlock::new();
        assert!(block.has_room(2 * half));
        for _ in 0..2 {
            block.push(tid(5), |into| into.resize(into.len() + body, 7));
        }
        let header = header_of(&mut block, 3, 0, 0, true);
        assert_eq!(header.compressed, compresses);
        let entries = read(&file_of(&header, &mut block)).expect("it is whole");
        assert!(entries.len() == 2 && entries.iter().all(|(.., found)| found.len() == body));
    }
}

#[test]
fn a_block_that_is_left_out_or_comes_twice_is_seen() {
    let (mut blocks, mut crc) = (Vec::new(), 0);
    for sequence in 0..3 {
        let mut block = CheckpointBlock::new();
        block.push(tid(2 + u64::from(sequence)), |body| body.push(sequence as u8));
        let header = rows_header(&mut block, 1, sequence, crc);
        crc = header.encode(block.block());
        blocks.push(block.block().to_vec());
    }
    let end = end_block(Totals { entries: 3, blocks: 3 }, 3, crc);
    let with = |order: &[usize]| {
        let mut file: Vec<u8> = order.iter().flat_map(|block| blocks[*block].clone()).collect();
        file.extend_from_slice(&end);
        read(&file)
    };
    assert_eq!(with(&[0, 1, 2]).map(|found| found.len()), Ok(3));
    for order in [&[0, 2][..], &[0, 1], &[1, 2], &[0, 1, 1, 2], &[0, 2, 1], &[]] {
        assert!(with(order).is_err(), "{order:?}");
    }
}

#[test]
fn k1_an_entry_of_the_checkpoints_own_epoch_is_refused() {
    let mut block = CheckpointBlock::new();
    block.push(tid(LOW.number()), |body| body.push(1));
    let header = rows_header(&mut block, 1, 0, 0);
    let crc = header.encode(block.block());
    let mut file = block.block().to_vec();
    file.extend(end_block(Totals { entries: 1, blocks: 1 }, 1, crc));
    assert!(read(&file).is_err());
}

#[test]
fn only_one_block_at_a_time_is_large() {
    let permit = LargePermit::default();
    let (mut first, mut second) =
        (CheckpointBlock::sharing(permit.clone()), CheckpointBlock::sharing(permit));
    let large = BLOCK_BYTES_MAX;
    assert!(first.has_room(large));
    first.push(tid(1), |body| body.resize(body.len() + large, 7));
    assert!(!first.has_room(1), "a large block holds one entry");
    assert!(!second.has_room(large) && second.take_refusal());
    assert!(second.has_room(1) && !second.take_refusal());
    first.reset();
    assert!(second.has_room(large));
    drop(second);
    assert!(first.has_room(large), "a large block that is dropped gives its right back");
}

#[test]
fn a_full_block_asks_for_the_next_one() {
    let mut block = CheckpointBlock::new();
    let mut pushed = 0;
    while block.has_room(1000) {
        block.push(tid(1), |body| body.resize(body.len() + 1000, 7));
        pushed += 1;
    }
    assert!(!block.take_refusal(), "a large block would not help");
    assert_eq!(pushed, BLOCK_BYTES_MAX / 1012);
}
