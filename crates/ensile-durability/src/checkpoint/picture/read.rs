//! Reading an installed picture, block by block, with every check that the format allows.
//!
//! Invariants:
//! - Nothing of a block is handed out before its place, its header's checksum, as the place names it, and its payload
//!   are checked.
//! - An installed picture was synced before it was installed: whatever is wrong with it is damage.
//! - What is read takes no more memory than the file that it stands in has bytes.
//!
//! Neighbours: recovery loads with this, a part of the directory at a time; [`super::place`] says what headers say.

use std::collections::BTreeMap;

use ensile_base::checksum::crc32c;
use ensile_base::sync::Mutex;
use ensile_base::{Epoch, Tid};
use ensile_disk::{Disk, DiskFile};

use super::directory::{decode_part, is_part};
use super::extents::{FreeUnits, Misplaced};
use super::page::PagePlace;
use super::place::is_at;
use super::root::{DirectoryPlace, RemovesPlace, Root};
use crate::block::entries;
use crate::block::extent::{Extent, ExtentPlace, UNIT_BYTES};
use crate::block::origin::PartPlace;
use crate::block::scan::{ReadBlocks, Scanner};
use crate::block::{BlockKind, Header, NotABlock};
use crate::checkpoint::displaced::section_and_body;
use crate::recoverable::EntryKind;
use crate::store::installed::{ListedPageFile, PictureCheckpoint};
use crate::{DurabilityError, Entry};

/// A page file that an installed picture has.
#[derive(Debug)]
struct OpenedPageFile {
    listed: ListedPageFile,
    name: String,
    file: Box<dyn DiskFile>,
    bytes: u64,
}

/// An installed picture, whose root is read.
#[derive(Debug)]
pub(crate) struct PictureReader {
    of: PictureCheckpoint,
    files: Vec<OpenedPageFile>,
    entries: EntryKind,
    root: Root,
    /// Extents that were read.
    reached: Mutex<Vec<Extent>>,
}

/// Entries of one block or page, which stand at a place.
#[derive(Debug)]
pub(crate) struct ReadEntries {
    pub(crate) file: String,
    pub(crate) offset: u64,
    pub(crate) entries: u32,
    /// Bytes of extents.
    pub(crate) bytes: u64,
    /// Of all entries; `None`: each says its own.
    section: Option<u32>,
    payload: Vec<u8>,
    /// No entry has this epoch or a larger one.
    epoch_end: Epoch,
}

impl ReadEntries {
    /// The entries, TID and body each, by section.
    ///
    /// # Errors
    /// What is wrong with them, or an epoch that no entry of this picture can have (N15).
    pub(crate) fn by_section(&self) -> Result<BTreeMap<u32, Vec<Entry<'_>>>, &'static str> {
        let mut sections = BTreeMap::new();
        entries::each(&self.payload, self.entries, |tid: Tid, body| {
            if tid.epoch() >= self.epoch_end {
                return Err("an entry's epoch is not below the picture's freeze");
            }
            let own = || section_and_body(body).ok_or("an entry does not say its section");
            let (section, body) = self.section.map_or_else(own, |section| Ok((section, body)))?;
            sections.entry(section).or_insert_with(Vec::new).push(Entry { tid, body });
            Ok(())
        })?;
        Ok(sections)
    }
}

impl PictureReader {
    /// Opens the files of an installed picture, and reads its root.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`] with file and offset for anything that was not written so;
    /// [`DurabilityError::Unknown`] for what a newer version wrote; [`DurabilityError::NotOurs`] for a file of another
    /// database.
    pub(crate) fn open(disk: &dyn Disk, of: &PictureCheckpoint) -> Result<Self, DurabilityError> {
        let files = of.files.iter().map(|listed| open_file(disk, of, *listed));
        let files: Vec<(OpenedPageFile, EntryKind)> = files.collect::<Result<_, _>>()?;
        let entries = files.first().expect("a picture has a file").1;
        let files = files.into_iter().map(|(file, _)| file).collect();
        let (of, root, reached) = (of.clone(), Root::default(), Mutex::default());
        let mut reader = Self { of, files, entries, root, reached };
        let said = (BlockKind::Root, 0, reader.of.number);
        let (header, payload) = reader.block(&reader.of.root, said)?;
        let root = Root::decode(&payload, header.entries, reader.of.number);
        reader.root = root.ok_or_else(|| reader.damaged(&reader.of.root, "the root contradicts itself"))?;
        let places = reader.root.parts.iter().map(|part| part.pages);
        if places.map(u64::from).sum::<u64>() != reader.of.pages {
            return Err(reader.damaged(&reader.of.root, "it has other pages than MANIFEST counts"));
        }
        Ok(reader)
    }

