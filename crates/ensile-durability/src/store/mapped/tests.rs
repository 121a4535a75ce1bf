//! The header of a mapped buffer: as documented, and of one owner.
//!
//! Neighbours: the tests of [`super`].

use std::time::Duration;

use ensile_base::clock::unix_seconds;
use ensile_disk::{BootId, Disk};
use ensile_sim::SimDisk;

use super::list::{BufferList, Listed};
use super::{BufferOwner, FRONT_BYTES, MappedHeader, MappedKind};
use crate::block::Salt;
use crate::identity::Identity;

const DOCUMENT: &str = include_str!("../../../../../docs/formats/buffer.md");

fn header() -> MappedHeader {
    MappedHeader {
        kind: MappedKind::Buffer(2),
        database: Identity::parse("5b1e0c9a77d24f0e8f6d3a2b1c4d5e6f").expect("an identity"),
        boot: BootId::parse("65c0e87a-1aff-4693-b5cb-aebceb453da9").expect("a boot"),
        generation: 3,
        logger: 1,
        inode: 131_080,
        born: 1_763_812_345_123_456_789,
    }
}

fn documented() -> Vec<u8> {
    let example =
        DOCUMENT.split("```hex").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let digits = example.lines().filter_map(|line| line.split('|').next());
    let byte = |digits: &str| u8::from_str_radix(digits, 16).expect("two digits");
    digits.flat_map(str::split_whitespace).map(byte).collect()
}

#[test]
fn the_documented_header_is_what_is_written() {
    let salt = Salt::parse("1a2b3c4d").expect("a salt");
    let bytes = header().encode(salt);
    let documented = documented();
    let shown: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(documented[..96], bytes[..96], "{}", shown.join(" "));
}

#[test]
fn a_header_is_of_its_salt_and_each_bit_of_it_counts() {
    let (salt, other) = (Salt::parse("1a2b3c4d").expect("a salt"), Salt::parse("1a2b3c4e").expect("a salt"));
    let bytes = header().encode(salt);
    let found = MappedHeader::decode(&bytes, Some(salt)).expect("a header");
    assert!(found.header == header() && found.is_known && found.is_salted);
    assert!(MappedHeader::decode(&bytes, Some(other)).is_some_and(|found| !found.is_salted));
    assert!(MappedHeader::decode(&[0; FRONT_BYTES], Some(salt)).is_none());
    for at in 0..92 {
        let mut changed = bytes;
        changed[at] ^= 1;
        assert!(MappedHeader::decode(&changed, Some(salt)).is_none(), "byte {at}");
    }
}

#[test]
fn b4_a_file_is_known_by_its_birth_and_by_its_inode_where_no_birth_is_known() {
    let header = header();
    let renumbered = MappedHeader { inode: 7, ..header };
    let copied = MappedHeader { born: header.born + 1, ..header };
    assert!(header.is_of_file(&header) && header.is_of_file(&renumbered) && !header.is_of_file(&copied));
    let without = |header: MappedHeader| MappedHeader { born: super::NO_BIRTH, ..header };
    assert!(without(header).is_of_file(&header) && header.is_of_file(&without(header)));
    assert!(!without(header).is_of_file(&renumbered) && !header.is_of_file(&without(renumbered)));
}

#[test]
fn a_clock_that_is_set_back_makes_no_change_late() {
    let disk = SimDisk::new();
    let MappedHeader { database, boot, generation, logger, .. } = header();
    let salt = Salt::parse("1a2b3c4d").expect("a salt");
    let owner = BufferOwner { database, boot, generation, salt, logger };
    disk.create_folder("log1").expect("makes it");
    let list = BufferList::make(&disk, &owner, Duration::ZERO).expect("makes it");
    let late = unix_seconds() + 1_000_000;
    list.note_alive(late);
    list.note_alive(late - 3600);
    assert!(Listed::read(&disk, &MappedKind::List.path(&owner)).expect("reads").alive_until() > late);
}
