//! A checkpointer's part of a checkpoint under way, of either kind.
//!
//! Neighbours: `manager` steps it; [`super::files`] has the parts that are written whole, [`super::picture`] those of
//! pictures.

use ensile_disk::Disk;

use super::files::sets::SetsWork;
use super::files::write::PartWritten;
use super::picture::keeper::PictureKeeper;
use super::picture::work::PageWork;
use super::slices::PartStep;
use super::walk::Walk;

/// A part under way.
#[derive(Debug)]
pub(super) enum PartUnderWay {
    Walk(Box<SetsWork>),
    Pages(Box<PageWork>),
}

impl PartUnderWay {
    /// Do commits leave versions to it?
    pub(super) fn is_of_picture(&self) -> bool {
        matches!(self, Self::Pages(_))
    }

    /// Looks whether there is still room for a block. True: half of what was free has gone.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check_room(&self, disk: &dyn Disk, checkpointer: usize) -> Result<bool, String> {
        match self {
            Self::Walk(work) => work.check_room(disk, checkpointer),
            Self::Pages(work) => work.slices.check_room(disk, checkpointer),
        }
    }

    /// Writes one block, or one page. While the bandwidth is used up, only what is not paced is written; `None` if
    /// nothing was.
    ///
    /// # Errors
    /// Why the part fails.
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

    /// Has the medium begin with what was written, if it is as much as this.
    pub(super) fn write_behind(&mut self, at_once: u64) {
        match self {
            Self::Walk(work) => work.write_behind(at_once),
            Self::Pages(work) => work.write_behind(at_once),
        }
    }

    /// Ends the part: all that it wrote survives a crash. By set of files; a picture's part has one.
    ///
    /// # Errors
    /// Why the part fails.
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
