//! The header of a mapped buffer: as documented, and of one owner.

use ensile_base::clock::unix_seconds;
use ensile_sim::SimDisk;

use super::list::{BufferList, Listed};
use super::*;
use crate::near_duplicates;
use crate::samples::{assert_documented, hex_examples, log_salt};

const DOCUMENT: &str = include_str!("../../../../../docs/internals/formats/buffer.md");

fn header() -> MappedHeader {
    MappedHeader {
        kind: MappedKind::Buffer(2),
        database: crate::samples::identity(),
        boot: BootId::parse("65c0e87a-1aff-4693-b5cb-aebceb453da9").expect("a boot"),
        generation: 3,
        logger: 1,
        inode: 131_080,
        born: 1_763_812_345_123_456_789,
    }
}

fn documented() -> Vec<u8> {
    hex_examples(DOCUMENT).swap_remove(0)
}

#[test]
fn the_documented_header_is_what_is_written() {
    assert_documented(&documented()[..96], &header().encode(log_salt())[..96]);
}

#[test]
fn a_header_is_of_its_salt_and_each_bit_of_it_counts() {
    let (salt, other) = (log_salt(), crate::samples::salt("1a2b3c4e"));
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
    let salt = log_salt();
    let owner = BufferOwner { database, boot, generation, salt, logger };
    disk.create_folder("log1").expect("makes it");
    let list = BufferList::make(&disk, &owner, Duration::ZERO).expect("makes it");
    let late = unix_seconds() + 1_000_000;
    list.note_alive(late);
    list.note_alive(late - 3600);
    assert!(Listed::read(&disk, &MappedKind::List.path(&owner)).expect("reads").alive_until > late);
}

/// The files of a log on this disk.
fn files(disk: &SimDisk) -> BufferFiles {
    let MappedHeader { database, boot, generation, logger, .. } = header();
    let owner = BufferOwner { database, boot, generation, salt: salt(), logger };
    disk.create_folder("log1").expect("makes it");
    BufferFiles::make(Arc::new(disk.clone()), owner, Duration::ZERO).expect("makes the list")
}

fn salt() -> Salt {
    log_salt()
}

/// The buffers that are there.
fn buffers(disk: &SimDisk) -> Vec<String> {
    disk.files().into_iter().filter(|name| name.contains("/buffer-")).collect()
}

#[test]
fn b4_a_buffer_that_goes_gives_back_its_file_its_number_and_its_place_in_the_list() {
    let disk = SimDisk::new();
    let files = files(&disk);
    let make = || {
        let number = files.take_number().expect("there are many");
        files.make(number, 4096).expect("is made")
    };
    let made: Vec<_> = (0..3).map(|_| make()).collect();
    assert_eq!(made.iter().map(|mapped| mapped.number()).collect::<Vec<_>>(), [0, 1, 2]);
    let listed = || Listed::read(&disk, "log1/buffers-3").expect("reads").numbers().collect::<Vec<_>>();
    assert_eq!((listed(), buffers(&disk).len()), (vec![0, 1, 2], 3));
    made.into_iter().for_each(|mapped| files.remove(mapped));
    assert_eq!((listed(), buffers(&disk)), (Vec::new(), Vec::new()));
    assert_eq!(make().number(), 0, "the least number that is free");
}

#[test]
fn b4_a_buffer_that_cannot_be_mapped_gives_back_its_number_and_leaves_no_file() {
    let disk = SimDisk::new();
    let files = files(&disk);
    disk.set_no_maps(true);
    for _ in 0..3 {
        let number = files.take_number().expect("there are many");
        assert_eq!(number, 0, "no other one is taken");
        files.make(number, 4096).expect_err("no file can be mapped");
        assert_eq!(buffers(&disk), [""; 0]);
    }
}

/// What stands at a buffer's name says that it is of another life, in one part.
#[test]
fn b4_a_buffer_whose_header_is_in_all_but_one_part_this_lifes_is_damage() {
    let disk = SimDisk::new();
    let files = files(&disk);
    let number = files.take_number().expect("there are many");
    let mapped = files.make(number, 4096).expect("is made");
    let kind = MappedKind::Buffer(mapped.number());
    let owner = files.owner;
    check(&disk, kind, &owner).expect("it is there");
    let own = MappedHeader::for_owner(&disk, kind, &owner).expect("is asked");
    let databases = near_duplicates::identities(own.database).into_iter();
    let generations = near_duplicates::words(own.generation).into_iter();
    let loggers = near_duplicates::half_words(own.logger).into_iter();
    let numbers = near_duplicates::words(0).into_iter();
    let boot = |at: usize| {
        let mut bytes = own.boot.to_bytes();
        bytes[at] ^= 1;
        BootId::of_bytes(bytes)
    };
    let others = databases
        .map(|database| MappedHeader { database, ..own })
        .chain(generations.map(|generation| MappedHeader { generation, ..own }))
        .chain(loggers.map(|logger| MappedHeader { logger, ..own }))
        .chain(numbers.map(|number| MappedHeader { kind: MappedKind::Buffer(number), ..own }))
        .chain([0, 7, 15].map(|at| MappedHeader { boot: boot(at), ..own }));
    let path = kind.path(&owner);
    let found = |header: &MappedHeader, salt: Salt| {
        let file = disk.open(&path).expect("opens");
        file.write_at(&header.encode(salt), 0).expect("writes");
        check(&disk, kind, &owner)
    };
    found(&own, salt()).expect("as it was made");
    for other in others {
        assert!(matches!(found(&other, salt()), Err(DurabilityError::Damaged { .. })), "{other:?}");
    }
    for other in near_duplicates::salts(salt()) {
        assert!(matches!(found(&own, other), Err(DurabilityError::Damaged { .. })), "salt {other}");
    }
}
