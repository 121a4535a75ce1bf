//! Writer of a checkpointer's part of a picture: takes page after page, and writes it into its folder's page file.
//!
//! Invariants:
//! - N9: after the last page, a part takes the versions that commits have left beside the pages, until none is left.
//!   Taken versions that do not fill a block wait for the tail of the part's next page (§3.3).
//! - N17: a part takes whole slices. A page that keeps its range keeps its number.
//! - N2, N15: no entry of an epoch above e_c is written.
//!
//! Neighbours: `manager` steps the writer, a page at a time; [`super::picture_set`] has the whole picture.

use ensile_base::{Epoch, Tid};

use super::picture_set::PictureKeeper;
use crate::checkpoint::pages::{Pages, PictureAttempt, TakenPage};
use crate::checkpoint::slices::{PartSlices, PartStep};
use crate::files::block::HEADER_BYTES;
use crate::files::block::extent::UNIT_BYTES;
use crate::files::checkpoint::block::CheckpointBlock;
use crate::files::checkpoint::page::PageContents;
use crate::files::picture::block_writer::{BlockWriter, PageTail, tail_room_of};
use crate::files::picture::directory::TakenRange;
use crate::files::picture::file::HeldExtents;
use crate::files::picture::location::PageBound;
use crate::files::picture::page::PagePlace;
use crate::files::picture::pending_removes::DisplacedBlock;
use crate::files::picture::root::{RemovesPlace, TailPlace};
use crate::recoverable::EntryKind;

#[derive(Debug)]
pub(crate) struct PicturePartWriter {
    pub(crate) slices: PartSlices,
    attempt: PictureAttempt,
    kind: EntryKind,
    page: PageContents,
    /// Taken and unwritten versions that commits have left beside pages.
    block: CheckpointBlock,
    /// Versions for the tail of the page that is written.
    tail: Vec<u8>,
    /// True if commits' lists may have versions: a page was taken since they were found empty, or they were never read.
    may_be_displaced: bool,
    writer: BlockWriter,
    written: PagesWritten,
    unsynced_bytes: u64,
    sync_bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct PagesWritten {
    pub(crate) taken: Vec<TakenRange>,
    pub(crate) removes: Vec<RemovesPlace>,
    pub(crate) tails: Vec<TailPlace>,
    /// Number of all entries, and of the displaced versions among them.
    pub(crate) entries: u64,
    pub(crate) displaced: u64,
    /// Bytes of the tails' blocks, with headers and padding.
    pub(crate) tail_bytes: u64,
    pub(crate) bytes: u64,
    /// The written extents, which are free again if the attempt fails.
    pub(crate) held: Vec<HeldExtents>,
}

impl PicturePartWriter {
    /// Begins a part with these slices. `writer` syncs its blocks once at least `sync_bytes` are unsynced.
    pub(crate) fn new(
        slices: PartSlices,
        attempt: PictureAttempt,
        kind: EntryKind,
        writer: BlockWriter,
        sync_bytes: u64,
        block: CheckpointBlock,
    ) -> Self {
        Self {
            slices,
            attempt,
            kind,
            page: PageContents::new(),
            block,
            tail: Vec::with_capacity(UNIT_BYTES),
            may_be_displaced: true,
            writer,
            written: PagesWritten::default(),
            unsynced_bytes: 0,
            sync_bytes,
        }
    }

    /// Takes one page and writes the page, or a block of versions that commits have left. Without bandwidth it only
    /// writes versions, once the versions fill a block or no page follows; `None` if the step wrote nothing.
    pub(crate) fn step(
        &mut self,
        pages: &dyn Pages,
        keeper: &PictureKeeper,
        has_bandwidth: bool,
    ) -> Result<Option<PartStep>, String> {
        if self.may_be_displaced || !has_bandwidth {
            let displaced = self.step_beside(pages, keeper)?;
            if displaced.is_some() {
                return Ok(displaced);
            }
        }
        if has_bandwidth { self.step_page(pages, keeper).map(Some) } else { Ok(None) }
    }

    /// S, which is above the epoch of every entry.
    fn freeze(&self) -> Epoch {
        self.writer.stamp().epoch.next()
    }

