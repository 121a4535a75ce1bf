//! Records: layout, optimistic reads, versions.
//!
//! Nothing here frees a record, so handles stay good without pins.

use ensile_base::{Epoch, Tid};
use ensile_epoch::Pinned;
use ensile_memory::{Memory, MemoryConfig, SizeClass};

use super::blocks::Blocks;
use super::pin_scope::Boundary;
use super::testing::CheckedBlocks;
use super::tid_word::Word;
use super::*;

fn blocks() -> Blocks {
    Blocks::new(Memory::new(&MemoryConfig::default()).cache())
}

fn tid(epoch: u64) -> Tid {
    Tid::first_of(Epoch::new(epoch))
}

fn at(address: super::Address) -> Record<'static> {
    // SAFETY: the tests below never free a record that they still read.
    unsafe { address.record() }
}

fn below(epoch: u64) -> Boundary<'static> {
    // SAFETY: the tests below never free a version that they still read.
    unsafe { Boundary::assume(Epoch::new(epoch), Pinned::assume()) }
}

#[test]
fn a_replacement_that_was_filled_while_another_commit_held_the_lock_can_be_discarded() {
    let mut blocks = CheckedBlocks::new();
    // The word is the present record's, as it was read before the own lock.
    let replacement = blocks.create_record(b"longer than before", Word::for_write(tid(3)).with_lock_bit());
    blocks.discard(replacement);
    let next = blocks.create_record(b"longer than before", Word::for_write(tid(3)));
    assert!(!next.record().word().is_locked(), "its memory serves again");
    blocks.discard(next);
}

/// Room of all kinds that a commit takes and gives back, in pages that it begins and in blocks of their own.
#[test]
fn a_commit_that_fails_leaves_no_page_and_no_room_behind() {
    let mut blocks = CheckedBlocks::new();
    for rooms in [0, 1, 10, 100] {
        let before = blocks.place();
        let room = |at: usize, blocks: &mut CheckedBlocks| {
            blocks.version(SizeClass::of_bytes(100 + at * 9 % 900), at % 3 == 2)
        };
        let taken: Vec<_> = (0..rooms).map(|at| room(at, &mut blocks)).collect();
        taken.into_iter().for_each(|room| blocks.unused_version(room));
        blocks.rewind(before);
        assert_eq!(blocks.pages_in_use(), 0, "{rooms} rooms");
    }
    // The page that stood before is used again.
    let room = blocks.version(SizeClass::of_bytes(100), false);
    let before = blocks.place();
    let other = blocks.version(SizeClass::of_bytes(1000), false);
    blocks.unused_version(other);
    blocks.rewind(before);
    // The laboratory counts no block.
    let counted = usize::from(!crate::IS_LABORATORY);
    assert_eq!(blocks.pages_in_use(), counted);
    blocks.unused_version(room);
}

fn write(record: Record<'_>, value: &[u8], epoch: u64) {
    record.lock();
    record.overwrite(value);
    record.unlock_with(Word::for_write(tid(epoch)));
}

#[test]
fn every_length_comes_back_as_it_was_written() {
    let mut blocks = blocks();
    let mut scratch = Scratch::default();
    for length in (0..200).chain([1000, 4096, 100_000]) {
        let value: Vec<u8> = (0..length).map(|i| (i * 7 + length) as u8).collect();
        let record = at(blocks.create_record(&value, Word::for_write(tid(3))).publish());
        assert_eq!(record.read(&mut scratch), Seen::Present(Word::for_write(tid(3))));
        assert_eq!(scratch.bytes(), value);
        assert_eq!(record.length(), length);
        // Behind what is there, into room that is exactly enough.
        let mut appended = Vec::with_capacity(3 + length);
        appended.extend_from_slice(b"key");
        let room = appended.capacity();
        record.lock();
        record.append_locked(&mut appended);
        record.unlock_with(Word::for_write(tid(3)));
        assert_eq!(appended.strip_prefix(b"key"), Some(value.as_slice()));
        assert_eq!(appended.capacity(), room, "a bound commit allocates nothing (E1)");
    }
}

#[test]
fn a_hundred_byte_record_takes_120_bytes_and_a_superseded_one_sends_its_reader_back() {
    let mut blocks = blocks();
    let record = at(blocks.create_record(&[1; 100], Word::for_write(tid(1))).publish());
    assert_eq!(record.class().bytes(), 120);
    assert_eq!(HEADER_BYTES, 20);
    assert!(record.fits(100) && !record.fits(101));
    let record = at(blocks.create_record(b"x", Word::for_write(tid(2))).publish());
    let word = record.lock();
    record.unlock_with(word.to_superseded());
    assert_eq!(record.read(&mut Scratch::default()), Seen::Superseded);
}

