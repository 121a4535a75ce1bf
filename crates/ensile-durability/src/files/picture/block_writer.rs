//! Writer of a picture's blocks into extents: pages and pending removes of a part, then the directory and the root.
//!
//! Invariants: N12. A tail stands behind the last block of a page that is written now, in the free bytes of the page's
//! last unit. A moved page leaves its tail behind: the tail was an older picture's (N10).
//!
//! Neighbours: [`super::file`] has the extents, and [`super::blocks`] has the bytes. `picture_part_writer` writes a
//! checkpointer's part; `picture_set` moves pages and writes the directory; `backup::pages` writes the pending removes
//! and the directory of a copied picture.

use ensile_base::checksum::crc32c;
use std::sync::Arc;

use super::blocks::{encode, encode_block};
use super::directory::{DirectoryPart, PageDirectory, encode_part};
use super::file::{HeldExtents, PageFile};
use super::location::{PAYLOAD_BYTES_MAX, PageBound, PictureStamp};
use super::page::{PAGE_EXTENTS_MAX, PagePlace};
use super::root::{DirectoryPlace, RemovesPlace, Root, TailPlace, tail_room};
use crate::files::block::extent::{Extent, ExtentPlace, UNIT_BYTES};
use crate::files::block::scan::ReadBlocks;
use crate::files::block::{BlockKind, Header};
use crate::files::checkpoint::page::PageContents;

/// Versions that the tail of a page is to hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageTail<'t> {
    /// Number of the tail's block.
    pub(crate) number: u64,
    pub(crate) entries: u32,
    pub(crate) payload: &'t [u8],
}

/// Most bytes of versions in the tail of a page with this payload; `None` if the tail has no room.
pub(crate) fn tail_room_of(payload: &[u8]) -> Option<usize> {
    payload.chunks(PAYLOAD_BYTES_MAX).next_back().and_then(|last| tail_room(last.len()))
}

/// Writes blocks of one picture into one file.
#[derive(Debug)]
pub(crate) struct BlockWriter {
    held: HeldExtents,
    stamp: PictureStamp,
    block: Vec<u8>,
    /// Bytes of the written extents.
    bytes: u64,
}

impl BlockWriter {
    pub(crate) fn new(file: &Arc<PageFile>, stamp: PictureStamp) -> Self {
        Self { held: HeldExtents::new(file), stamp, block: Vec::new(), bytes: 0 }
    }

    pub(crate) fn stamp(&self) -> PictureStamp {
        self.stamp
    }

    /// Bytes of the written extents.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes one block. `change` adds the fields of the block's kind to the header.
    fn write(
        &mut self,
        kind: BlockKind,
        number: u64,
        change: impl FnOnce(Header) -> Header,
        payload: &[u8],
    ) -> Result<ExtentPlace, String> {
        let extent = self.held.take(Extent::units_of(payload.len()))?;
        let header = change(self.stamp.header(kind, number, extent));
        self.write_at(header, extent, payload)
    }

    /// Writes one block into an extent taken before.
    fn write_at(&mut self, header: Header, extent: Extent, payload: &[u8]) -> Result<ExtentPlace, String> {
        let place = self.encode(header, extent, payload);
        self.send(extent)?;
        Ok(place)
    }

    /// Makes the block for an extent taken before.
    fn encode(&mut self, header: Header, extent: Extent, payload: &[u8]) -> ExtentPlace {
        encode_block(header, extent, payload, self.held.file().manifest_entry().salt, &mut self.block)
    }

    /// Writes the block that was made for this extent.
    fn send(&mut self, extent: Extent) -> Result<(), String> {
        self.held.file().write(extent, &mut self.block).map_err(|error| error.to_string())?;
        self.bytes += extent.bytes();
        Ok(())
    }

    /// Puts a tail behind the page's last encoded block, for this extent.
    fn add_tail(&mut self, extent: Extent, tail: PageTail<'_>) -> TailPlace {
        let (unit, from) = (extent.end() - 1, self.block.len());
        let in_unit = Extent { first: unit, units: 1, ..extent };
        assert!(tail.entries > 0 && from < extent.bytes() as usize, "{tail:?} has room behind {from}");
        let header = self.stamp.header(BlockKind::PendingRemoves, tail.number, in_unit);
        let header = Header { entries: tail.entries, ..header };
        let mut block = Vec::new();
        let header_crc = encode(header, tail.payload, self.held.file().manifest_entry().salt, &mut block);
        self.block.extend_from_slice(&block);
        assert!(self.block.len() <= extent.bytes() as usize, "a tail is within its page's last unit");
        let (folder, unit_offset, bytes) = (extent.folder, (from % UNIT_BYTES) as u16, block.len() as u16);
        TailPlace { number: tail.number, folder, unit, unit_offset, bytes, header_crc }
    }

