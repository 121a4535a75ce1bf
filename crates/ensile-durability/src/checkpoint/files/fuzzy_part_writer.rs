//! A checkpointer's share of a walk: one set of files, or one set for each range that a turn takes, one set after
//! another.
//!
//! Invariant: K4: a set is ended before the next set begins, and has the slices of its range.
//!
//! Neighbours: `manager` steps the share through [`crate::checkpoint::part`]; [`super::file_set_writer`] walks and
//! writes a set.

use std::sync::Arc;

use ensile_disk::{Disk, DiskError};

use super::file_set_writer::FileSetWriter;
use crate::checkpoint::disk_space::DiskSpace;
use crate::checkpoint::request::Ticket;
use crate::checkpoint::slices::{PartSlices, PartStep};
use crate::checkpoint::walk::{Slice, Walk};
use crate::files::checkpoint::block::{CheckpointBlock, LargePermit};
use crate::files::checkpoint::writer::{Beginning, PartShape, PartWriter, PartWritten};

const UNDER_WAY: &str = "a set is under way until the part ends or fails";

/// Owner of the files, and the shape of a set.
#[derive(Debug)]
pub(in crate::checkpoint) struct FileSetOwner {
    pub(in crate::checkpoint) disk: Arc<dyn Disk>,
    pub(in crate::checkpoint) checkpointer: u32,
    pub(in crate::checkpoint) shape: PartShape,
    pub(in crate::checkpoint) permit: LargePermit,
    pub(in crate::checkpoint) ticket: Arc<Ticket>,
    pub(in crate::checkpoint) disk_space: Arc<DiskSpace>,
}

impl FileSetOwner {
    /// Makes the files of a set.
    fn begin(&self, beginning: &Beginning, slices: Vec<Slice>) -> Result<FileSetWriter, DiskError> {
        let writer = PartWriter::create(&self.disk, beginning, self.checkpointer, self.shape)?;
        let slices = PartSlices::new(slices, Arc::clone(&self.ticket), Arc::clone(&self.disk_space));
        let block = CheckpointBlock::with_permit(self.permit.clone());
        Ok(FileSetWriter::new(slices, beginning.low, writer, block))
    }
}

/// The sets of a checkpointer, with one set under way.
#[derive(Debug)]
pub(in crate::checkpoint) struct FuzzyPartWriter {
    owner: FileSetOwner,
    /// Set under way; `None` after a set that could not be begun, when the part has failed.
    current: Option<FileSetWriter>,
    /// Facts in the opening blocks of the files under way. Numbers go up by one from set to set.
    beginning: Beginning,
    /// Slices of the sets that are not begun, by set.
    left: std::vec::IntoIter<Vec<Slice>>,
    written: Vec<PartWritten>,
}

impl FuzzyPartWriter {
    /// Begins the first of these sets.
    ///
    /// # Errors
    /// An error of the disk.
    pub(in crate::checkpoint) fn begin(
        owner: FileSetOwner,
        beginning: Beginning,
        sets: Vec<Vec<Slice>>,
    ) -> Result<Self, DiskError> {
        let mut left = sets.into_iter();
        let first = left.next().expect("a walk has a set of files");
        let current = owner.begin(&beginning, first)?;
        Ok(Self { owner, current: Some(current), beginning, left, written: Vec::new() })
    }

    pub(in crate::checkpoint) fn disk_space(&self) -> &DiskSpace {
        &self.owner.disk_space
    }

    /// Fills and writes one block, or goes over to the next set.
    ///
    /// # Errors
    /// The reason for the part's failure.
    pub(in crate::checkpoint) fn step(&mut self, walk: &dyn Walk) -> Result<PartStep, String> {
        let step = self.current.as_mut().expect(UNDER_WAY).step(walk)?;
        if step != PartStep::Ended || self.left.len() == 0 {
            return Ok(step);
        }
        self.go_over().map_err(|error| error.to_string())?;
        Ok(PartStep::Written { bytes: 0, entries: 0, is_synced: false, is_paced: true })
    }

    /// Asks the medium to begin writing the bytes written so far, if there are at least `at_once` of them.
    pub(in crate::checkpoint) fn write_behind(&mut self, at_once: u64) {
        self.current.as_mut().expect(UNDER_WAY).write_behind(at_once);
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

    fn end_set(&mut self) -> Result<(), DiskError> {
        let current = self.current.take().expect(UNDER_WAY);
        self.written.push(current.end()?);
        Ok(())
    }

    /// Ends the files, and makes the files and their names survive a crash. Returns the figures by set.
    pub(in crate::checkpoint) fn end(mut self) -> Result<Vec<PartWritten>, DiskError> {
        assert_eq!(self.left.len(), 0, "K4: every range is walked");
        self.end_set()?;
        assert!(
            self.written.iter().all(|set| set.ends.len() == self.owner.shape.files as usize),
            "each file has an end"
        );
        Ok(self.written)
    }
}