#[test]
fn a_placeholder_reads_as_absent_until_it_is_written() {
    let mut blocks = blocks();
    let mut scratch = Scratch::default();
    let record = at(blocks.placeholder(10).0.publish());
    assert_eq!(record.read(&mut scratch), Seen::Absent(Word::PLACEHOLDER));
    write(record, b"hello", 2);
    assert_eq!(record.read(&mut scratch), Seen::Present(Word::for_write(tid(2))));
    assert_eq!(scratch.bytes(), b"hello");
}

#[test]
fn every_snapshot_finds_its_version() {
    let mut blocks = blocks();
    let mut scratch = Scratch::default();
    let record = at(blocks.create_record(b"two", Word::for_write(tid(2))).publish());
    for (epoch, value) in [(4u64, &b"four"[..]), (7, b"last")] {
        let word = record.lock();
        let _ = record.preserve(word, blocks.version(record.class(), false));
        record.overwrite(value);
        record.unlock_with(Word::for_write(tid(epoch)));
    }
    let word = record.lock();
    let _ = record.preserve(word, blocks.version(record.class(), false));
    let _ = record.delete(tid(9));
    for (boundary, expected) in [
        (2, None),
        (3, Some("two")),
        (4, Some("two")),
        (5, Some("four")),
        (8, Some("last")),
        (9, Some("last")),
        (10, None),
    ] {
        let word = record.read_version(below(boundary), &mut scratch);
        let present = word.is_some_and(|word| !word.is_absent());
        let found = present.then(|| std::str::from_utf8(scratch.bytes()).expect("as written"));
        assert_eq!(found, expected, "snapshot {boundary}");
        assert_eq!(word.is_some(), boundary > 2, "snapshot {boundary}");
    }
}

#[test]
fn rows_are_copied_one_behind_the_other_and_only_those_that_are_kept_stay() {
    let mut blocks = blocks();
    let mut space = RowSpace::default();
    for round in 0..2 {
        space.clear();
        let lengths = [0, 1, 4, 5, 12, 13, 100, 5000];
        let kept: Vec<_> = (0..lengths.len())
            .map(|at_length| {
                let value = vec![at_length as u8 + round; lengths[at_length]];
                let record = at(blocks.create_record(&value, Word::for_write(tid(2))).publish());
                let other = at(blocks.create_record(&[99; 40], Word::for_write(tid(2))).publish());
                assert!(matches!(other.read(&mut space), Seen::Present(_)));
                assert!(matches!(record.read(&mut space), Seen::Present(_)));
                space.keep()
            })
            .collect();
        space.copy(b"no record's");
        let own = space.keep();
        for (at_length, row) in kept.into_iter().enumerate() {
            assert_eq!(space.row(row), vec![at_length as u8 + round; lengths[at_length]]);
        }
        assert_eq!(space.row(own), b"no record's");
        assert!(space.used_bytes() <= space.kept_bytes());
    }
}

#[test]
fn readers_never_see_a_torn_value() {
    let mut blocks = blocks();
    let handle = blocks.create_record(&[0; 64], Word::for_write(tid(1))).publish();
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            for round in 2..20_000u64 {
                let length = 8 + (round % 8) as usize * 8;
                let word = at(handle).lock();
                ensile_base::sync::fence(ensile_base::sync::Ordering::SeqCst);
                at(handle).overwrite(&vec![round as u8; length][..length.min(64)]);
                at(handle).unlock_with(Word::for_write(word.tid().successor().expect("few rounds")));
            }
        });
        let mut scratch = Scratch::default();
        while !writer.is_finished() {
            assert!(matches!(at(handle).read(&mut scratch), Seen::Present(_)));
            let bytes = scratch.bytes();
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "torn: {bytes:?}");
        }
    });
}

#[test]
fn what_snapshots_are_shown_while_a_row_is_overwritten_is_neither_torn_nor_of_another_boundary() {
    let value = |epoch: u64| vec![epoch as u8; 8 + (epoch % 8) as usize * 8];
    let mut blocks = blocks();
    let mut largest = value(7);
    largest.fill(1);
    let handle = blocks.create_record(&largest, Word::for_write(tid(1))).publish();
    // Lent, so that the memory is there as long as somebody reads.
    let blocks = &mut blocks;
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            for epoch in 2..20_000 {
                let word = at(handle).lock();
                ensile_base::sync::fence(ensile_base::sync::Ordering::SeqCst);
                let _ = at(handle).preserve(word, blocks.version(at(handle).class(), false));
                at(handle).overwrite(&value(epoch));
                at(handle).unlock_with(Word::for_write(tid(epoch)));
            }
        });
        let mut scratch = Scratch::default();
        for look in 0.. {
            if writer.is_finished() {
                break;
            }
            // The latest as of now, which is overwritten at any moment, and the one before.
            let boundary = at(handle).word().epoch().number() + look % 2;
            if boundary > 2 {
                let word = at(handle).read_version(below(boundary), &mut scratch).expect("present");
                assert_eq!(word.epoch(), Epoch::new(boundary - 1), "snapshot {boundary}");
                assert_eq!(scratch.bytes(), value(boundary - 1), "snapshot {boundary}");
            }
        }
    });
}