    /// Takes the versions beside the pages. Writes a block if the block is full or no page follows.
    fn step_beside(&mut self, pages: &dyn Pages, keeper: &PictureKeeper) -> Result<Option<PartStep>, String> {
        let freeze = self.freeze();
        let is_full = loop {
            let before = self.block.entries();
            let mut block = DisplacedBlock::new(&mut self.block);
            let taken = pages.take_displaced(self.attempt, freeze, &mut block);
            self.may_be_displaced = taken.map_err(|ended| ended.to_string())?;
            if !self.may_be_displaced || self.block.entries() == before {
                break self.may_be_displaced;
            }
        };
        let (entries, is_refused) = (self.block.entries(), self.block.take_refusal());
        if entries == 0 {
            assert!(is_refused || !is_full, "an empty block has room for any entry");
            return Ok(is_full.then_some(PartStep::Refused));
        }
        debug_assert!(self.block.iter().all(|(tid, _)| may_hold(self.kind, tid, freeze)), "N15");
        // A large block is not kept, because no other checkpointer may have a large block meanwhile.
        if is_full || self.block.is_large() || self.slices.are_through() {
            return self.write_displaced(entries, keeper).map(Some);
        }
        Ok(None)
    }

    fn write_displaced(&mut self, entries: u32, keeper: &PictureKeeper) -> Result<PartStep, String> {
        let payload = &self.block.block()[HEADER_BYTES..];
        let place = self.writer.write_removes(keeper.next_removes(), entries, payload)?;
        self.block.reset();
        self.written.removes.push(place);
        self.written.displaced += u64::from(entries);
        self.wrote(place.place.extent.bytes(), u64::from(entries), false)
    }

    fn step_page(&mut self, pages: &dyn Pages, keeper: &PictureKeeper) -> Result<PartStep, String> {
        let freeze = self.freeze();
        let Some((slice, resume)) = self.slices.current() else { return Ok(PartStep::Ended) };
        // The page is closed now, so versions left beside the page before are found from here on (N9).
        self.may_be_displaced = true;
        let first_key = if resume.is_empty() { slice.from.clone() } else { resume[..].into() };
        let bound = PageBound { section: slice.section, first_key };
        let taken = pages.take_page(self.attempt, slice, resume, freeze, &mut self.page);
        let is_last = taken.map_err(|ended| ended.to_string())? == TakenPage::Last;
        debug_assert!(self.page.iter().all(|(tid, _)| may_hold(self.kind, tid, freeze)), "N15");
        let to = if is_last { slice.to.clone() } else { Some(resume[..].into()) };
        let number = keeper.number_of(&bound, to.as_deref());
        let (page, beside) = self.write_page(bound, number, keeper)?;
        let (bytes, entries) = (page.bytes(), u64::from(page.entries) + u64::from(beside));
        self.written.taken.push(TakenRange { page, to });
        self.page.clear();
        if is_last {
            self.slices.end_current();
        }
        self.wrote(bytes, entries, true)
    }

    /// Writes the taken page, with as many waiting versions in its tail as fit. Returns the number of these versions.
    fn write_page(
        &mut self,
        bound: PageBound,
        number: u64,
        keeper: &PictureKeeper,
    ) -> Result<(PagePlace, u32), String> {
        let room = tail_room_of(self.page.payload()).unwrap_or(0);
        self.tail.clear();
        // If the write fails, the attempt fails too.
        let entries = self.block.take_fitting(room, &mut self.tail);
        let payload = &self.tail[..];
        let tail = (entries > 0).then(|| PageTail { number: keeper.next_removes(), entries, payload });
        let (page, place) = self.writer.write_page(bound, number, &self.page, tail)?;
        assert_eq!(place.is_some(), entries > 0, "what goes into a tail is named");
        if let Some(place) = place {
            self.written.tails.push(place);
            self.written.displaced += u64::from(entries);
            self.written.tail_bytes += u64::from(place.bytes);
        }
        Ok((page, entries))
    }

    /// Counts a write, and syncs once enough bytes are unsynced.
    fn wrote(&mut self, bytes: u64, entries: u64, is_paced: bool) -> Result<PartStep, String> {
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

    /// Asks the medium to begin writing the bytes written so far, if there are at least `at_once` of them.
    pub(crate) fn write_behind(&self, at_once: u64) {
        self.writer.write_behind(at_once);
    }

    /// Ends the part: all written blocks survive a crash.
    pub(crate) fn end(mut self) -> Result<PagesWritten, String> {
        assert!(self.slices.are_through(), "N17: every slice is taken as a whole");
        assert!(!self.may_be_displaced, "N9: what was displaced is written behind the last page");
        assert_eq!(self.block.entries(), 0, "N9: and what waited for a tail");
        self.writer.sync()?;
        self.written.bytes = self.writer.bytes();
        self.written.held.push(self.writer.into_held());
        Ok(self.written)
    }
}

/// True if an entry with this TID may stand in a picture. The state decides how far operations reach.
fn may_hold(kind: EntryKind, tid: Tid, freeze: Epoch) -> bool {
    kind == EntryKind::Operations || tid.epoch() < freeze
}
