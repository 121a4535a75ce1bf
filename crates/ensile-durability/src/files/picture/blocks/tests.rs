//! The bytes of a picture: as the document has them, and as they are found again.

use ensile_base::{Epoch, Tid};

use super::*;
use crate::files::block::entries::FramedEntries;
use crate::files::block::origin::Opened;
use crate::files::block::scan::ReadBlocks;
use crate::files::checkpoint::page::PageContents;
use crate::files::picture::directory::{decode_part, encode_part};
use crate::files::picture::location::{BlockName, PageBound, PictureStamp};
use crate::files::picture::page::PagePlace;
use crate::files::picture::root::{DirectoryPlace, RemovesPlace, Root, TailPlace};
use crate::samples::{assert_documented, hex_examples, origin, part_salt};

const STAMP: PictureStamp = PictureStamp { checkpoint: 4, generation: 3, epoch: Epoch::new(8) };
const NAME: PageFileName = PageFileName { folder: 1, number: 2 };

fn tid() -> Tid {
    Tid::first_of(Epoch::new(5))
}

fn extent(first: u32) -> Extent {
    Extent { folder: 1, first, units: 1 }
}

/// A block of the picture in the unit `first`.
fn block(kind: BlockKind, number: u64, first: u32, payload: &[u8], entries: u32) -> (Vec<u8>, ExtentPlace) {
    let header = Header { entries, ..STAMP.header(kind, number, extent(first)) };
    let section = if kind == BlockKind::Page { 3 } else { 0 };
    let mut out = Vec::new();
    let place = encode_block(Header { section, ..header }, extent(first), payload, part_salt(), &mut out);
    (out, place)
}

/// The picture of the document: a page with a row and a tail, a version beside them, a part of the directory, the
/// root.
fn documented() -> Vec<Vec<u8>> {
    let mut rows = PageContents::new();
    rows.push(tid(), |body| body.extend_from_slice(b"hello"));
    let (mut page, page_place) = block(BlockKind::Page, 9, 1, rows.payload(), 1);
    let mut in_tail = PageContents::new();
    in_tail.push(tid(), |body| body.extend_from_slice(b"\x03\0\0\0tail"));
    let unit_offset = page.len() as u16;
    let (tail, tail_place) = block(BlockKind::PendingRemoves, 1, 1, in_tail.payload(), 1);
    page.extend_from_slice(&tail);
    let (bytes, header_crc) = (tail.len() as u16, tail_place.header_crc);
    let tail_place = TailPlace { number: 1, folder: 1, unit: 1, unit_offset, bytes, header_crc };
    let mut beside = PageContents::new();
    beside.push(tid(), |body| body.extend_from_slice(b"\x03\0\0\0again"));
    let (removes, removes_place) = block(BlockKind::PendingRemoves, 0, 2, beside.payload(), 1);
    let bound = PageBound { section: 3, first_key: [].into() };
    let payload_crc = crc32c(rows.payload());
    let extents = [page_place].into();
    let pages =
        [PagePlace { bound: bound.clone(), number: 9, checkpoint: 4, entries: 1, payload_crc, extents }];
    let (part, part_place) = block(BlockKind::DirectoryPart, 0, 3, &encode_part(&pages), 1);
    let (number, checkpoint) = (0, 4);
    let part_place = DirectoryPlace { bound, number, checkpoint, pages: 1, bytes: 4096, place: part_place };
    let removes_place = RemovesPlace { number, checkpoint, place: removes_place };
    let root = Root { parts: vec![part_place], removes: vec![removes_place], tails: vec![tail_place] };
    let (root, _) = block(root.kind(), 0, 4, &root.encode(4), 1);
    vec![encode_opening(&origin(), NAME, 3).to_vec(), page, removes, part, root]
}

#[test]
fn the_documented_bytes_are_the_ones_that_are_written() {
    let examples = hex_examples(include_str!("../../../../../../docs/internals/formats/pictures.md"));
    assert_documented(&examples.concat(), &documented().concat());
}

#[test]
fn every_block_of_a_picture_is_found_at_its_place() {
    let blocks = documented();
    let opened = Opened::decode(&blocks[0]).expect("decodes");
    assert_eq!(
        (opened.header.kind, opened.header.owner, opened.header.sequence),
        (BlockKind::PagesOpening, 1, 2)
    );
    assert_eq!(opened.origin, origin());
    let mut in_page = ReadBlocks::new(&blocks[1], part_salt()).skip(1);
    let tail = in_page.next().expect("a block").expect("whole");
    assert!(in_page.next().is_none(), "a page has one tail");
    let mut found = blocks[1..].iter().map(|bytes| {
        let block = ReadBlocks::new(bytes, part_salt()).next().expect("a block").expect("whole");
        let payload = block.payload().expect("whole").to_vec();
        (block.header, payload)
    });
    let mut next = || found.next().expect("another");
    let (header, payload) = next();
    assert_eq!((header.kind, header.section, header.entries), (BlockKind::Page, 3, 1));
    assert!(FramedEntries::new(&payload).eq([Ok((tid(), &b"hello"[..]))]));
    let (header, _) = next();
    assert_eq!((header.kind, header.section), (BlockKind::PendingRemoves, 0));
    let (part, pages) = next();
    let (header, root) = next();
    let root = Root::decode(&root, header.kind, header.entries, header.checkpoint).expect("a root");
    assert!(
        root.tails[0].matches_block(&tail.header, tail.crc, 4)
            && !root.tails[0].matches_block(&tail.header, 0, 4)
    );
    assert!(!root.tails[0].matches_block(&tail.header, tail.crc, 5), "N10: another picture's");
    let place = &root.parts[0];
    let name = |number, checkpoint| BlockName { kind: BlockKind::DirectoryPart, number, checkpoint };
    let is_it =
        |number, checkpoint| name(number, checkpoint).is_at(&place.place, &part, place.place.header_crc);
    assert!(is_it(0, 4) && !is_it(1, 4) && !is_it(0, 3), "another number, or another checkpoint");
    assert!(!name(0, 4).is_at(&place.place, &part, 0), "another checksum");
    let moved = ExtentPlace { extent: extent(2), ..place.place };
    assert!(!name(0, 4).is_at(&moved, &part, moved.header_crc), "another unit");
    let pages = decode_part(&pages, part.entries).expect("a part");
    assert_eq!(pages[0].number, 9);
    assert_eq!(root.removes[0].checkpoint, 4);
}
