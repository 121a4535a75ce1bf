//! Reader of an installed picture, block by block, with every check that the format allows.
//!
//! Invariants: no entry is handed out before the block's place, checksums and payload are checked. An installed picture
//! was synced before the installation: any fault is damage. A block in memory takes no more bytes than its file has.
//!
//! Neighbours: recovery loads with this reader, a part of the directory at a time; [`blocks`] hands a page's blocks to
//! a load and to a copy; [`super::location`] checks headers, [`super::blocks_read`] counts the blocks read;
//! `checkpoint::picture::version_check` compares pages with the versions beside the pages.

mod blocks;

use std::collections::{BTreeMap, BTreeSet};

use ensile_base::sync::Mutex;
use ensile_base::{Epoch, Tid};
use ensile_disk::Disk;

use super::blocks_read::{BlocksRead, CUT};
use super::directory::{DirectoryPart, PageDirectory, decode_part, is_part};
use super::installed_file::OpenedPageFile;
use super::loaded_picture::LoadedPicture;
use super::location::{BlockName, BlockSpan};
use super::page::PagePlace;
use super::root::{BesidePlace, Root};
use crate::files::block::extent::{ExtentPlace, UNIT_BYTES};
use crate::files::block::scan::ReadBlocks;
use crate::files::block::{BlockKind, HEADER_BYTES, Header, NotABlock, entries};
use crate::files::manifest::installed_checkpoint::PictureCheckpoint;
use crate::files::names::PageFileName;
use crate::files::picture::pending_removes::section_and_body;
use crate::recoverable::{EntryKind, NOT_TAKEN};
use crate::{DurabilityError, Entry, LoadedPages, Recoverable};

/// Number of pages whose read is announced to the kernel before their turn.
const AHEAD: usize = 8;

/// An installed picture, with root and directory read.
#[derive(Debug)]
pub(crate) struct PictureReader {
    of: PictureCheckpoint,
    files: Vec<OpenedPageFile>,
    root: Root,
    /// The pages of each part of the directory, or the damage of the part.
    parts: Vec<Result<Vec<PagePlace>, DurabilityError>>,
    /// A block or page is added as a whole.
    blocks_read: Mutex<BlocksRead>,
}

/// Buffers of one thread for reading, used again from page to page.
#[derive(Debug, Default)]
pub(crate) struct PageBuffers {
    block: Vec<u8>,
    /// The payload of a page that has several blocks.
    whole: Vec<u8>,
}

/// True if the block with this header and this checksum is the block that the reader looks for.
type IsBlock<'i> = dyn Fn(&Header, u32) -> bool + 'i;

/// Entries of one block or page, with the place of the block or page.
#[derive(Debug)]
pub(crate) struct ReadEntries<'r> {
    pub(crate) file: &'r str,
    pub(crate) offset: u64,
    pub(crate) entries: u32,
    pub(crate) bytes: u64,
    /// The section of all entries, and the range of their keys; `None`: each entry names its own section.
    range: Option<PageRange<'r>>,
    payload: &'r [u8],
    /// Epoch that is above the epoch of every entry.
    epoch_end: Epoch,
}

#[derive(Clone, Copy, Debug)]
struct PageRange<'r> {
    section: u32,
    from: &'r [u8],
    /// The first key of the next page; `None` at the section's end.
    to: Option<&'r [u8]>,
}

impl<'r> ReadEntries<'r> {
    /// True if commits left the entries beside the pages.
    pub(crate) fn are_displaced(&self) -> bool {
        self.range.is_none()
    }

    /// The entries, TID and body each, by section. `target` finds the key of an entry. An epoch that no entry here can
    /// have (N15), or a key out of place (N17), is an error.
    pub(crate) fn by_section(
        &self,
        target: &dyn Recoverable,
    ) -> Result<BTreeMap<u32, Vec<Entry<'r>>>, &'static str> {
        let mut sections: BTreeMap<u32, Vec<Entry<'r>>> = BTreeMap::new();
        let mut before: Option<&[u8]> = None;
        if let Some(PageRange { section, .. }) = self.range {
            // No more than the payload has room for, whatever count the header has.
            let most = self.payload.len() / entries::ENTRY_FRAME_BYTES;
            sections.insert(section, Vec::with_capacity(most.min(self.entries as usize)));
        }
        entries::try_for_each(self.payload, self.entries, |tid: Tid, body| {
            if tid.epoch() >= self.epoch_end {
                return Err("an entry's epoch is not below the picture's freeze");
            }
            let own = || section_and_body(body).ok_or("an entry does not say its section");
            let (section, body) = self.range.map_or_else(own, |range| Ok((range.section, body)))?;
            if let (Some(range), Some(key)) = (self.range, target.checkpoint_key(body)) {
                if key < range.from || range.to.is_some_and(|to| key >= to) {
                    return Err("an entry's key is not within its page");
                }
                if before.is_some_and(|before| key <= before) {
                    return Err("an entry's key is not above the one before it");
                }
                before = Some(key);
            }
            sections.entry(section).or_default().push(Entry { tid, body });
            Ok(())
        })?;
        Ok(sections)
    }
}

