//! Values that differ from a given value in a single part. With these values, a test shows that a comparison compares
//! every part.
//!
//! Neighbours: used by the tests of `block`, `recovery::chain`, `checkpoint::picture`, `backup` and `store`.

use ensile_base::Epoch;

use crate::files::block::extent::{Extent, ExtentPlace};
use crate::files::block::origin::Origin;
use crate::files::block::{BlockKind, Header, Salt};
use crate::files::manifest::generation::Generation;
use crate::files::manifest::installed_checkpoint::PartFiles;
use crate::files::picture::location::PageBound;
use crate::files::picture::page::PagePlace;
use crate::files::shared_manifest::SharedFile;
use crate::identity::Identity;
use crate::recoverable::EntryKind;

/// Numbers that differ from `of` in a single bit: of the first byte, of the last byte, or of the upper half.
pub(crate) fn words(of: u64) -> [u64; 4] {
    [0, 7, 31, 62].map(|bit| of ^ 1 << bit)
}

/// Numbers of 32 bits that differ from `of` in a single bit.
pub(crate) fn half_words(of: u32) -> [u32; 3] {
    [0, 7, 31].map(|bit| of ^ 1 << bit)
}

/// The epochs before and after `of`, and an epoch with the same lower 32 bits.
pub(crate) fn epochs(of: Epoch) -> [Epoch; 3] {
    [of.previous(), of.next(), Epoch::new(of.number() + (1 << 32))]
}

/// Identities that share fifteen of sixteen bytes with `of`.
pub(crate) fn identities(of: Identity) -> Vec<Identity> {
    let with = |at: usize| {
        let mut bytes = of.to_bytes();
        bytes[at] ^= 0x40;
        Identity::of_bytes(bytes)
    };
    (0..16).map(with).collect()
}

/// Salts that share three of four bytes with `of`.
pub(crate) fn salts(of: Salt) -> Vec<Salt> {
    let number = u32::from_str_radix(&of.to_string(), 16).expect("eight digits");
    let with = |at: u32| Salt::parse(&format!("{:08x}", number ^ 1 << (8 * at))).expect("a salt");
    (0..4).map(with).collect()
}

/// Keys with the same beginning as `of`, and a key with the same end.
pub(crate) fn keys(of: &[u8]) -> Vec<Box<[u8]>> {
    let (last, begin) = of.split_last().expect("a key with a byte");
    let first = [&[of[0] ^ 1], &of[1..]].concat();
    vec![
        begin.into(),
        [of, b"\0"].concat().into(),
        [begin, &[last.wrapping_add(1)]].concat().into(),
        first.into(),
    ]
}

fn other_kind(of: EntryKind) -> EntryKind {
    match of {
        EntryKind::Values => EntryKind::Operations,
        EntryKind::Operations => EntryKind::Values,
    }
}

/// Origins that differ from `of` in a single part, with the part's name.
pub(crate) fn origins(of: Origin) -> Vec<(&'static str, Origin)> {
    let identities =
        identities(of.identity).into_iter().map(|identity| ("identity", Origin { identity, ..of }));
    let salts = salts(of.salt).into_iter().map(|salt| ("salt", Origin { salt, ..of }));
    let entries = other_kind(of.entries);
    identities.chain(salts).chain([("entries", Origin { entries, ..of })]).collect()
}

/// Places that differ from `of` in a single part, with the part's name.
pub(crate) fn places(of: ExtentPlace) -> Vec<(&'static str, ExtentPlace)> {
    let extent = of.extent;
    vec![
        ("folder", ExtentPlace { extent: Extent { folder: extent.folder ^ 1, ..extent }, ..of }),
        ("first", ExtentPlace { extent: Extent { first: extent.first + 1, ..extent }, ..of }),
        ("units", ExtentPlace { extent: Extent { units: extent.units + 1, ..extent }, ..of }),
        ("crc", ExtentPlace { header_crc: of.header_crc ^ 1, ..of }),
        ("crc", ExtentPlace { header_crc: of.header_crc ^ 1 << 31, ..of }),
    ]
}

/// Headers that differ from `of` in a single part, with the part's name.
pub(crate) fn headers(of: &Header) -> Vec<(&'static str, Header)> {
    let kind = if of.kind == BlockKind::Page { BlockKind::DirectoryPart } else { BlockKind::Page };
    let mut twins = vec![("kind", Header { kind, ..of.clone() })];
    let epoch_part = |part: &'static str, of_header: Epoch, with: fn(Header, Epoch) -> Header| {
        epochs(of_header.next()).map(|epoch| (part, epoch, with))
    };
    for (part, epoch, with) in [
        epoch_part("epoch_min", of.epoch_min, |header, epoch_min| Header { epoch_min, ..header }),
        epoch_part("epoch_max", of.epoch_max, |header, epoch_max| Header { epoch_max, ..header }),
        epoch_part("mark", of.mark, |header, mark| Header { mark, ..header }),
        epoch_part("published", of.published, |header, published| Header { published, ..header }),
    ]
    .into_iter()
    .flatten()
    {
        twins.push((part, with(of.clone(), epoch)));
    }
    for generation in words(of.generation) {
        twins.push(("generation", Header { generation, ..of.clone() }));
    }
    for sequence in words(of.sequence) {
        twins.push(("sequence", Header { sequence, ..of.clone() }));
    }
    for checkpoint in words(of.checkpoint) {
        twins.push(("checkpoint", Header { checkpoint, ..of.clone() }));
    }
    for part in half_words(0) {
        let of = of.clone();
        twins.extend([
            ("owner", Header { owner: of.owner ^ part, ..of.clone() }),
            ("entries", Header { entries: of.entries ^ part, ..of.clone() }),
            ("section", Header { section: of.section ^ part, ..of.clone() }),
            ("first_unit", Header { first_unit: of.first_unit ^ part, ..of.clone() }),
            ("previous_crc", Header { previous_crc: of.previous_crc ^ part, ..of.clone() }),
            ("payload_crc", Header { payload_crc: of.payload_crc ^ part, ..of }),
        ]);
    }
    twins.retain(|(_, twin)| twin != of);
    twins
}

