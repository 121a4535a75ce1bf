//! A checkpointer at its part of a picture: it takes page after page, and writes each into an extent of its folder's
//! page file.
//!
//! Invariants:
//! - N9: behind its last page a part has what commits have left beside the pages: until nothing is left.
//! - N17: what a part takes is its slices as a whole. A page that keeps its range keeps its number.
//! - No entry of an epoch above e_c is written (N2, N15).
//!
//! Neighbours: `manager` steps it, a page at a time; [`super::writer`] has the blocks, [`super::keeper`] what the whole
//! picture has.

use std::sync::Arc;

use ensile_base::{Epoch, Tid};

use super::directory::TakenRange;
use super::file::{HeldExtents, PageFile};
use super::keeper::PictureKeeper;
use super::place::{PageBound, PictureStamp};
use super::root::RemovesPlace;
use super::writer::BlockWriter;
use crate::block::HEADER_BYTES;
use crate::checkpoint::block::CheckpointBlock;
use crate::checkpoint::displaced::DisplacedBlock;
use crate::checkpoint::page::PageContents;
use crate::checkpoint::pages::{Pages, PictureAttempt, TakenPage};
use crate::checkpoint::slices::{PartSlices, PartStep};
use crate::recoverable::EntryKind;

/// A part of a picture under way.
#[derive(Debug)]
pub(in crate::checkpoint) struct PageWork {
    pub(in crate::checkpoint) slices: PartSlices,
    attempt: PictureAttempt,
    stamp: PictureStamp,
    kind: EntryKind,
    page: PageContents,
    /// What commits have left beside pages.
    block: CheckpointBlock,
    /// Pages were taken since commits' lists were found empty, or they were not looked at yet.
    may_be_displaced: bool,
    writer: BlockWriter,
    written: PagesWritten,
    unsynced_bytes: u64,
    sync_bytes: u64,
}

/// What one checkpointer wrote of a picture.
#[derive(Debug, Default)]
pub(in crate::checkpoint) struct PagesWritten {
    pub(in crate::checkpoint) taken: Vec<TakenRange>,
    pub(in crate::checkpoint) removes: Vec<RemovesPlace>,
    /// Entries of pages, and of what was left beside them.
    pub(in crate::checkpoint) entries: u64,
    pub(in crate::checkpoint) displaced: u64,
    /// Bytes of extents.
    pub(in crate::checkpoint) bytes: u64,
    /// The extents.
    pub(in crate::checkpoint) held: Vec<HeldExtents>,
}

impl PageWork {
    pub(in crate::checkpoint) fn new(
        slices: PartSlices,
        (attempt, stamp, kind): (PictureAttempt, PictureStamp, EntryKind),
        (file, sync_bytes): (&Arc<PageFile>, u64),
        block: CheckpointBlock,
    ) -> Self {
        Self {
            slices,
            attempt,
            stamp,
            kind,
            page: PageContents::new(),
            block,
            may_be_displaced: true,
            writer: BlockWriter::new(file, stamp),
            written: PagesWritten::default(),
            unsynced_bytes: 0,
            sync_bytes,
        }
    }

    /// Takes one page and writes it, or a block of what commits have left. While the bandwidth is used up, only that
    /// is written; `None` if nothing was.
    ///
    /// # Errors
    /// Why the part fails.
    pub(in crate::checkpoint) fn step(
        &mut self,
        pages: &dyn Pages,
        keeper: &PictureKeeper,
        has_bandwidth: bool,
    ) -> Result<Option<PartStep>, String> {
        assert_eq!(self.block.entries(), 0, "the block before was written");
        if self.may_be_displaced || !has_bandwidth {
            let displaced = self.step_displaced(pages, keeper)?;
            if displaced.is_some() {
                return Ok(displaced);
            }
        }
        if has_bandwidth { self.step_page(pages, keeper).map(Some) } else { Ok(None) }
    }