    /// Writes a page with a new or an old number, and the page's tail, if there is a tail ([`tail_room_of`]).
    pub(crate) fn write_page(
        &mut self,
        bound: PageBound,
        number: u64,
        page: &PageContents,
        tail: Option<PageTail<'_>>,
    ) -> Result<(PagePlace, Option<TailPlace>), String> {
        let (payload, section) = (page.payload(), bound.section);
        assert!(payload.len() >= page.entries() as usize * PageContents::FRAME_BYTES, "entries have frames");
        assert_eq!(page.entries() == 0, payload.is_empty(), "entries take bytes");
        assert!(tail.is_none() || !payload.is_empty(), "an empty page has no tail");
        let mut extents: Vec<ExtentPlace> = Vec::new();
        let mut tail_place = None;
        let mut chunks = payload.chunks(PAYLOAD_BYTES_MAX).peekable();
        while let Some(chunk) = chunks.next() {
            if extents.len() == PAGE_EXTENTS_MAX {
                return Err("a page takes more blocks than its place can name".to_owned());
            }
            let (kind, entries, previous_crc) = match extents.last() {
                None => (BlockKind::Page, page.entries(), 0),
                Some(before) => (BlockKind::Continuation, extents.len() as u32, before.header_crc),
            };
            let extent = self.held.take(Extent::units_of(chunk.len()))?;
            let header = self.stamp.header(kind, number, extent);
            let header = Header { section, entries, previous_crc, ..header };
            extents.push(self.encode(header, extent, chunk));
            if chunks.peek().is_none() {
                tail_place = tail.map(|tail| self.add_tail(extent, tail));
            }
            self.send(extent)?;
        }
        let page = PagePlace {
            bound,
            number,
            checkpoint: self.stamp.checkpoint,
            entries: page.entries(),
            payload_crc: crc32c(payload),
            extents: extents.into(),
        };
        Ok((page, tail_place))
    }

    /// Writes a page of the picture before anew, if a place nearer to the file's beginning has room; `None` if the page
    /// stays. In the block's header only the place changes: the page is still a page of the checkpoint that wrote the
    /// entries. A page of several blocks stays. A damaged page is an error.
    pub(crate) fn move_page(&mut self, page: &PagePlace) -> Result<Option<PagePlace>, String> {
        let [old] = &*page.extents else { return Ok(None) };
        let extent = self.held.take(old.extent.units)?;
        if extent.first > old.extent.first {
            self.held.give_back_last();
            return Ok(None);
        }
        let file = self.held.file();
        let block = file.read(old.extent).map_err(|error| error.to_string())?;
        let found = ReadBlocks::new(&block, file.manifest_entry().salt).next().and_then(Result::ok);
        let name = page.block_name(0);
        let found = found.filter(|found| name.is_at(old, &found.header, found.crc));
        let Some((found, payload)) = found.as_ref().and_then(|found| Some((found, found.payload()?))) else {
            return Err(format!("{} is damaged at byte {}", file.manifest_entry().name, old.extent.offset()));
        };
        let said = (found.header.section, found.header.entries);
        assert_eq!(said, (page.bound.section, page.entries), "as its place says");
        let header = Header { owner: u32::from(extent.folder), first_unit: extent.first, ..found.header };
        let place = self.write_at(header, extent, payload)?;
        Ok(Some(PagePlace { extents: [place].into(), ..page.clone() }))
    }

    /// Writes a block of versions that commits have left beside the pages.
    pub(crate) fn write_removes(
        &mut self,
        number: u64,
        entries: u32,
        payload: &[u8],
    ) -> Result<RemovesPlace, String> {
        assert!(entries > 0, "a block without entries is not written");
        let change = |header| Header { entries, ..header };
        let place = self.write(BlockKind::PendingRemoves, number, change, payload)?;
        Ok(RemovesPlace { number, checkpoint: self.stamp.checkpoint, place })
    }

    /// Writes the parts of a directory that have no place yet, and the root over all parts. Returns the place of the
    /// root.
    pub(crate) fn write_directory(
        &mut self,
        directory: &mut PageDirectory,
        removes: Vec<RemovesPlace>,
        tails: Vec<TailPlace>,
    ) -> Result<ExtentPlace, String> {
        let checkpoint = self.stamp.checkpoint;
        let to_write = directory.parts.iter_mut().filter(|part| part.place.is_none());
        for (number, part) in (0_u64..).zip(to_write) {
            let pages = part.pages.len() as u32;
            let change = |header| Header { entries: pages, ..header };
            let place = self.write(BlockKind::DirectoryPart, number, change, &encode_part(&part.pages))?;
            let bytes = part.pages.iter().map(PagePlace::bytes).sum();
            let bound = part.pages[0].bound.clone();
            part.place = Some(DirectoryPlace { bound, number, checkpoint, pages, bytes, place });
        }
        directory.check();
        let place = |part: &DirectoryPart| part.place.clone().expect("each was written");
        let root = Root { parts: directory.parts.iter().map(place).collect(), removes, tails };
        let change = |header| Header { entries: root.parts.len() as u32, ..header };
        self.write(root.kind(), 0, change, &root.encode(checkpoint))
    }

    /// Asks the medium to begin writing the bytes written so far, if there are at least `at_once` of them.
    pub(crate) fn write_behind(&self, at_once: u64) {
        self.held.file().write_behind(at_once);
    }

    /// Makes all written blocks survive a crash. After an error, no written block counts.
    pub(crate) fn sync(&self) -> Result<(), String> {
        self.held.file().sync().map_err(|error| error.to_string())
    }

    /// The taken extents, once no more blocks are written.
    pub(crate) fn into_held(self) -> HeldExtents {
        self.held
    }
}
