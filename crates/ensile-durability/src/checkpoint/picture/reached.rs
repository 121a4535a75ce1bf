//! What was read of an installed picture so far, to see that it goes together, and what it comes to.
//!
//! Invariants:
//! - N12: no two extents of a picture share a unit, and none is behind its file's end.
//! - N17: a page's number is its own.
//!
//! Neighbours: [`super::read`] fills it, from any thread, and asks behind the last block; an examination prints it.

use std::collections::BTreeMap;

use super::extents::{FreeUnits, Misplaced};
use super::page::PagePlace;
use crate::block::extent::{Extent, UNIT_BYTES};
use crate::store::names::PageFileName;

/// The pages of a section, as far as they were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SectionFigures {
    pub(crate) pages: u64,
    pub(crate) entries: u64,
    /// Of their extents, and of what stands in them.
    pub(crate) bytes: u64,
    pub(crate) payload_bytes: u64,
}

/// The pages that one checkpoint wrote, as far as they were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AgeFigures {
    pub(crate) pages: u64,
    pub(crate) bytes: u64,
}

/// What was read of a picture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reached {
    extents: Vec<Extent>,
    /// Numbers of pages, and where each was found.
    numbers: BTreeMap<u64, Extent>,
    /// Two pages had one number: the place of the later one.
    twice: Option<Extent>,
    pub(crate) sections: BTreeMap<u32, SectionFigures>,
    /// By the number of the checkpoint that wrote them.
    pub(crate) ages: BTreeMap<u64, AgeFigures>,
    /// Blocks of what commits have left beside pages, but for tails.
    pub(crate) removes: u64,
    /// Tails, and their bytes.
    pub(crate) tails: u64,
    pub(crate) tail_bytes: u64,
    /// Versions in blocks and tails.
    pub(crate) displaced: u64,
}

impl Reached {
    /// A block was read here.
    pub(super) fn add(&mut self, extent: Extent) {
        assert!(extent.is_whole(), "{extent:?} was read");
        self.extents.push(extent);
    }

    /// A page was read that a part of the directory at `part` names; and how long its payload is.
    pub(super) fn add_page(&mut self, page: &PagePlace, payload_bytes: usize, part: Extent) {
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

    /// A block of what commits have left beside pages was read here, for the first time.
    pub(super) fn add_removes(&mut self, versions: u32, extent: Extent) {
        self.add(extent);
        self.removes += 1;
        self.displaced += u64::from(versions);
    }

    /// A tail was read, whose block has these bytes.
    pub(super) fn add_tail(&mut self, versions: u32, bytes: u16) {
        self.tails += 1;
        self.tail_bytes += u64::from(bytes);
        self.displaced += u64::from(versions);
        debug_assert!(usize::from(bytes) < UNIT_BYTES, "it stands behind a block");
    }

    /// Bytes of all blocks in a file that stand in extents of their own.
    pub(crate) fn bytes_in(&self, file: PageFileName) -> u64 {
        self.in_folder(file).map(|extent| extent.bytes()).sum()
    }

    /// Where the last block in a file ends; behind the opening block if there is none.
    pub(super) fn end_in(&self, file: PageFileName) -> u64 {
        let ends = self.in_folder(file).map(|extent| u64::from(extent.end()));
        ends.max().unwrap_or(1) * UNIT_BYTES as u64
    }

    /// All was read: what is wrong with a file of this length, and where; `None` if nothing is.
    pub(super) fn fault_in(&self, file: PageFileName, bytes: u64) -> Option<(Extent, &'static str)> {
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

/// What a file lacks.
pub(super) const CUT: &str = "the file is cut: it ends before a block of the picture does";
