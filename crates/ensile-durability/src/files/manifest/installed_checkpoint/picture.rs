//! Picture in page files, as the manifest names it (`docs/internals/formats/manifest.md`, lines `picture` and `pages`).
//!
//! Invariants: N12 and N15. The seal is the header checksum of the root, which vouches for the whole picture.
//!
//! Neighbours: [`super`] has the operations of every kind. `checkpoint::state_machine` fills in the fields.

use std::fmt;

use ensile_base::Epoch;

use super::part_files::WalkRecord;
use crate::files::block::Salt;
use crate::files::block::extent::{Extent, ExtentPlace};
use crate::files::names::{PageFileName, checkpoint_folder};
use crate::files::text::{Lines, all_parsed, next_parsed, parse_epoch, values};
use crate::identity::Identity;
use crate::number;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedPageFile {
    pub(crate) name: PageFileName,
    /// Salt of the header checksums of the file's blocks.
    pub(crate) salt: Salt,
}

impl ListedPageFile {
    fn parse(line: &str) -> Option<Self> {
        let [folder, number, salt] = values(line, "pages file salt")?;
        let name = PageFileName { folder: folder.parse().ok()?, number: number::parse(number)? };
        Some(Self { name, salt: Salt::parse(salt)? })
    }
}

/// Picture that is installed, or about to be installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PictureCheckpoint {
    pub(crate) number: u64,
    /// Generation that was open when the picture was written.
    pub(crate) generation: u64,
    /// e_c: the picture is the state at the end of this epoch.
    pub(crate) epoch: Epoch,
    /// Number of entries; `bytes`: of all extents, the root's included; `pages`: number of pages that the root reaches.
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) pages: u64,
    /// Bound of the page numbers: every page has a smaller number.
    pub(crate) next_page: u64,
    /// Place and header checksum of the root.
    pub(crate) root: ExtentPlace,
    /// Database in the files (I1).
    pub(crate) database: Identity,
    /// Page files, ordered by folder. A folder has at most a single page file.
    pub(crate) files: Vec<ListedPageFile>,
}

impl PictureCheckpoint {
    /// The picture in the terms of a walk: only entries with epochs below the freeze epoch S are in it.
    pub(super) fn record(&self) -> WalkRecord {
        let Self { number, generation, epoch: high, entries, bytes, database, .. } = *self;
        WalkRecord { number, generation, low: high.next(), high, entries, bytes, database }
    }

    /// Page file in this folder; `None` if the picture has no file there.
    pub(crate) fn file_in(&self, folder: u16) -> Option<&ListedPageFile> {
        self.files.iter().find(|file| file.name.folder == u32::from(folder))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = PageFileName> + use<'_> {
        self.files.iter().map(|file| file.name)
    }

    pub(super) fn folders(&self) -> impl Iterator<Item = String> + use<'_> {
        self.names().map(|name| checkpoint_folder(name.folder))
    }

    pub(crate) fn is_whole(&self) -> bool {
        let is_sorted = self.files.windows(2).all(|pair| pair[0].name.folder < pair[1].name.folder);
        let last = self.files.last();
        let is_folder = last.is_some_and(|last| last.name.folder < number::CHECKPOINTERS_MAX);
        let is_listed = self.root.extent.is_whole() && self.file_in(self.root.extent.folder).is_some();
        self.number > 0 && self.epoch > Epoch::ZERO && is_sorted && is_folder && is_listed
    }

    /// Parses the next lines as a picture and its files, if a picture begins here.
    pub(crate) fn parse_next(lines: &mut Lines<'_>) -> Option<Self> {
        let picture = next_parsed(lines, Self::parse)?;
        Some(Self { files: all_parsed(lines, ListedPageFile::parse), ..picture })
    }

    /// Reads the line of the picture, without its files.
    fn parse(line: &str) -> Option<Self> {
        let names = "picture generation epoch entries bytes pages next root seal database";
        let [number, generation, epoch, entries, bytes, pages, next_page, root, seal, database] =
            values(line, names)?;
        Some(Self {
            number: number::parse(number)?,
            generation: number::parse(generation)?,
            // The freeze epoch S must be a valid epoch too.
            epoch: parse_epoch(epoch).filter(|epoch| epoch.next() < Epoch::MAX)?,
            entries: entries.parse().ok()?,
            bytes: bytes.parse().ok()?,
            pages: pages.parse().ok()?,
            next_page: number::parse(next_page)?,
            root: ExtentPlace {
                extent: parse_extent(root)?,
                header_crc: u32::from_str_radix(seal, 16).ok()?,
            },
            database: Identity::parse(database)?,
            files: Vec::new(),
        })
    }
}

/// Reads an extent in the format `folder:first:units`.
fn parse_extent(word: &str) -> Option<Extent> {
    let (folder, rest) = word.split_once(':')?;
    let (first, units) = rest.split_once(':')?;
    Some(Extent { folder: folder.parse().ok()?, first: first.parse().ok()?, units: units.parse().ok()? })
}

/// Line of the picture, and lines of its files, without the last line end.
impl fmt::Display for PictureCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, generation, epoch, entries, bytes, pages, next_page, root, database, files } =
            self;
        let Extent { folder, first, units } = root.extent;
        write!(f, "picture {number} generation {generation} epoch {epoch} entries {entries} bytes {bytes} ")?;
        write!(f, "pages {pages} next {next_page} root {folder}:{first}:{units} ")?;
        write!(f, "seal {:08x} database {database}", root.header_crc)?;
        for ListedPageFile { name, salt } in files {
            write!(f, "\npages {} file {} salt {salt}", name.folder, name.number)?;
        }
        Ok(())
    }
}