/// Checkpoint files that differ from `of` in a single part, with the part's name.
pub(crate) fn part_files(of: &PartFiles) -> Vec<(&'static str, PartFiles)> {
    let mut twins = vec![
        ("checkpointers", PartFiles { checkpointers: of.checkpointers + 1, ..of.clone() }),
        ("files", PartFiles { files: of.files + 1, ..of.clone() }),
    ];
    twins.extend(words(of.number).map(|number| ("number", PartFiles { number, ..of.clone() })));
    twins.extend(
        words(of.generation).map(|generation| ("generation", PartFiles { generation, ..of.clone() })),
    );
    twins.extend(words(of.entries).map(|entries| ("entries", PartFiles { entries, ..of.clone() })));
    twins.extend(words(of.bytes).map(|bytes| ("bytes", PartFiles { bytes, ..of.clone() })));
    twins.extend(salts(of.salt).into_iter().map(|salt| ("salt", PartFiles { salt, ..of.clone() })));
    twins.extend(half_words(of.seal).map(|seal| ("seal", PartFiles { seal, ..of.clone() })));
    let databases = identities(of.database).into_iter();
    twins.extend(databases.map(|database| ("database", PartFiles { database, ..of.clone() })));
    twins
}

/// Generations that differ from `of` in a single part, with the part's name. The end of a generation is not a part.
pub(crate) fn generations(of: &Generation) -> Vec<(&'static str, Generation)> {
    let entries = other_kind(of.entries);
    let mut twins = vec![
        ("format", Generation { format: of.format + 1, ..of.clone() }),
        ("entries", Generation { entries, ..of.clone() }),
        ("logs", Generation { logs: of.logs + 1, ..of.clone() }),
    ];
    twins.extend(words(of.number).map(|number| ("number", Generation { number, ..of.clone() })));
    twins.extend(epochs(of.first).map(|first| ("first", Generation { first, ..of.clone() })));
    twins.extend(salts(of.salt).into_iter().map(|salt| ("salt", Generation { salt, ..of.clone() })));
    let databases = identities(of.database).into_iter();
    twins.extend(databases.map(|database| ("database", Generation { database, ..of.clone() })));
    twins
}

/// Files of a shared store that differ from `of` in a single part, with the part's name.
pub(crate) fn shared_files(of: &SharedFile) -> Vec<(&'static str, SharedFile)> {
    let object_bytes = of.object_bytes.map_or(Some(of.bytes / 2), |_| None);
    let mut twins = vec![("object_bytes", SharedFile { object_bytes, ..of.clone() })];
    twins.extend(words(of.bytes).map(|bytes| ("bytes", SharedFile { bytes, ..of.clone() })));
    twins.extend(half_words(of.crc).map(|crc| ("crc", SharedFile { crc, ..of.clone() })));
    twins.extend(salts(of.salt).into_iter().map(|salt| ("salt", SharedFile { salt, ..of.clone() })));
    let shippers = identities(of.shipper).into_iter();
    twins.extend(shippers.map(|shipper| ("shipper", SharedFile { shipper, ..of.clone() })));
    twins
}

/// Pages that differ from `of` in a single part, with the part's name. The place of blocks is not a part.
pub(crate) fn pages(of: &PagePlace) -> Vec<(&'static str, PagePlace)> {
    let extents = [&of.extents[..], &of.extents[..1]].concat().into();
    let mut twins = vec![("extents", PagePlace { extents, ..of.clone() })];
    twins.extend(words(of.number).map(|number| ("number", PagePlace { number, ..of.clone() })));
    twins.extend(
        words(of.checkpoint).map(|checkpoint| ("checkpoint", PagePlace { checkpoint, ..of.clone() })),
    );
    twins.extend(half_words(of.entries).map(|entries| ("entries", PagePlace { entries, ..of.clone() })));
    let crcs = half_words(of.payload_crc);
    twins.extend(crcs.map(|payload_crc| ("payload_crc", PagePlace { payload_crc, ..of.clone() })));
    let PageBound { section, first_key } = &of.bound;
    let sections = half_words(*section).map(|section| PageBound { section, first_key: first_key.clone() });
    let keys = keys(first_key).into_iter().map(|first_key| PageBound { section: *section, first_key });
    let bounds = sections.into_iter().chain(keys);
    twins.extend(bounds.map(|bound| ("bound", PagePlace { bound, ..of.clone() })));
    twins
}