    /// What entries are.
    pub(crate) fn kind(&self) -> EntryKind {
        self.entries
    }

    /// Places of all that is to be read.
    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// Bytes of the root.
    pub(crate) fn root_bytes(&self) -> u64 {
        self.of.root.extent.bytes()
    }

    /// The pages of a part of the directory, by its place in the root.
    ///
    /// # Errors
    /// As [`PictureReader::open`].
    pub(crate) fn part(&self, index: usize) -> Result<Vec<PagePlace>, DurabilityError> {
        let (part, next) = (&self.root.parts[index], self.root.parts.get(index + 1));
        let DirectoryPlace { number, checkpoint, place, .. } = part;
        let (header, payload) = self.block(place, (BlockKind::DirectoryPart, *number, *checkpoint))?;
        let pages = decode_part(&payload, header.entries).filter(|pages| is_part(pages, part, next));
        let pages =
            pages.ok_or_else(|| self.damaged(place, "the part of the directory contradicts itself"))?;
        if pages.iter().any(|page| page.number >= self.of.next_page) {
            return Err(self.damaged(place, "a page has a number that MANIFEST says no page has"));
        }
        Ok(pages)
    }

    /// What a page holds; `None` if that is nothing.
    ///
    /// # Errors
    /// As [`PictureReader::open`].
    pub(crate) fn page(&self, page: &PagePlace) -> Result<Option<ReadEntries>, DurabilityError> {
        let Some(first) = page.extents.first() else { return Ok(None) };
        let (mut whole, mut previous_crc) = (Vec::new(), 0);
        for (index, place) in page.extents.iter().enumerate() {
            let (kind, entries) = match index {
                0 => (BlockKind::Page, page.entries),
                _ => (BlockKind::Continuation, index as u32),
            };
            let (header, payload) = self.block(place, (kind, page.number, page.checkpoint))?;
            let found = (header.section, header.entries, header.previous_crc);
            if found != (page.bound.section, entries, previous_crc) {
                return Err(self.damaged(place, "the block is not the one of its page that stands here"));
            }
            previous_crc = place.header_crc;
            if whole.is_empty() { whole = payload } else { whole.extend(payload) }
        }
        if crc32c(&whole) != page.payload_crc {
            return Err(self.damaged(first, "the page does not have its checksum"));
        }
        let section = Some(page.bound.section);
        Ok(Some(self.entries_of((first, page.entries, page.bytes()), section, whole)))
    }

    /// What commits have left beside pages, in this block.
    ///
    /// # Errors
    /// As [`PictureReader::open`].
    pub(crate) fn removes(&self, index: usize) -> Result<ReadEntries, DurabilityError> {
        let RemovesPlace { number, checkpoint, place } = &self.root.removes[index];
        let (header, payload) = self.block(place, (BlockKind::PendingRemoves, *number, *checkpoint))?;
        Ok(self.entries_of((place, header.entries, place.extent.bytes()), None, payload))
    }

    /// All was read: no two extents share a unit, and none is behind its file's end.
    ///
    /// # Errors
    /// [`DurabilityError::Damaged`].
    pub(crate) fn check_reached(&self) -> Result<(), DurabilityError> {
        let reached = self.reached.lock();
        for file in &self.files {
            let folder = file.listed.name.folder as u16;
            let own = reached.iter().filter(|extent| extent.folder == folder).copied().collect();
            let units = u32::try_from(file.bytes.div_ceil(UNIT_BYTES as u64)).unwrap_or(u32::MAX);
            let (extent, detail) = match FreeUnits::of_reached(folder, units, own) {
                Ok(_) => continue,
                Err(Misplaced::Overlap(extent)) => (extent, "two blocks of the picture share this place"),
                Err(Misplaced::BehindTheEnd(extent)) => (extent, CUT),
            };
            return Err(DurabilityError::damaged(&file.name, extent.offset(), detail));
        }
        Ok(())
    }

