//! The grammar: round trips, refusals, and the bytes that `docs/formats/log.md` shows.

use super::{Entries, HEADER_BYTES, Header, Kind, NotAHeader, Salt};
use crate::log::buffer::Buffer;
use ensile_base::{Epoch, Tid};

const SALT: Salt = Salt(0x1a2b_3c4d);

/// The data block of the format document.
fn documented() -> (Header, Vec<u8>) {
    let mut buffer = Buffer::usual();
    buffer.push(Tid::first_of(Epoch::new(5)).successor().expect("the first"), |body| {
        body.extend_from_slice(b"hello")
    });
    let (payload_bytes, payload_crc) = buffer.seal();
    let (epoch_min, epoch_max) = buffer.epochs();
    let header = Header {
        kind: Kind::Data,
        logger: 0,
        generation: 1,
        sequence: 1,
        payload_bytes,
        entries: buffer.entries(),
        epoch_min,
        epoch_max,
        mark: Epoch::new(4),
        published: Epoch::new(3),
        compressed: false,
        previous_crc: 0x0102_0304,
        payload_crc,
    };
    header.encode(buffer.block(), SALT);
    (header, buffer.block().to_vec())
}

/// The opening mark of the format document.
fn documented_opening() -> (Header, Vec<u8>) {
    let header = Header {
        kind: Kind::Opening,
        sequence: 7,
        payload_bytes: 0,
        entries: 0,
        epoch_min: Epoch::ZERO,
        epoch_max: Epoch::new(9),
        mark: Epoch::new(9),
        published: Epoch::new(8),
        payload_crc: 0,
        ..documented().0
    };
    let mut block = vec![0; HEADER_BYTES];
    header.encode(&mut block, SALT);
    (header, block)
}

/// Compares an example of the document with what is written.
fn assert_documented(index: usize, written: &[u8]) {
    let text = include_str!("../../../../../docs/formats/log.md");
    let block = text
        .split("```hex\n")
        .nth(index)
        .and_then(|rest| rest.split("```").next())
        .expect("an example in hex");
    let digits = block.lines().flat_map(|line| line.split('|').next().unwrap_or("").split_whitespace());
    let bytes: Vec<u8> = digits.map(|pair| u8::from_str_radix(pair, 16).expect("two hex digits")).collect();
    let hex: Vec<String> = written.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        bytes,
        written,
        "the example should be:\n{}",
        hex.chunks(8).map(|row| row.join(" ")).collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn the_documented_bytes_are_the_ones_that_are_written() {
    let (header, written) = documented();
    assert_documented(1, &written);
    assert_eq!(Header::decode(&written, SALT).expect("decodes").0, header);
    let (header, written) = documented_opening();
    assert_documented(2, &written);
    let (found, _, salt) = Header::decode_opening(&written).expect("decodes");
    assert_eq!((found, salt), (header, SALT));
}

#[test]
fn an_opening_mark_is_read_at_the_beginning_of_a_file_only_and_other_blocks_are_not() {
    let (_, opening) = documented_opening();
    assert_eq!(Header::decode(&opening, SALT), Err(NotAHeader::BadCrc));
    // Under the log's own checksum too.
    let mut forged = opening;
    let crc = SALT.checksum(&forged[..76]);
    forged[76..80].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(Header::decode(&forged, SALT), Err(NotAHeader::Unknown));
    let mut data = documented().1;
    let crc = Salt::OPENING.checksum(&data[..76]);
    data[76..80].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(Header::decode_opening(&data), Err(NotAHeader::Unknown));
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
    let entries = Entries::of(&block[HEADER_BYTES..HEADER_BYTES + payload as usize]);
    let found: Vec<_> =
        entries.map(|entry| entry.map(|(tid, body)| (tid, body.to_vec())).expect("framed")).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_cut_payload_is_refused_at_every_length() {
    let (header, block) = documented();
    let payload = &block[HEADER_BYTES..HEADER_BYTES + header.payload_bytes as usize];
    for length in 1..payload.len() {
        assert!(Entries::of(&payload[..length]).any(|entry| entry.is_err()), "cut to {length}");
    }
}

#[test]
fn status_bits_in_a_logged_tid_are_refused() {
    let (header, mut block) = documented();
    block[HEADER_BYTES] |= 1;
    let payload = &block[HEADER_BYTES..HEADER_BYTES + header.payload_bytes as usize];
    assert!(Entries::of(payload).next().is_some_and(|entry| entry.is_err()));
}

#[test]
fn every_flipped_bit_of_a_header_is_seen() {
    let (_, block) = documented();
    for bit in 0..HEADER_BYTES * 8 {
        let mut damaged = block.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let found = Header::decode(&damaged, SALT).expect_err("damaged");
        let expected = if bit < 32 { NotAHeader::NoMagic } else { NotAHeader::BadCrc };
        assert_eq!(found, expected, "bit {bit}");
    }
    assert_eq!(Header::decode(&[0; HEADER_BYTES], SALT), Err(NotAHeader::Zeros));
}

#[test]
fn an_unknown_version_under_a_good_checksum_is_told_apart_from_damage() {
    let (_, mut block) = documented();
    block[4] = 0xff;
    let crc = SALT.checksum(&block[..76]);
    block[76..80].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(Header::decode(&block, SALT), Err(NotAHeader::Unknown));
}

#[test]
#[should_panic(expected = "larger than what was reserved")]
fn an_entry_beyond_its_reservation_is_a_bug_that_stops() {
    let mut buffer = Buffer::for_entry(10);
    buffer.push(Tid::first_of(Epoch::new(1)), |body| body.extend_from_slice(&[0; 100]));
}

#[test]
fn the_largest_epoch_is_refused_in_every_place() {
    let set: [fn(&mut Header); 4] = [
        |header| header.epoch_min = Epoch::MAX,
        |header| header.epoch_max = Epoch::MAX,
        |header| header.mark = Epoch::MAX,
        |header| header.published = Epoch::MAX,
    ];
    for set in set {
        let (mut header, mut block) = documented();
        set(&mut header);
        header.encode(&mut block, SALT);
        assert_eq!(Header::decode(&block, SALT), Err(NotAHeader::Unknown), "{header:?}");
    }
}

#[test]
fn a_header_of_another_salt_is_none() {
    let (_, block) = documented();
    for bit in 0..32 {
        assert_eq!(Header::decode(&block, Salt(SALT.0 ^ 1 << bit)), Err(NotAHeader::BadCrc));
    }
}