impl PictureReader {
    /// Opens the files of an installed picture, and reads root and directory. A damaged part of the directory is
    /// reported with the part's pages ([`PictureReader::pages_of`]).
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`] with file and offset for bytes that no version writes; [`DurabilityError::Unknown`]
    /// for bytes of a newer version; [`DurabilityError::NotOurs`] for a file of another database.
    pub(crate) fn open(disk: &dyn Disk, of: &PictureCheckpoint) -> Result<Self, DurabilityError> {
        let files = of.files.iter().map(|listed| OpenedPageFile::open(disk, of, *listed));
        let files: Vec<OpenedPageFile> = files.collect::<Result<_, _>>()?;
        let (root, parts, blocks_read) = (Root::default(), Vec::new(), Mutex::default());
        let mut reader = Self { of: of.clone(), files, root, parts, blocks_read };
        let mut block = Vec::new();
        let header = reader.block(&of.root, BlockName::root(of.number), &mut block)?;
        let root = Root::decode(payload_of(&header, &block), header.kind, header.entries, of.number);
        let root = root.filter(is_numbered);
        reader.root = root.ok_or_else(|| reader.damage_error(&of.root, "the root contradicts itself"))?;
        let places = reader.root.parts.iter().map(|part| part.pages);
        if places.map(u64::from).sum::<u64>() != of.pages {
            return Err(reader.damage_error(&of.root, "it has other pages than MANIFEST counts"));
        }
        // All parts are read before any page, because the state must know the beginning of each page.
        reader.parts = (0..reader.root.parts.len()).map(|part| reader.part(part, &mut block)).collect();
        reader.check_tails()?;
        Ok(reader)
    }

    /// Checks that each tail stands in the last unit of a page that this picture wrote (N10). If a part of the
    /// directory is damaged, the check is left out: the part's pages report the damage.
    fn check_tails(&self) -> Result<(), DurabilityError> {
        let parts: Result<Vec<_>, _> = self.parts.iter().map(Result::as_ref).collect();
        let Ok(parts) = parts else { return Ok(()) };
        if self.root.tails.is_empty() {
            return Ok(());
        }
        let own = parts.into_iter().flatten().filter(|page| page.checkpoint == self.of.number);
        let last = own.filter_map(|page| page.extents.last());
        let units: BTreeSet<_> = last.map(|last| (last.extent.folder, last.extent.end() - 1)).collect();
        if self.root.tails.iter().all(|tail| units.contains(&tail.in_unit())) {
            return Ok(());
        }
        Err(self.damage_error(&self.of.root, "it names a tail that is behind no page of this picture (N10)"))
    }

    /// Checks that the entries are of the kind that the state takes.
    pub(crate) fn check_kind(&self, kind: EntryKind) -> Result<(), DurabilityError> {
        let other = self.files.iter().find(|file| file.entries != kind);
        other.map_or(Ok(()), |file| {
            Err(DurabilityError::Unknown { file: file.name.clone(), offset: 0, detail: NOT_TAKEN })
        })
    }

    /// The picture's root: the places of all blocks.
    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    pub(crate) fn root_bytes(&self) -> u64 {
        self.of.root.extent.bytes()
    }

    /// Returns a copy of the figures of the blocks read so far.
    pub(crate) fn blocks_read(&self) -> BlocksRead {
        self.blocks_read.lock().clone()
    }

    /// The picture's files, each with a length in bytes.
    pub(crate) fn files(&self) -> impl Iterator<Item = (PageFileName, u64)> {
        self.files.iter().map(|file| (file.listed.name, file.bytes))
    }

    /// The pages of a part of the directory, by the part's index in the root.
    fn part(&self, index: usize, block: &mut Vec<u8>) -> Result<Vec<PagePlace>, DurabilityError> {
        let (part, next) = (&self.root.parts[index], self.root.parts.get(index + 1));
        let place = &part.place;
        let header = self.block(place, part.block_name(), block)?;
        let pages = decode_part(payload_of(&header, block), header.entries);
        let pages = pages.filter(|pages| is_part(pages, part, next));
        let damage = || self.damage_error(place, "the part of the directory contradicts itself");
        let pages = pages.ok_or_else(damage)?;
        if pages.iter().any(|page| page.number >= self.of.next_page) {
            return Err(self.damage_error(place, "a page has a number that MANIFEST says no page has"));
        }
        Ok(pages)
    }

    /// Tells the state the beginnings of the pages of each section, before a page is loaded. The settings keep the
    /// first `folders` folders, and the state also learns the pages that stand in other folders. Returns true if the
    /// state marks changed pages from now on.
    pub(crate) fn name_pages(&self, target: &dyn Recoverable, folders: usize) -> bool {
        let parts: Option<Vec<_>> = self.parts.iter().map(|part| part.as_ref().ok()).collect();
        // A damaged part fails the load.
        let Some(parts) = parts else { return false };
        let pages: Vec<&PagePlace> = parts.into_iter().flatten().collect();
        debug_assert_eq!(pages.len() as u64, self.of.pages, "as the root counts");
        let mut marks = true;
        for section in pages.chunk_by(|page, next| page.bound.section == next.bound.section) {
            let first_keys: Vec<&[u8]> = section.iter().map(|page| &*page.bound.first_key).collect();
            let to_move = (0..section.len()).filter(|at| section[*at].is_in_folder_from(folders));
            let to_move: Vec<usize> = to_move.collect();
            let (section, epoch) = (section[0].bound.section, self.of.epoch);
            let pages = LoadedPages { section, first_keys: &first_keys, to_move: &to_move, epoch };
            marks &= target.load_pages(&pages);
        }
        marks
    }

    /// The base of the next picture, once all pages are loaded. `None` if a part of the directory was damaged.
    pub(crate) fn into_loaded(self, marked_for: Option<usize>) -> Option<LoadedPicture> {
        let places = self.root.parts.into_iter().map(Some);
        let parts = self.parts.into_iter().zip(places);
        let parts = parts.map(|(pages, place)| Some(DirectoryPart { pages: pages.ok()?, place }));
        let directory = PageDirectory { parts: parts.collect::<Option<_>>()? };
        Some(LoadedPicture { of: self.of, directory, removes: self.root.removes, marked_for })
    }

    /// Name of each file, and offset of the end of the file's last block in bytes, once all blocks are read.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (&str, u64)> {
        let blocks_read = self.blocks_read.lock();
        let ends: Vec<_> = self.files.iter().map(|file| blocks_read.end_in(file.listed.name)).collect();
        self.files.iter().map(|file| &*file.name).zip(ends)
    }

    /// Hands over all pages with entries of a part of the directory, in the order of their places. `index` is the
    /// part's index in the root. The error is the damage of the part, or the error of `take`.
    pub(crate) fn pages_of(
        &self,
        index: usize,
        take: &mut dyn FnMut(&ReadEntries<'_>) -> Result<(), DurabilityError>,
    ) -> Result<(), DurabilityError> {
        let mut buffers = PageBuffers::default();
        let pages = self.parts[index].as_ref().map_err(Clone::clone)?;
        let behind = self.root.parts.get(index + 1).map(|part| &part.bound);
        let mut in_place: Vec<usize> = (0..pages.len()).collect();
        in_place.sort_by_key(|page| pages[*page].extents.first().map(|place| place.extent));
        debug_assert!(in_place.len() == pages.len() && behind.is_none_or(|end| pages[0].bound < *end), "N17");
        in_place.iter().take(AHEAD).for_each(|page| self.ask_for(&pages[*page]));
        for (turn, &at) in in_place.iter().enumerate() {
            if let Some(later) = in_place.get(turn + AHEAD) {
                self.ask_for(&pages[*later]);
            }
            let page = &pages[at];
            let next = pages.get(at + 1).map(|next| &next.bound).or(behind);
            let to = next.filter(|next| next.section == page.bound.section).map(|next| &*next.first_key);
            let read = self.page(page, to, &mut buffers)?;
            let payload_bytes = read.as_ref().map_or(0, |read| read.payload.len());
            if let Some(read) = read {
                take(&read)?;
            }
            self.blocks_read.lock().add_page(page, payload_bytes, self.root.parts[index].place.extent);
        }
        Ok(())
    }

    /// Announces the read of this page to the kernel.
    fn ask_for(&self, page: &PagePlace) {
        for place in &page.extents {
            if let Some(file) = self.file_of(place) {
                file.file.will_need(place.extent.offset(), place.extent.bytes());
            }
        }
    }

    /// The entries of a page that ends before the key `to`; `None` if the page has no blocks.
    fn page<'r>(
        &'r self,
        page: &'r PagePlace,
        to: Option<&'r [u8]>,
        PageBuffers { block, whole }: &'r mut PageBuffers,
    ) -> Result<Option<ReadEntries<'r>>, DurabilityError> {
        let Some(first) = page.extents.first().map(|first| first.extent) else { return Ok(None) };
        let (is_long, mut payload_bytes, mut epoch) = (page.extents.len() > 1, 0, Epoch::ZERO);
        whole.clear();
        self.blocks_of(page, block, &mut |header, payload| {
            (payload_bytes, epoch) = (payload.len(), header.epoch_max);
            if is_long {
                whole.extend_from_slice(payload);
            }
            Ok(())
        })?;
        // The only block of a short page still stands in the buffer.
        let payload = if is_long { &whole[..] } else { &block[HEADER_BYTES..HEADER_BYTES + payload_bytes] };
        let range = PageRange { section: page.bound.section, from: &page.bound.first_key, to };
        let file = self.file_in(first.folder).expect("it was read");
        Ok(Some(ReadEntries {
            file: &file.name,
            offset: first.offset(),
            entries: page.entries,
            bytes: page.bytes(),
            range: Some(range),
            payload,
            epoch_end: file.epoch_end(epoch),
        }))
    }

    /// Reads block number `index` of the versions left beside pages ([`Root::removes_block_count`] blocks).
    pub(crate) fn removes<'r>(
        &'r self,
        index: usize,
        buffers: &'r mut PageBuffers,
    ) -> Result<ReadEntries<'r>, DurabilityError> {
        let read = self.removes_again(index, buffers)?;
        let mut blocks_read = self.blocks_read.lock();
        match self.root.beside_at(index) {
            BesidePlace::Block(block) => blocks_read.add_removes(read.entries, block.place.extent),
            BesidePlace::Tail(tail) => blocks_read.add_tail(read.entries, tail.bytes),
        }
        drop(blocks_read);
        Ok(read)
    }

    /// As [`PictureReader::removes`], of a block that was counted at the first read: no block is reached twice (N12).
    pub(crate) fn removes_again<'r>(
        &'r self,
        index: usize,
        buffers: &'r mut PageBuffers,
    ) -> Result<ReadEntries<'r>, DurabilityError> {
        let header = self.beside_block(index, &mut buffers.block)?;
        let payload = payload_of(&header, &buffers.block);
        let place = self.root.beside_at(index);
        let BlockSpan { folder, offset, .. } = place.span();
        let file = self.file_in(folder).expect("it was read");
        let bytes = match place {
            BesidePlace::Block(block) => block.place.extent.bytes(),
            // The extents of the tail's page are counted with the page.
            BesidePlace::Tail(_) => 0,
        };
        Ok(ReadEntries {
            file: &file.name,
            offset,
            entries: header.entries,
            bytes,
            range: None,
            payload,
            epoch_end: file.epoch_end(header.epoch_max),
        })
    }

    /// Reads a block of the versions beside the pages, in an extent or a tail. The caller of the first read adds the
    /// extent to the reached blocks.
    fn beside_block(&self, index: usize, block: &mut Vec<u8>) -> Result<Header, DurabilityError> {
        match self.root.beside_at(index) {
            BesidePlace::Block(removes) => self.block_in(&removes.place, removes.block_name(), block),
            BesidePlace::Tail(tail) => {
                if index + AHEAD < self.root.removes_block_count() {
                    let BlockSpan { folder, offset, .. } = self.root.beside_at(index + AHEAD).span();
                    if let Some(file) = self.file_in(folder) {
                        file.file.will_need(offset, UNIT_BYTES as u64);
                    }
                }
                let is_it = |header: &Header, crc| tail.matches_block(header, crc, self.of.number);
                self.block_at(tail.span(), tail.header_crc, &is_it, block)
            }
        }
    }

    /// The error for damage in a block of the versions beside the pages.
    pub(crate) fn damaged_removes(&self, index: usize, detail: &str) -> DurabilityError {
        assert!(index < self.root.removes_block_count(), "it was read");
        let BlockSpan { folder, offset, .. } = self.root.beside_at(index).span();
        let name = self.file_in(folder).map_or("", |file| &file.name);
        DurabilityError::damaged_file(name, offset, detail)
    }

    /// Checks, once all is read, that no two extents share a unit, no extent is behind its file's end, and no two pages
    /// have one number.
    pub(crate) fn check_reached(&self) -> Result<(), DurabilityError> {
        let blocks_read = self.blocks_read.lock();
        for OpenedPageFile { listed, name, bytes, .. } in &self.files {
            if let Some((extent, detail)) = blocks_read.fault_in(listed.name, *bytes) {
                return Err(DurabilityError::damaged_file(name, extent.offset(), detail));
            }
        }
        Ok(())
    }

    fn file_of(&self, place: &ExtentPlace) -> Option<&OpenedPageFile> {
        self.file_in(place.extent.folder)
    }

    fn file_in(&self, folder: u16) -> Option<&OpenedPageFile> {
        self.files.iter().find(|file| file.listed.name.folder == u32::from(folder))
    }

    fn damage_error(&self, place: &ExtentPlace, detail: &str) -> DurabilityError {
        let name = self.file_of(place).map_or("", |file| &file.name);
        DurabilityError::damaged_file(name, place.extent.offset(), detail)
    }

    /// Reads the block of this name at this place into `block`, for the first time.
    fn block(
        &self,
        place: &ExtentPlace,
        name: BlockName,
        block: &mut Vec<u8>,
    ) -> Result<Header, DurabilityError> {
        let header = self.block_in(place, name, block)?;
        self.blocks_read.lock().add(place.extent);
        Ok(header)
    }

    /// As [`PictureReader::block`], for the first or a later read.
    fn block_in(
        &self,
        place: &ExtentPlace,
        name: BlockName,
        block: &mut Vec<u8>,
    ) -> Result<Header, DurabilityError> {
        let is_it = |header: &Header, crc| name.is_at(place, header, crc);
        self.block_at(BlockSpan::from_extent(place.extent), place.header_crc, &is_it, block)
    }

    /// Reads the block with this header checksum, at the beginning of this span. The file may end within the span.
    /// `is_it` checks that the block is the one that the place describes.
    fn block_at(
        &self,
        BlockSpan { folder, offset, bytes: length }: BlockSpan,
        header_crc: u32,
        is_it: &IsBlock<'_>,
        block: &mut Vec<u8>,
    ) -> Result<Header, DurabilityError> {
        let Some(OpenedPageFile { listed, file, bytes, name, .. }) = self.file_in(folder) else {
            let detail = "a place is in a folder that MANIFEST does not list";
            return Err(self.damage_error(&self.of.root, detail));
        };
        let damaged = |detail| Err(DurabilityError::damaged_file(name, offset.min(*bytes), detail));
        let left = bytes.saturating_sub(offset).min(length);
        if left == 0 {
            return damaged(CUT);
        }
        // The read overwrites the buffer's old bytes, so only new bytes are set to zero.
        block.resize(left as usize, 0);
        let read = file.read_at(block, offset)?;
        block.truncate(read);
        let Some(Ok(found)) = ReadBlocks::new(block, listed.salt).next() else {
            return damaged("no block of this picture begins here");
        };
        if found.crc != header_crc {
            return damaged("the block is not the one that was written here");
        }
        if found.header.kind == BlockKind::Unknown {
            return Err(DurabilityError::newer(name, offset));
        }
        if !is_it(&found.header, found.crc) || !self.may_reach(&found.header) {
            return damaged("the block is not the one that stands here");
        }
        if found.payload().is_none() {
            return damaged(NotABlock::BadPayload.detail());
        }
        Ok(found.header)
    }

    /// True if this picture, or an earlier picture, may have written a block with this header.
    fn may_reach(&self, header: &Header) -> bool {
        let (found, own) = ((header.generation, header.epoch_max), (self.of.generation, self.of.epoch));
        let is_before = header.checkpoint < self.of.number && found.0 <= own.0 && found.1 < own.1;
        is_before || header.checkpoint == self.of.number && found == own
    }
}

/// The payload of a block that was read as a whole.
fn payload_of<'b>(header: &Header, block: &'b [u8]) -> &'b [u8] {
    &block[HEADER_BYTES..HEADER_BYTES + header.payload_bytes as usize]
}

/// True if each part, and each block beside the pages, has a number of its own.
fn is_numbered(root: &Root) -> bool {
    let parts: BTreeSet<_> = root.parts.iter().map(|part| (part.checkpoint, part.number)).collect();
    let tails = root.tails.iter().map(|tail| tail.number);
    let beside: BTreeSet<_> = root.removes.iter().map(|block| block.number).chain(tails).collect();
    (parts.len(), beside.len()) == (root.parts.len(), root.removes_block_count())
}

#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) mod tests;
