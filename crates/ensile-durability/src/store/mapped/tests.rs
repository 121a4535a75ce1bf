//! The header of a mapped buffer: as documented, and of one owner.
//!
//! Neighbours: the tests of [`super`].

use ensile_disk::BootId;

use super::{BufferHeader, FRONT_BYTES};
use crate::block::Salt;
use crate::identity::Identity;

const DOCUMENT: &str = include_str!("../../../../../docs/formats/buffer.md");

fn header() -> BufferHeader {
    BufferHeader {
        database: Identity::parse("5b1e0c9a77d24f0e8f6d3a2b1c4d5e6f").expect("an identity"),
        boot: BootId::parse("65c0e87a-1aff-4693-b5cb-aebceb453da9").expect("a boot"),
        generation: 3,
        logger: 1,
        number: 2,
        inode: 131_080,
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
    let found = BufferHeader::decode(&bytes, Some(salt)).expect("a header");
    assert!(found.header == header() && found.is_known && found.is_salted);
    assert!(BufferHeader::decode(&bytes, Some(other)).is_some_and(|found| !found.is_salted));
    assert!(BufferHeader::decode(&[0; FRONT_BYTES], Some(salt)).is_none());
    for at in 0..92 {
        let mut changed = bytes;
        changed[at] ^= 1;
        assert!(BufferHeader::decode(&changed, Some(salt)).is_none(), "byte {at}");
    }
}
