//! Writer of a set of files: the slices to walk, the block to fill, and the files to write.
//!
//! Invariant: K1: the writer asks for no entry of an epoch >= e_l, and walks every slice to its end.
//!
//! Neighbours: `fuzzy_part_writer` steps the writer, a block at a time; the state's [`Walk`] fills the block, `writer`
//! has the files.

use ensile_base::Epoch;
use ensile_disk::DiskError;

use crate::checkpoint::slices::{PartSlices, PartStep};
use crate::checkpoint::walk::Walk;
use crate::files::checkpoint::block::CheckpointBlock;
use crate::files::checkpoint::writer::{PartWriter, PartWritten};

#[derive(Debug)]
pub(in crate::checkpoint) struct FileSetWriter {
    slices: PartSlices,
    /// e_l.
    low: Epoch,
    writer: PartWriter,
    block: CheckpointBlock,
}

impl FileSetWriter {
    pub(in crate::checkpoint) fn new(
        slices: PartSlices,
        low: Epoch,
        writer: PartWriter,
        block: CheckpointBlock,
    ) -> Self {
        Self { slices, low, writer, block }
    }

    /// Asks the medium to begin writing the bytes written so far, if a file has at least `at_once` such bytes.
    pub(in crate::checkpoint) fn write_behind(&mut self, at_once: u64) {
        self.writer.write_behind(at_once);
    }

    /// Fills one block and writes it.
    ///
    /// # Errors
    /// The reason of the part's failure.
    pub(in crate::checkpoint) fn step(&mut self, walk: &dyn Walk) -> Result<PartStep, String> {
        assert_eq!(self.block.entries(), 0, "the block before was written");
        let Some((slice, resume)) = self.slices.current() else { return Ok(PartStep::Ended) };
        let section = slice.section;
        let has_more = walk.walk(slice, resume, self.low, &mut self.block);
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

    /// Ends the files, and makes files and names survive a crash.
    pub(in crate::checkpoint) fn end(self) -> Result<PartWritten, DiskError> {
        assert!(self.slices.are_through(), "K1: every slice is walked to its end");
        self.writer.end()
    }
}
