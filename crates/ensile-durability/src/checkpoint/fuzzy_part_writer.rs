//! A checkpointer's share of a walk: one set of files, or one after another for each range that a turn takes.
//!
//! ```text
//! part := slice* -> block*, in turn to m files; of a turn that takes several ranges one set of m files for each
//! ```
//! Invariants:
//! - K1: the writer asks for no entry of an epoch >= e_l, and walks every slice to its end.
//! - K4: a set is ended before the next set begins, and has the slices of its range.
//!
//! Neighbours: [`super::part`] steps the share; the state's [`Walk`] fills blocks; `files::checkpoint` has the grammar.

use std::sync::Arc;

use ensile_base::Epoch;
use ensile_disk::{Disk, DiskError};

use super::disk_space::DiskSpace;
use super::request::Ticket;
use super::slices::{PartSlices, PartStep};
use super::walk::{Slice, Walk};
use crate::files::checkpoint::block::{CheckpointBlock, LargePermit};
use crate::files::checkpoint::writer::{Beginning, PartShape, PartWriter, PartWritten};

const UNDER_WAY: &str = "a set is under way until the part ends or fails";

#[derive(Debug)]
pub(super) struct FileSetOwner {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) checkpointer: u32,
    pub(super) shape: PartShape,
    pub(super) permit: LargePermit,
    pub(super) ticket: Arc<Ticket>,
    pub(super) disk_space: Arc<DiskSpace>,
}

/// A set under way: the slices to walk, the block to fill, and the files to write.
#[derive(Debug)]
struct FileSetWriter {
    slices: PartSlices,
    writer: PartWriter,
    block: CheckpointBlock,
}

/// The sets of a checkpointer, with one set under way.
#[derive(Debug)]
pub(super) struct FuzzyPartWriter {
    owner: FileSetOwner,
    /// Set under way; `None` after a set that could not be begun, when the part has failed.
    current: Option<FileSetWriter>,
    /// Facts in the opening blocks of the files under way. Numbers go up by one from set to set.
    beginning: Beginning,
    /// Slices of the sets that are not begun, by set.
    left: std::vec::IntoIter<Vec<Slice>>,
    written: Vec<PartWritten>,
}

impl FileSetOwner {
    fn begin(&self, beginning: &Beginning, slices: Vec<Slice>) -> Result<FileSetWriter, DiskError> {
        let writer = PartWriter::create(&self.disk, beginning, self.checkpointer, self.shape)?;
        let slices = PartSlices::new(slices, Arc::clone(&self.ticket), Arc::clone(&self.disk_space));
        Ok(FileSetWriter { slices, writer, block: CheckpointBlock::with_permit(self.permit.clone()) })
    }
}

impl FileSetWriter {
    /// Fills one block with entries below e_l, and writes the block. The error is the reason for the part's failure.
    fn step(&mut self, walk: &dyn Walk, low: Epoch) -> Result<PartStep, String> {
        assert_eq!(self.block.entries(), 0, "the block before was written");
        let Some((slice, resume)) = self.slices.current() else { return Ok(PartStep::Ended) };
        let section = slice.section;
        let has_more = walk.walk(slice, resume, low, &mut self.block);
        let is_refused = self.block.take_refusal();
        if has_more && self.block.entries() == 0 && is_refused {
            return Ok(PartStep::Refused);
        }
        if let Some(why) = walk.refusal() {
            return Err(why);
        }
        assert!(!has_more || self.block.entries() > 0, "a walk that stops has filled its block");
        let entries = u64::from(self.block.entries());
        let (mut bytes, mut is_synced) = (0, false);
        if entries > 0 {
            let written = self.writer.write(section, &mut self.block);
            (bytes, is_synced) = written.map_err(|error| error.to_string())?;
            self.slices.count(bytes, entries);
        }
        if !has_more {
            self.slices.end_current();
        }
        Ok(PartStep::Written { bytes, entries, is_synced, is_paced: true })
    }
}

impl FuzzyPartWriter {
    pub(super) fn begin(
        owner: FileSetOwner,
        beginning: Beginning,
        sets: Vec<Vec<Slice>>,
    ) -> Result<Self, DiskError> {
        let mut left = sets.into_iter();
        let first = left.next().expect("a walk has a set of files");
        let current = owner.begin(&beginning, first)?;
        Ok(Self { owner, current: Some(current), beginning, left, written: Vec::new() })
    }

    pub(super) fn disk_space(&self) -> &DiskSpace {
        &self.owner.disk_space
    }

    /// Fills and writes one block, or goes over to the next set. The error is the reason for the part's failure.
    pub(super) fn step(&mut self, walk: &dyn Walk) -> Result<PartStep, String> {
        let step = self.current.as_mut().expect(UNDER_WAY).step(walk, self.beginning.low)?;
        if step != PartStep::Ended || self.left.len() == 0 {
            return Ok(step);
        }
        self.go_over().map_err(|error| error.to_string())?;
        Ok(PartStep::Written { bytes: 0, entries: 0, is_synced: false, is_paced: true })
    }

    /// Asks the medium to begin writing the bytes written so far, if a file has at least `at_once` such bytes.
    pub(super) fn write_behind(&mut self, at_once: u64) {
        self.current.as_mut().expect(UNDER_WAY).writer.write_behind(at_once);
    }

    /// Ends the set under way, and begins the next set.
    fn go_over(&mut self) -> Result<(), DiskError> {
        assert!(self.current.is_some(), "{UNDER_WAY}");
        self.end_set()?;
        self.beginning.number += 1;
        let slices = self.left.next().expect("there is one more");
        self.current = Some(self.owner.begin(&self.beginning, slices)?);
        Ok(())
    }

    /// Ends the files of the set, and makes files and names survive a crash.
    fn end_set(&mut self) -> Result<(), DiskError> {
        let FileSetWriter { slices, writer, .. } = self.current.take().expect(UNDER_WAY);
        assert!(slices.are_through(), "K1: every slice is walked to its end");
        self.written.push(writer.end()?);
        Ok(())
    }

    /// Ends the last set. Returns the figures by set.
    pub(super) fn end(mut self) -> Result<Vec<PartWritten>, DiskError> {
        assert_eq!(self.left.len(), 0, "K4: every range is walked");
        self.end_set()?;
        let files = self.owner.shape.files as usize;
        assert!(self.written.iter().all(|set| set.ends.len() == files), "each file has an end");
        Ok(self.written)
    }
}