    fn entries_of(
        &self,
        (place, entries, bytes): (&ExtentPlace, u32, u64),
        section: Option<u32>,
        payload: Vec<u8>,
    ) -> ReadEntries {
        let file = self.file_of(place).map_or(String::new(), |file| file.name.clone());
        let epoch_end = self.entries.checkpoint_end(self.of.epoch.next(), self.of.epoch);
        ReadEntries { file, offset: place.extent.offset(), entries, bytes, section, payload, epoch_end }
    }

    fn file_of(&self, place: &ExtentPlace) -> Option<&OpenedPageFile> {
        self.files.iter().find(|file| file.listed.name.folder == u32::from(place.extent.folder))
    }

    fn damaged(&self, place: &ExtentPlace, detail: &str) -> DurabilityError {
        let name = self.file_of(place).map_or("", |file| &file.name);
        DurabilityError::damaged(name, place.extent.offset(), detail)
    }

    /// The block at this place, of this kind, number and checkpoint.
    fn block(
        &self,
        place: &ExtentPlace,
        said: (BlockKind, u64, u64),
    ) -> Result<(Header, Vec<u8>), DurabilityError> {
        let Some(OpenedPageFile { listed, file, bytes, name }) = self.file_of(place) else {
            return Err(self.damaged(&self.of.root, "a place is in a folder that MANIFEST does not list"));
        };
        let damaged = |detail| Err(DurabilityError::damaged(name, place.extent.offset(), detail));
        let left = bytes.saturating_sub(place.extent.offset()).min(place.extent.bytes());
        let mut block = vec![0; left as usize];
        let read = file.read_at(&mut block, place.extent.offset())?;
        block.truncate(read);
        let Some(Ok(found)) = ReadBlocks::of(&block, listed.salt).next() else {
            return damaged("no block of this picture begins here");
        };
        if found.header.kind == BlockKind::Unknown {
            return Err(DurabilityError::newer(name, place.extent.offset()));
        }
        if !is_at((&found.header, found.crc), place, said) {
            return damaged("the block is not the one that stands here");
        }
        let Some(payload) = found.payload() else { return damaged(NotABlock::BadPayload.detail()) };
        self.reached.lock().push(place.extent);
        Ok((found.header.clone(), payload.to_vec()))
    }
}

const CUT: &str = "the file is cut: it ends before a block of the picture does";

/// Opens a page file, whose opening block must say that it is this one (I1); and what its entries are.
fn open_file(
    disk: &dyn Disk,
    of: &PictureCheckpoint,
    listed: ListedPageFile,
) -> Result<(OpenedPageFile, EntryKind), DurabilityError> {
    let name = listed.name.to_string();
    let damaged = |detail: &str| DurabilityError::damaged(&name, 0, detail);
    let file = match disk.open_to_read(&name) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => {
            return Err(damaged("a file of the installed picture is missing"));
        }
        Err(error) => return Err(error.into()),
    };
    let opened = match Scanner::opening_of(disk, &name)? {
        Ok(opened) => opened,
        Err(NotABlock::Unknown | NotABlock::OtherFormat) => return Err(DurabilityError::newer(&name, 0)),
        Err(why) => return Err(damaged(why.detail())),
    };
    if opened.header.kind != BlockKind::PagesOpening {
        return Err(damaged("another kind of file's block begins here: not a page file"));
    }
    if opened.origin.identity != of.database {
        return Err(DurabilityError::not_ours(&name, opened.origin.identity, of.database));
    }
    let found = (opened.header.owner, opened.header.sequence, opened.origin.salt, opened.place);
    if found != (listed.name.folder, listed.name.number, listed.salt, PartPlace::default()) {
        return Err(damaged("the file is another page file than MANIFEST lists"));
    }
    let bytes = file.len()?;
    Ok((OpenedPageFile { listed, name, file, bytes }, opened.origin.entries))
}
