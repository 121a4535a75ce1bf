//! Values that tests of several modules need, and the examples of the format documents.
//!
//! Neighbours: `near_duplicates` varies such values.

use ensile_base::Epoch;

use crate::files::block::origin::Origin;
use crate::files::block::{FORMAT, Salt};
use crate::files::manifest::generation::Generation;
use crate::files::manifest::installed_checkpoint::PartFiles;
use crate::identity::Identity;
use crate::recoverable::EntryKind;

pub(crate) fn identity() -> Identity {
    Identity::parse("5b1e0c9a77d24f0e8f6d3a2b1c4d5e6f").expect("one")
}

/// Another one, of a store or of the database that was copied.
pub(crate) fn other_identity() -> Identity {
    Identity::parse("00112233445566778899aabbccddeeff").expect("one")
}

pub(crate) fn salt(text: &str) -> Salt {
    Salt::parse(text).expect("a salt")
}

pub(crate) fn log_salt() -> Salt {
    salt("1a2b3c4d")
}

pub(crate) fn part_salt() -> Salt {
    salt("5e6f7a8b")
}

/// Of a part of a checkpoint.
pub(crate) fn origin() -> Origin {
    Origin { identity: identity(), salt: part_salt(), entries: EntryKind::Values }
}

/// With two logs; open without a `durable` epoch.
pub(crate) fn generation(number: u64, first: u64, durable: Option<u64>) -> Generation {
    Generation {
        number,
        first: Epoch::new(first),
        format: FORMAT,
        entries: EntryKind::Values,
        logs: 2,
        salt: log_salt(),
        database: identity(),
        durable: durable.map(Epoch::new),
        spans: Vec::new(),
    }
}

pub(crate) fn part_files(number: u64, generation: u64) -> PartFiles {
    PartFiles {
        number,
        generation,
        checkpointers: 2,
        files: 3,
        entries: 9000,
        bytes: 100_000,
        salt: part_salt(),
        seal: 0x0a1b_2c3d,
        database: identity(),
    }
}

/// The example of a text in a format document: `nth` counts from 1.
pub(crate) fn text_example(document: &'static str, nth: usize) -> &'static str {
    document.split("```text\n").nth(nth).and_then(|rest| rest.split("```").next()).expect("an example")
}

/// The bytes of each example in a format document.
pub(crate) fn hex_examples(document: &str) -> Vec<Vec<u8>> {
    let examples = document.split("```hex\n").skip(1).filter_map(|rest| rest.split("```").next());
    examples
        .map(|example| {
            let digits = example.lines().filter_map(|line| line.split('|').next());
            let byte = |pair| u8::from_str_radix(pair, 16).expect("two hex digits");
            digits.flat_map(str::split_whitespace).map(byte).collect()
        })
        .collect()
}

/// An example has the bytes that are written.
pub(crate) fn assert_documented(example: &[u8], written: &[u8]) {
    let hex: Vec<String> = written.iter().map(|byte| format!("{byte:02x}")).collect();
    let rows: Vec<String> = hex.chunks(8).map(|row| row.join(" ")).collect();
    assert_eq!(example, written, "the example should be:\n{}", rows.join("\n"));
}

/// The text with a bit of each byte changed, and the text cut before each byte.
pub(crate) fn changes(text: &str) -> impl Iterator<Item = (usize, [Vec<u8>; 2])> {
    let text = text.as_bytes();
    (0..text.len()).map(move |at| {
        let mut changed = text.to_vec();
        changed[at] ^= 1;
        (at, [changed, text[..at].to_vec()])
    })
}

/// Puts the right checksum behind a block header in which something was changed.
pub(crate) fn reseal(block: &mut [u8], salt: Salt) -> u32 {
    let crc = salt.checksum(&block[..76]);
    block[76..80].copy_from_slice(&crc.to_le_bytes());
    crc
}