    /// S: no entry has this epoch or a larger one.
    fn freeze(&self) -> Epoch {
        self.stamp.epoch.next()
    }

    /// Writes a block of what commits have left beside the pages, if there is anything.
    fn step_displaced(
        &mut self,
        pages: &dyn Pages,
        keeper: &PictureKeeper,
    ) -> Result<Option<PartStep>, String> {
        let freeze = self.freeze();
        let taken = pages.take_displaced(self.attempt, freeze, &mut DisplacedBlock::of(&mut self.block));
        let has_more = taken.map_err(|ended| ended.to_string())?;
        self.may_be_displaced = has_more;
        let (entries, is_refused) = (self.block.entries(), self.block.take_refusal());
        if entries == 0 {
            assert!(is_refused || !has_more, "an empty block has room for any entry");
            return Ok(has_more.then_some(PartStep::Refused));
        }
        debug_assert!(self.block.iter().all(|(tid, _)| may_hold(self.kind, tid, freeze)), "N15");
        let payload = &self.block.block()[HEADER_BYTES..];
        let place = self.writer.write_removes(keeper.next_removes(), entries, payload)?;
        self.block.reset();
        self.written.removes.push(place);
        self.written.displaced += u64::from(entries);
        self.wrote((u64::from(entries), place.place.extent.bytes()), false).map(Some)
    }

    fn step_page(&mut self, pages: &dyn Pages, keeper: &PictureKeeper) -> Result<PartStep, String> {
        let freeze = self.freeze();
        let Some((slice, resume)) = self.slices.current() else { return Ok(PartStep::Ended) };
        // The page is closed: what was left beside it before is looked for behind that (N9).
        self.may_be_displaced = true;
        let first_key = if resume.is_empty() { slice.from.clone() } else { resume[..].into() };
        let bound = PageBound { section: slice.section, first_key };
        let taken = pages.take_page(self.attempt, slice, resume, freeze, &mut self.page);
        let is_last = taken.map_err(|ended| ended.to_string())? == TakenPage::Last;
        debug_assert!(self.page.iter().all(|(tid, _)| may_hold(self.kind, tid, freeze)), "N15");
        let to = if is_last { slice.to.clone() } else { Some(resume[..].into()) };
        let number = keeper.number_of(&bound, to.as_deref());
        let page = self.writer.write_page(bound, number, &self.page)?;
        let figures = (u64::from(page.entries), page.bytes());
        self.written.taken.push(TakenRange { page, to });
        self.page.clear();
        if is_last {
            self.slices.end_current();
        }
        self.wrote(figures, true)
    }

    /// Counts what was written, and syncs once enough was.
    fn wrote(&mut self, (entries, bytes): (u64, u64), is_paced: bool) -> Result<PartStep, String> {
        assert_eq!(entries > 0, bytes > 0, "an empty page has no block");
        self.written.entries += entries;
        self.unsynced_bytes += bytes;
        let is_synced = self.unsynced_bytes >= self.sync_bytes;
        if is_synced {
            self.writer.sync()?;
            self.unsynced_bytes = 0;
        }
        self.slices.count(bytes, entries);
        Ok(PartStep::Written { bytes, entries, is_synced, is_paced })
    }

    /// Ends the part: all that it wrote survives a crash.
    ///
    /// # Errors
    /// The disk's.
    pub(in crate::checkpoint) fn end(mut self) -> Result<PagesWritten, String> {
        assert!(self.slices.are_through(), "N17: every slice is taken as a whole");
        assert!(!self.may_be_displaced, "N9: what was displaced is written behind the last page");
        self.writer.sync()?;
        self.written.bytes = self.writer.bytes();
        self.written.held.push(self.writer.into_held());
        Ok(self.written)
    }
}

/// May an entry with this TID stand in a picture? How far operations go is the state's matter.
fn may_hold(kind: EntryKind, tid: Tid, freeze: Epoch) -> bool {
    kind == EntryKind::Operations || tid.epoch() < freeze
}
