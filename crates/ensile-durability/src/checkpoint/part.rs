//! A checkpointer's part of a checkpoint under way, of either kind.
//!
//! Neighbours: `manager` steps the part; [`super::fuzzy_part_writer`] and [`super::picture`] have the kinds of parts.

use ensile_disk::Disk;

use super::fuzzy_part_writer::FuzzyPartWriter;
use super::picture::picture_part_writer::PicturePartWriter;
use super::picture::picture_set::PictureKeeper;
use super::slices::PartStep;
use super::walk::Walk;
use crate::files::checkpoint::writer::PartWritten;

#[derive(Debug)]
pub(super) enum PartUnderWay {
    Walk(Box<FuzzyPartWriter>),
    Pages(Box<PicturePartWriter>),
}

impl PartUnderWay {
    /// True if the part is a picture's: commits leave displaced versions in memory for the part.
    pub(super) fn is_of_picture(&self) -> bool {
        matches!(self, Self::Pages(_))
    }

    /// Checks that a block still has room on the disk. Returns true if half of the free space at the start has gone.
    pub(super) fn check_room(&self, disk: &dyn Disk, checkpointer: usize) -> Result<bool, String> {
        let disk_space = match self {
            Self::Walk(work) => work.disk_space(),
            Self::Pages(work) => work.slices.disk_space(),
        };
        disk_space.check(disk, checkpointer)
    }

    /// Writes one block, or one page. Without bandwidth (`has_bandwidth` is false) writes displaced versions only,
    /// because writing them frees memory; `None` if the step wrote nothing.
    pub(super) fn step(
        &mut self,
        walk: &dyn Walk,
        keeper: &PictureKeeper,
        has_bandwidth: bool,
    ) -> Result<Option<PartStep>, String> {
        match self {
            Self::Walk(work) if has_bandwidth => work.step(walk).map(Some),
            Self::Walk(_) => Ok(None),
            Self::Pages(work) => {
                let pages = walk.pages().expect("it has published them");
                work.step(pages, keeper, has_bandwidth)
            }
        }
    }

    /// Asks the medium to begin writing the bytes written so far, if there are at least `at_once` of them.
    pub(super) fn write_behind(&mut self, at_once: u64) {
        match self {
            Self::Walk(work) => work.write_behind(at_once),
            Self::Pages(work) => work.write_behind(at_once),
        }
    }

    /// Ends the part: all written blocks survive a crash. Returns the figures by set of files, of a picture one.
    pub(super) fn end(self, keeper: &PictureKeeper) -> Result<Vec<PartWritten>, String> {
        match self {
            Self::Walk(work) => work.end().map_err(|error| error.to_string()),
            Self::Pages(work) => {
                let part = work.end()?;
                let (entries, displaced, bytes) = (part.entries, part.displaced, part.bytes);
                let tail_bytes = part.tail_bytes;
                assert!(displaced <= entries, "what was displaced is among the entries");
                keeper.part_written(part);
                Ok(vec![PartWritten { entries, displaced, tail_bytes, bytes, ends: Vec::new() }])
            }
        }
    }
}
