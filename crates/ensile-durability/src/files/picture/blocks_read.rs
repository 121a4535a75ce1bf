//! The blocks read so far of an installed picture: consistency checks (N12, N17) and figures.
//!
//! Neighbours: [`super::reader`] adds the blocks, from any thread, and checks after the last block; an examination
//! prints the figures.

use std::collections::BTreeMap;

use super::extents::{FreeUnits, Misplaced};
use super::page::PagePlace;
use crate::files::block::extent::{Extent, UNIT_BYTES};
use crate::files::names::PageFileName;

/// Figures of the pages read of a section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SectionFigures {
    pub(crate) pages: u64,
    pub(crate) entries: u64,
    /// Bytes of the pages' extents, and of the payloads in the extents.
    pub(crate) bytes: u64,
    pub(crate) payload_bytes: u64,
}

/// Figures of the pages read of one checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AgeFigures {
    pub(crate) pages: u64,
    pub(crate) bytes: u64,
}

/// The blocks read so far of a picture.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlocksRead {
    extents: Vec<Extent>,
    /// Numbers of pages, with the extent of the directory part that names the page.
    numbers: BTreeMap<u64, Extent>,
    /// If two pages had one number, the extent of the later page's directory part.
    twice: Option<Extent>,
    pub(crate) sections: BTreeMap<u32, SectionFigures>,
    /// Figures by the number of the checkpoint that wrote the pages.
    pub(crate) ages: BTreeMap<u64, AgeFigures>,
    /// Number of blocks of versions left beside pages, without tails.
    pub(crate) removes: u64,
    /// Number of tails, and bytes of the tails.
    pub(crate) tails: u64,
    pub(crate) tail_bytes: u64,
    /// Number of versions in blocks and tails.
    pub(crate) displaced: u64,
}

impl BlocksRead {
    /// Notes that the block at `extent` was read.
    pub(crate) fn add(&mut self, extent: Extent) {
        assert!(extent.is_whole(), "{extent:?} was read");
        self.extents.push(extent);
    }

    /// Notes a page that the directory part at `part` names, and the bytes of the page's payload.
    pub(crate) fn add_page(&mut self, page: &PagePlace, payload_bytes: usize, part: Extent) {
        assert_eq!(payload_bytes == 0, page.entries == 0, "an entry takes bytes");
        if self.numbers.insert(page.number, part).is_some() {
            self.twice = Some(part);
        }
        let section = self.sections.entry(page.bound.section).or_default();
        section.pages += 1;
        section.entries += u64::from(page.entries);
        section.bytes += page.bytes();
        section.payload_bytes += payload_bytes as u64;
        let age = self.ages.entry(page.checkpoint).or_default();
        age.pages += 1;
        age.bytes += page.bytes();
    }

    /// Notes the first read of a block of versions left beside pages.
    pub(crate) fn add_removes(&mut self, versions: u32, extent: Extent) {
        self.add(extent);
        self.removes += 1;
        self.displaced += u64::from(versions);
    }

    /// Notes a tail with a block of `bytes` bytes.
    pub(crate) fn add_tail(&mut self, versions: u32, bytes: u16) {
        self.tails += 1;
        self.tail_bytes += u64::from(bytes);
        self.displaced += u64::from(versions);
        debug_assert!(usize::from(bytes) < UNIT_BYTES, "it stands behind a block");
    }

    /// Bytes of the extents read in a file. A tail has no extent.
    pub(crate) fn bytes_in(&self, file: PageFileName) -> u64 {
        self.in_folder(file).map(|extent| extent.bytes()).sum()
    }

    /// End of the last block in a file; the end of the opening block if the file has no further block.
    pub(crate) fn end_in(&self, file: PageFileName) -> u64 {
        let ends = self.in_folder(file).map(|extent| u64::from(extent.end()));
        ends.max().unwrap_or(1) * UNIT_BYTES as u64
    }

    /// The fault of a file of this length, with the fault's extent, once every block is read; `None` if the file has no
    /// fault.
    pub(crate) fn fault_in(&self, file: PageFileName, bytes: u64) -> Option<(Extent, &'static str)> {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES as u64)).unwrap_or(u32::MAX);
        let own = self.in_folder(file).collect();
        if let Err(misplaced) = FreeUnits::of_reached(file.folder as u16, units, own) {
            return Some(match misplaced {
                Misplaced::Overlap(extent) => (extent, "two blocks of the picture share this place"),
                Misplaced::BehindTheEnd(extent) => (extent, CUT),
            });
        }
        let twice = self.twice.filter(|part| u32::from(part.folder) == file.folder);
        twice.map(|part| (part, "a page of this part has the number of another one"))
    }

    fn in_folder(&self, file: PageFileName) -> impl Iterator<Item = Extent> + use<'_> {
        self.extents.iter().filter(move |extent| u32::from(extent.folder) == file.folder).copied()
    }
}

pub(crate) const CUT: &str = "the file is cut: it ends before a block of the picture does";
